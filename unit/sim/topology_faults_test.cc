// A gang in a rack, and the loss of one of its nodes, with a fault at every write of the
// controller: the end is the same, no host ever gets more pods than were assigned to it, and
// without a fault each pod takes one write.
#include <fmt/format.h>

#include <map>

#include "api/names.h"
#include "sim/scenario_objects.h"
#include "sim/simulation.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

constexpr char kHost[] = "kubernetes.io/hostname";

bool Gated(const Json& pod) {
  const Json* gates = pod.Find("spec", "schedulingGates");
  return gates != nullptr && !gates->AsArray().empty();
}

// "0>a1 1>a1 2>a2" of the pods that run, by index; "gated" for those that wait.
std::string Places(const Simulation& sim) {
  std::map<std::string, std::string> places;
  for (const Json& pod : sim.api().List(Kind::kPod)) {
    const std::string index =
        pod.GetString("metadata", "labels", "batch.kubernetes.io/job-completion-index");
    places[index] = Gated(pod) ? "gated" : pod.GetString("spec", "nodeName");
  }
  std::string text;
  for (const auto& [index, node] : places) {
    text += fmt::format("{}{}>{}", text.empty() ? "" : " ", index, node);
  }
  return text;
}

std::map<std::string, int> PodsByHost(const Simulation& sim) {
  std::map<std::string, int> pods;
  for (const Json& pod : sim.api().List(Kind::kPod)) {
    const std::string phase = pod.GetString("status", "phase");
    const std::string host = pod.GetString("spec", "nodeSelector", kHost);
    if (!host.empty() && phase != "Failed" && phase != "Succeeded") ++pods[host];
  }
  return pods;
}

struct Outcome {
  std::string started;
  std::string repaired;
  bool evicted = false;
  uint64_t writes = 0;
  std::map<std::string, int> pod_writes;  // by pod
};

// What becomes of the pods of a node that is gone: nobody looks after them any more.
void LoseNode(Simulation& sim, const std::string& node) {
  REQUIRE(sim.Delete(Kind::kNode, {"", node}).ok());
  for (const Json& pod : sim.api().List(Kind::kPod)) {
    if (pod.GetString("spec", "nodeName") != node) continue;
    REQUIRE(sim.Delete(Kind::kPod, {"ns", pod.GetString("metadata", "name")}).ok());
  }
}

Outcome Play(Fault fault, uint64_t at) {
  INFO("fault " << static_cast<int>(fault) << " at write " << at);
  Simulation sim({});
  Make(sim, "namespace ns");
  Make(sim, "topology racks levels=rack,kubernetes.io/hostname");
  for (const char* host : {"a1", "a2", "a3", "b1", "b2", "b3"}) {
    Make(sim, fmt::format("node {} cpu=2 label:pool=p label:rack={}", host, host[0]));
  }
  Make(sim, "flavor racked label:pool=p topology=racks");
  Make(sim, "clusterqueue cq flavor=racked{cpu=20}");
  Make(sim, "localqueue q cq=cq");
  Outcome outcome;
  sim.SetFaultHook([&outcome, fault, at](const state::Action& action, uint64_t number) {
    if (action.kind == Kind::kPod) ++outcome.pod_writes[action.key.name];
    FaultDecision decision;
    if (number == at) decision.fault = fault;
    return decision;
  });
  sim.Start();
  const absl::Time start = sim.now();
  const auto wait = [&](int seconds) {
    for (absl::Time until = start + absl::Seconds(seconds); sim.now() < until;) {
      sim.RunUntil(std::min(until, sim.now() + absl::Seconds(1)));
      for (const auto& [host, pods] : PodsByHost(sim)) {
        INFO("at " << absl::ToDoubleSeconds(sim.now() - start) << "s on " << host);
        CHECK(pods <= 2);
      }
    }
  };
  wait(1);
  Make(sim,
       "job gang queue=q cpu=1 parallelism=4 completions=4 indexed=true run=10000s "
       "podannotation:kueue.x-k8s.io/podset-required-topology=rack");
  wait(90);
  outcome.started = Places(sim);
  LoseNode(sim, "a2");
  wait(300);
  outcome.repaired = Places(sim);
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    outcome.evicted = outcome.evicted || ConditionTrue(workload, api::kEvicted);
  }
  for (const std::string& text : sim.violations()) FAIL_CHECK(text);
  outcome.writes = sim.writes();
  return outcome;
}

TEST_CASE("a gang gets its places, and a new one for a lost node, whatever write goes wrong") {
  const Outcome good = Play(Fault::kNone, 0);
  CHECK(good.started == "0>a1 1>a1 2>a2 3>a2");
  CHECK(good.repaired == "0>a1 1>a1 2>a3 3>a3");
  CHECK_FALSE(good.evicted);
  CHECK(good.pod_writes.size() == 6);
  for (const auto& [pod, writes] : good.pod_writes) {
    INFO(pod);
    CHECK(writes == 1);
  }
  REQUIRE(good.writes > 10);
  REQUIRE(good.writes < 80);
  for (const Fault fault : {Fault::kLoseRequest, Fault::kLoseReply, Fault::kFail, Fault::kDuplicate,
                            Fault::kCrashBefore, Fault::kCrashAfter}) {
    for (uint64_t at = 1; at <= good.writes; ++at) {
      const Outcome bad = Play(fault, at);
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      CHECK(bad.started == good.started);
      CHECK(bad.repaired == good.repaired);
      CHECK_FALSE(bad.evicted);
    }
  }
}

}  // namespace
}  // namespace sluice::sim
