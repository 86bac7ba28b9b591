// An elastic Job that grows and shrinks, with a fault at every write of the controller: the end is
// the same, and at no instant more is used than there is.
#include <fmt/format.h>

#include "api/names.h"
#include "sim/scenario_objects.h"
#include "sim/simulation.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

void Resize(Simulation& sim, int64_t parallelism) {
  Json patch = Json::MakeObject();
  patch["spec"].Set("parallelism", parallelism);
  REQUIRE(sim.Patch(Kind::kJob, {"ns", "train"}, patch).ok());
}

struct Outcome {
  int holding = 0;   // Workloads that hold quota
  int64_t pods = 0;  // of these, by their spec
  int free = 0;      // pods without a gate
  int gated = 0;
  uint64_t writes = 0;
  bool operator==(const Outcome& other) const {
    return holding == other.holding && pods == other.pods && free == other.free &&
           gated == other.gated;
  }
};

Outcome Look(const Simulation& sim) {
  Outcome outcome;
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    if (!ConditionTrue(workload, api::kAdmitted) || ConditionTrue(workload, api::kFinished))
      continue;
    ++outcome.holding;
    outcome.pods += workload.Find("spec", "podSets")->AsArray()[0].Find("count")->AsInt();
  }
  for (const Json& pod : sim.api().List(Kind::kPod)) {
    const Json* gates = pod.Find("spec", "schedulingGates");
    ++(gates == nullptr || gates->AsArray().empty() ? outcome.free : outcome.gated);
  }
  return outcome;
}

// The Job starts with 2 pods, grows to 4, wants 9 (which never fits) and shrinks to 3.
Outcome Play(Fault fault, uint64_t at) {
  INFO("fault " << static_cast<int>(fault) << " at write " << at);
  Simulation sim({});
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=6}");
  Make(sim, "localqueue q cq=cq");
  sim.SetFaultHook([fault, at](const state::Action&, uint64_t number) {
    FaultDecision decision;
    if (number == at) decision.fault = fault;
    return decision;
  });
  sim.Start();
  const absl::Time start = sim.now();
  const auto wait = [&](int seconds) { sim.RunUntil(start + absl::Seconds(seconds)); };
  wait(1);
  Make(sim,
       "job train queue=q cpu=1 parallelism=2 completions=100 "
       "annotation:kueue.x-k8s.io/elastic-job=true");
  wait(60);
  Resize(sim, 4);
  wait(120);
  const Outcome four = Look(sim);
  CHECK(four.holding == 1);
  CHECK(four.pods == 4);
  CHECK(four.free == 4);
  Resize(sim, 9);
  wait(180);
  const Outcome waits = Look(sim);
  CHECK(waits.pods == 4);
  CHECK(waits.free == 4);
  CHECK(waits.gated == 5);
  Resize(sim, 3);
  wait(300);
  for (const std::string& text : sim.violations()) FAIL_CHECK(text);
  Outcome end = Look(sim);
  end.writes = sim.writes();
  return end;
}

TEST_CASE("an elastic Job comes to the same end whatever write goes wrong") {
  const Outcome good = Play(Fault::kNone, 0);
  CHECK(good.holding == 1);
  CHECK(good.pods == 3);
  CHECK(good.gated == 0);
  CHECK(good.free == 3);
  REQUIRE(good.writes > 10);
  REQUIRE(good.writes < 60);
  for (const Fault fault : {Fault::kLoseRequest, Fault::kLoseReply, Fault::kFail, Fault::kDuplicate,
                            Fault::kCrashBefore, Fault::kCrashAfter}) {
    for (uint64_t at = 1; at <= good.writes; ++at) CHECK(Play(fault, at) == good);
  }
}

}  // namespace
}  // namespace sluice::sim
