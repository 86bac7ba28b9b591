// waitForPodsReady as rules: the PodsReady condition, how long pods may take to become ready, and
// how long a Workload whose pods did not waits before it is tried again.
//
// An admitted Workload has so much time from its admission until all pods are ready for the first
// time, and then, whenever a pod fails, so much time from that moment until all are ready again.
// When the time is over it is evicted and waits; each further time it waits longer.
//
// Contract: pure. Where others draw a random jitter, this one follows from the Workload's UID and
// the number of the attempt: the same in each process, different from Workload to Workload.
// Source: Kueue documentation, "Setup All-or-nothing with ready Pods", and KEP 1282.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>

#include "api/kueue_types.h"

namespace sluice::admission {

// Reasons of the condition PodsReady; those of False are also the causes of an eviction.
inline constexpr char kWaitForStart[] = "WaitForStart";
inline constexpr char kWaitForRecovery[] = "WaitForRecovery";
inline constexpr char kPodsStarted[] = "Started";
inline constexpr char kPodsRecovered[] = "Recovered";
inline constexpr char kWaitForStartMessage[] = "Not all pods are ready or succeeded";

// The condition as it should be (without time and generation) when all pods are, or are not, ready
// or succeeded. What it says depends on the admission and on the condition before.
api::Condition PodsReadyCondition(const api::Workload& workload, bool all_ready);

struct PodsReadyTimeouts {
  absl::Duration start;     // from Admitted=True
  absl::Duration recovery;  // from PodsReady=False after it was True; zero: not watched
};
struct PodsReadyDeadline {
  absl::Time due;
  std::string cause;  // kWaitForStart or kWaitForRecovery
};
// When the Workload is evicted unless its pods become ready; nullopt when it never is: not
// admitted, inactive, evicted already, ready, or its recovery is not watched.
std::optional<PodsReadyDeadline> PodsReadyDeadlineOf(const api::Workload& workload,
                                                     const PodsReadyTimeouts& timeouts);

struct RequeueBackoff {
  int32_t base_seconds = 60;
  int32_t max_seconds = 3600;  // 0: no limit
};
// How long to wait after the timeout number `attempt` (from 1): the base, then twice as long each
// time up to the maximum, and at most 0.01 percent more. The first wait is the base even where that
// is above the maximum.
absl::Duration RequeueDelay(const RequeueBackoff& backoff, int32_t attempt, const std::string& uid);
// status.requeueState after one more timeout: count + 1, and requeueAt in whole seconds where that
// is later than the one before.
api::RequeueState NextRequeueState(const api::Workload& workload, const RequeueBackoff& backoff,
                                   absl::Time now);

}  // namespace sluice::admission
