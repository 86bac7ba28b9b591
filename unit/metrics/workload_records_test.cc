#include "metrics/workload_records.h"

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::metrics {
namespace {

using build::At;

const QueueLabels kLabels = {"cq", ObjectKey{"ns", "lq"}, ""};

build::Workload Admitted(double since) {
  build::Workload workload("w");
  workload.Request("cpu", "1").Admitted("cq", "f", At(since));
  return workload;
}
api::Workload Ready(double since, double ready, const char* reason = "Started") {
  return Admitted(since).Condition(api::kPodsReady, api::ConditionStatus::kTrue, reason, At(ready));
}

TEST_CASE("the time to readiness is that of the first start after an admission") {
  const auto record = PodsReadyBetween(Admitted(33), Ready(33, 50), kLabels, At(51));
  REQUIRE(record);
  CHECK(record->queue.cluster_queue == "cq");
  CHECK(record->since_queued == absl::Seconds(50));
  CHECK(record->since_admitted == absl::Seconds(17));
  CHECK_FALSE(PodsReadyBetween(Ready(33, 50), Ready(33, 50), kLabels, At(52)));
  CHECK_FALSE(PodsReadyBetween(Admitted(33), Ready(33, 50, "Recovered"), kLabels, At(52)));
  build::Workload requeued = Admitted(130);
  requeued.Requeued(true, "BackoffFinished", At(104));
  build::Workload started = requeued;
  started.Condition(api::kPodsReady, api::ConditionStatus::kTrue, "Started", At(150));
  CHECK(PodsReadyBetween(requeued, started, kLabels, At(151))->since_queued == absl::Seconds(46));
}

TEST_CASE("an eviction has its cause, and is the first of its kind once") {
  const auto evict = [](api::Workload workload, const char* reason, const char* cause, double at) {
    admission::SetEvicted(workload, reason, cause, "because", At(at));
    return workload;
  };
  const api::Workload before = Ready(10, 50);
  const auto preempted =
      EvictionBetween(before, evict(before, "Preempted", "", 100), kLabels, At(101));
  REQUIRE(preempted);
  CHECK(preempted->reason == "Preempted");
  CHECK(preempted->underlying_cause.empty());
  CHECK(preempted->first);
  CHECK(preempted->since_pods_ready == absl::Seconds(50));

  const api::Workload waiting = Admitted(10);
  const api::Workload late =
      evict(waiting, admission::kEvictedPodsReadyTimeout, admission::kWaitForStart, 100);
  const auto timeout = EvictionBetween(waiting, late, kLabels, At(101));
  REQUIRE(timeout);
  CHECK(timeout->reason == "PodsReadyTimeout");
  CHECK(timeout->underlying_cause == "WaitForStart");
  CHECK_FALSE(timeout->since_pods_ready);
  CHECK_FALSE(EvictionBetween(late, late, kLabels, At(102)));

  // The second of the same kind, and the first for another cause.
  api::Workload again = late;
  api::RemoveCondition(again.status.conditions, api::kEvicted);
  const auto second = EvictionBetween(
      again, evict(again, "PodsReadyTimeout", admission::kWaitForStart, 200), kLabels, At(201));
  CHECK_FALSE(second->first);
  const auto recovery = EvictionBetween(
      again, evict(again, "PodsReadyTimeout", admission::kWaitForRecovery, 200), kLabels, At(201));
  CHECK(recovery->first);
  CHECK(recovery->underlying_cause == "WaitForRecovery");
  const auto limit = EvictionBetween(
      again, evict(again, "Deactivated", "RequeuingLimitExceeded", 200), kLabels, At(201));
  CHECK(limit->reason == "Deactivated");
  CHECK(limit->underlying_cause == "RequeuingLimitExceeded");
  // What held no quota was not evicted from anything.
  const api::Workload pending = build::Workload("w").Request("cpu", "1");
  CHECK_FALSE(EvictionBetween(pending, evict(pending, "Deactivated", "", 1), kLabels, At(1)));
}

TEST_CASE("an eviction ends when the quota is free, but not for a deactivated Workload") {
  api::Workload evicted = Ready(10, 50);
  admission::SetEvicted(evicted, "Preempted", "", "because", At(100));
  api::Workload released = evicted;
  REQUIRE(admission::ReleaseQuota(released, At(104)));
  const auto record = EvictionCompletedBetween(evicted, released, At(104));
  REQUIRE(record);
  CHECK(record->cluster_queue == "cq");
  CHECK(record->reason == "Preempted");
  CHECK(record->latency == absl::Seconds(4));
  CHECK_FALSE(EvictionCompletedBetween(released, released, At(105)));
  api::Workload inactive = released;
  inactive.spec.active = false;
  CHECK_FALSE(EvictionCompletedBetween(evicted, inactive, At(104)));
}

TEST_CASE("a preemption loses the work since the last checkpoint") {
  const auto preempt = [](api::Workload workload) {
    admission::SetPreempted(workload, "InClusterQueue", "because", At(1000));
    return workload;
  };
  api::Workload before = Admitted(10);
  auto lost = LostWorkBetween(before, preempt(before), At(1000));
  REQUIRE(lost);
  CHECK(lost->cluster_queue == "cq");
  CHECK(lost->resource_seconds == 990);
  before.metadata.annotations = {{"sluice.dev/checkpoint-interval", "100s"},
                                 {"sluice.dev/restart-cost", "5s"}};
  lost = LostWorkBetween(before, preempt(before), At(1000));
  CHECK(lost->resource_seconds == 95);
  CHECK_FALSE(LostWorkBetween(preempt(before), preempt(before), At(1001)));
  CHECK_FALSE(LostWorkBetween(before, before, At(1000)));
  const quota::CreditWeights weights({{"cpu", *Quantity::Parse("2500m")}});
  lost = LostWorkBetween(before, preempt(before), At(1000), &weights);
  CHECK(lost->resource_seconds == 237);
}

TEST_CASE("a request for a checkpoint ends once, in one of three ways") {
  using Result = CheckpointRequestRecord::Result;
  const auto with = [](api::ConditionStatus status, const char* reason) {
    api::Workload workload = Admitted(10);
    admission::SetWorkloadCondition(workload, "CheckpointRequested", status, reason, "", At(50));
    return workload;
  };
  const api::Workload open = with(api::ConditionStatus::kTrue, "InClusterQueue");
  const auto ended = [&](const char* reason) {
    return CheckpointRequestBetween(open, with(api::ConditionStatus::kFalse, reason));
  };
  CHECK(ended("Answered")->result == Result::kAnswered);
  CHECK(ended("Answered")->cluster_queue == "cq");
  CHECK(ended("TimedOut")->result == Result::kTimedOut);
  CHECK(ended("Withdrawn")->result == Result::kWithdrawn);
  CHECK_FALSE(ended("Deactivated"));
  CHECK_FALSE(CheckpointRequestBetween(open, open));
  CHECK_FALSE(CheckpointRequestBetween(Admitted(10), open));
}

}  // namespace
}  // namespace sluice::metrics
