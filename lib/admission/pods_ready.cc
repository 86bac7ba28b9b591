#include "admission/pods_ready.h"

#include <algorithm>
#include <limits>

#include "api/names.h"

namespace sluice::admission {
namespace {

using api::ConditionStatus;

constexpr char kOldWaitForStart[] = "PodsReady";  // written by releases of long ago
// Longer waits make no difference to anybody, and an instant in the API has a year of four digits.
constexpr absl::Duration kLongestDelay = absl::Seconds(std::numeric_limits<int32_t>::max());

// FNV-1a with a final mix, so that neighbouring attempts differ in all digits.
uint64_t Hash(const std::string& uid, int32_t attempt) {
  uint64_t hash = 14695981039346656037ULL;
  const auto absorb = [&hash](uint8_t byte) { hash = (hash ^ byte) * 1099511628211ULL; };
  for (const char c : uid) absorb(static_cast<uint8_t>(c));
  for (int shift = 0; shift < 32; shift += 8) {
    absorb(static_cast<uint8_t>(static_cast<uint32_t>(attempt) >> shift));
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

}  // namespace

api::Condition PodsReadyCondition(const api::Workload& workload, bool all_ready) {
  const api::Condition* old = api::FindCondition(workload.status.conditions, api::kPodsReady);
  const std::string reason = old == nullptr ? "" : old->reason;
  api::Condition next;
  next.type = api::kPodsReady;
  next.status = ConditionStatus::kFalse;
  next.reason = kWaitForStart;
  next.message = kWaitForStartMessage;
  if (!api::IsTrue(workload.status.conditions, api::kAdmitted)) return next;
  if (all_ready) {
    const bool again = reason == kWaitForRecovery || reason == kPodsRecovered;
    next.status = ConditionStatus::kTrue;
    next.reason = again ? kPodsRecovered : kPodsStarted;
    next.message = "All pods reached readiness and the workload is running";
  } else if (old != nullptr &&
             (old->status == ConditionStatus::kTrue || reason == kWaitForRecovery)) {
    next.reason = kWaitForRecovery;
    next.message = "At least one pod has failed, waiting for recovery";
  }
  return next;
}

std::optional<PodsReadyDeadline> PodsReadyDeadlineOf(const api::Workload& workload,
                                                     const PodsReadyTimeouts& timeouts) {
  const api::Conditions& conditions = workload.status.conditions;
  const api::Condition* admitted = api::FindCondition(conditions, api::kAdmitted);
  const bool watched = admitted != nullptr && admitted->status == ConditionStatus::kTrue &&
                       workload.spec.active.value_or(true) &&
                       !api::IsTrue(conditions, api::kEvicted) &&
                       !api::IsTrue(conditions, api::kPodsReady);
  if (!watched) return std::nullopt;
  const api::Condition* ready = api::FindCondition(conditions, api::kPodsReady);
  if (ready == nullptr || ready->reason == kWaitForStart || ready->reason == kOldWaitForStart) {
    const absl::Time since = admitted->last_transition_time.value_or(absl::UnixEpoch());
    return PodsReadyDeadline{since + timeouts.start, kWaitForStart};
  }
  if (ready->reason != kWaitForRecovery || timeouts.recovery <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  const absl::Time since = ready->last_transition_time.value_or(absl::UnixEpoch());
  return PodsReadyDeadline{since + timeouts.recovery, kWaitForRecovery};
}

absl::Duration RequeueDelay(const RequeueBackoff& backoff, int32_t attempt,
                            const std::string& uid) {
  const absl::Duration limit = backoff.max_seconds == 0
                                   ? kLongestDelay
                                   : std::min(absl::Seconds(backoff.max_seconds), kLongestDelay);
  absl::Duration delay = absl::Seconds(backoff.base_seconds);
  for (int32_t n = 1; n < attempt && delay > absl::ZeroDuration(); ++n) {
    delay = std::min(delay * 2, limit);
    if (delay == limit) break;
  }
  // 0 to 9999 parts of ten thousand times ten thousand.
  const auto jitter = static_cast<int64_t>(Hash(uid, attempt) % 10000);
  return delay + delay / 10000 * jitter / 10000;
}

api::RequeueState NextRequeueState(const api::Workload& workload, const RequeueBackoff& backoff,
                                   absl::Time now) {
  api::RequeueState state;
  if (workload.status.requeue_state) state = *workload.status.requeue_state;
  const int32_t count = state.count.value_or(0);
  state.count = count == std::numeric_limits<int32_t>::max() ? count : count + 1;
  const absl::Time at = absl::FromUnixSeconds(
      absl::ToUnixSeconds(now + RequeueDelay(backoff, *state.count, workload.metadata.uid)));
  if (!state.requeue_at || at > *state.requeue_at) state.requeue_at = at;
  return state;
}

}  // namespace sluice::admission
