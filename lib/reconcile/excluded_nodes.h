// Nodes that a pod set may not use now though they belong to its flavor, counted by why.
//
// What placement knows of them is in its failure, but nodes that are cordoned, not ready or (where
// a topology does not end in hosts) being drained are in no tree at all. They are looked for among
// the World's nodes here, with what they could take besides the workloads that still run there.
// Only for questions: O(nodes), and O(workloads that hold quota) where such nodes would be enough
// if nothing ran there. What waits costs nothing.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <string>

#include "api/kueue_types.h"
#include "state/world.h"
#include "topology/failure.h"

namespace sluice::reconcile {

struct ExcludedNodes {
  // "cordon", "notReady", "drain", "maintenance", "taint", "affinity" -> nodes.
  absl::btree_map<std::string, int64_t> by_cause;
  int64_t nodes = 0;  // of the flavor, with those that can be used
  // Pods or slices, as the failure counts: that lack, and that would fit on the excluded nodes (at
  // most, where that is less than what lacks).
  int64_t missing = 0;
  int64_t room = 0;

  int64_t Count() const;
  // "3 of 8 may not be used (cordon 2, taint 1)".
  std::string Text() const;
};

// `flavor` is that of the failure.
ExcludedNodes FindExcluded(state::World& world, const api::Workload& workload,
                           const std::string& pod_set, const FlavorName& flavor,
                           const topology::Failure& failure);

}  // namespace sluice::reconcile
