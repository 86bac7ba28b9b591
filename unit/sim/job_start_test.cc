// The write that starts a Job says from which version of the Job it was decided.
#include "api/names.h"
#include "sim/simulation.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

bool Starts(const state::Action& action) {
  const Json* suspend = action.body.Find("spec", "suspend");
  return action.kind == Kind::kJob && suspend != nullptr && !suspend->AsBool();
}

TEST_CASE("A Job that changes while its start is on the way is decided about anew") {
  Simulation sim{SimulationOptions()};
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=3}");
  Make(sim, "localqueue q cq=cq");
  int starts = 0;
  sim.SetFaultHook([&](const state::Action& action, uint64_t) {
    if (!Starts(action)) return FaultDecision{};
    CHECK_FALSE(action.body.GetString("metadata", "resourceVersion").empty());
    return ++starts == 1 ? FaultDecision{Fault::kDelay} : FaultDecision{};
  });
  bool too_large = false;
  sim.SetApiObserver([&](const state::ObjectEvent& event) {
    if (event.kind != Kind::kJob || event.object.Find("spec", "suspend")->AsBool()) return;
    too_large |= event.object.Find("spec", "parallelism")->AsInt() > 3;
  });
  sim.Start();
  Make(sim, "job a queue=q cpu=1 parallelism=2 completions=8");
  while (starts == 0 && sim.Step()) {
  }
  // More than its quota: it must not start with that.
  sim.Patch(Kind::kJob, {"ns", "a"}, api::ParseJson(R"({"spec":{"parallelism":8}})").value());
  sim.RunUntil(sim.now() + absl::Minutes(1));
  CHECK_FALSE(too_large);
  sim.Patch(Kind::kJob, {"ns", "a"}, api::ParseJson(R"({"spec":{"parallelism":3}})").value());
  sim.RunUntil(sim.now() + absl::Minutes(1));
  const Json* job = sim.api().Find(Kind::kJob, {"ns", "a"});
  CHECK_FALSE(job->Find("spec", "suspend")->AsBool());
  CHECK_FALSE(too_large);
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
}

}  // namespace
}  // namespace sluice::sim
