// A Workload that tries several flavors at once, with a fault at every write of the controller: it
// ends in the best flavor, and at no instant more is used than there is.
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

Json Queue() {
  absl::StatusOr<ObjectText> queue =
      ParseObject(SplitWords("clusterqueue cq flavor=good{cpu=4} flavor=fair{cpu=4}"));
  REQUIRE(queue.ok());
  queue->object["spec"]["concurrentAdmissionPolicy"]["migration"].Set("mode",
                                                                      "TryPreferredFlavors");
  return queue->object;
}

struct Outcome {
  std::string text;
  uint64_t writes = 0;
};

// Job a has the good flavor and ends; Job b starts in the other one and moves.
Outcome Play(Fault fault, uint64_t at) {
  INFO("fault " << static_cast<int>(fault) << " at write " << at);
  SimulationOptions options;
  options.settings.gates = *state::FeatureGates::Make({{"ConcurrentAdmission", true}});
  Simulation sim(options);
  Make(sim, "namespace ns");
  Make(sim, "flavor good label:pool=good");
  Make(sim, "flavor fair label:pool=fair");
  REQUIRE(sim.Create(Kind::kClusterQueue, "", Queue()).ok());
  Make(sim, "localqueue q cq=cq");
  sim.SetFaultHook([fault, at](const state::Action&, uint64_t number) {
    FaultDecision decision;
    if (number == at) decision.fault = fault;
    return decision;
  });
  sim.Start();
  const absl::Time start = sim.now();
  Make(sim, "job a queue=q cpu=3 run=60s");
  sim.RunUntil(start + absl::Seconds(20));
  Make(sim, "job b queue=q cpu=3 run=1000s");
  sim.RunUntil(start + absl::Seconds(300));
  for (const std::string& text : sim.violations()) FAIL_CHECK(text);
  Outcome outcome;
  outcome.writes = sim.writes();
  for (const Json& job : sim.api().List(Kind::kJob)) {
    // Where a Job ran that has ended depends on what was late.
    if (job.GetString("metadata", "name") == "a") continue;
    const Json* selector = job.Find("spec", "template", "spec", "nodeSelector");
    outcome.text += fmt::format("{} on {} {};", job.GetString("metadata", "name"),
                                selector == nullptr ? "none" : selector->GetString("pool"),
                                job.Find("spec", "suspend")->AsBool() ? "suspended" : "running");
  }
  for (const auto& [cell, amount] : HeldQuota(sim.api())) {
    outcome.text += fmt::format(" {} {}", cell, amount);
  }
  return outcome;
}

TEST_CASE("a Workload with variants comes to the same end whatever write goes wrong") {
  const Outcome good = Play(Fault::kNone, 0);
  CHECK(good.text == "b on good running; cq/good/cpu 3000");
  REQUIRE(good.writes > 20);
  REQUIRE(good.writes < 120);
  for (const Fault fault : {Fault::kLoseReply, Fault::kFail, Fault::kCrashAfter}) {
    for (uint64_t at = 1; at <= good.writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      CHECK(Play(fault, at).text == good.text);
    }
  }
}

}  // namespace
}  // namespace sluice::sim
