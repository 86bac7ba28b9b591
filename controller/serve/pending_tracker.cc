#include "serve/pending_tracker.h"

#include <utility>

namespace sluice::serve {

void PendingTracker::OnChange(const state::Ref& ref) {
  switch (ref.kind) {
    case api::Kind::kWorkload:
      workloads_.insert(ref.key);
      break;
    case api::Kind::kLocalQueue:
      local_queues_.insert(ref.key);
      break;
    case api::Kind::kClusterQueue:
      cluster_queues_.insert(ref.key.name);
      break;
    default:
      break;
  }
}

void PendingTracker::OnRefused(const state::Action& action) {
  if (action.kind == api::Kind::kWorkload) workloads_.insert(action.key);
}

// Which workload of each queue goes first because victims were asked to leave for it.
void PendingTracker::AddOrders(const state::World& world, PendingUpdate& update) {
  for (const std::string& name : orders_) {
    const auto queue = world.cluster_queues().Find({"", name});
    const bool passes = queue == nullptr ||
                        queueing::StrategyOf(*queue) == queueing::QueueingStrategy::kBestEffortFifo;
    OrderFacts facts{.usage_based = world.UsageBased(name)};
    const auto first = first_.find(name);
    if (first != first_.end()) {
      // It stays first when it is changed, until it leaves or another takes its place.
      const queueing::WorkloadInfoPtr info = world.queues().Find(first->second);
      if (info == nullptr || info->cluster_queue != name) {
        first_.erase(first);
      } else if (passes) {
        facts.first = first->second;
      }
    }
    update.orders.emplace_back(name, facts);
  }
}

void PendingTracker::Publish(const state::World& world) {
  const queueing::QueueManager& queues = world.queues();
  PendingUpdate update;
  for (const std::string& name : std::exchange(cluster_queues_, {})) {
    update.cluster_queues.emplace_back(name, world.cluster_queues().Contains({"", name}));
    orders_.insert(name);
  }
  for (const ObjectKey& key : std::exchange(local_queues_, {})) {
    const auto queue = world.local_queues().Find(key);
    update.local.emplace_back(
        key, queue == nullptr ? std::nullopt : std::optional(queue->spec.cluster_queue));
    usages_.insert(key);
    for (const ObjectKey& workload : world.WorkloadsOfLocalQueue(key)) workloads_.insert(workload);
  }
  for (const ObjectKey& key : std::exchange(assumed_, {})) {
    (world.IsAssumed(key) ? assumed_ : workloads_).insert(key);
  }
  for (const ObjectKey& key : std::exchange(workloads_, {})) {
    if (world.IsAssumed(key)) assumed_.insert(key);
    if (const auto before = known_.find(key); before != known_.end()) {
      orders_.insert(before->second.first);
      usages_.insert(before->second.second);
      known_.erase(before);
    }
    // Its admission or its end may change what its LocalQueue used.
    if (const auto workload = world.workloads().Find(key)) {
      usages_.insert(queueing::LocalQueueKey(*workload));
    }
    const queueing::WorkloadInfoPtr info = queues.Find(key);
    if (info == nullptr) {
      update.workloads.emplace_back(key, nullptr);
      continue;
    }
    update.workloads.emplace_back(key, MakePendingItem(*info));
    known_[key] = {info->cluster_queue, info->local_queue};
    orders_.insert(info->cluster_queue);
    usages_.insert(info->local_queue);
    if (queues.IsPreemptor(key)) first_[info->cluster_queue] = key;
  }
  AddOrders(world, update);
  orders_.clear();
  const absl::btree_set<ObjectKey> usages = std::exchange(usages_, {});
  if (world.usage_ledger() != nullptr) {
    for (const ObjectKey& key : usages)
      update.usages.emplace_back(key, queues.LocalQueueUsage(key));
  }
  if (!update.Empty()) index_->Apply(update);
  if (!synced_ && world.Synced()) {
    synced_ = true;
    index_->SetSynced();
  }
}

}  // namespace sluice::serve
