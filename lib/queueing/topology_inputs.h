// From API objects to what the topology room is fed and asked, and from its answers back.
//
// Contract: pure. Sources: Kueue's concept page "Topology Aware Scheduling" and its list of labels
// and annotations; KEP-2724; the Kubernetes API reference (Node conditions).
#pragma once

#include <absl/container/btree_set.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "queueing/requests.h"
#include "topology/types.h"

namespace sluice::queueing {

// Annotations of pod templates.
inline constexpr char kRequiredTopology[] = "kueue.x-k8s.io/podset-required-topology";
inline constexpr char kPreferredTopology[] = "kueue.x-k8s.io/podset-preferred-topology";
inline constexpr char kUnconstrainedTopology[] = "kueue.x-k8s.io/podset-unconstrained-topology";
inline constexpr char kSliceRequiredTopology[] = "kueue.x-k8s.io/podset-slice-required-topology";
inline constexpr char kSliceSize[] = "kueue.x-k8s.io/podset-slice-size";
inline constexpr char kSliceConstraints[] =
    "kueue.x-k8s.io/podset-slice-required-topology-constraints";
inline constexpr char kPodSetGroupName[] = "kueue.x-k8s.io/podset-group-name";
inline constexpr char kPlacement[] = "sluice.dev/placement";                 // see PlacementProblem
inline constexpr char kMaintenanceStart[] = "sluice.dev/maintenance-start";  // of a Node, RFC 3339

// ---- what is there ----

topology::Node TopologyNode(const api::Node& node);
topology::Flavor TopologyFlavor(const api::ResourceFlavor& flavor, const api::Topology& topology);
// A pod whose usage lowers the free capacity of its node by itself: bound, not ended, and not one
// of ours. Pods with a topology annotation are ours, also when their workload is gone.
bool IsForeignPod(const api::Pod& pod);
// The annotations of a pod say that it is placed (or wants to be).
bool AnnotatedForTopology(const api::StringMap& annotations);
Requests ForeignRequests(const api::Pod& pod);

// ---- what is asked ----

// The request of the annotations of a pod template; absent when nothing in them asks for topology.
// `multi_layer`: gate TASMultiLayerTopology. InvalidArgument for a value that cannot be read, that
// of kPlacement too (which is no part of the request: it is read where the pods are placed).
absl::StatusOr<std::optional<api::PodSetTopologyRequest>> RequestOfAnnotations(
    const api::StringMap& annotations, bool multi_layer);

// Why the value of the annotation kPlacement is refused; nullopt for Pack and Spread.
std::optional<std::string> PlacementProblem(const std::string& value);

// Whether the pod set asks for topology itself (index labels or a group name alone do not).
bool AsksForTopology(const api::PodSet& pod_set);

// `implied`: the ClusterQueue has only flavors with a topology, and the pod set does not ask.
topology::TopologyRequest TopologyRequestOf(const api::PodSet& pod_set, bool implied);

// What the pods of a pod set accept: its selector, affinity and tolerations, with those that Ready
// admission checks add. InvalidArgument when a check contradicts the pod set.
absl::StatusOr<topology::NodeFilter> NodeFilterOf(const api::Workload& workload,
                                                  const api::PodSet& pod_set);

// What one pod of it requests, by its spec alone: rules about quota do not count.
Requests PodSetPerPod(const api::PodSet& pod_set, const RequestContext& context);

// One pod set as placement is asked about it. `flavor` is the one with a topology that it was
// given.
absl::StatusOr<topology::PodSetRequest> TopologyPodSet(const api::Workload& workload,
                                                       const api::PodSet& pod_set, int64_t count,
                                                       const FlavorName& flavor, bool implied,
                                                       const RequestContext& context);

// ---- what is known ----

// A pod set that was given places. What it points to is part of the workload.
struct PlacedPodSet {
  const api::PodSet* pod_set = nullptr;
  const api::PodSetAssignment* assigned = nullptr;
  absl::StatusOr<topology::Assignment> places;  // InvalidArgument when it cannot be read
};
// Those that the pod set was given; one without requests of its own is served by those of its
// group.
absl::btree_set<FlavorName> FlavorsOf(const api::Workload& workload, const PlacedPodSet& placed);
// Whether any pod set of it was given places.
bool HasPlaces(const api::Admission& admission);
// Those of the workload's admission, in its order; assignments of unknown pod sets are left out.
std::vector<PlacedPodSet> PlacedPodSets(const api::Workload& workload);

// What a workload takes by the assignments in its admission: an entry for each flavor of a pod set.
// Only one of them has a topology, and the inventory counts entries of that one alone, so nothing
// depends on whether the flavor was known before the workload.
topology::WorkloadUsage TopologyUsage(const api::Workload& workload, const RequestContext& context);

// `by_hostname_prefix`: gate TASAssignmentsEncodingByHostnamePrefix.
api::TopologyAssignment EncodeAssignment(const topology::Assignment& assignment,
                                         bool by_hostname_prefix);
// InvalidArgument when the numbers of a slice do not agree.
absl::StatusOr<topology::Assignment> DecodeAssignment(const api::TopologyAssignment& assignment);

}  // namespace sluice::queueing
