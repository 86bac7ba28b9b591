#include "admission/backfill_places.h"

#include <algorithm>
#include <utility>

namespace sluice::admission {

using topology::LeafUsage;

void BackfillPlaces::AddRunning(absl::Time end, const topology::Booking& booking) {
  Restore();
  const std::vector<LeafUsage>& leaves = inventory_.LeavesOf(booking);
  if (leaves.empty()) return;
  sorted_ = sorted_ && (running_.empty() || running_.back().end <= end);
  running_.push_back({end, &leaves});
}

void BackfillPlaces::Reserve(std::vector<LeafUsage> taken, absl::Time from, absl::Time until) {
  reserved_.push_back({from, until, std::move(taken)});
}

void BackfillPlaces::Sort() {
  if (std::exchange(sorted_, true)) return;
  std::stable_sort(running_.begin(), running_.end(),
                   [](const Running& a, const Running& b) { return a.end < b.end; });
}

std::vector<absl::Time> BackfillPlaces::Endings() {
  Sort();
  std::vector<absl::Time> times;
  for (const Running& one : running_) {
    if (one.end == absl::InfiniteFuture()) break;
    if (times.empty() || times.back() != one.end) times.push_back(one.end);
  }
  return times;
}

void BackfillPlaces::Apply(const std::vector<LeafUsage>& leaves, int64_t sign) {
  // What is known of a leaf is all over the memory.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (i + 2 * kAhead < leaves.size()) __builtin_prefetch(leaves[i + 2 * kAhead].record);
    if (i + kAhead < leaves.size()) {
      const topology::UsageRecord& next = *leaves[i + kAhead].record;
      __builtin_prefetch(next.used.data());
      __builtin_prefetch(next.views.data());
    }
    topology::Inventory::Apply(leaves[i], sign);
  }
  changes_ += leaves.size();
}

void BackfillPlaces::Show(absl::Time from, absl::Time until) {
  Sort();
  shown_at_ = from;
  while (ended_ < running_.size() && running_[ended_].end <= from) {
    Apply(*running_[ended_++].leaves, -1);
  }
  while (ended_ > 0 && running_[ended_ - 1].end > from) Apply(*running_[--ended_].leaves, 1);
  for (Reserved& one : reserved_) {
    const bool holds = one.from < until && one.until > from;
    if (holds != one.shown) Apply(one.leaves, holds ? 1 : -1);
    one.shown = holds;
  }
}

void BackfillPlaces::Restore() {
  shown_at_ = absl::InfinitePast();
  while (ended_ > 0) Apply(*running_[--ended_].leaves, 1);
  for (Reserved& one : reserved_) {
    if (std::exchange(one.shown, false)) Apply(one.leaves, -1);
  }
}

}  // namespace sluice::admission
