#include "admission/backfill_places.h"

#include <algorithm>

namespace sluice::admission {

void BackfillPlaces::AddRunning(absl::Time end, const topology::Booking& booking) {
  if (inventory_.LeavesOf(booking).empty()) return;
  const auto place =
      std::upper_bound(running_.begin(), running_.end(), end,
                       [](absl::Time time, const Running& one) { return time < one.end; });
  running_.insert(place, {end, booking});
}

void BackfillPlaces::Reserve(const topology::WorkloadUsage& usage, absl::Time from,
                             absl::Time until) {
  reserved_.push_back({from, until, topology::Booking::Of(usage)});
}

std::vector<absl::Time> BackfillPlaces::Endings() const {
  std::vector<absl::Time> times;
  for (const Running& one : running_) {
    if (one.end == absl::InfiniteFuture()) break;
    if (times.empty() || times.back() != one.end) times.push_back(one.end);
  }
  return times;
}

BackfillPlaces::Look BackfillPlaces::LookAt(absl::Time from, absl::Time until) const {
  Look look = LookWithoutReservations(from);
  for (const Reserved& one : reserved_) {
    if (one.from < until && one.until > from) look->Add(one.booking);
  }
  return look;
}

BackfillPlaces::Look BackfillPlaces::LookWithoutReservations(absl::Time at) const {
  auto look = std::make_unique<topology::Overlay>(inventory_);
  for (const Running& one : running_) {
    if (one.end > at) break;
    look->Remove(one.booking);
  }
  return look;
}

}  // namespace sluice::admission
