#include "admission/backfill_places.h"

#include <algorithm>

namespace sluice::admission {

void BackfillPlaces::AddRunning(absl::Time end, const topology::WorkloadUsage& usage) {
  std::vector<topology::LeafUsage> resolved = inventory_.Resolve(usage);
  if (resolved.empty()) return;
  const auto place =
      std::upper_bound(running_.begin(), running_.end(), end,
                       [](absl::Time time, const Running& one) { return time < one.end; });
  running_.insert(place, {end, std::move(resolved)});
}

void BackfillPlaces::Reserve(const topology::WorkloadUsage& usage, absl::Time from,
                             absl::Time until) {
  std::vector<topology::LeafUsage> resolved = inventory_.Resolve(usage);
  if (!resolved.empty()) reserved_.push_back({from, until, std::move(resolved)});
}

std::vector<absl::Time> BackfillPlaces::Endings() const {
  std::vector<absl::Time> times;
  for (const Running& one : running_) {
    if (one.end == absl::InfiniteFuture()) break;
    if (times.empty() || times.back() != one.end) times.push_back(one.end);
  }
  return times;
}

void BackfillPlaces::Look::Apply(const std::vector<topology::LeafUsage>& usage, int64_t sign) {
  for (const topology::LeafUsage& leaf : usage) {
    topology::Inventory::Apply(leaf, sign);
    log_.emplace_back(&leaf, sign);
  }
}

BackfillPlaces::Look::~Look() {
  for (auto one = log_.rbegin(); one != log_.rend(); ++one) {
    topology::Inventory::Apply(*one->first, -one->second);
  }
}

BackfillPlaces::Look BackfillPlaces::LookAt(absl::Time from, absl::Time until) const {
  Look look;
  for (const Running& one : running_) {
    if (one.end > from) break;
    look.Apply(one.usage, -1);
  }
  for (const Reserved& one : reserved_) {
    if (one.from < until && one.until > from) look.Apply(one.usage, 1);
  }
  return look;
}

BackfillPlaces::Look BackfillPlaces::LookWithoutReservations(absl::Time at) const {
  Look look;
  for (const Running& one : running_) {
    if (one.end > at) break;
    look.Apply(one.usage, -1);
  }
  return look;
}

}  // namespace sluice::admission
