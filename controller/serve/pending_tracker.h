// PendingTracker: keeps a PendingIndex in step with the queues of a World.
//
// Is told what the Operator tells its observer, and looks after each batch at what that can have
// changed: a workload in its queue, the one that goes first because others were preempted for it,
// the usage of a LocalQueue. O(changes) a batch; a LocalQueue that changes costs its workloads.
//
// Contract: on the loop's thread.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <memory>
#include <string>

#include "admission/cycle.h"
#include "serve/pending_index.h"
#include "state/ports.h"
#include "state/world.h"

namespace sluice::serve {

class PendingTracker {
 public:
  explicit PendingTracker(std::shared_ptr<PendingIndex> index) : index_(std::move(index)) {}

  void OnChange(const state::Ref& ref);
  void OnDecision(const admission::Decision& decision) { workloads_.insert(decision.info->Key()); }
  void OnRefused(const state::Action& action);
  // After a batch.
  void Publish(const state::World& world);

  const std::shared_ptr<PendingIndex>& index() const { return index_; }

 private:
  void AddOrders(const state::World& world, PendingUpdate& update);

  std::shared_ptr<PendingIndex> index_;
  absl::btree_set<ObjectKey> workloads_;
  absl::btree_set<ObjectKey> assumed_;       // may come back when the write of an admission fails
  absl::btree_set<ObjectKey> local_queues_;  // came, changed or went
  absl::btree_set<std::string> cluster_queues_;
  absl::btree_set<std::string> orders_;  // ClusterQueues whose workloads changed
  absl::btree_set<ObjectKey> usages_;    // LocalQueues whose workloads changed
  absl::btree_map<ObjectKey, std::pair<std::string, ObjectKey>> known_;  // where it was listed
  absl::btree_map<std::string, ObjectKey> first_;                        // by ClusterQueue
  bool synced_ = false;
};

}  // namespace sluice::serve
