// ReservedWorkloads: the workloads that hold quota, per ClusterQueue, in the order in which they
// would be preempted.
//
// The World keeps one current. Thread-compatible. Put and Remove cost O(workloads of the
// ClusterQueue) moves of a pointer; everything else is a lookup.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "preemption/checkpoint.h"
#include "quota/amounts.h"

namespace sluice::preemption {

struct ReservedWorkload {
  std::shared_ptr<const api::Workload> workload;
  std::string cluster_queue;
  ObjectKey local_queue;
  int64_t priority = 0;         // effective
  absl::Time queue_order_time;  // orders it among waiting workloads
  absl::Time reserved_at;       // when it got its quota; InfiniteFuture: not yet visible
  bool evicted = false;         // it is on its way out, but holds its quota still
  quota::CellAmounts usage;     // in the cells of the quota tree
  // Since when it runs; InfiniteFuture: it does not yet.
  absl::Time started_at = absl::InfiniteFuture();
  // What its annotations say; nullptr when it has none. Set by ReservedWorkloads::Put.
  std::shared_ptr<const Checkpoints> checkpoints;

  ObjectKey Key() const { return workload->metadata.Key(); }
  const std::string& Uid() const { return workload->metadata.uid; }
};
using ReservedWorkloadPtr = std::shared_ptr<const ReservedWorkload>;

// "a is preempted before b" within one ClusterQueue: those on their way out first, then lower
// priority, then the one that got its quota later, then UID and name.
bool PreemptedBefore(const ReservedWorkload& a, const ReservedWorkload& b);

class ReservedWorkloads {
 public:
  using List = std::vector<const ReservedWorkload*>;

  // Adds it, or replaces what is known under its key.
  void Put(ReservedWorkload workload);
  void Remove(const ObjectKey& key);
  // nullptr when it holds nothing.
  const ReservedWorkload* Find(const ObjectKey& key) const;
  // Keeps the value alive beyond its removal.
  ReservedWorkloadPtr Share(const ObjectKey& key) const;
  // Of one ClusterQueue, sorted by PreemptedBefore.
  const List& Of(const std::string& cluster_queue) const;
  // Those with annotations about checkpoints, by name.
  const absl::btree_map<ObjectKey, const ReservedWorkload*>& WithCheckpoints() const {
    return with_checkpoints_;
  }
  size_t size() const { return by_key_.size(); }

 private:
  absl::btree_map<ObjectKey, ReservedWorkloadPtr> by_key_;
  absl::btree_map<std::string, List> by_queue_;
  absl::btree_map<ObjectKey, const ReservedWorkload*> with_checkpoints_;
};

}  // namespace sluice::preemption
