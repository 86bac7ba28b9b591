// Records of what happened to a Workload between two versions of it: evictions and readiness.
//
// Contract: pure. Each returns nullopt when the later version does not show that it happened.
// Durations lie between the transition times of the conditions, which have whole seconds, where
// both ends are conditions; `now` stands in for a missing one.
#pragma once

#include <absl/time/time.h>

#include <optional>

#include "api/kueue_types.h"
#include "metrics/metrics.h"
#include "quota/credit_standing.h"

namespace sluice::metrics {

// PodsReady turned True with the reason Started; a recovery is not recorded.
std::optional<PodsReadyRecord> PodsReadyBetween(const api::Workload& before,
                                                const api::Workload& after,
                                                const QueueLabels& labels, absl::Time now);

// Evicted turned True while the Workload had an admission.
std::optional<EvictedRecord> EvictionBetween(const api::Workload& before,
                                             const api::Workload& after, const QueueLabels& labels,
                                             absl::Time now);

// It was preempted: the work since its last checkpoint (or its start) is lost, by the weights of
// the CreditPolicy that governs its ClusterQueue (null: none does).
std::optional<LostWorkRecord> LostWorkBetween(const api::Workload& before,
                                              const api::Workload& after, absl::Time now,
                                              const quota::CreditWeights* weights = nullptr);

// CheckpointRequested turned False.
std::optional<CheckpointRequestRecord> CheckpointRequestBetween(const api::Workload& before,
                                                                const api::Workload& after);

// The quota of an evicted Workload is free again. Not for a deactivated one, which gave its quota
// back the moment it was deactivated.
std::optional<EvictionCompletedRecord> EvictionCompletedBetween(const api::Workload& before,
                                                                const api::Workload& after,
                                                                absl::Time now);

}  // namespace sluice::metrics
