// Parts of the cycle that need nothing of its state (private to this room). Pure.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <string>
#include <utility>
#include <vector>

#include "admission/cycle.h"
#include "admission/nominator.h"

namespace sluice::admission {

// The root of the tree that a workload's ClusterQueue belongs to; nullptr in a cycle.
const quota::Node* RootOf(const Snapshot& snapshot, const std::string& cluster_queue);

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
