#include "metrics/workload_records.h"

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "admission/pods_ready.h"
#include "api/names.h"

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

}  // namespace sluice::metrics
