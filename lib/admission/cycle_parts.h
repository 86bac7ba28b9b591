// Parts of the cycle that need nothing of its state (private to this room). Pure.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admission/cycle.h"
#include "admission/nominator.h"
#include "admission/places.h"

namespace sluice::admission {

// The root of the tree that a workload's ClusterQueue belongs to; nullptr in a cycle.
const quota::Node* RootOf(const Snapshot& snapshot, const std::string& cluster_queue);

// Who has to do with whom: quota is shared within a tree, nodes by all that get places.
class Scope {
 public:
  Scope(const Snapshot& snapshot, const Places& places) : snapshot_(&snapshot), places_(&places) {}

  void Include(const std::string& cluster_queue);
  bool ConcernsQuota(const std::string& cluster_queue) const;
  bool ConcernsPlaces(const std::string& cluster_queue) const;
  bool empty() const { return roots_.empty(); }

 private:
  const Snapshot* snapshot_;
  const Places* places_;
  absl::btree_set<const quota::Node*> roots_;
  bool of_places_ = false;
};

// What heads that wait keep from others.
struct Defence {
  std::vector<queueing::WorkloadInfoPtr> heads;                  // that take part in the cycle
  std::vector<std::shared_ptr<const topology::Booking>> places;  // of those that do not
};

// What is kept from those that may get something in `scope`. Heads of other trees take part only
// where their places are `contested`. The heads are popped. `except`: ClusterQueues left out.
Defence DefenceOf(queueing::QueueManager& queues, const Scope& scope, bool contested,
                  const absl::btree_set<std::string>& except);

// How an admitted workload is listed among those that hold quota.
preemption::ReservedWorkload ReservedBy(const Decision& decision, const quota::Tree& tree,
                                        absl::Time now);

// What a workload that has nobody to preempt may keep others of its cycle from taking.
quota::CellAmounts KeptFrom(const Entry& entry);

// A scan that goes on with the next flavors may end with a worse reason than it began with: what
// comes closest is what is told. `all`: earlier decisions, with the newest of each workload at the
// positions `last`.
void TellOfWholeScan(const std::vector<Decision>& all,
                     const absl::btree_map<ObjectKey, size_t>& last, Decision& decision);

// A later decision about the same workload finds its victims on their way out; whoever acts on it
// must still be told to evict them.
void KeepVictims(Decision& decision, const std::vector<Decision::Victim>& issued);

// Of all decisions the newest about each workload, at the positions `last`, with the victims that
// earlier ones have `issued`; in the order in which they were made. Moves them out.
std::vector<Decision> Newest(
    std::vector<Decision>& all, const absl::btree_map<ObjectKey, size_t>& last,
    const absl::btree_map<ObjectKey, std::vector<Decision::Victim>>& issued);

// What was listed under each key before it was changed, oldest first; nullptr: nothing.
using ReservedBefore = std::vector<std::pair<ObjectKey, preemption::ReservedWorkloadPtr>>;
void PutBackReserved(const ReservedBefore& before, preemption::ReservedWorkloads& reserved);

}  // namespace sluice::admission
