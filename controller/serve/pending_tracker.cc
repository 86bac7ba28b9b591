#include "serve/pending_tracker.h"

#include <utility>
#include <vector>

#include "reconcile/explain_reason.h"

namespace sluice::serve {

void PendingTracker::Follow(const state::Ref& ref) {
  switch (ref.kind) {
    case api::Kind::kWorkload:
      changed_.workloads.insert(ref.key);
      break;
    case api::Kind::kLocalQueue:
      changed_.local_queues.insert(ref.key);
      break;
    case api::Kind::kClusterQueue:
      changed_.cluster_queues.insert(ref.key.name);
      break;
    default:
      break;
  }
}

// Its condition says as much later, or less.
void PendingTracker::Decided(const admission::Decision& decision) {
  const ObjectKey key = decision.info->Key();
  changed_.workloads.insert(key);
  std::string reason = reconcile::ReasonOfDecision(decision.explanation);
  if (reason.empty()) {
    reasons_.erase(key);
  } else {
    reasons_.insert_or_assign(key, std::move(reason));
  }
}

// Everything that waits; those that ended long ago are passed over without a trace.
void PendingTracker::Start(const state::World& world, PendingUpdate& update) {
  following_ = true;
  for (const auto& [key, queue] : world.cluster_queues().all()) {
    changed_.cluster_queues.insert(key.name);
    FindFirst(world, key.name);
  }
  for (const auto& [key, queue] : world.local_queues().all()) AddLocalQueue(world, key, update);
  for (const auto& [key, workload] : world.workloads().all()) {
    if (world.queues().Find(key) != nullptr || world.IsAssumed(key)) {
      changed_.workloads.insert(key);
    }
  }
}

// The one that goes first in spite of the order of the workloads. It still does when it was changed
// since victims were asked to leave for it; then the listing alone tells.
void PendingTracker::FindFirst(const state::World& world, const std::string& cluster_queue) {
  const std::vector<queueing::PendingWorkload> listing = world.queues().Snapshot(cluster_queue);
  for (size_t i = 0; i < listing.size(); ++i) {
    const queueing::WorkloadInfo& info = *listing[i].info;
    const bool passed = i + 1 < listing.size() &&
                        listing[i + 1].info->local_queue == info.local_queue &&
                        queueing::OrderedBefore(*listing[i + 1].info, info);
    if (!passed && !world.queues().IsPreemptor(info.Key())) continue;
    first_[cluster_queue] = info.Key();
    return;
  }
}

void PendingTracker::StopWhenIdle(absl::Time now) {
  if (now < next_idle_check_) return;
  next_idle_check_ = now + kIdle / 10;
  if (!index_->StopUnlessAskedSince(now - kIdle)) return;
  following_ = false;
  changed_ = {};
  known_.clear();
  first_.clear();
  reasons_.clear();
}

void PendingTracker::AddLocalQueue(const state::World& world, const ObjectKey& key,
                                   PendingUpdate& update) {
  const auto queue = world.local_queues().Find(key);
  update.local.emplace_back(
      key, queue == nullptr ? std::nullopt : std::optional(queue->spec.cluster_queue));
  changed_.usages.insert(key);
}

void PendingTracker::AddWorkload(const state::World& world, const ObjectKey& key,
                                 PendingUpdate& update) {
  if (world.IsAssumed(key)) changed_.assumed.insert(key);
  if (const auto before = known_.find(key); before != known_.end()) {
    changed_.orders.insert(before->second.first);
    changed_.usages.insert(before->second.second);
    known_.erase(before);
  }
  // Its admission or its end may change what its LocalQueue used.
  if (const auto workload = world.workloads().Find(key)) {
    changed_.usages.insert(queueing::LocalQueueKey(*workload));
  }
  const queueing::WorkloadInfoPtr info = world.queues().Find(key);
  if (info == nullptr) {
    reasons_.erase(key);
    update.workloads.emplace_back(key, nullptr);
    return;
  }
  const auto reason = reasons_.find(key);
  update.workloads.emplace_back(
      key, MakePendingItem(*info, reason == reasons_.end() ? "" : reason->second));
  known_[key] = {info->cluster_queue, info->local_queue};
  changed_.orders.insert(info->cluster_queue);
  changed_.usages.insert(info->local_queue);
  if (world.queues().IsPreemptor(key)) first_[info->cluster_queue] = key;
}

// Which workload of each queue goes first because victims were asked to leave for it.
void PendingTracker::AddOrders(const state::World& world, PendingUpdate& update) {
  for (const std::string& name : std::exchange(changed_.orders, {})) {
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

void PendingTracker::Publish(const state::World& world, absl::Time now) {
  if (!synced_ && world.Synced()) {
    synced_ = true;
    index_->SetSynced();
  }
  PendingUpdate update;
  if (!following_) {
    if (!index_->wanted()) return;
    Start(world, update);
  }
  for (const std::string& name : std::exchange(changed_.cluster_queues, {})) {
    update.cluster_queues.emplace_back(name, world.cluster_queues().Contains({"", name}));
    changed_.orders.insert(name);
  }
  for (const ObjectKey& key : std::exchange(changed_.local_queues, {})) {
    AddLocalQueue(world, key, update);
    for (const ObjectKey& workload : world.WorkloadsOfLocalQueue(key)) {
      changed_.workloads.insert(workload);
    }
  }
  for (const ObjectKey& key : std::exchange(changed_.assumed, {})) {
    (world.IsAssumed(key) ? changed_.assumed : changed_.workloads).insert(key);
  }
  for (const ObjectKey& key : std::exchange(changed_.workloads, {})) {
    AddWorkload(world, key, update);
  }
  AddOrders(world, update);
  const absl::btree_set<ObjectKey> usages = std::exchange(changed_.usages, {});
  if (world.usage_ledger() != nullptr) {
    for (const ObjectKey& key : usages) {
      update.usages.emplace_back(key, world.queues().LocalQueueUsage(key));
    }
  }
  if (!update.Empty()) index_->Apply(update);
  if (index_->wanted()) index_->Ready();
  StopWhenIdle(now);
}

}  // namespace sluice::serve
