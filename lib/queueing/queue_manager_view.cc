// What QueueManager answers without changing.
#include <algorithm>

#include "base/check.h"
#include "queueing/queue_manager_state.h"

namespace sluice::queueing {

int ScanProgress::PositionOf(size_t pod_set, const ResourceName& resource) const {
  if (pod_set >= pod_sets.size()) return -1;
  for (const auto& [name, position] : pod_sets[pod_set]) {
    if (name == resource) return position;
  }
  return -1;
}

bool ScanProgress::HasUntriedFlavors() const {
  return std::any_of(pod_sets.begin(), pod_sets.end(), [](const Positions& positions) {
    return std::any_of(positions.begin(), positions.end(),
                       [](const auto& entry) { return entry.second >= 0; });
  });
}

std::optional<absl::Time> QueueManager::NextDue() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

bool QueueManager::IsPreemptor(const ObjectKey& key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  const Entry& entry = *found->second;
  return entry.queue->preemptor == &entry &&
         entry.queue->preemptor_generation == entry.info->workload->metadata.generation;
}

std::optional<ScanProgress> QueueManager::ProgressOf(const ObjectKey& key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second->progress;
}

PendingCounts QueueManager::Pending(const std::string& cluster_queue) const {
  const Queue* queue = FindQueue(cluster_queue);
  if (queue == nullptr) return {};
  if (!queue->Serves()) return {.active = 0, .inadmissible = queue->counts.Total()};
  return queue->counts;
}

PendingCounts QueueManager::PendingOfLocalQueue(const ObjectKey& local_queue) const {
  auto found = local_.find(local_queue);
  if (found == local_.end()) return {};
  const Queue* queue = FindQueue(found->second.cluster_queue);
  const PendingCounts& counts = found->second.counts;
  if (queue == nullptr || !queue->Serves()) return {.active = 0, .inadmissible = counts.Total()};
  return counts;
}

Place QueueManager::PlaceOf(const ObjectKey& key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return Place::kNone;
  const Entry& entry = *found->second;
  if (entry.place == Place::kActive && entry.group->blocked) return Place::kParked;
  return entry.place;
}

WorkloadInfoPtr QueueManager::Find(const ObjectKey& key) const {
  auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second->info;
}

std::optional<std::string> QueueManager::BypassReason(const ObjectKey& key) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = *found->second;
  if (entry.place != Place::kActive || !entry.group->blocked || entry.evaluated) {
    return std::nullopt;
  }
  return entry.group->block_reason;
}

std::vector<PendingWorkload> QueueManager::Snapshot(const std::string& cluster_queue) const {
  std::vector<PendingWorkload> result;
  const Queue* queue = FindQueue(cluster_queue);
  if (queue == nullptr) return result;
  result.reserve(static_cast<size_t>(queue->counts.Total()));
  for (const auto& [equivalence, group] : queue->groups) {
    const Place place = group->blocked ? Place::kParked : Place::kActive;
    for (const Entry* entry : group->members) result.push_back({entry->info, place});
  }
  for (const auto& [key, entry] : queue->parked) result.push_back({entry->info, Place::kParked});
  for (const auto& [key, entry] : queue->in_flight) {
    result.push_back({entry->info, Place::kInFlight});
  }
  const Entry* sticky_entry = queue->Sticky();
  const WorkloadInfo* sticky = sticky_entry == nullptr ? nullptr : sticky_entry->info.get();
  std::sort(result.begin(), result.end(), [&](const auto& a, const auto& b) {
    if ((a.info.get() == sticky) != (b.info.get() == sticky)) return a.info.get() == sticky;
    return OrderedBefore(*a.info, *b.info);
  });
  return result;
}

int64_t QueueManager::size() const { return static_cast<int64_t>(entries_.size()); }

void QueueManager::CheckInvariants() const {
  int64_t total = 0;
  for (const auto& [name, queue] : queues_) {
    PendingCounts counts;
    counts.inadmissible = static_cast<int64_t>(queue->parked.size());
    counts.active = static_cast<int64_t>(queue->in_flight.size());
    for (const auto& [equivalence, group] : queue->groups) {
      const auto members = static_cast<int64_t>(group->members.size());
      (group->blocked ? counts.inadmissible : counts.active) += members;
      SLUICE_CHECK(group->blocked == queue->blocked.contains(equivalence), "{}", name);
      SLUICE_CHECK(group->blocked || members > 0, "empty group in {}", name);
      // The order compares first members, so only groups that have some can be looked up.
      if (!group->blocked) SLUICE_CHECK(queue->order.contains(group.get()), "{}", name);
      int64_t local = 0;
      for (const auto& [key, count] : group->per_local_queue) local += count;
      SLUICE_CHECK(local == members, "{}", name);
    }
    SLUICE_CHECK(queue->order.size() + queue->blocked.size() == queue->groups.size(), "{}", name);
    SLUICE_CHECK(counts == queue->counts, "{}: {}+{}, counted {}+{}", name, queue->counts.active,
                 queue->counts.inadmissible, counts.active, counts.inadmissible);
    const Entry* top = queue->Serves() ? Top(*queue) : nullptr;
    const bool ready = top != nullptr && top != queue->waiting;
    SLUICE_CHECK(ready == ready_.contains(name), "{}", name);
    total += counts.Total();
  }
  SLUICE_CHECK(total == size(), "{} in queues, {} known", total, size());
  int64_t local_total = 0;
  for (const auto& [key, local] : local_) local_total += local.counts.Total();
  SLUICE_CHECK(local_total == size(), "{} in local queues, {} known", local_total, size());
}

}  // namespace sluice::queueing
