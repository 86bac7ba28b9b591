#include "queueing/queue_manager.h"

#include <utility>

#include "api/names.h"
#include "queueing/backfill.h"
#include "queueing/queue_manager_state.h"

namespace sluice::queueing {

namespace {

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
         before.preemption_gated != after.preemption_gated ||
         old.status.requeue_state != now.status.requeue_state || differs(api::kEvicted) ||
         differs(api::kRequeued) || BoundOf(old) != BoundOf(now);
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

// After these the next scan of the flavors starts over.
bool StartsScanOver(RequeueReason reason) {
  return reason == RequeueReason::kPendingPreemption || reason == RequeueReason::kPreemptionGated;
}

bool BlocksClass(RequeueReason reason) {
  return reason == RequeueReason::kNoFit || reason == RequeueReason::kPreemptionNoCandidates;
}

}  // namespace

QueueingStrategy StrategyOf(const api::ClusterQueue& cluster_queue) {
  return cluster_queue.spec.queueing_strategy == "StrictFIFO" ? QueueingStrategy::kStrictFifo
                                                              : QueueingStrategy::kBestEffortFifo;
}

QueueManager::QueueManager(const QueueManagerOptions& options) : options_(options) {}
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
  ClusterQueueOptions next = options;
  if (queue.known) next.usage_based = queue.options.usage_based;
  const bool reordered = queue.options.usage_based != next.usage_based;
  if (!queue.known || queue.options != next) queue.waiting = nullptr;
  queue.known = true;
  queue.options = next;
  next.backfill ? static_cast<void>(backfill_.insert(name))
                : static_cast<void>(backfill_.erase(name));
  // A queue in strict order never passes over a class.
  if (next.strategy == QueueingStrategy::kStrictFifo) Unblock(queue);
  if (reordered) {
    for (const auto& [local_queue, lane] : queue.lanes) SetUsage(queue, *lane);
  }
  ReorderLaneOf(queue, queue.preemptor);  // it is sticky in one strategy only
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
  backfill_.erase(name);
  EndRecheck(queue);
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

void QueueManager::RefreshReady(Queue& queue) {
  const Entry* top = queue.Serves() ? queue.Top() : nullptr;
  const auto list = [&](absl::btree_set<std::string>& names, bool listed) {
    listed ? static_cast<void>(names.insert(queue.name))
           : static_cast<void>(names.erase(queue.name));
  };
  list(ready_, top != nullptr && top != queue.waiting);
  list(waiting_, top != nullptr && top == queue.waiting);
}

// Gives the lane its place among the lanes after something about its first workload changed. Its
// old place is found by what the lane still says, so whatever it says must change only here, and an
// entry must be taken out of its lane before it changes.
void QueueManager::Reorder(Queue& queue, Lane& lane) {
  if (lane.top != nullptr) queue.order.erase(&lane);
  Entry* sticky = queue.Sticky();
  lane.top_is_sticky = sticky != nullptr && sticky->place == Place::kActive &&
                       sticky->group->lane == &lane && !sticky->group->of_class->blocked;
  if (lane.top_is_sticky) {
    lane.top = sticky;
  } else {
    lane.top = lane.order.empty() ? nullptr : *(*lane.order.begin())->members.begin();
  }
  if (lane.top != nullptr) queue.order.insert(&lane);
}

void QueueManager::ReorderLaneOf(Queue& queue, const Entry* entry) {
  if (entry != nullptr && entry->place == Place::kActive) Reorder(queue, *entry->group->lane);
}

const UsageValue& QueueManager::LocalQueueUsage(const ObjectKey& local_queue) const {
  static const UsageValue kNone;
  const auto found = usages_.find(local_queue);
  return found == usages_.end() ? kNone : found->second;
}

const UsageValue& QueueManager::UsageIn(const Queue& queue, const ObjectKey& local_queue) const {
  static const UsageValue kNone;
  return queue.options.usage_based ? LocalQueueUsage(local_queue) : kNone;
}

void QueueManager::SetUsage(Queue& queue, Lane& lane) {
  const UsageValue& usage = UsageIn(queue, lane.local_queue);
  if (lane.usage == usage) return;
  if (lane.top != nullptr) queue.order.erase(&lane);
  lane.usage = usage;
  if (lane.top != nullptr) queue.order.insert(&lane);
}

void QueueManager::SetLocalQueueUsage(const ObjectKey& local_queue, const UsageValue& usage) {
  if (usage == UsageValue()) {
    usages_.erase(local_queue);
  } else {
    usages_.insert_or_assign(local_queue, usage);
  }
  const auto queues = with_lane_.find(local_queue);
  if (queues == with_lane_.end()) return;
  for (Queue* queue : queues->second) {
    SetUsage(*queue, *queue->lanes.at(local_queue));
    RefreshReady(*queue);
  }
}

void QueueManager::ForgetLocalQueueUsage(const ObjectKey& local_queue) {
  SetLocalQueueUsage(local_queue, UsageValue());
}

void QueueManager::Admit(const ObjectKey& key, const FlavorResourceAmounts& usage) {
  const WorkloadInfoPtr info = Find(key);
  if (info == nullptr) return;
  if (on_admit_) on_admit_(*info, usage);
  Remove(key);
}

void QueueManager::SetBlocked(Queue& queue, Class& of_class, bool blocked) {
  if (of_class.blocked == blocked) return;
  of_class.blocked = blocked;
  if (!blocked) of_class.evaluated = nullptr;
  for (const auto& [local_queue, group] : of_class.groups) {
    Lane& lane = *group->lane;
    if (blocked) {
      lane.order.erase(group.get());
    } else {
      lane.order.insert(group.get());
    }
    Reorder(queue, lane);
    const auto count = static_cast<int64_t>(group->members.size());
    Count(queue, local_queue, blocked, count);
    Count(queue, local_queue, !blocked, -count);
  }
  if (blocked) {
    queue.blocked.insert(of_class.equivalence);
  } else {
    queue.blocked.erase(of_class.equivalence);
  }
}

// Returns how many workloads became active.
int64_t QueueManager::Unblock(Queue& queue, Release release) {
  int64_t count = 0;
  const std::vector<EquivalenceClass> blocked(queue.blocked.begin(), queue.blocked.end());
  for (const EquivalenceClass& equivalence : blocked) {
    auto found = queue.classes.find(equivalence);
    Class& of_class = *found->second;
    if (release == Release::kPlaces && !of_class.places_matter) continue;
    for (const auto& [local_queue, group] : of_class.groups) {
      count += static_cast<int64_t>(group->members.size());
    }
    SetBlocked(queue, of_class, false);
    if (of_class.groups.empty()) queue.classes.erase(found);
  }
  return count;
}

QueueManager::Lane& QueueManager::LaneAt(Queue& queue, const ObjectKey& local_queue) {
  std::unique_ptr<Lane>& lane = queue.lanes[local_queue];
  if (lane == nullptr) {
    lane = std::make_unique<Lane>();
    lane->local_queue = local_queue;
    lane->usage = UsageIn(queue, local_queue);
    with_lane_[local_queue].insert(&queue);
  }
  return *lane;
}

void QueueManager::DropLane(Queue& queue, const ObjectKey& local_queue) {
  queue.lanes.erase(local_queue);
  const auto queues = with_lane_.find(local_queue);
  queues->second.erase(&queue);
  if (queues->second.empty()) with_lane_.erase(queues);
}

// Puts an entry that is nowhere into its group.
void QueueManager::InsertActive(Entry& entry) {
  Queue& queue = *entry.queue;
  const ObjectKey& local_queue = entry.info->local_queue;
  std::unique_ptr<Class>& of_class = queue.classes[entry.info->equivalence];
  if (of_class == nullptr) {
    of_class = std::make_unique<Class>();
    of_class->equivalence = entry.info->equivalence;
  }
  Lane& lane = LaneAt(queue, local_queue);
  std::unique_ptr<Group>& group = of_class->groups[local_queue];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->of_class = of_class.get();
    group->lane = &lane;
    ++lane.groups;
  } else if (!of_class->blocked) {
    lane.order.erase(group.get());
  }
  group->members.insert(&entry);
  if (!of_class->blocked) lane.order.insert(group.get());
  entry.group = group.get();
  entry.place = Place::kActive;
  if (queue.options.backfill) queue.waiting = nullptr;  // it may start before a head that waits
  Reorder(queue, lane);
  Count(queue, local_queue, of_class->blocked, 1);
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
    case Place::kActive:
      inadmissible = entry.group->of_class->blocked;
      DetachFromGroup(queue, entry);
      break;
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
  if (queue.waiting == &entry) queue.waiting = nullptr;
  Count(queue, entry.info->local_queue, inadmissible, -1);
}

void QueueManager::DetachFromGroup(Queue& queue, Entry& entry) {
  Group& group = *entry.group;
  Class& of_class = *group.of_class;
  Lane& lane = *group.lane;
  if (!of_class.blocked) lane.order.erase(&group);
  if (of_class.evaluated == &entry) of_class.evaluated = nullptr;
  group.members.erase(&entry);
  entry.group = nullptr;
  entry.place = Place::kNone;
  if (group.members.empty()) {
    --lane.groups;
    of_class.groups.erase(ObjectKey(lane.local_queue));
    // A blocked class stays blocked without members, until a release.
    if (!of_class.blocked && of_class.groups.empty()) {
      queue.classes.erase(EquivalenceClass(of_class.equivalence));
    }
  } else if (!of_class.blocked) {
    lane.order.insert(&group);
  }
  Reorder(queue, lane);
  if (lane.groups == 0) DropLane(queue, ObjectKey(lane.local_queue));
}

// Takes an entry out of its ClusterQueue altogether.
void QueueManager::LeaveQueue(Entry& entry) {
  Queue& queue = *entry.queue;
  Detach(entry);
  if (queue.preemptor == &entry) queue.preemptor = nullptr;
  entry.progress.reset();
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
  if (!options_.preserve_scan_progress && entry.info->workload != info->workload) {
    entry.progress.reset();
  }
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
  // What it was told before holds no more, so it is judged even where its new class has been.
  if (matters && entry.group != nullptr) {
    entry.group->of_class->refused = false;
    SetBlocked(queue, *entry.group->of_class, false);
  }
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

std::vector<WorkloadInfoPtr> QueueManager::Heads(absl::Time now, const PassOver* pass_over) {
  ReleaseDue(now);
  RecheckDue(now);
  ++cycle_;
  std::vector<WorkloadInfoPtr> heads;
  const std::vector<std::string> names(ready_.begin(), ready_.end());
  for (const std::string& name : names) {
    Queue& queue = QueueAt(name);
    Entry* head = pass_over == nullptr ? queue.Top() : PassOverRefused(queue, *pass_over, now);
    if (head != nullptr) heads.push_back(Pop(queue, *head));
  }
  return heads;
}

WorkloadInfoPtr QueueManager::Pop(Queue& queue, Entry& entry) {
  Detach(entry);
  entry.place = Place::kInFlight;
  entry.popped_cycle = cycle_;
  entry.popped_generation = entry.info->workload->metadata.generation;
  queue.in_flight[entry.info->Key()] = &entry;
  Count(queue, entry.info->local_queue, false, 1);
  RefreshReady(queue);
  return entry.info;
}

std::vector<WorkloadInfoPtr> QueueManager::HeldHeads(
    const std::vector<std::string>& cluster_queues) {
  std::vector<WorkloadInfoPtr> heads;
  for (const std::string& name :
       absl::btree_set<std::string>(cluster_queues.begin(), cluster_queues.end())) {
    auto found = queues_.find(name);
    if (found == queues_.end()) continue;
    Queue& queue = *found->second;
    if (!queue.Serves() || queue.waiting == nullptr || !queue.in_flight.empty()) continue;
    if (queue.Top() != queue.waiting) continue;
    // Going on where its scan stopped, it would defend something else in each cycle, and those who
    // lose to it would have to look again every time.
    queue.waiting->progress.reset();
    heads.push_back(Pop(queue, *queue.waiting));
  }
  return heads;
}

void QueueManager::Retry(const std::string& cluster_queue) {
  auto found = queues_.find(cluster_queue);
  if (found == queues_.end()) return;
  found->second->waiting = nullptr;
  RefreshReady(*found->second);
}

std::shared_ptr<const topology::Booking> QueueManager::KeptPlace(
    const std::string& cluster_queue) const {
  const Queue* queue = FindQueue(cluster_queue);
  return queue == nullptr || queue->waiting == nullptr ? nullptr : queue->waiting->place_kept;
}

bool QueueManager::HasHeads(absl::Time now) const {
  const std::optional<absl::Time> due = NextDue();
  return !ready_.empty() || (due && *due <= now);
}

void QueueManager::SetRefused(const Entry& entry, const RequeueRequest& request) {
  Class& of_class = *entry.group->of_class;
  of_class.refused = true;
  of_class.evaluated = &entry;
  of_class.block_reason = request.condition_reason;
  of_class.places_matter = request.places_matter;
}

Place QueueManager::Requeue(const ObjectKey& key, const RequeueRequest& request, absl::Time now) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return Place::kNone;
  Entry& entry = *found->second;
  if (entry.place != Place::kInFlight) return PlaceOf(key);
  Queue& queue = *entry.queue;
  const bool strict = queue.options.strategy == QueueingStrategy::kStrictFifo;
  const bool released = queue.released_cycle >= entry.popped_cycle;
  const bool untried = request.untried_flavors && !StartsScanOver(request.reason);
  const bool retry_helps = released || untried;
  const bool waits = request.hold ? !released : !retry_helps && WaitsForEvent(request.reason);
  const bool immediate = IsImmediate(request.reason, queue.options.strategy);
  Detach(entry);
  entry.progress = request.scan_progress;
  entry.places_matter = request.places_matter;
  entry.place_kept = request.place;
  if (request.reason == RequeueReason::kPendingPreemption) {
    const Entry* former = std::exchange(queue.preemptor, &entry);
    queue.preemptor_generation = entry.popped_generation;
    ReorderLaneOf(queue, former);
  }
  if (!BackoffOver(*entry.info->workload, now)) {
    Park(entry, now);
  } else if (immediate || retry_helps) {
    InsertActive(entry);
    if (waits) queue.waiting = &entry;
    // What others took may be what it needed: PassOver asks whether another look is worth it.
    if (request.reason == RequeueReason::kFailedAfterNomination) SetRefused(entry, request);
    RefreshReady(queue);
  } else if (BlocksClass(request.reason) && !strict && !request.own_answer) {
    InsertActive(entry);
    SetRefused(entry, request);
    SetBlocked(queue, *entry.group->of_class, true);
    RefreshReady(queue);
  } else {
    Park(entry, now);
  }
  return PlaceOf(key);
}

int64_t QueueManager::ReleaseParked(const std::string& cluster_queue, absl::Time now,
                                    const NamespaceMatches& matches, Release release) {
  auto found = queues_.find(cluster_queue);
  if (found == queues_.end()) return 0;
  Queue& queue = *found->second;
  const auto helps = [&](const Entry& entry) {
    return release == Release::kAll || entry.places_matter;
  };
  queue.released_cycle = cycle_;
  if (queue.waiting != nullptr && helps(*queue.waiting)) queue.waiting = nullptr;
  int64_t count = Unblock(queue, release);
  std::vector<Entry*> released;
  for (const auto& [key, entry] : queue.parked) {
    if (!helps(*entry) || !BackoffOver(*entry->info->workload, now)) continue;
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

}  // namespace sluice::queueing
