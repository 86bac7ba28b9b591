// Whether a flavor can serve a pod set as far as topology goes, and what is decided about topology
// once flavors are assigned.
//
// Contract: pure; the inventory is read, a Placer keeps scratch. Source: Kueue's concept page
// "Topology Aware Scheduling"; KEP-2724.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/kueue_types.h"
#include "flavor/assigner.h"
#include "topology/placer.h"

namespace sluice::flavor {

enum class TopologyMatch {
  kMatches,
  kNotSupported,  // it asks, and the flavor has no topology
  kUnknown,       // the flavor's topology is not known yet
  kLevelMissing,  // the topology lacks a level that it names, or it names none
  kOnlyTopology,  // it does not ask, and the flavor serves nothing else
};

// `has_topology`: whether the flavor names a topology; `tree`: its tree, nullptr while unknown.
// `covers_pods`: whether a resource of the pod spec itself is in the flavor's group: what is only
// quota may come from any flavor.
TopologyMatch MatchTopology(TopologyWish wish, const topology::TopologyRequest& request,
                            bool has_topology, const topology::Tree* tree, bool covers_pods);

// Whether every flavor of the ClusterQueue has a topology.
bool HasOnlyTopology(const api::ClusterQueueSpec& queue,
                     const std::function<bool(const FlavorName&)>& has_topology);

// The one flavor with a topology among those of a pod set; an error text when there is none or
// there are several.
struct TopologyFlavorOf {
  FlavorName flavor;
  std::string error;
};
TopologyFlavorOf FindTopologyFlavor(const PodSetAssignment& pod_set,
                                    const std::function<bool(const FlavorName&)>& has_topology);

// What placement makes of an assignment by quota.
struct TopologyOutcome {
  Mode mode = Mode::kFit;
  topology::WorkloadPlacement placement;  // kFit: now; kPreempt: as if nothing of ours ran
  std::string failed_pod_set;             // "" when the placement of now fits
  std::string reason;                     // why it does not
  std::shared_ptr<const topology::Failure> failure;
};

// `mode` is that of the assignment by quota. A fit that cannot be placed now becomes a preemption;
// a preemption that could not be placed even in an empty cluster does not fit. A request that
// repairs a node is only tried as things are.
TopologyOutcome DecideTopology(topology::Placer& placer, const topology::WorkloadRequest& request,
                               Mode mode);

}  // namespace sluice::flavor
