#include "queueing/queue_manager.h"

#include <algorithm>
#include <utility>

#include "api/names.h"
#include "base/check.h"

namespace sluice::queueing {

struct QueueManager::Entry {
  WorkloadInfoPtr info;
  Queue* queue = nullptr;
  Place place = Place::kNone;  // kActive: member of `group`, which may be blocked
  Group* group = nullptr;
  uint64_t popped_cycle = 0;
  bool evaluated = false;  // it is the one whose answer blocked the group
  std::optional<absl::Time> due;
};

namespace {

struct EntryLess {
  template <typename Entry>
  bool operator()(const Entry* a, const Entry* b) const {
    return OrderedBefore(*a->info, *b->info);
  }
};

struct GroupLess {
  template <typename Group>
  bool operator()(const Group* a, const Group* b) const {
    return OrderedBefore(*(*a->members.begin())->info, *(*b->members.begin())->info);
  }
};

// Whether the newer state of a workload may get another answer than the older one.
bool ChangedThatMatters(const WorkloadInfo& before, const WorkloadInfo& after) {
  const api::Workload& old = *before.workload;
  const api::Workload& now = *after.workload;
  const auto differs = [&](const char* type) {
    const api::Condition* a = api::FindCondition(old.status.conditions, type);
    const api::Condition* b = api::FindCondition(now.status.conditions, type);
    if (a == nullptr || b == nullptr) return a != b;
    return a->status != b->status || a->reason != b->reason ||
           a->last_transition_time != b->last_transition_time;
  };
  return old.metadata.uid != now.metadata.uid ||
         old.metadata.generation != now.metadata.generation || before.priority != after.priority ||
         before.requests != after.requests || before.problems != after.problems ||
         before.equivalence != after.equivalence ||
         old.status.reclaimable_pods != now.status.reclaimable_pods ||
         old.status.requeue_state != now.status.requeue_state || differs(api::kEvicted) ||
         differs(api::kRequeued);
}

bool IsImmediate(RequeueReason reason, QueueingStrategy strategy) {
  switch (reason) {
    case RequeueReason::kFailedAfterNomination:
    case RequeueReason::kPendingPreemption:
    case RequeueReason::kPreemptionFailed:
      return true;
    case RequeueReason::kNamespaceMismatch:
      return false;
    case RequeueReason::kNoFit:
    case RequeueReason::kPreemptionNoCandidates:
    case RequeueReason::kPreemptionGated:
    case RequeueReason::kGeneric:
      return strategy == QueueingStrategy::kStrictFifo;
  }
  return false;
}

// Reasons that another try right away cannot change.
bool WaitsForEvent(RequeueReason reason) {
  return reason != RequeueReason::kFailedAfterNomination &&
         reason != RequeueReason::kPreemptionFailed;
}

bool BlocksClass(RequeueReason reason) {
  return reason == RequeueReason::kNoFit || reason == RequeueReason::kPreemptionNoCandidates;
}

}  // namespace

// The workloads of one equivalence class that are not parked one by one.
struct QueueManager::Group {
  EquivalenceClass equivalence;
  bool blocked = false;
  std::string block_reason;
  absl::btree_set<Entry*, EntryLess> members;
  absl::btree_map<ObjectKey, int64_t> per_local_queue;
};

struct QueueManager::Queue {
  std::string name;
  bool known = false;
  ClusterQueueOptions options;
  absl::btree_map<EquivalenceClass, std::unique_ptr<Group>> groups;
  absl::btree_set<Group*, GroupLess> order;  // groups with members that are not blocked
  absl::btree_set<EquivalenceClass> blocked;
  absl::btree_map<ObjectKey, Entry*> parked;
  absl::btree_map<ObjectKey, Entry*> in_flight;
  PendingCounts counts;      // without regard to `options.active`
  Entry* sticky = nullptr;   // sorts before all others
  Entry* waiting = nullptr;  // at the head, and another try would change nothing
  uint64_t released_cycle = 0;

  bool Serves() const { return known && options.active; }
};

QueueingStrategy StrategyOf(const api::ClusterQueue& cluster_queue) {
  return cluster_queue.spec.queueing_strategy == "StrictFIFO" ? QueueingStrategy::kStrictFifo
                                                              : QueueingStrategy::kBestEffortFifo;
}

QueueManager::QueueManager() = default;
QueueManager::~QueueManager() = default;

QueueManager::Queue& QueueManager::QueueAt(const std::string& name) {
  std::unique_ptr<Queue>& queue = queues_[name];
  if (queue == nullptr) {
    queue = std::make_unique<Queue>();
    queue->name = name;
  }
  return *queue;
}

const QueueManager::Queue* QueueManager::FindQueue(const std::string& name) const {
  auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second.get();
}

void QueueManager::SetOptions(const std::string& name, const ClusterQueueOptions& options) {
  Queue& queue = QueueAt(name);
  if (!queue.known || queue.options != options) queue.waiting = nullptr;
  queue.known = true;
  queue.options = options;
  // A queue in strict order never passes over a class.
  if (options.strategy == QueueingStrategy::kStrictFifo) Unblock(queue);
  RefreshReady(queue);
}

void QueueManager::AddClusterQueue(const std::string& name, const ClusterQueueOptions& options) {
  SetOptions(name, options);
}

void QueueManager::UpdateClusterQueue(const std::string& name, const ClusterQueueOptions& options) {
  SetOptions(name, options);
}

void QueueManager::RemoveClusterQueue(const std::string& name) {
  auto found = queues_.find(name);
  if (found == queues_.end()) return;
  Queue& queue = *found->second;
  queue.known = false;
  queue.waiting = nullptr;
  Unblock(queue);
  RefreshReady(queue);
  DropIfUnused(name);
}

void QueueManager::DropIfUnused(const std::string& name) {
  const Queue* queue = FindQueue(name);
  if (queue != nullptr && !queue->known && queue->counts.Total() == 0) queues_.erase(name);
}

void QueueManager::Count(Queue& queue, const ObjectKey& local_queue, bool inadmissible,
                         int64_t delta) {
  (inadmissible ? queue.counts.inadmissible : queue.counts.active) += delta;
  LocalQueue& local = local_[local_queue];
  local.cluster_queue = queue.name;
  (inadmissible ? local.counts.inadmissible : local.counts.active) += delta;
  if (local.counts == PendingCounts()) local_.erase(local_queue);
}

QueueManager::Entry* QueueManager::Top(const Queue& queue) {
  const Entry* sticky = queue.sticky;
  if (sticky != nullptr && sticky->place == Place::kActive && !sticky->group->blocked) {
    return queue.sticky;
  }
  return queue.order.empty() ? nullptr : *(*queue.order.begin())->members.begin();
}

void QueueManager::RefreshReady(Queue& queue) {
  const Entry* top = queue.Serves() ? Top(queue) : nullptr;
  if (top != nullptr && top != queue.waiting) {
    ready_.insert(queue.name);
  } else {
    ready_.erase(queue.name);
  }
}

void QueueManager::SetBlocked(Queue& queue, Group& group, bool blocked) {
  if (group.blocked == blocked) return;
  if (!group.members.empty()) {
    if (blocked) {
      queue.order.erase(&group);
    } else {
      queue.order.insert(&group);
    }
  }
  group.blocked = blocked;
  for (const auto& [local_queue, count] : group.per_local_queue) {
    Count(queue, local_queue, blocked, count);
    Count(queue, local_queue, !blocked, -count);
  }
  if (blocked) {
    queue.blocked.insert(group.equivalence);
  } else {
    queue.blocked.erase(group.equivalence);
  }
}

// Returns how many workloads became active.
int64_t QueueManager::Unblock(Queue& queue) {
  int64_t count = 0;
  while (!queue.blocked.empty()) {
    auto found = queue.groups.find(*queue.blocked.begin());
    Group& group = *found->second;
    count += static_cast<int64_t>(group.members.size());
    SetBlocked(queue, group, false);
    if (group.members.empty()) queue.groups.erase(found);
  }
  return count;
}

// Puts an entry that is nowhere into its group.
void QueueManager::InsertActive(Entry& entry) {
  Queue& queue = *entry.queue;
  std::unique_ptr<Group>& group = queue.groups[entry.info->equivalence];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->equivalence = entry.info->equivalence;
  }
  if (!group->blocked && !group->members.empty()) queue.order.erase(group.get());
  group->members.insert(&entry);
  if (!group->blocked) queue.order.insert(group.get());
  ++group->per_local_queue[entry.info->local_queue];
  entry.group = group.get();
  entry.place = Place::kActive;
  entry.evaluated = false;
  Count(queue, entry.info->local_queue, group->blocked, 1);
  RefreshReady(queue);
}

void QueueManager::Park(Entry& entry, absl::Time now) {
  const ObjectKey key = entry.info->Key();
  entry.place = Place::kParked;
  entry.queue->parked[key] = &entry;
  Count(*entry.queue, entry.info->local_queue, true, 1);
  // With Requeued=False the end of the backoff is a write that comes in as an update.
  const auto& state = entry.info->workload->status.requeue_state;
  if (state.has_value() && state->requeue_at.has_value() && *state->requeue_at > now &&
      !api::IsFalse(entry.info->workload->status.conditions, api::kRequeued)) {
    entry.due = state->requeue_at;
    due_.insert({*entry.due, key});
  }
  RefreshReady(*entry.queue);
}

void QueueManager::Insert(Entry& entry, absl::Time now) {
  if (BackoffOver(*entry.info->workload, now)) {
    InsertActive(entry);
  } else {
    Park(entry, now);
  }
}

// Takes an entry out of the place where it is; it still belongs to its ClusterQueue.
void QueueManager::Detach(Entry& entry) {
  Queue& queue = *entry.queue;
  const ObjectKey key = entry.info->Key();
  bool inadmissible = false;
  switch (entry.place) {
    case Place::kNone:
      return;
    case Place::kActive: {
      Group& group = *entry.group;
      inadmissible = group.blocked;
      if (!group.blocked) queue.order.erase(&group);
      group.members.erase(&entry);
      auto local = group.per_local_queue.find(entry.info->local_queue);
      if (--local->second == 0) group.per_local_queue.erase(local);
      if (!group.blocked && !group.members.empty()) queue.order.insert(&group);
      // A blocked class stays blocked without members, until a release.
      if (!group.blocked && group.members.empty()) {
        queue.groups.erase(EquivalenceClass(group.equivalence));
      }
      break;
    }
    case Place::kParked:
      inadmissible = true;
      queue.parked.erase(key);
      if (entry.due.has_value()) due_.erase({*entry.due, key});
      entry.due.reset();
      break;
    case Place::kInFlight:
      queue.in_flight.erase(key);
      break;
  }
  entry.place = Place::kNone;
  entry.group = nullptr;
  if (queue.waiting == &entry) queue.waiting = nullptr;
  Count(queue, entry.info->local_queue, inadmissible, -1);
}

// Takes an entry out of its ClusterQueue altogether.
void QueueManager::LeaveQueue(Entry& entry) {
  Queue& queue = *entry.queue;
  Detach(entry);
  if (queue.sticky == &entry) queue.sticky = nullptr;
  entry.queue = nullptr;
  RefreshReady(queue);
  DropIfUnused(std::string(queue.name));
}

Place QueueManager::AddOrUpdate(WorkloadInfoPtr info, absl::Time now) {
  const ObjectKey key = info->Key();
  std::unique_ptr<Entry>& slot = entries_[key];
  if (slot == nullptr) slot = std::make_unique<Entry>();
  Entry& entry = *slot;
  if (entry.queue != nullptr && entry.info->cluster_queue != info->cluster_queue) {
    LeaveQueue(entry);
  }
  if (entry.queue == nullptr) {
    entry.queue = &QueueAt(info->cluster_queue);
    entry.info = std::move(info);
    Insert(entry, now);
    return PlaceOf(key);
  }
  const bool matters = ChangedThatMatters(*entry.info, *info);
  const bool same_place = entry.info->local_queue == info->local_queue &&
                          entry.info->queue_order_time == info->queue_order_time;
  Queue& queue = *entry.queue;
  if (entry.place == Place::kInFlight) {
    Detach(entry);
    entry.info = std::move(info);
    entry.place = Place::kInFlight;
    queue.in_flight[key] = &entry;
    Count(queue, entry.info->local_queue, false, 1);
    return Place::kInFlight;
  }
  if (!matters && same_place) {
    entry.info = std::move(info);
    return PlaceOf(key);
  }
  Detach(entry);
  entry.info = std::move(info);
  Insert(entry, now);
  RefreshReady(queue);
  return PlaceOf(key);
}

bool QueueManager::Remove(const ObjectKey& key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  LeaveQueue(*found->second);
  entries_.erase(found);
  return true;
}

void QueueManager::ReleaseDue(absl::Time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    Entry& entry = *entries_.at(due_.begin()->second);
    Detach(entry);
    Insert(entry, now);
  }
}

std::vector<WorkloadInfoPtr> QueueManager::Heads(absl::Time now) {
  ReleaseDue(now);
  ++cycle_;
  std::vector<WorkloadInfoPtr> heads;
  const std::vector<std::string> names(ready_.begin(), ready_.end());
  for (const std::string& name : names) {
    Queue& queue = QueueAt(name);
    Entry& entry = *Top(queue);
    Detach(entry);
    entry.place = Place::kInFlight;
    entry.popped_cycle = cycle_;
    queue.in_flight[entry.info->Key()] = &entry;
    Count(queue, entry.info->local_queue, false, 1);
    heads.push_back(entry.info);
    RefreshReady(queue);
  }
  return heads;
}

bool QueueManager::HasHeads(absl::Time now) const {
  return !ready_.empty() || (!due_.empty() && due_.begin()->first <= now);
}

Place QueueManager::Requeue(const ObjectKey& key, const RequeueRequest& request, absl::Time now) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return Place::kNone;
  Entry& entry = *found->second;
  if (entry.place != Place::kInFlight) return PlaceOf(key);
  Queue& queue = *entry.queue;
  const bool strict = queue.options.strategy == QueueingStrategy::kStrictFifo;
  const bool retry_helps = queue.released_cycle >= entry.popped_cycle || request.untried_flavors;
  const bool immediate = IsImmediate(request.reason, queue.options.strategy);
  Detach(entry);
  if (request.reason == RequeueReason::kPendingPreemption && !strict) queue.sticky = &entry;
  if (!BackoffOver(*entry.info->workload, now)) {
    Park(entry, now);
  } else if (immediate || retry_helps) {
    InsertActive(entry);
    if (!retry_helps && WaitsForEvent(request.reason)) queue.waiting = &entry;
    RefreshReady(queue);
  } else if (BlocksClass(request.reason) && !strict) {
    InsertActive(entry);
    entry.evaluated = true;
    entry.group->block_reason = request.condition_reason;
    SetBlocked(queue, *entry.group, true);
    RefreshReady(queue);
  } else {
    Park(entry, now);
  }
  return PlaceOf(key);
}

int64_t QueueManager::ReleaseParked(const std::string& cluster_queue, absl::Time now,
                                    const NamespaceMatches& matches) {
  auto found = queues_.find(cluster_queue);
  if (found == queues_.end()) return 0;
  Queue& queue = *found->second;
  queue.released_cycle = cycle_;
  queue.waiting = nullptr;
  int64_t count = Unblock(queue);
  std::vector<Entry*> released;
  for (const auto& [key, entry] : queue.parked) {
    if (!BackoffOver(*entry->info->workload, now)) continue;
    if (matches != nullptr && !matches(key.ns)) continue;
    released.push_back(entry);
  }
  for (Entry* entry : released) {
    Detach(*entry);
    InsertActive(*entry);
  }
  RefreshReady(queue);
  return count + static_cast<int64_t>(released.size());
}

std::optional<absl::Time> QueueManager::NextDue() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
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
  const WorkloadInfo* sticky = queue->sticky == nullptr ? nullptr : queue->sticky->info.get();
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
