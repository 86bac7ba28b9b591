#include "queueing/workload_info.h"

#include "api/names.h"
#include "queueing/backfill.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;

WorkloadInfoPtr Info(const build::Workload& workload, const OrderOptions& options = {}) {
  return MakeWorkloadInfo(workload.Shared(), "cq", {}, options);
}

TEST_CASE("effective priority with and without boost") {
  const auto boosted = [](int32_t priority, const std::string& boost) {
    return build::Workload("w").Priority(priority).Annotation(api::kPriorityBoost, boost);
  };
  CHECK(EffectivePriority(build::Workload("w")) == 0);
  CHECK(EffectivePriority(boosted(100, "150"), true) == 250);
  CHECK(EffectivePriority(boosted(100, "150"), false) == 100);
  CHECK(EffectivePriority(boosted(100, "-150"), true) == -50);
  CHECK(EffectivePriority(boosted(2147483647, "2147483647"), true) == 4294967294);
  CHECK(EffectivePriority(boosted(7, "many"), true) == 7);
  CHECK(EffectivePriority(boosted(7, "1 "), true) == 7);
  CHECK(EffectivePriority(boosted(7, ""), true) == 7);
}

TEST_CASE("the instant that orders a workload") {
  const auto base = build::Workload("w").Created(At(1));
  CHECK(QueueOrderTime(base) == At(1));
  const auto not_ready = build::Workload(base).Evicted("PodsReadyTimeout", At(60));
  CHECK(QueueOrderTime(not_ready) == At(60));
  OrderOptions by_creation;
  by_creation.order_by_eviction = false;
  CHECK(QueueOrderTime(not_ready, by_creation) == At(1));
  CHECK(QueueOrderTime(build::Workload(base).Evicted("AdmissionCheck", At(60)), by_creation) ==
        At(60));
  // A preemption does not cost the place in the queue.
  CHECK(QueueOrderTime(build::Workload(base).Evicted("Preempted", At(60))) == At(1));
  const auto preempted = build::Workload(base).Condition(
      api::kPreempted, api::ConditionStatus::kTrue, "InCohortReclaimWhileBorrowing", At(60));
  CHECK(QueueOrderTime(preempted) == At(1));
  OrderOptions unsorted;
  unsorted.priority_sorting_within_cohort = false;
  CHECK(QueueOrderTime(preempted, unsorted) == At(60) + absl::Milliseconds(1));
}

TEST_CASE("order by priority, time and UID") {
  const auto w1 = Info(build::Workload("w1").Created(At(0)));
  const auto w2 = Info(build::Workload("w2").Created(At(60)).Priority(5));
  const auto w3 = Info(build::Workload("w3").Created(At(120)).Priority(5));
  CHECK(OrderedBefore(*w2, *w3));
  CHECK(OrderedBefore(*w3, *w1));
  CHECK_FALSE(OrderedBefore(*w1, *w2));
  const auto a = Info(build::Workload("a").Uid("2"));
  const auto b = Info(build::Workload("b").Uid("1"));
  CHECK(OrderedBefore(*b, *a));
  CHECK_FALSE(OrderedBefore(*a, *a));
}

TEST_CASE("who may wait in a queue") {
  using Status = api::ConditionStatus;
  CHECK(IsAdmissible(build::Workload("w")));
  CHECK_FALSE(IsAdmissible(build::Workload("w").Active(false)));
  CHECK_FALSE(IsAdmissible(build::Workload("w").Finished()));
  CHECK_FALSE(IsAdmissible(build::Workload("w").Reserved("cq", "f")));
  CHECK_FALSE(IsAdmissible(build::Workload("w").Deleted(At(1))));
  const auto reserved = [](const char* reason) {
    return build::Workload("w").Condition(api::kQuotaReserved, Status::kFalse, reason, At(0));
  };
  CHECK_FALSE(IsAdmissible(reserved("OnHold")));
  CHECK(IsAdmissible(reserved("WaitingForQuota")));
  CHECK_FALSE(IsAdmissible(build::Workload("w").Condition(api::kWaitingForReplacementPods,
                                                          Status::kTrue, "PodsFailed", At(0))));
  const auto gated = build::Workload("w").Annotation(api::kAdmissionGatedBy, "x.io/gate");
  CHECK_FALSE(IsAdmissible(gated));
  OrderOptions ungated;
  ungated.admission_gated_by = false;
  CHECK(IsAdmissible(gated, ungated));
  CHECK(IsAdmissible(build::Workload("w").Annotation(api::kAdmissionGatedBy, "")));
}

TEST_CASE("backoff is over at its instant and when the workload is requeued") {
  CHECK(BackoffOver(build::Workload("w"), At(0)));
  const auto later = build::Workload("w").RequeueAt(At(300));
  CHECK_FALSE(BackoffOver(later, At(299)));
  CHECK(BackoffOver(later, At(300)));
  CHECK_FALSE(BackoffOver(build::Workload(later).Requeued(false, "PodsReadyTimeout"), At(300)));
  CHECK(BackoffOver(build::Workload("w").Requeued(true, "BackoffFinished"), At(0)));
}

TEST_CASE("where resources are transformed, what pods ask of nodes counts as well") {
  RequestOptions options;
  options.transformations.push_back({"mig-1g", true, "", {{"slices", Quantity::FromInt(1)}}});
  options.transformations.push_back({"mig-2g", true, "", {{"slices", Quantity::FromInt(2)}}});
  RequestContext context;
  context.options = &options;
  const auto of = [&](const std::string& resource, const std::string& amount) {
    return MakeWorkloadInfo(build::Workload("w").Request(resource, amount).Shared(), "cq", context,
                            {});
  };
  REQUIRE(of("mig-2g", "1")->requests == of("mig-1g", "2")->requests);
  CHECK(of("mig-2g", "1")->equivalence != of("mig-1g", "2")->equivalence);
  CHECK(of("mig-2g", "1")->equivalence == of("mig-2g", "1")->equivalence);
}

TEST_CASE("equivalence is about what the answer depends on") {
  const auto base = [](const std::string& name) {
    return build::Workload(name).Request("cpu", "1").Count(2);
  };
  const EquivalenceClass same = Info(base("a"))->equivalence;
  CHECK(same == Info(base("b").Queue("other").Label("x", "y").Created(At(9)))->equivalence);
  CHECK(same != Info(base("b").Request("cpu", "2"))->equivalence);
  CHECK(same != Info(base("b").Count(3))->equivalence);
  CHECK(same != Info(base("b").Priority(1))->equivalence);
  CHECK(same != Info(base("b").NodeSelector("zone", "a"))->equivalence);
  CHECK(same != Info(base("b").Tolerate("k", "v", "NoSchedule"))->equivalence);
  CHECK(same != Info(base("b").MinCount(1))->equivalence);
  CHECK(same != Info(base("b").Reclaimable("main", 1))->equivalence);
  CHECK(same != Info(base("b").RequiredAffinity({{{{"k", "In", {"v"}}}, {}}}))->equivalence);
  // What a slice replaces it needs not find.
  CHECK(same != Info(base("b").Annotation(api::kWorkloadSliceReplacementFor, "ns/a"))->equivalence);
  CHECK(Info(base("b").Annotation(api::kWorkloadSliceReplacementFor, "ns/a"))->equivalence !=
        Info(base("c").Annotation(api::kWorkloadSliceReplacementFor, "ns/b"))->equivalence);
  // Fields of nodes say where there is a place.
  CHECK(same !=
        Info(base("b").RequiredAffinity({{{}, {{"metadata.name", "In", {"n"}}}}}))->equivalence);
  // Planned maintenance leaves nodes to what ends before it.
  CHECK(same != Info(base("b").Annotation(kExpectedRuntime, "30m"))->equivalence);
  OrderOptions off;
  off.equivalence_hashing = false;
  CHECK(Info(base("a"), off)->equivalence != Info(base("b"), off)->equivalence);
}

}  // namespace
}  // namespace sluice::queueing
