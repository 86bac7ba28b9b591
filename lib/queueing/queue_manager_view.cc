// What QueueManager answers without changing.
#include <algorithm>
#include <utility>

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
  std::optional<absl::Time> next;
  if (!due_.empty()) next = due_.begin()->first;
  if (!rechecks_.empty()) {
    next = std::min(next.value_or(absl::InfiniteFuture()), rechecks_.begin()->first);
  }
  return next;
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
  if (entry.place == Place::kActive && entry.group->of_class->blocked) return Place::kParked;
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
  if (entry.place != Place::kActive) return std::nullopt;
  const Class& of_class = *entry.group->of_class;
  if (!of_class.blocked || of_class.evaluated == &entry) return std::nullopt;
  return of_class.block_reason;
}

std::vector<PendingWorkload> QueueManager::Snapshot(const std::string& cluster_queue) const {
  const Queue* queue = FindQueue(cluster_queue);
  if (queue == nullptr) return {};
  struct Item {
    PendingWorkload pending;
    const UsageValue* usage = nullptr;
  };
  std::vector<Item> items;
  items.reserve(static_cast<size_t>(queue->counts.Total()));
  const auto add = [&](const Entry& entry, Place place) {
    items.push_back({{entry.info, place}, &UsageIn(*queue, entry.info->local_queue)});
  };
  for (const auto& [equivalence, of_class] : queue->classes) {
    const Place place = of_class->blocked ? Place::kParked : Place::kActive;
    for (const auto& [local_queue, group] : of_class->groups) {
      for (const Entry* entry : group->members) add(*entry, place);
    }
  }
  for (const auto& [key, entry] : queue->parked) add(*entry, Place::kParked);
  for (const auto& [key, entry] : queue->in_flight) add(*entry, Place::kInFlight);
  const Entry* sticky_entry = queue->Sticky();
  const WorkloadInfo* sticky = sticky_entry == nullptr ? nullptr : sticky_entry->info.get();
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    const WorkloadInfo& left = *a.pending.info;
    const WorkloadInfo& right = *b.pending.info;
    if (const auto order = *a.usage <=> *b.usage; order != 0) return order < 0;
    if ((&left == sticky) != (&right == sticky)) return &left == sticky;
    return OrderedBefore(left, right);
  });
  std::vector<PendingWorkload> result;
  result.reserve(items.size());
  for (Item& item : items) result.push_back(std::move(item.pending));
  return result;
}

// Lanes, groups of a lane and members of a group are sorted by their first workloads, so the next
// one of each is looked at only when the one before it was taken.
std::vector<WorkloadInfoPtr> QueueManager::First(const std::string& cluster_queue,
                                                 size_t count) const {
  std::vector<WorkloadInfoPtr> first;
  const Queue* queue = FindQueue(cluster_queue);
  if (queue == nullptr || !queue->Serves()) return first;
  struct Cursor {
    const Lane* lane;
    absl::btree_set<Group*, GroupLess>::const_iterator group;
    absl::btree_set<Entry*, EntryLess>::const_iterator member;
    bool opens = false;  // the groups behind it were not looked at yet
  };
  const Entry* sticky = queue->Sticky();
  const auto after = [&](const Cursor& a, const Cursor& b) {
    if (const auto order = a.lane->usage <=> b.lane->usage; order != 0) return order > 0;
    return OrderedBefore(*(*b.member)->info, *(*a.member)->info);
  };
  std::vector<Cursor> heap;
  const auto push = [&](const Lane* lane, absl::btree_set<Group*, GroupLess>::const_iterator group,
                        absl::btree_set<Entry*, EntryLess>::const_iterator member, bool opens) {
    heap.push_back({lane, group, member, opens});
    std::push_heap(heap.begin(), heap.end(), after);
  };
  if (sticky != nullptr && sticky->place == Place::kActive && !sticky->group->of_class->blocked) {
    first.push_back(sticky->info);
  }
  for (const Lane* lane : queue->order) {
    if (lane->order.empty()) continue;
    push(lane, lane->order.begin(), (*lane->order.begin())->members.begin(), true);
  }
  while (!heap.empty() && first.size() < count) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const Cursor at = heap.back();
    heap.pop_back();
    if (*at.member != sticky) first.push_back((*at.member)->info);
    const auto next = std::next(at.member);
    if (next != (*at.group)->members.end()) push(at.lane, at.group, next, false);
    const auto group = std::next(at.group);
    if (at.opens && group != at.lane->order.end()) {
      push(at.lane, group, (*group)->members.begin(), true);
    }
  }
  return first;
}

int64_t QueueManager::size() const { return static_cast<int64_t>(entries_.size()); }

void QueueManager::CheckInvariants() const {
  int64_t total = 0;
  for (const auto& [name, queue] : queues_) {
    CheckQueue(*queue);
    const Entry* top = queue->Serves() ? queue->Top() : nullptr;
    const bool ready = top != nullptr && top != queue->waiting;
    SLUICE_CHECK(ready == ready_.contains(name), "{}", name);
    total += queue->counts.Total();
  }
  SLUICE_CHECK(total == size(), "{} in queues, {} known", total, size());
  int64_t local_total = 0;
  for (const auto& [key, local] : local_) local_total += local.counts.Total();
  SLUICE_CHECK(local_total == size(), "{} in local queues, {} known", local_total, size());
}

void QueueManager::CheckQueue(const Queue& queue) const {
  const std::string& name = queue.name;
  PendingCounts counts;
  counts.inadmissible = static_cast<int64_t>(queue.parked.size());
  counts.active = static_cast<int64_t>(queue.in_flight.size());
  absl::btree_map<ObjectKey, int64_t> groups;  // by LocalQueue
  size_t free_groups = 0;
  for (const auto& [equivalence, of_class] : queue.classes) {
    SLUICE_CHECK(of_class->blocked == queue.blocked.contains(equivalence), "{}", name);
    SLUICE_CHECK(of_class->blocked || !of_class->groups.empty(), "empty class in {}", name);
    for (const auto& [local_queue, group] : of_class->groups) {
      const auto members = static_cast<int64_t>(group->members.size());
      SLUICE_CHECK(members > 0, "empty group in {}", name);
      (of_class->blocked ? counts.inadmissible : counts.active) += members;
      ++groups[local_queue];
      if (of_class->blocked) continue;
      ++free_groups;
      SLUICE_CHECK(group->lane->order.contains(group.get()), "{}", name);
    }
  }
  SLUICE_CHECK(counts == queue.counts, "{}: {}+{}, counted {}+{}", name, queue.counts.active,
               queue.counts.inadmissible, counts.active, counts.inadmissible);
  SLUICE_CHECK(groups.size() == queue.lanes.size(), "{}", name);
  size_t in_order = 0;
  size_t tops = 0;
  for (const auto& [local_queue, lane] : queue.lanes) {
    SLUICE_CHECK(groups[local_queue] == lane->groups, "{} of {}", local_queue.ToString(), name);
    SLUICE_CHECK(lane->usage == UsageIn(queue, local_queue), "{}", local_queue.ToString());
    SLUICE_CHECK((lane->top == nullptr) == lane->order.empty(), "{}", local_queue.ToString());
    in_order += lane->order.size();
    if (lane->top == nullptr) continue;
    ++tops;
    SLUICE_CHECK(queue.order.contains(lane.get()), "{}", local_queue.ToString());
  }
  SLUICE_CHECK(in_order == free_groups && tops == queue.order.size(), "{}", name);
  // The first of the listing that is active is the one that would be popped.
  const std::vector<PendingWorkload> listing = Snapshot(name);
  const auto first =
      std::find_if(listing.begin(), listing.end(),
                   [](const PendingWorkload& pending) { return pending.place == Place::kActive; });
  const WorkloadInfo* expected = first == listing.end() ? nullptr : first->info.get();
  const WorkloadInfo* top = queue.Top() == nullptr ? nullptr : queue.Top()->info.get();
  SLUICE_CHECK(expected == top, "the head of {} is not the first", name);
}

}  // namespace sluice::queueing
