#include "metrics/workload_records.h"

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "admission/pods_ready.h"
#include "api/names.h"
#include "preemption/checkpoint.h"
#include "queueing/requests.h"

namespace sluice::metrics {
namespace {

bool Is(const api::Workload& workload, const char* type) {
  return api::IsTrue(workload.status.conditions, type);
}

bool Turned(const api::Workload& before, const api::Workload& after, const char* type) {
  return !Is(before, type) && Is(after, type);
}

absl::Time Since(const api::Workload& workload, const char* type, absl::Time fallback) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  return condition == nullptr ? fallback : condition->last_transition_time.value_or(fallback);
}

}  // namespace

std::optional<PodsReadyRecord> PodsReadyBetween(const api::Workload& before,
                                                const api::Workload& after,
                                                const QueueLabels& labels, absl::Time now) {
  if (!Turned(before, after, api::kPodsReady)) return std::nullopt;
  const api::Condition* ready = api::FindCondition(after.status.conditions, api::kPodsReady);
  if (ready->reason != admission::kPodsStarted) return std::nullopt;
  const absl::Time at = ready->last_transition_time.value_or(now);
  return PodsReadyRecord{labels, at - admission::QueuedSince(after),
                         at - Since(after, api::kAdmitted, at)};
}

std::optional<EvictedRecord> EvictionBetween(const api::Workload& before,
                                             const api::Workload& after, const QueueLabels& labels,
                                             absl::Time now) {
  if (!Turned(before, after, api::kEvicted) || !after.status.admission) return std::nullopt;
  EvictedRecord record;
  record.queue = labels;
  if (const std::optional<api::EvictionStat> counted = admission::NewEviction(before, after)) {
    record.reason = counted->reason;
    record.underlying_cause = counted->underlying_cause;
    record.first = counted->count == 1;
  } else {  // evicted by somebody who keeps no statistics
    record.reason = api::FindCondition(after.status.conditions, api::kEvicted)->reason;
  }
  if (Is(before, api::kPodsReady)) {
    record.since_pods_ready =
        Since(after, api::kEvicted, now) - Since(before, api::kPodsReady, now);
  }
  return record;
}

std::optional<EvictionCompletedRecord> EvictionCompletedBetween(const api::Workload& before,
                                                                const api::Workload& after,
                                                                absl::Time now) {
  if (!Is(before, api::kQuotaReserved) || Is(after, api::kQuotaReserved) ||
      !Is(after, api::kEvicted) || !before.status.admission || !after.spec.active.value_or(true)) {
    return std::nullopt;
  }
  const api::Condition* evicted = api::FindCondition(after.status.conditions, api::kEvicted);
  return EvictionCompletedRecord{before.status.admission->cluster_queue, evicted->reason,
                                 now - evicted->last_transition_time.value_or(now)};
}

std::optional<LostWorkRecord> LostWorkBetween(const api::Workload& before,
                                              const api::Workload& after, absl::Time now,
                                              const quota::CreditWeights* weights) {
  const auto preempted = [](const api::Workload& workload) {
    return api::IsTrue(workload.status.conditions, api::kPreempted);
  };
  if (preempted(before) || !preempted(after) || !before.status.admission) return std::nullopt;
  const auto checkpoints = preemption::CheckpointsOf(before);
  const absl::Duration lost =
      preemption::LostTime(checkpoints ? &*checkpoints : nullptr, preemption::StartOf(before), now);
  const int64_t held = preemption::WeightedMillis(queueing::AdmittedUsage(before), weights);
  return LostWorkRecord{before.status.admission->cluster_queue,
                        preemption::ResourceSeconds(preemption::LostWorkOf(lost, held))};
}

std::optional<CheckpointRequestRecord> CheckpointRequestBetween(const api::Workload& before,
                                                                const api::Workload& after) {
  using Result = CheckpointRequestRecord::Result;
  if (!api::IsTrue(before.status.conditions, preemption::kCheckpointRequested)) return std::nullopt;
  const api::Condition* ended =
      api::FindCondition(after.status.conditions, preemption::kCheckpointRequested);
  if (ended == nullptr || ended->status != api::ConditionStatus::kFalse) return std::nullopt;
  CheckpointRequestRecord record;
  if (before.status.admission) record.cluster_queue = before.status.admission->cluster_queue;
  if (ended->reason == preemption::kAnswered) return record;
  record.result = Result::kTimedOut;
  if (ended->reason == preemption::kTimedOut) return record;
  record.result = Result::kWithdrawn;
  if (ended->reason == preemption::kWithdrawn) return record;
  return std::nullopt;  // it was evicted for another reason meanwhile
}

}  // namespace sluice::metrics
