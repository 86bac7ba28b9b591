#include "serve/pending_index.h"

#include <algorithm>
#include <tuple>

#include "api/names.h"
#include "reconcile/explain_reason.h"

namespace sluice::serve {

struct PendingIndex::Sortable {
  PendingItemPtr item;
  queueing::UsageValue usage;
  bool first = false;

  bool operator<(const Sortable& other) const {
    if (const auto order = usage <=> other.usage; order != 0) return order < 0;
    if (first != other.first) return first;
    const PendingItem& a = *item;
    const PendingItem& b = *other.item;
    if (a.order_priority != b.order_priority) return a.order_priority > b.order_priority;
    return std::tie(a.order_time, a.uid, a.key) < std::tie(b.order_time, b.uid, b.key);
  }
};

PendingItemPtr MakePendingItem(const queueing::WorkloadInfo& info, const std::string& decided) {
  const api::Workload& workload = *info.workload;
  auto item = std::make_shared<PendingItem>();
  item->key = info.Key();
  item->uid = workload.metadata.uid;
  item->cluster_queue = info.cluster_queue;
  item->local_queue = info.local_queue;
  item->order_priority = info.priority;
  item->order_time = info.queue_order_time;
  item->priority = workload.spec.priority.value_or(0);
  item->created = workload.metadata.creation_timestamp;
  item->owners = workload.metadata.owner_references;
  item->reason = reconcile::ReasonOfConditions(workload);
  if (!decided.empty() && reconcile::IsOfDecision(item->reason)) item->reason = decided;
  const api::Condition* quota = api::FindCondition(workload.status.conditions, api::kQuotaReserved);
  if (quota != nullptr && quota->status == api::ConditionStatus::kFalse) {
    item->sentence = quota->message;
  }
  if (api::IsFalse(workload.status.conditions, api::kRequeued)) {
    item->listed_from = absl::InfiniteFuture();
  } else if (workload.status.requeue_state && workload.status.requeue_state->requeue_at) {
    item->listed_from = *workload.status.requeue_state->requeue_at;
  }
  return item;
}

void PendingIndex::Prepare(absl::Time now, Then then) {
  {
    absl::MutexLock lock(&mutex_);
    asked_ = std::max(asked_, now);
    if (closed_) return;
    if (synced_ && !filled_) {
      waiting_.push_back(std::move(then));
      then = nullptr;
      wanted_.store(true, std::memory_order_relaxed);
    }
  }
  if (then) return then();
  if (wake_) wake_();
}

void PendingIndex::Close() {
  std::vector<Then> dropped;
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  waiting_.swap(dropped);
}

void PendingIndex::Ready() {
  std::vector<Then> waiting;
  {
    absl::MutexLock lock(&mutex_);
    filled_ = true;
    waiting_.swap(waiting);
    wanted_.store(false, std::memory_order_relaxed);
  }
  for (Then& then : waiting) then();
}

bool PendingIndex::StopUnlessAskedSince(absl::Time time) {
  absl::MutexLock lock(&mutex_);
  if (asked_ >= time) return false;
  filled_ = false;
  queues_.clear();
  items_.clear();
  local_queues_.clear();
  usages_.clear();
  return true;
}

void PendingIndex::Changed(Queue& queue) {
  ++queue.version;
  queue.view.reset();
}

void PendingIndex::Put(const ObjectKey& key, const PendingItemPtr& item) {
  const auto known = items_.find(key);
  if (known != items_.end()) {
    const auto found = queues_.find(known->second->cluster_queue);
    Queue& queue = found->second;
    queue.items.erase(key);
    Changed(queue);
    if (!queue.exists && queue.items.empty()) queues_.erase(found);
    items_.erase(known);
  }
  if (item == nullptr) return;
  items_.emplace(key, item);
  Queue& queue = queues_[item->cluster_queue];
  queue.items.emplace(key, item);
  Changed(queue);
}

void PendingIndex::Apply(const PendingUpdate& update) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, exists] : update.cluster_queues) {
    Queue& queue = queues_[name];
    queue.exists = exists;
    if (!exists && queue.items.empty()) queues_.erase(name);
  }
  for (const auto& [key, item] : update.workloads) Put(key, item);
  for (const auto& [name, facts] : update.orders) {
    const auto found = queues_.find(name);
    if (found == queues_.end() || found->second.facts == facts) continue;
    found->second.facts = facts;
    Changed(found->second);
  }
  for (const auto& [key, cluster_queue] : update.local) {
    if (cluster_queue) {
      local_queues_[key] = *cluster_queue;
    } else {
      local_queues_.erase(key);
    }
  }
  bool reordered = false;
  for (const auto& [key, usage] : update.usages) {
    const auto known = usages_.find(key);
    const bool none = usage == queueing::UsageValue();
    if (known == usages_.end() ? none : known->second == usage) continue;
    reordered = true;
    if (none) {
      usages_.erase(known);
    } else {
      usages_.insert_or_assign(key, usage);
    }
  }
  if (!reordered) return;
  for (auto& [name, queue] : queues_) {
    if (queue.facts.usage_based) Changed(queue);
  }
}

void PendingIndex::SetSynced() {
  absl::MutexLock lock(&mutex_);
  synced_ = true;
}

bool PendingIndex::synced() const {
  absl::MutexLock lock(&mutex_);
  return synced_;
}

bool PendingIndex::filled() const {
  absl::MutexLock lock(&mutex_);
  return filled_;
}

std::shared_ptr<const PendingView> PendingIndex::Sort(std::vector<Sortable> items, absl::Time now) {
  auto view = std::make_shared<PendingView>();
  for (const Sortable& sortable : items) {
    if (sortable.item->listed_from > now) {
      view->valid_until = std::min(view->valid_until, sortable.item->listed_from);
    }
  }
  std::erase_if(items, [&](const Sortable& entry) { return entry.item->listed_from > now; });
  std::sort(items.begin(), items.end());
  absl::btree_map<ObjectKey, int64_t> next;
  view->entries.reserve(items.size());
  for (Sortable& entry : items) {
    int64_t& position = next[entry.item->local_queue];
    view->entries.push_back({std::move(entry.item), position++});
  }
  return view;
}

std::shared_ptr<const PendingView> PendingIndex::OfClusterQueue(const std::string& name,
                                                                absl::Time now) const {
  std::vector<Sortable> items;
  uint64_t version = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = queues_.find(name);
    if (found == queues_.end() || !found->second.exists) return nullptr;
    const Queue& queue = found->second;
    if (queue.view != nullptr && now < queue.view->valid_until) return queue.view;
    version = queue.version;
    items.reserve(queue.items.size());
    for (const auto& [key, item] : queue.items) {
      Sortable& entry = items.emplace_back();
      entry.item = item;
      entry.first = queue.facts.first == key;
      if (!queue.facts.usage_based) continue;
      const auto usage = usages_.find(item->local_queue);
      if (usage != usages_.end()) entry.usage = usage->second;
    }
  }
  std::shared_ptr<const PendingView> view = Sort(std::move(items), now);
  absl::MutexLock lock(&mutex_);
  const auto found = queues_.find(name);
  if (found != queues_.end() && found->second.version == version) found->second.view = view;
  return view;
}

std::shared_ptr<const PendingView> PendingIndex::OfLocalQueue(const ObjectKey& key,
                                                              absl::Time now) const {
  std::string cluster_queue;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = local_queues_.find(key);
    if (found == local_queues_.end()) return nullptr;
    cluster_queue = found->second;
  }
  std::shared_ptr<const PendingView> view = OfClusterQueue(cluster_queue, now);
  return view != nullptr ? view : std::make_shared<const PendingView>();
}

}  // namespace sluice::serve
