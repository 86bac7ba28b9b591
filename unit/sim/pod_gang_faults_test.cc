// Groups of plain pods as gangs of kube-scheduler, under faults: whatever write the controller dies
// at, no gang ever starts with a part of its pods, and the end is the same as without the fault.
#include <fmt/format.h>

#include <utility>

#include "api/names.h"
#include "sim/simulation.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

SimulationOptions Options() {
  SimulationOptions options;
  options.settings.gates = state::FeatureGates::Make({{"NativeGangs", true}}).value();
  options.settings.integrations.frameworks = {"batch/job", "pod"};
  options.api.features = {true, false};
  options.jobs.pod_objects = true;
  options.replicas = 2;
  return options;
}

void Prepare(Simulation& sim, const char* quota) {
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, fmt::format("clusterqueue cq flavor=default{{cpu={}}}", quota));
  Make(sim, "localqueue q cq=cq");
  Make(sim, "node a cpu=4");
  Make(sim, "node b cpu=2");
}

void MakeGroup(Simulation& sim, const std::string& group, int pods, const std::string& words) {
  for (int i = 0; i < pods; ++i) {
    Make(sim,
         fmt::format("pod {0}-{1} queue=q cpu=1 group={0} total={2} {3}", group, i, pods, words));
  }
}

// Pods of the group that are bound, those that ended too.
int64_t Bound(const Simulation& sim, const std::string& group) {
  int64_t count = 0;
  sim.api().ForEach(Kind::kPod, [&](const Json& pod) {
    const bool member = pod.GetString("metadata", "name").starts_with(group + "-");
    if (member && !pod.GetString("spec", "nodeName").empty()) ++count;
  });
  return count;
}

std::string End(const Simulation& sim) {
  std::string end;
  for (const Json& pod : sim.api().List(Kind::kPod)) {
    end +=
        fmt::format("{} {}\n", pod.GetString("metadata", "name"), pod.GetString("status", "phase"));
  }
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    const char* state = ConditionTrue(workload, api::kFinished)        ? "finished"
                        : ConditionTrue(workload, api::kQuotaReserved) ? "holds quota"
                                                                       : "waits";
    end += fmt::format("workload {} {}\n", workload.GetString("metadata", "name"), state);
  }
  for (const Json& group : sim.api().List(Kind::kPodGroup)) {
    const Json* minimum = group.Find("spec", "schedulingPolicy", "gang", "minCount");
    end += fmt::format("podgroup {} of {}\n", group.GetString("metadata", "name").substr(0, 3),
                       minimum->AsInt());
  }
  return end;
}

// Two gangs of 4 that do not fit together on 6 cpu, though there is quota for both.
std::string Play(Simulation::FaultHook hook, uint64_t* writes) {
  Simulation sim(Options());
  Prepare(sim, "100");
  sim.SetFaultHook(std::move(hook));
  sim.Start();
  const absl::Time start = sim.now();
  MakeGroup(sim, "one", 4, "run=20s");
  MakeGroup(sim, "two", 4, "run=20s");
  uint64_t seen = 0;
  bool whole = true;
  while (sim.NextTime() < start + absl::Minutes(10) && sim.Step()) {
    if (std::exchange(seen, sim.api().versions()) == sim.api().versions()) continue;
    for (const char* gang : {"one", "two"}) {
      const int64_t bound = Bound(sim, gang);
      // The scheduler binds one pod after the other within one of its runs.
      whole = whole && (bound == 0 || bound == 4);
    }
  }
  CHECK(whole);
  CHECK(sim.Settled());
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  if (writes != nullptr) *writes = sim.writes();
  return End(sim);
}

TEST_CASE("A gang of plain pods is all or nothing under a fault at any one write") {
  uint64_t writes = 0;
  const std::string clean = Play(nullptr, &writes);
  CHECK(clean ==
        "one-0 Succeeded\none-1 Succeeded\none-2 Succeeded\none-3 Succeeded\n"
        "two-0 Succeeded\ntwo-1 Succeeded\ntwo-2 Succeeded\ntwo-3 Succeeded\n"
        "workload one finished\nworkload two finished\n"
        "podgroup one of 4\npodgroup two of 4\n");
  REQUIRE(writes > 20);
  for (const Fault fault :
       {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply, Fault::kFail}) {
    for (uint64_t at = 1; at <= writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      const std::string end = Play(
          [&](const state::Action&, uint64_t number) {
            return number == at ? FaultDecision{fault} : FaultDecision{};
          },
          nullptr);
      CHECK(end == clean);
    }
  }
}

// One pod ends early, and another is lost and replaced: the minimum must have come down by then,
// since pods that ended do not count.
std::string Repair(Simulation::FaultHook hook, uint64_t* writes) {
  Simulation sim(Options());
  Prepare(sim, "100");
  sim.SetFaultHook(std::move(hook));
  sim.Start();
  const absl::Time start = sim.now();
  const auto until = [&](int seconds) {
    while (sim.NextTime() <= start + absl::Seconds(seconds) && sim.Step()) {
    }
  };
  Make(sim, "pod g-0 queue=q cpu=1 group=g total=3 run=10s");
  Make(sim, "pod g-1 queue=q cpu=1 group=g total=3 run=300s");
  Make(sim, "pod g-2 queue=q cpu=1 group=g total=3 run=300s");
  until(20);
  sim.Delete(Kind::kPod, {"ns", "g-2"});
  until(30);
  Make(sim, "pod g-3 queue=q cpu=1 group=g total=3 run=100s");
  until(400);
  CHECK(sim.Settled());
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  if (writes != nullptr) *writes = sim.writes();
  return End(sim);
}

TEST_CASE("A replacement starts whatever write the controller dies at") {
  uint64_t writes = 0;
  const std::string clean = Repair(nullptr, &writes);
  INFO(clean);
  CHECK(clean.find("workload g finished\n") != std::string::npos);
  CHECK(clean.ends_with(" of 2\n"));
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kFail}) {
    for (uint64_t at = 1; at <= writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      const std::string end = Repair(
          [&](const state::Action&, uint64_t number) {
            return number == at ? FaultDecision{fault} : FaultDecision{};
          },
          nullptr);
      CHECK(end == clean);
    }
  }
}

TEST_CASE("A leader change at any write leaves gangs of plain pods whole") {
  uint64_t writes = 0;
  const std::string clean = Play(nullptr, &writes);
  for (uint64_t at = 1; at <= writes; ++at) {
    Simulation sim(Options());
    Prepare(sim, "100");
    sim.Start();
    const absl::Time start = sim.now();
    MakeGroup(sim, "one", 4, "run=20s");
    MakeGroup(sim, "two", 4, "run=20s");
    bool changed = false;
    while (sim.NextTime() < start + absl::Minutes(10) && sim.Step()) {
      if (!changed && sim.writes() >= at) {
        changed = true;
        sim.SetLeader(1);
      }
      INFO("after write " << at);
      for (const char* gang : {"one", "two"}) {
        const int64_t bound = Bound(sim, gang);
        REQUIRE((bound == 0 || bound == 4));
      }
    }
    for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
    CHECK(sim.violations().empty());
    CHECK(End(sim) == clean);
  }
}

}  // namespace
}  // namespace sluice::sim
