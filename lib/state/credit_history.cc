#include "state/credit_history.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/credit_types.h"
#include "api/names.h"
#include "base/time.h"
#include "queueing/requests.h"
#include "queueing/workload_info.h"
#include "quota/credit_timeline.h"

namespace sluice::state {
namespace {

using Parts = std::vector<std::string>;

std::optional<absl::Time> TransitionOf(const api::Workload& workload, const char* type,
                                       api::ConditionStatus status) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  if (condition == nullptr || condition->status != status) return std::nullopt;
  return condition->last_transition_time;
}

// Slashes separate the parts of an entry, and names of resources have one.
std::string WithoutSlash(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

std::optional<Reservation> ParseOne(const std::string& text) {
  const Parts parts = absl::StrSplit(text, '/');
  if (parts.size() != 4) return std::nullopt;
  Reservation reservation;
  const auto from = ParseTime(parts[0]);
  if (!from.ok()) return std::nullopt;
  reservation.from = *from;
  if (!parts[1].empty()) {
    const auto to = ParseTime(parts[1]);
    if (!to.ok()) return std::nullopt;
    reservation.to = *to;
  }
  reservation.cluster_queue = parts[2];
  for (const std::string& amount : Parts(absl::StrSplit(parts[3], ',', absl::SkipEmpty()))) {
    const size_t equals = amount.find('=');
    int64_t value = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(amount.substr(equals + 1), &value) ||
        value < 0) {
      return std::nullopt;
    }
    reservation.amounts[WithoutSlash(amount.substr(0, equals), '|', '/')] = value;
  }
  return reservation;
}

}  // namespace

std::string FormatMilliTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string FormatReservations(const std::vector<Reservation>& reservations) {
  std::string text;
  for (const Reservation& one : reservations) {
    std::string amounts;
    for (const auto& [resource, amount] : one.amounts) {
      amounts += fmt::format("{}{}={}", amounts.empty() ? "" : ",",
                             WithoutSlash(resource, '/', '|'), amount);
    }
    text +=
        fmt::format("{}{}/{}/{}/{}", text.empty() ? "" : ";", FormatMilliTime(one.from),
                    one.to.has_value() ? FormatMilliTime(*one.to) : "", one.cluster_queue, amounts);
  }
  return text;
}

std::vector<Reservation> ParseReservations(const std::string& text) {
  std::vector<Reservation> reservations;
  for (const std::string& part : Parts(absl::StrSplit(text, ';', absl::SkipEmpty()))) {
    if (auto one = ParseOne(part)) reservations.push_back(*std::move(one));
  }
  return reservations;
}

absl::Time ReservedSince(const api::Workload& workload) {
  const auto shown = TransitionOf(workload, api::kQuotaReserved, api::ConditionStatus::kTrue);
  const auto exact = ParseTime(workload.metadata.Annotation(api::kReservedAt));
  if (!shown.has_value()) return exact.ok() ? *exact : absl::UnixEpoch();
  // The annotation of an earlier reservation, or of one that did not come about, says nothing.
  if (exact.ok() && quota::FloorSecond(*exact) == quota::FloorSecond(*shown)) return *exact;
  return quota::FloorMilli(*shown);
}

std::optional<absl::Time> ReleasedAt(const api::Workload& workload) {
  if (const auto finished = TransitionOf(workload, api::kFinished, api::ConditionStatus::kTrue)) {
    return finished;
  }
  return TransitionOf(workload, api::kQuotaReserved, api::ConditionStatus::kFalse);
}

std::vector<Reservation> PastReservations(const api::Workload& workload, bool reclaimable_pods) {
  std::vector<Reservation> past =
      ParseReservations(workload.metadata.Annotation(api::kReservations));
  const bool holds = queueing::HoldsQuota(workload);
  const absl::Time since = ReservedSince(workload);
  // The last entry is the current one where that came about.
  if (!past.empty() && !past.back().to.has_value()) {
    Reservation& last = past.back();
    const std::optional<absl::Time> released = ReleasedAt(workload);
    if (holds || !released.has_value()) {
      past.pop_back();
    } else {
      last.to = std::max(last.from, *released);
    }
    return past;
  }
  if (holds || !api::IsTrue(workload.status.conditions, api::kFinished) ||
      !workload.status.admission) {
    return past;
  }
  Reservation last;
  last.from = since;
  last.to = std::max(since, ReleasedAt(workload).value_or(since));
  last.cluster_queue = workload.status.admission->cluster_queue;
  for (const auto& [cell, amount] : queueing::AdmittedUsage(workload, reclaimable_pods)) {
    last.amounts[cell.resource] = SaturatingAdd(last.amounts[cell.resource], amount);
  }
  past.push_back(std::move(last));
  return past;
}

}  // namespace sluice::state
