// Which gated pods of an admitted workload may start now, and on which nodes.
//
// Contract: pure. Acts on what the pods are: a caller that has removed gates and has not seen that
// yet must wait, or a pod is counted twice. Source: Kueue's concept page "Topology Aware
// Scheduling"; Kubernetes documentation, "Pod Scheduling Readiness".
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "reconcile/plan.h"
#include "state/placements.h"
#include "state/world.h"

namespace sluice::reconcile {

struct UngatedPod {
  state::PlacedPodPtr pod;
  api::StringMap node_selector;  // to be set, beside what the pod has; its gate goes with it
};

// Nothing about the nodes that the workload runs on has to be written before its pods are let go.
// `pods`: those of its chain. Of this room's placement.cc.
bool PlacesAreSound(const state::World& world, const api::Workload& workload,
                    const std::vector<state::PlacedPodPtr>& pods, absl::Time now);

// For a workload of which nothing has started: takes its admission back when the places do not hold
// any more. True when that took a write. Of placement.cc, too.
bool RollBackPlaces(const state::World& world, const api::Workload& workload, absl::Time now,
                    Plan& plan);

// `pods`: those of the workload's chain, in a stable order. Pods whose node has failed stay gated
// until there is a replacement. InvalidArgument for an assignment or an index offset that cannot be
// read.
absl::StatusOr<std::vector<UngatedPod>> UngatePods(const api::Workload& workload,
                                                   const std::vector<state::PlacedPodPtr>& pods);

}  // namespace sluice::reconcile
