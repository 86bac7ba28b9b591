// Writes whose answer is lost or wrong while the watch of Workloads is late: what the API server
// may hold is not given to anybody else. And what others do while a write is on its way is not
// passed over.
#include <fmt/format.h>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Action;
using state::Verb;

bool IsAdmission(const Action& action) {
  return action.kind == Kind::kWorkload && action.subresource == "status" &&
         action.body.Find("status", "admission") != nullptr;
}

int Reserved(const Simulation& sim) {
  int count = 0;
  sim.api().ForEach(Kind::kWorkload, [&](const Json& workload) {
    count += ConditionTrue(workload, api::kQuotaReserved) ? 1 : 0;
  });
  return count;
}

int Started(const Simulation& sim) {
  int count = 0;
  sim.api().ForEach(
      Kind::kJob, [&](const Json& job) { count += job.Find("spec", "suspend")->AsBool() ? 0 : 1; });
  return count;
}

void CheckAll(const Simulation& sim) {
  for (const std::string& text : sim.trace()) UNSCOPED_INFO(text);
  for (const std::string& text : sim.violations()) FAIL_CHECK(text);
}

void Prepare(Simulation& sim) {
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=1}");
  Make(sim, "localqueue q cq=cq");
}

SimulationOptions WithoutTimeout() {
  SimulationOptions options;
  options.settings.wait_for_pods_ready.reset();
  return options;
}

TEST_CASE("An admission that may have happened keeps its quota, however late the watch is") {
  const FaultDecision fault =
      GENERATE(FaultDecision{Fault::kLoseReply}, FaultDecision{Fault::kFailAfter, 409},
               FaultDecision{Fault::kFailAfter, 500}, FaultDecision{Fault::kFailAfter, 504},
               FaultDecision{Fault::kDuplicate});
  const int refused_reads = GENERATE(0, 5);
  CAPTURE(static_cast<int>(fault.fault), fault.code, refused_reads);
  Simulation sim(WithoutTimeout());
  Prepare(sim);
  int reads = 0;
  bool failed = false;
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    if (action.verb == Verb::kGet && ++reads <= refused_reads) {
      return FaultDecision{Fault::kFail, 503};
    }
    return IsAdmission(action) && !std::exchange(failed, true) ? fault : FaultDecision{};
  });
  sim.Start();
  sim.SetWatchDelay(Kind::kWorkload, absl::Hours(1));
  Make(sim, "job a queue=q cpu=1");
  Make(sim, "job b queue=q cpu=1");
  for (int i = 0; i < 600; ++i) {
    sim.RunUntil(sim.now() + absl::Milliseconds(500));
    REQUIRE(Reserved(sim) <= 1);
    REQUIRE(Started(sim) <= 1);
  }
  CHECK(failed);
  CHECK(reads == refused_reads + 1);
  CHECK(Reserved(sim) == 1);
  CHECK(Started(sim) == 1);
  CheckAll(sim);
}

TEST_CASE("An admission that did not happen is decided anew when a read has shown it") {
  const FaultDecision fault =
      GENERATE(FaultDecision{Fault::kLoseRequest}, FaultDecision{Fault::kFail, 500},
               FaultDecision{Fault::kFail, 422}, FaultDecision{Fault::kFail, 504});
  CAPTURE(static_cast<int>(fault.fault), fault.code);
  Simulation sim(WithoutTimeout());
  Prepare(sim);
  int admissions = 0;
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    return IsAdmission(action) && ++admissions == 1 ? fault : FaultDecision{};
  });
  sim.Start();
  sim.SetWatchDelay(Kind::kWorkload, absl::Hours(1));
  Make(sim, "job a queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Minutes(2));
  CHECK(admissions == 2);
  CHECK(Started(sim) == 1);
  CheckAll(sim);
}

// A write that nobody answered may still be carried out a while later.
TEST_CASE("A write that comes late is still counted") {
  Simulation sim(WithoutTimeout());
  Prepare(sim);
  Action late;
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    if (!IsAdmission(action) || late.kind != Kind::kEvent) return FaultDecision{};
    late = action;
    return FaultDecision{Fault::kLoseRequest};
  });
  late.kind = Kind::kEvent;
  sim.Start();
  sim.SetWatchDelay(Kind::kWorkload, absl::Hours(1));
  Make(sim, "job a queue=q cpu=1");
  Make(sim, "job b queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Seconds(30));
  REQUIRE(late.kind == Kind::kWorkload);
  CHECK(Reserved(sim) == 0);
  REQUIRE(sim.Carry(late).ok());
  sim.RunUntil(sim.now() + absl::Minutes(5));
  CHECK(Reserved(sim) == 1);
  CHECK(Started(sim) == 1);
  CheckAll(sim);
}

TEST_CASE("A Workload that is not there any more is forgotten at once and not asked for again") {
  const bool lose_answer = GENERATE(false, true);
  CAPTURE(lose_answer);
  Simulation sim(WithoutTimeout());
  Prepare(sim);
  Make(sim, "workload a queue=q cpu=1 priority=1");
  Make(sim, "workload b queue=q cpu=1");
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    if (!IsAdmission(action) || action.key.name != "a") return FaultDecision{};
    sim.Delete(Kind::kWorkload, action.key);
    return FaultDecision{lose_answer ? Fault::kLoseRequest : Fault::kNone};
  });
  sim.Start();
  sim.SetWatchDelay(Kind::kWorkload, absl::Minutes(2));
  sim.RunUntil(sim.now() + absl::Seconds(lose_answer ? 15 : 1));
  REQUIRE(sim.api().Find(Kind::kWorkload, {"ns", "a"}) == nullptr);
  CHECK(Reserved(sim) == 1);
  sim.RunUntil(sim.now() + absl::Minutes(4));
  CHECK(sim.writes() < 30);
  REQUIRE(sim.Settled());
  sim.CheckSettled();
  CheckAll(sim);
}

// The text about why it waits is on its way when room comes, and the user stops the Workload.
TEST_CASE("A Workload that was stopped while another write was on its way gets no quota") {
  Simulation sim(WithoutTimeout());
  Prepare(sim);
  Make(sim, "workload a queue=q cpu=1");
  sim.Start();
  sim.RunUntil(sim.now() + absl::Seconds(1));
  REQUIRE(Reserved(sim) == 1);
  const ObjectKey stopped{"ns", "b"};
  bool admitted = false;
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    if (action.kind != Kind::kWorkload || !(action.key == stopped)) return FaultDecision{};
    if (!IsAdmission(action)) return FaultDecision{Fault::kDelay, 0, absl::Seconds(1)};
    const Json patch = *api::ParseJson(R"({"spec": {"active": false}})");
    if (!std::exchange(admitted, true)) sim.Patch(Kind::kWorkload, stopped, patch);
    return FaultDecision{};
  });
  int wrong = 0;
  sim.SetApiObserver([&](const state::ObjectEvent& event) {
    if (event.kind != Kind::kWorkload) return;
    const Json* active = event.object.Find("spec", "active");
    const bool off = active != nullptr && !active->AsBool();
    wrong += off && ConditionTrue(event.object, api::kQuotaReserved) ? 1 : 0;
  });
  Make(sim, "workload b queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Milliseconds(100));
  sim.Delete(Kind::kWorkload, {"ns", "a"});
  sim.RunUntil(sim.now() + absl::Minutes(1));
  CHECK(admitted);
  CHECK(wrong == 0);
  CheckAll(sim);
}

}  // namespace
}  // namespace sluice::sim
