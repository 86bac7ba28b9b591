#include "admission/rivals.h"

#include <algorithm>

namespace sluice::admission {
namespace {

using Rival = Explanation::Rival;

// So many of the entries are looked through, from the last one on: a cycle can have thousands of
// other trees.
constexpr size_t kMostLookedAt = 256;

bool Shares(const quota::CellAmounts& a, const quota::CellAmounts& b) {
  return std::any_of(a.begin(), a.end(), [&](const quota::CellAmount& one) {
    return std::any_of(b.begin(), b.end(),
                       [&](const quota::CellAmount& other) { return one.cell == other.cell; });
  });
}

// Who took most of the first resource comes first; among equals, who was decided about last.
void Sort(std::vector<Rival>& rivals) {
  std::stable_sort(rivals.begin(), rivals.end(), [](const Rival& a, const Rival& b) {
    const int64_t left = a.amounts.empty() ? 0 : a.amounts.front().amount;
    const int64_t right = b.amounts.empty() ? 0 : b.amounts.front().amount;
    return left > right;
  });
}

}  // namespace

void Rivals::Booked(const queueing::WorkloadInfoPtr& info, quota::Node& queue,
                    const quota::CellAmounts& amounts, bool waits) {
  bookings_.push_back({info, &queue, &queue.Root(), amounts, waits});
}

void Rivals::Preempts(const queueing::WorkloadInfoPtr& info,
                      const std::vector<preemption::Target>& targets) {
  for (const preemption::Target& target : targets) victims_.emplace_back(target, info);
}

Rival Rivals::RivalOf(const Booking& booking, const quota::CellAmounts& wanted) const {
  Rival rival;
  rival.workload = booking.info->Key().ToString();
  rival.cluster_queue = booking.info->cluster_queue;
  rival.waits = booking.waits;
  for (const quota::CellAmount& want : wanted) {
    for (const quota::CellAmount& took : booking.amounts) {
      if (took.cell != want.cell) continue;
      rival.amounts.push_back({tree_.CellOf(took.cell), took.amount});
    }
  }
  std::sort(rival.amounts.begin(), rival.amounts.end(),
            [](const auto& a, const auto& b) { return a.cell < b.cell; });
  return rival;
}

std::vector<Rival> Rivals::ForQuota(const quota::Node& queue, const quota::CellAmounts& wanted,
                                    const std::function<bool()>& fits) const {
  std::vector<Rival> rivals;
  std::vector<const Booking*> undone;
  const quota::Node& root = queue.Root();
  size_t looked_at = 0;
  for (auto it = bookings_.rbegin(); it != bookings_.rend(); ++it) {
    if (++looked_at > kMostLookedAt) break;
    if (it->root != &root || !Shares(it->amounts, wanted)) continue;
    rivals.push_back(RivalOf(*it, wanted));
    if (rivals.size() == most_) break;
    undone.push_back(&*it);
    quota::Tree::RemoveUsage(*it->queue, it->amounts);
    if (fits()) break;
  }
  for (const Booking* booking : undone) quota::Tree::AddUsage(*booking->queue, booking->amounts);
  Sort(rivals);
  return rivals;
}

std::vector<Rival> Rivals::ForPlaces(const quota::CellAmounts& wanted) const {
  std::vector<Rival> rivals;
  size_t looked_at = 0;
  for (auto it = bookings_.rbegin(); it != bookings_.rend() && rivals.size() < most_; ++it) {
    if (++looked_at > kMostLookedAt) break;
    if (!Shares(it->amounts, wanted)) continue;
    rivals.push_back(RivalOf(*it, wanted));
    rivals.back().places = true;
  }
  Sort(rivals);
  return rivals;
}

std::vector<Rival> Rivals::ForTargets(const Entry& entry) const {
  std::vector<preemption::Target> contested = entry.targets;
  if (entry.replaced != nullptr) contested.push_back({entry.replaced});
  std::vector<Rival> rivals;
  for (const auto& [victim, preemptor] : victims_) {
    if (!IsAmong(victim, contested)) continue;
    Rival rival;
    rival.workload = preemptor->Key().ToString();
    rival.cluster_queue = preemptor->cluster_queue;
    if (std::find(rivals.begin(), rivals.end(), rival) != rivals.end()) continue;
    rivals.push_back(std::move(rival));
    if (rivals.size() == most_) break;
  }
  return rivals;
}

}  // namespace sluice::admission
