// Evictions on the simulated control plane, with what a scenario does not show: which fields come
// in which write, and the statistics.
#include <algorithm>

#include "admission/conditions.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

class Fixture {
 public:
  explicit Fixture(SimulationOptions options) : sim(std::move(options)) {
    sim.SetApiObserver([this](const state::ObjectEvent& event) {
      if (event.kind != Kind::kWorkload) return;
      const absl::StatusOr<api::Workload> workload = api::Decode<api::Workload>(event.object);
      REQUIRE(workload.ok());
      history.push_back(*workload);
    });
    Make("namespace ns");
    Make("flavor default");
    Make("clusterqueue cq flavor=default{cpu=1}");
    Make("localqueue q cq=cq");
    sim.Start();
  }
  void Make(const std::string& text) { sluice::sim::Make(sim, text); }
  void Run(double seconds) { sim.RunUntil(start + absl::Seconds(seconds)); }
  // The only Workload that there is.
  api::Workload Get() const {
    const std::vector<Json> all = sim.api().List(Kind::kWorkload);
    REQUIRE(all.size() == 1);
    return api::Decode<api::Workload>(all[0]).value();
  }
  bool Suspended(const char* name) const {
    return sim.api().Find(Kind::kJob, {"ns", name})->Find("spec", "suspend")->AsBool();
  }
  // What the cycle writes about a victim.
  void Preempt() {
    api::Workload victim = Get();
    admission::SetEvicted(victim, admission::kEvictedPreempted, "", "to make room", sim.now());
    admission::SetPreempted(victim, "InClusterQueue", "to make room", sim.now());
    state::Action action = reconcile::ApplyStatusAction(Kind::kWorkload, victim.metadata.Key(),
                                                        admission::AdmissionPatch(victim, true),
                                                        api::kAdmissionManager);
    REQUIRE(sim.api().Execute(action, sim.now()).ok());
  }

  Simulation sim;
  absl::Time start = sim.now();
  std::vector<api::Workload> history;
};

std::string Of(const api::Workload& workload, const char* type) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  if (condition == nullptr) return "none";
  return (condition->status == api::ConditionStatus::kTrue ? "True " : "False ") +
         condition->reason;
}

SimulationOptions Options() {
  SimulationOptions options;
  state::WaitForPodsReady& wait = *options.settings.wait_for_pods_ready;
  wait.timeout = wait.recovery_timeout = absl::Seconds(30);
  wait.requeuing_strategy.backoff_base_seconds = 10;
  return options;
}

TEST_CASE("A victim holds its quota until its pods are gone") {
  Fixture f({});
  f.Make("job w queue=q cpu=1 stopping=60s");
  f.Run(10);
  REQUIRE(Of(f.Get(), api::kPodsReady) == "True Started");
  f.Preempt();
  f.Run(10.2);
  CHECK(f.Suspended("w"));
  for (const double time : {10.2, 69.0}) {
    f.Run(time);
    const api::Workload workload = f.Get();
    CHECK(Of(workload, api::kEvicted) == "True Preempted");
    CHECK(Of(workload, api::kPreempted) == "True InClusterQueue");
    CHECK(Of(workload, api::kQuotaReserved) == "True QuotaReserved");
    CHECK(Of(workload, api::kAdmitted) == "True Admitted");
    CHECK(workload.status.admission.has_value());
    CHECK(f.sim.controller().world().ClusterQueueTotals("cq").admitted == 1);
  }
  f.history.clear();
  f.Run(70.5);
  // One write brings all of phase 2; the next one is the admission again, since nobody else came.
  const auto released = std::find_if(f.history.begin(), f.history.end(), [](const auto& workload) {
    return !workload.status.admission.has_value();
  });
  REQUIRE(released != f.history.end());
  CHECK(Of(*released, api::kRequeued) == "True Preempted");
  CHECK(Of(*released, api::kQuotaReserved) == "False PendingEvaluation");
  CHECK(api::FindCondition(released->status.conditions, api::kQuotaReserved)->message ==
        "to make room");
  CHECK(Of(*released, api::kAdmitted) == "False NoReservation");
  CHECK(Of(*released, api::kEvicted) == "True Preempted");
  CHECK(Of(*released, api::kPodsReady) == "False WaitForStart");
  CHECK(released->status.accumulated_past_execution_time_seconds == 70);
  const api::Workload again = f.Get();
  CHECK(Of(again, api::kEvicted) == "False QuotaReserved");
  CHECK(api::FindCondition(again.status.conditions, api::kEvicted)->message ==
        "Previously: to make room");
  CHECK(Of(again, api::kRequeued) == "True Preempted");  // left as it is
  CHECK(f.sim.violations().empty());
}

TEST_CASE("The eviction, the count and the instant of the next try come in one write") {
  Fixture f(Options());
  f.Make("job w queue=q cpu=1 ready=never");
  f.Run(29.9);
  CHECK(Of(f.Get(), api::kEvicted) == "none");
  f.history.clear();
  f.Run(30.2);
  const auto evicted = std::find_if(f.history.begin(), f.history.end(), [](const auto& workload) {
    return Of(workload, api::kEvicted) == "True PodsReadyTimeout";
  });
  REQUIRE(evicted != f.history.end());
  REQUIRE(evicted->status.requeue_state.has_value());
  CHECK(evicted->status.requeue_state->count == 1);
  CHECK(evicted->status.requeue_state->requeue_at == f.start + absl::Seconds(40));
  CHECK(api::FindCondition(evicted->status.conditions, api::kEvicted)->message ==
        "Exceeded the PodsReady timeout ns/" + evicted->metadata.name);
  CHECK(Of(*evicted, api::kAdmitted) == "True Admitted");
  CHECK(Of(f.Get(), api::kRequeued) == "False PodsReadyTimeout");

  // The first write after the pause only takes the instant away.
  f.history.clear();
  f.Run(40.5);
  REQUIRE(f.history.size() >= 3);
  CHECK_FALSE(f.history[0].status.requeue_state->requeue_at.has_value());
  CHECK(f.history[0].status.requeue_state->count == 1);
  CHECK(Of(f.history[0], api::kRequeued) == "False PodsReadyTimeout");
  CHECK(Of(f.history[1], api::kRequeued) == "True BackoffFinished");
  CHECK(Of(f.history[2], api::kQuotaReserved) == "True QuotaReserved");
  CHECK(f.sim.violations().empty());
}

TEST_CASE("The statistics tell starts from recoveries") {
  SimulationOptions options = Options();
  options.settings.wait_for_pods_ready->requeuing_strategy.backoff_limit_count = 2;
  Fixture f(options);
  f.Make("job w queue=q cpu=1 ready=never");
  f.Run(35);
  f.sim.Patch(
      Kind::kJob, {"ns", "w"},
      api::ParseJson(R"({"metadata":{"annotations":{"sluice.dev/ready-seconds":"1,never"}}})")
          .value());
  f.Run(45);
  REQUIRE(Of(f.Get(), api::kPodsReady) == "True Started");
  f.sim.Patch(
      Kind::kJob, {"ns", "w"},
      api::ParseJson(R"({"metadata":{"annotations":{"sluice.dev/failed-pods":"1"}}})").value());
  f.Run(46);
  CHECK(Of(f.Get(), api::kPodsReady) == "False WaitForRecovery");
  CHECK(Of(f.Get(), api::kEvicted) == "False QuotaReserved");
  f.Run(76);
  CHECK(Of(f.Get(), api::kEvicted) == "True PodsReadyTimeout");
  CHECK(f.Get().status.requeue_state->count == 2);
  f.sim.Patch(Kind::kJob, {"ns", "w"},
              api::ParseJson(R"({"metadata":{"annotations":{"sluice.dev/ready-seconds":"never"}}})")
                  .value());
  f.Run(200);
  const api::Workload workload = f.Get();
  CHECK_FALSE(workload.spec.active.value_or(true));
  CHECK(Of(workload, api::kEvicted) == "True DeactivatedDueToRequeuingLimitExceeded");
  CHECK(Of(workload, api::kRequeued) == "False DeactivatedDueToRequeuingLimitExceeded");
  CHECK(Of(workload, api::kDeactivationTarget) == "none");
  CHECK_FALSE(workload.status.requeue_state.has_value());
  REQUIRE(workload.status.scheduling_stats.has_value());
  CHECK(workload.status.scheduling_stats->evictions ==
        std::vector<api::EvictionStat>{{"PodsReadyTimeout", "WaitForStart", 1},
                                       {"PodsReadyTimeout", "WaitForRecovery", 1},
                                       {"Deactivated", "RequeuingLimitExceeded", 1}});
  CHECK(f.sim.violations().empty());
}

TEST_CASE("A limit of zero deactivates at the first timeout") {
  SimulationOptions options = Options();
  options.settings.wait_for_pods_ready->requeuing_strategy.backoff_limit_count = 0;
  Fixture f(options);
  f.Make("job w queue=q cpu=1 ready=never");
  f.Run(31);
  CHECK_FALSE(f.Get().spec.active.value_or(true));
  CHECK(f.Get().status.scheduling_stats->evictions ==
        std::vector<api::EvictionStat>{{"Deactivated", "RequeuingLimitExceeded", 1}});
}

TEST_CASE("A target of deactivation on an evicted Workload deactivates it once") {
  Fixture f({});
  f.Make("job w queue=q cpu=1 stopping=60s");
  f.Run(10);
  f.Preempt();
  f.Run(11);
  api::Workload workload = f.Get();
  admission::SetDeactivationTarget(workload, admission::kCauseAdmissionCheck, "no", f.sim.now());
  REQUIRE(f.sim.api()
              .Execute(reconcile::ApplyStatusAction(Kind::kWorkload, workload.metadata.Key(),
                                                    admission::AdmissionPatch(workload, true),
                                                    api::kAdmissionManager),
                       f.sim.now())
              .ok());
  f.Run(20);
  CHECK_FALSE(f.Get().spec.active.value_or(true));
  CHECK(Of(f.Get(), api::kEvicted) == "True Preempted");
  CHECK(Of(f.Get(), api::kDeactivationTarget) == "False AdmissionCheck");
  f.Run(80);
  f.sim.Patch(Kind::kWorkload, f.Get().metadata.Key(),
              api::ParseJson(R"({"spec":{"active":true}})").value());
  f.Run(90);
  CHECK(Of(f.Get(), api::kAdmitted) == "True Admitted");
  CHECK(f.sim.violations().empty());
}

// Whenever a user deactivates a Workload that is being judged: it does not get quota any more.
TEST_CASE("A Workload that was deactivated while it was judged stays without quota") {
  const bool waited_before = GENERATE(false, true);
  for (int milliseconds = 0; milliseconds <= 40; ++milliseconds) {
    INFO(waited_before << " " << milliseconds << " ms");
    Fixture f({});
    if (waited_before) {
      f.Make("clusterqueue other flavor=default{cpu=0}");
      f.Make("localqueue r cq=other");
    }
    f.Make(waited_before ? "job w queue=r cpu=1" : "job w queue=q cpu=1");
    f.Run(waited_before ? 5 : 0.001 * milliseconds);
    if (waited_before) {
      f.sim.Patch(
          Kind::kJob, {"ns", "w"},
          api::ParseJson(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}}})").value());
      f.Run(5 + 0.001 * milliseconds);
    }
    if (f.sim.api().List(Kind::kWorkload).empty()) continue;
    const bool reserved = api::IsTrue(f.Get().status.conditions, api::kQuotaReserved);
    f.history.clear();
    f.sim.Patch(Kind::kWorkload, f.Get().metadata.Key(),
                api::ParseJson(R"({"spec":{"active":false}})").value());
    f.Run(20);
    bool before = reserved;
    for (const api::Workload& workload : f.history) {
      const bool after = api::IsTrue(workload.status.conditions, api::kQuotaReserved);
      if (!workload.spec.active.value_or(true) && after && !before) FAIL("quota while inactive");
      before = after;
    }
    CHECK_FALSE(api::IsTrue(f.Get().status.conditions, api::kQuotaReserved));
    CHECK(f.Suspended("w"));
    f.sim.Patch(Kind::kWorkload, f.Get().metadata.Key(),
                api::ParseJson(R"({"spec":{"active":true}})").value());
    f.Run(30);
    CHECK(Of(f.Get(), api::kAdmitted) == "True Admitted");
    CHECK(f.sim.violations().empty());
  }
}

}  // namespace
}  // namespace sluice::sim
