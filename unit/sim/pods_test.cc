// Plain pods and pod groups under faults: a gang is all or nothing at every instant, whatever write
// the controller dies at, and the end is the same as without the fault.
#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "api/names.h"
#include "api/pod_names.h"
#include "sim/scenario_objects.h"
#include "sim/simulation.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

SimulationOptions Options() {
  SimulationOptions options;
  options.settings.integrations.frameworks = {"batch/job", "pod"};
  return options;
}

bool Gated(const Json& pod) {
  const Json* gates = pod.Find("spec", "schedulingGates");
  return gates != nullptr && !gates->AsArray().empty();
}

std::string GroupOf(const Json& pod) {
  return pod.GetString("metadata", "labels", api::kPodGroupName);
}

// Looks on at every instant: a pod is released only while its Workload is admitted, the first pod
// of a group only when all of them are there, and none twice.
class Watch {
 public:
  explicit Watch(Simulation& sim) : sim_(sim) {
    sim.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
  }
  std::vector<std::string> broken;
  int releases = 0;

 private:
  void Take(const state::ObjectEvent& event) {
    if (event.kind != Kind::kPod) return;
    const Json& pod = event.object;
    const std::string uid = pod.GetString("metadata", "uid");
    if (event.type == state::ObjectEvent::Type::kDelete) return;
    if (Gated(pod)) {
      gated_.insert(uid);
      return;
    }
    if (gated_.erase(uid) == 0) return;
    ++releases;
    Released(pod);
  }

  void Released(const Json& pod) {
    const std::string name = pod.GetString("metadata", "name");
    const Json* workload = nullptr;
    const std::string group = GroupOf(pod);
    if (!group.empty()) {
      workload = sim_.api().Find(Kind::kWorkload, {"ns", group});
      if (started_.insert(workload == nullptr ? group : workload->GetString("metadata", "uid"))
              .second) {
        CheckWhole(pod, group);
      }
    } else {
      for (const Json& each : sim_.api().List(Kind::kWorkload)) {
        const Json* owners = each.Find("metadata", "ownerReferences");
        if (owners == nullptr || owners->AsArray().front().GetString("name") != name) continue;
        if (ConditionTrue(each, api::kAdmitted)) return;
      }
    }
    if (workload == nullptr || !ConditionTrue(*workload, api::kAdmitted)) {
      broken.push_back(name + " was released without an admission");
    }
  }

  void CheckWhole(const Json& first, const std::string& group) {
    const std::string total = first.GetString("metadata", "annotations", api::kPodGroupTotalCount);
    int here = 0;
    sim_.api().ForEach(Kind::kPod, [&](const Json& pod) {
      const bool gone = !pod.GetString("metadata", "deletionTimestamp").empty();
      if (GroupOf(pod) == group && !gone) ++here;
    });
    // A deletion that the controller could not know of when it released is nobody's fault.
    const auto late = std::count_if(deletions.begin(), deletions.end(), [&](absl::Time time) {
      return sim_.now() - time < absl::Seconds(2);
    });
    if (here + late < std::stoi(total)) {
      broken.push_back(fmt::format("{} started with {} of {} pods", group, here, total));
    }
  }

 public:
  std::vector<absl::Time> deletions;  // of pods, by users

 private:
  Simulation& sim_;
  absl::btree_set<std::string> gated_;
  absl::btree_set<std::string> started_;
};

// What is left when all is over, without instants and versions.
std::string Signature(const Simulation& sim) {
  std::string text;
  sim.api().ForEach(Kind::kPod, [&](const Json& pod) {
    const Json* finalizers = pod.Find("metadata", "finalizers");
    text += fmt::format("pod {} {}{}{}\n", pod.GetString("metadata", "name"),
                        pod.GetString("status", "phase"), Gated(pod) ? " gated" : "",
                        finalizers == nullptr ? "" : " held");
  });
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    text += "workload " + workload.GetString("metadata", "name").substr(0, 6);
    for (const char* type : {api::kQuotaReserved, api::kAdmitted, api::kFinished, api::kEvicted,
                             api::kWaitingForReplacementPods}) {
      text += fmt::format(" {}={}", type, ConditionTrue(workload, type));
    }
    const Json* owners = workload.Find("metadata", "ownerReferences");
    const Json* finalizers = workload.Find("metadata", "finalizers");
    text += fmt::format(" owners={}{}\n", owners == nullptr ? 0 : owners->AsArray().size(),
                        finalizers == nullptr ? "" : " held");
  }
  for (const Json& queue : sim.api().List(Kind::kClusterQueue)) {
    text += fmt::format("queue {}\n", queue.Find("status", "admittedWorkloads")->AsInt());
  }
  return text;
}

void Prepare(Simulation& sim) {
  Make(sim, "namespace ns");
  Make(sim, "flavor default label:pool=a");
  Make(sim, "clusterqueue cq flavor=default{cpu=4} within=LowerPriority");
  Make(sim, "localqueue q cq=cq");
  Make(sim, "priorityclass high value=100");
}

// A pod that ends, a group with one pod too many and one that fails and is replaced, and a pod that
// pushes a second group out.
void Drive(Simulation& sim) {
  sim.Start();
  const absl::Time start = sim.now();
  const auto at = [&](int seconds, const std::vector<std::string>& texts) {
    sim.RunUntil(start + absl::Seconds(seconds));
    for (const std::string& text : texts) Make(sim, text);
  };
  // Far enough apart that a lost answer, which holds things up for a while, does not change who
  // meets whom.
  at(1, {"pod a queue=q cpu=1 run=20s"});
  at(2, {"pod g-0 queue=q cpu=1 group=g total=3 role=r",
         "pod g-1 queue=q cpu=1 group=g total=3 role=r"});
  at(3, {"pod g-2 queue=q cpu=1 group=g total=3 role=r run=10s fail=true",
         "pod g-3 queue=q cpu=1 group=g total=3 role=r"});
  at(200, {"pod g-4 queue=q cpu=1 group=g total=3 role=r run=30s"});
  at(400, {"pod h-0 queue=q cpu=1 group=h total=1 role=r"});
  at(600, {"pod top queue=q cpu=4 priority=high run=20s"});
  sim.RunUntilQuiet(start + absl::Minutes(30));
}

struct Outcome {
  std::string signature;
  uint64_t writes = 0;
};

Outcome Play(Simulation::FaultHook hook) {
  Simulation sim(Options());
  Watch watch(sim);
  Prepare(sim);
  sim.SetFaultHook(std::move(hook));
  Drive(sim);
  REQUIRE(sim.Settled());
  sim.SetFaultHook(nullptr);
  sim.CheckSettled();
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  for (const std::string& text : watch.broken) UNSCOPED_INFO(text);
  CHECK(watch.broken.empty());
  CHECK(watch.releases == 7);
  return {Signature(sim), sim.writes()};
}

TEST_CASE("Pods: a fault at any one write changes nothing in the end") {
  const Outcome clean = Play(nullptr);
  INFO(clean.signature);
  REQUIRE(clean.writes > 40);
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                            Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate}) {
    for (uint64_t at = 1; at <= clean.writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      const Outcome outcome = Play([&](const state::Action&, uint64_t number) {
        return number == at ? FaultDecision{fault} : FaultDecision{};
      });
      CHECK(outcome.signature == clean.signature);
    }
  }
}

class Chaos {
 public:
  explicit Chaos(uint32_t seed) : random_(seed), sim_(Options()), watch_(sim_) {}

  void Run() {
    Prepare(sim_);
    sim_.Start();
    sim_.SetFaultHook([this](const state::Action&, uint64_t) { return Decide(); });
    const absl::Time start = sim_.now();
    for (int step = 1; step <= 60; ++step) {
      sim_.RunUntil(start + absl::Milliseconds(700 * step));
      Act();
    }
    sim_.SetFaultHook(nullptr);
    sim_.RunUntilQuiet(sim_.now() + absl::Hours(3));
    if (std::getenv("SLUICE_SEED") != nullptr) {
      for (const std::string& text : sim_.trace()) UNSCOPED_INFO(text);
    }
    REQUIRE(sim_.Settled());
    sim_.CheckSettled();
    // One that was passed over together with its like may not have been told so.
    std::vector<std::string> violations = sim_.violations();
    std::erase_if(violations, [](const std::string& text) {
      return text.find("Bypassed scheduling evaluation") != std::string::npos;
    });
    for (const std::string& text : violations) UNSCOPED_INFO(text);
    CHECK(violations.empty());
    for (const std::string& text : watch_.broken) UNSCOPED_INFO(text);
    CHECK(watch_.broken.empty());
    Whole();
  }

 private:
  int Pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }

  FaultDecision Decide() {
    static constexpr Fault kFaults[] = {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                                        Fault::kLoseRequest, Fault::kFail,       Fault::kDuplicate,
                                        Fault::kDelay};
    if (Pick(20) != 0) return {};
    return FaultDecision{kFaults[Pick(std::size(kFaults))]};
  }

  void Act() {
    const std::string number = std::to_string(next_++);
    const std::string words =
        fmt::format(" queue=q cpu=1{}{}{}", Pick(3) == 0 ? " priority=high" : "",
                    Pick(2) == 0 ? " run=15s" : "", Pick(5) == 0 ? " fail=true" : "");
    switch (Pick(6)) {
      case 0:
        TryMake(sim_, "pod s" + number + words);
        break;
      case 1:
      case 2:
      case 3: {
        const int group = Pick(3);
        TryMake(sim_, fmt::format("pod g{}-{}{} group=g{} total={} role=r{}", group, number, words,
                                  group, group + 1, Pick(8) == 0 ? "x" : ""));
        break;
      }
      case 4:
        DeleteOne(Kind::kPod);
        break;
      default:
        if (Pick(4) == 0) DeleteOne(Kind::kWorkload);
        break;
    }
  }

  void DeleteOne(Kind kind) {
    const std::vector<Json> list = sim_.api().List(kind);
    if (list.empty()) return;
    const Json& object = list[static_cast<size_t>(Pick(static_cast<int>(list.size())))];
    if (kind == Kind::kPod) watch_.deletions.push_back(sim_.now());
    sim_.Delete(kind, {"ns", object.GetString("metadata", "name")});
  }

  // In the end each pod that runs has an admission, and no pod is held for nothing.
  void Whole() {
    sim_.api().ForEach(Kind::kPod, [&](const Json& pod) {
      const std::string name = pod.GetString("metadata", "name");
      INFO(name);
      if (Gated(pod) || pod.GetString("status", "phase") != "Running") return;
      bool admitted = false;
      for (const Json& workload : sim_.api().List(Kind::kWorkload)) {
        const Json* owners = workload.Find("metadata", "ownerReferences");
        if (owners == nullptr || !ConditionTrue(workload, api::kAdmitted)) continue;
        admitted =
            admitted ||
            std::any_of(owners->AsArray().begin(), owners->AsArray().end(), [&](const Json& owner) {
              return owner.GetString("uid") == pod.GetString("metadata", "uid");
            });
      }
      CHECK(admitted);
    });
  }

  std::mt19937 random_;
  Simulation sim_;
  Watch watch_;
  int next_ = 0;
};

TEST_CASE("Random pods, groups, deletions and faults") {
  const char* given = std::getenv("SLUICE_SEED");
  const uint32_t first = given == nullptr ? 1 : static_cast<uint32_t>(std::atoi(given));
  const uint32_t count = given == nullptr ? 40 : 1;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    INFO("SLUICE_SEED=" << seed);
    Chaos(seed).Run();
  }
}

}  // namespace
}  // namespace sluice::sim
