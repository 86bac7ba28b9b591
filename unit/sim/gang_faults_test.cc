// Gangs under faults: whatever happens at any write, no gang ever starts with a part of its pods,
// and the end is the same as without the fault.
#include <fmt/format.h>

#include <utility>

#include "api/names.h"
#include "sim/scenario_objects.h"
#include "sim/simulation.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

void Make(Simulation& sim, const std::string& text) {
  absl::StatusOr<ObjectText> object = ParseObject(SplitWords(text));
  REQUIRE(object.ok());
  const ObjectKey key{object->ns, object->object.GetString("metadata", "name")};
  const state::Reply reply = sim.Create(object->kind, object->ns, object->object);
  INFO(text << ": " << reply.message);
  REQUIRE(reply.ok());
  if (!object->status.IsNull()) {
    sim.Patch(object->kind, key, Json::MakeObject({{"status", object->status}}), "status");
  }
}

SimulationOptions Options(const state::ClusterFeatures& features) {
  SimulationOptions options;
  options.settings.gates = state::FeatureGates::Make({{"NativeGangs", true}}).value();
  options.api.features = features;
  options.jobs.pod_objects = true;
  options.replicas = 2;
  return options;
}

// Pods of the Job that are bound and have not ended.
int64_t Bound(const Simulation& sim, const std::string& job) {
  int64_t count = 0;
  sim.api().ForEach(Kind::kPod, [&](const Json& pod) {
    const Json* owners = pod.Find("metadata", "ownerReferences");
    const bool of_job = owners != nullptr && owners->AsArray().front().GetString("name") == job;
    const bool runs = pod.GetString("status", "phase") != "Succeeded";
    if (of_job && runs && !pod.GetString("spec", "nodeName").empty()) ++count;
  });
  return count;
}

// Two gangs of 6 that do not fit together, on nodes of 8 cpu in all, and small Jobs in between.
std::string Play(const state::ClusterFeatures& features, Simulation::FaultHook hook,
                 uint64_t* writes) {
  Simulation sim(Options(features));
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=100}");
  Make(sim, "localqueue q cq=cq");
  Make(sim, "node a cpu=4");
  Make(sim, "node b cpu=4");
  sim.SetFaultHook(std::move(hook));
  sim.Start();
  const absl::Time start = sim.now();
  Make(sim, "job one queue=q cpu=1 parallelism=6 completions=6 run=20s");
  Make(sim, "job two queue=q cpu=1 parallelism=6 completions=6 run=20s minparallelism=2");
  uint64_t seen = 0;
  bool whole = true;
  while (sim.NextTime() < start + absl::Minutes(10) && sim.Step()) {
    if (std::exchange(seen, sim.api().versions()) == sim.api().versions()) continue;
    // Of six pods that start at one time and end at one time never some run.
    for (const char* gang : {"one", "two"}) {
      const int64_t bound = Bound(sim, gang);
      whole = whole && (bound == 0 || bound == 6);
    }
  }
  CHECK(whole);
  CHECK(sim.Settled());
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  if (writes != nullptr) *writes = sim.writes();
  std::string end;
  for (const Json& job : sim.api().List(Kind::kJob)) {
    const Json* succeeded = job.Find("status", "succeeded");
    end += fmt::format("{} {}\n", job.GetString("metadata", "name"),
                       succeeded == nullptr ? 0 : succeeded->AsInt());
  }
  return end;
}

TEST_CASE("A gang is all or nothing under a fault at any one write") {
  const bool by_jobs = GENERATE(false, true);
  const state::ClusterFeatures features{true, by_jobs};
  uint64_t writes = 0;
  const std::string clean = Play(features, nullptr, &writes);
  CHECK(clean == "one 6\ntwo 6\n");
  REQUIRE(writes > 12);
  for (const Fault fault :
       {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply, Fault::kFail}) {
    for (uint64_t at = 1; at <= writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at << ", by Jobs " << by_jobs);
      const std::string end = Play(
          features,
          [&](const state::Action&, uint64_t number) {
            return number == at ? FaultDecision{fault} : FaultDecision{};
          },
          nullptr);
      CHECK(end == clean);
    }
  }
}

// An elastic gang of 2 that grows to 5, for which there is just room.
std::string PlayElastic(Simulation::FaultHook hook, uint64_t* writes) {
  Simulation sim(Options({true, true}));
  for (const char* text : {"namespace ns", "flavor default", "localqueue q cq=cq",
                           "clusterqueue cq flavor=default{cpu=9}", "node a cpu=3", "node b cpu=2",
                           "job train queue=q cpu=1 parallelism=2 completions=100 "
                           "annotation:kueue.x-k8s.io/elastic-job=true"}) {
    Make(sim, text);
  }
  sim.SetFaultHook(std::move(hook));
  sim.Start();
  const absl::Time start = sim.now();
  bool resized = false;
  bool whole = true;
  const auto run = [&](absl::Time until) {
    while (sim.NextTime() < until && sim.Step()) {
      const int64_t bound = Bound(sim, "train");
      whole = whole && (bound == 0 || bound == 2 || (resized && bound == 5));
    }
    sim.RunUntil(until);
  };
  run(start + absl::Minutes(2));
  CHECK(Bound(sim, "train") == 2);
  Json patch = Json::MakeObject();
  patch["spec"].Set("parallelism", 5);
  REQUIRE(sim.Patch(Kind::kJob, {"ns", "train"}, patch).ok());
  resized = true;
  run(start + absl::Minutes(10));
  CHECK(whole);
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  if (writes != nullptr) *writes = sim.writes();
  const std::vector<Json> groups = sim.api().List(Kind::kPodGroup);
  REQUIRE(groups.size() == 1);
  const Json* minimum = groups[0].Find("spec", "schedulingPolicy", "gang", "minCount");
  return fmt::format("{} run, {} are the minimum", Bound(sim, "train"), minimum->AsInt());
}

TEST_CASE("An elastic gang grows as a whole under a fault at any one write") {
  uint64_t writes = 0;
  const std::string clean = PlayElastic(nullptr, &writes);
  CHECK(clean == "5 run, 5 are the minimum");
  REQUIRE(writes > 12);
  for (const Fault fault :
       {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply, Fault::kFail}) {
    for (uint64_t at = 1; at <= writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      const std::string end = PlayElastic(
          [&](const state::Action&, uint64_t number) {
            return number == at ? FaultDecision{fault} : FaultDecision{};
          },
          nullptr);
      CHECK(end == clean);
    }
  }
}

TEST_CASE("A leader change at any write leaves gangs whole") {
  const state::ClusterFeatures features{true, false};
  uint64_t writes = 0;
  const std::string clean = Play(features, nullptr, &writes);
  for (uint64_t at = 1; at <= writes; ++at) {
    Simulation sim(Options(features));
    for (const char* text : {"namespace ns", "flavor default", "localqueue q cq=cq",
                             "clusterqueue cq flavor=default{cpu=100}", "node a cpu=8"}) {
      Make(sim, text);
    }
    sim.Start();
    Make(sim, "job one queue=q cpu=1 parallelism=6 completions=6 run=20s");
    bool changed = false;
    while (sim.NextTime() < sim.now() + absl::Minutes(5) && sim.Step()) {
      if (!changed && sim.writes() >= at) {
        changed = true;
        sim.SetLeader(1);
      }
      const int64_t bound = Bound(sim, "one");
      INFO("after write " << at);
      REQUIRE((bound == 0 || bound == 6));
    }
    for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
    CHECK(sim.violations().empty());
    CHECK(sim.api().Find(Kind::kJob, {"ns", "one"})->Find("status", "succeeded")->AsInt() == 6);
  }
}

}  // namespace
}  // namespace sluice::sim
