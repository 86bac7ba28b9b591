#include "admission/reservation.h"

#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "base/time.h"

namespace sluice::admission {
namespace {

constexpr char kTimeMark[] = "The earliest start is ";

// The time did not move by enough to be told again.
bool Near(absl::Time shown, absl::Time at, absl::Time now) {
  const absl::Duration off = at > shown ? at - shown : shown - at;
  return off <= std::max(absl::Seconds(10), (shown - now) / 20);
}

}  // namespace

std::optional<absl::Time> ReservedTime(const api::Workload& workload) {
  const api::Condition* condition =
      api::FindCondition(workload.status.conditions, kReservedCondition);
  if (condition == nullptr || condition->status != api::ConditionStatus::kTrue) {
    return std::nullopt;
  }
  if (!condition->message.starts_with(kTimeMark)) return std::nullopt;
  const size_t begin = sizeof(kTimeMark) - 1;
  const size_t end = condition->message.find(' ', begin);
  const auto time = ParseTime(condition->message.substr(begin, end - begin));
  if (!time.ok()) return std::nullopt;
  return *time;
}

bool ShowsReservation(const api::Workload& workload) {
  const api::Condition* condition =
      api::FindCondition(workload.status.conditions, kReservedCondition);
  return condition != nullptr && condition->status != api::ConditionStatus::kFalse;
}

bool SetReserved(api::Workload& workload, const Reservation& reservation, absl::Time now) {
  if (!reservation.at) {
    return SetWorkloadCondition(
        workload, kReservedCondition, api::ConditionStatus::kUnknown, kNoBound,
        fmt::format("The start in ClusterQueue {} is not known: workloads without a bound hold "
                    "what it needs",
                    reservation.cluster_queue),
        now);
  }
  if (const auto shown = ReservedTime(workload); shown && Near(*shown, *reservation.at, now)) {
    return false;
  }
  return SetWorkloadCondition(
      workload, kReservedCondition, api::ConditionStatus::kTrue, kEarliestStart,
      fmt::format("{}{} in ClusterQueue {}, by the bounds of what runs; nothing that starts out of "
                  "order delays it",
                  kTimeMark, sluice::FormatTime(*reservation.at), reservation.cluster_queue),
      now);
}

bool ClearReserved(api::Workload& workload, const std::string& reason, const std::string& message,
                   absl::Time now) {
  if (!ShowsReservation(workload)) return false;
  return SetWorkloadCondition(workload, kReservedCondition, api::ConditionStatus::kFalse, reason,
                              message, now);
}

}  // namespace sluice::admission
