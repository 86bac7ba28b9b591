// PendingTracker: keeps a PendingIndex in step with the queues of a World.
//
// Does nothing until somebody asks the index. Then it fills it in one pass over the queues, is told
// from there on what the Operator tells its observer, and looks after each batch at what that can
// have changed: a workload in its queue, the one that goes first because others were preempted for
// it, the usage of a LocalQueue. O(changes) a batch; a LocalQueue that changes costs its workloads.
// It stops when nobody has asked for kIdle.
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
  static constexpr absl::Duration kIdle = absl::Minutes(10);

  explicit PendingTracker(std::shared_ptr<PendingIndex> index) : index_(std::move(index)) {}

  void OnChange(const state::Ref& ref) {
    if (following_) Follow(ref);
  }
  void OnDecision(const admission::Decision& decision) {
    if (following_) Decided(decision);
  }
  void OnRefused(const state::Action& action) {
    if (following_ && action.kind == api::Kind::kWorkload) changed_.workloads.insert(action.key);
  }
  // After a batch.
  void Publish(const state::World& world, absl::Time now);

  const std::shared_ptr<PendingIndex>& index() const { return index_; }
  bool following() const { return following_; }

 private:
  // What is to be looked at.
  struct Changed {
    absl::btree_set<ObjectKey> workloads;
    absl::btree_set<ObjectKey> assumed;       // may come back when the write of an admission fails
    absl::btree_set<ObjectKey> local_queues;  // came, changed or went
    absl::btree_set<std::string> cluster_queues;
    absl::btree_set<std::string> orders;  // ClusterQueues whose workloads changed
    absl::btree_set<ObjectKey> usages;    // LocalQueues whose workloads changed
  };

  void Follow(const state::Ref& ref);
  void Decided(const admission::Decision& decision);
  void Start(const state::World& world, PendingUpdate& update);
  void FindFirst(const state::World& world, const std::string& cluster_queue);
  void StopWhenIdle(absl::Time now);
  void AddLocalQueue(const state::World& world, const ObjectKey& key, PendingUpdate& update);
  void AddWorkload(const state::World& world, const ObjectKey& key, PendingUpdate& update);
  void AddOrders(const state::World& world, PendingUpdate& update);

  std::shared_ptr<PendingIndex> index_;
  bool following_ = false;
  bool synced_ = false;
  absl::Time next_idle_check_ = absl::InfinitePast();
  Changed changed_;
  absl::btree_map<ObjectKey, std::pair<std::string, ObjectKey>> known_;  // where it was listed
  absl::btree_map<std::string, ObjectKey> first_;                        // by ClusterQueue
  absl::btree_map<ObjectKey, std::string> reasons_;  // of those decided about since it follows
};

}  // namespace sluice::serve
