// What a Workload tells about when it held quota, for the replay of credit accounts.
//
// Condition times have whole seconds. A Workload whose queue has an account carries the millisecond
// of its reservation in an annotation, and, in another one, the reservations that it had before
// which are not part of every checkpoint yet; the last entry there is the current or last one.
// Releases have the time of the condition that shows them. Pure.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "resource/resource.h"

namespace sluice::state {

struct Reservation {
  absl::Time from;
  std::optional<absl::Time> to;  // not known in an annotation while it is the last one
  std::string cluster_queue;
  Requests amounts;  // over all flavors
  bool operator==(const Reservation&) const = default;
};

// "2026-01-01T00:00:00.250Z", as the annotations have it.
std::string FormatMilliTime(absl::Time time);

// "from/to/queue/nvidia.com|gpu=8,cpu=4000;...", oldest first. What cannot be read is left out.
std::string FormatReservations(const std::vector<Reservation>& reservations);
std::vector<Reservation> ParseReservations(const std::string& text);

// When a Workload that holds quota got it.
absl::Time ReservedSince(const api::Workload& workload);
// When one that holds quota no more gave it back, if it says so.
std::optional<absl::Time> ReleasedAt(const api::Workload& workload);

// All reservations that it tells of, but not the one that it has now. Where it says nothing about a
// time that is over, but what it got is still shown, that is taken.
std::vector<Reservation> PastReservations(const api::Workload& workload, bool reclaimable_pods);

}  // namespace sluice::state
