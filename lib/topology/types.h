// What the topology room is told and what it answers, as plain values.
//
// Contract: values only. Amounts are whole numbers in the units of resource/resource.h. The room
// does not know API objects; whoever feeds it copies the few fields that matter. Domains are named
// by the values of the level labels, coarsest level first, and compare level by level as byte
// strings. Source: KEP-2724 (topology-aware scheduling) and Kueue's concept page "Topology Aware
// Scheduling"; Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and Tolerations".
#pragma once

#include <absl/container/btree_map.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "resource/resource.h"

namespace sluice::topology {

inline constexpr char kHostname[] = "kubernetes.io/hostname";
// Of levels, coarsest first: the last one is the host.
inline bool EndsInHosts(const std::vector<std::string>& levels) {
  return !levels.empty() && levels.back() == kHostname;
}

using Labels = absl::btree_map<std::string, std::string>;
using NodeName = std::string;

struct Taint {
  std::string key;
  std::string value;
  std::string effect;
  auto operator<=>(const Taint&) const = default;
};
struct Toleration {
  std::string key;
  std::string op;  // "", Equal, Exists, Lt, Gt
  std::string value;
  std::string effect;
  auto operator<=>(const Toleration&) const = default;
};
struct Requirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
  auto operator<=>(const Requirement&) const = default;
};
// All requirements of a term must hold; a term without any matches nothing.
struct SelectorTerm {
  std::vector<Requirement> labels;
  std::vector<Requirement> fields;  // only metadata.name exists
  auto operator<=>(const SelectorTerm&) const = default;
};
struct PreferredTerm {
  int32_t weight = 0;
  SelectorTerm term;
  auto operator<=>(const PreferredTerm&) const = default;
};

// Which nodes the pods of a pod set accept. Equal filters share what was worked out about nodes.
struct NodeFilter {
  Labels node_selector;
  std::vector<SelectorTerm> required;  // alternatives; none means no requirement
  std::vector<PreferredTerm> preferred;
  std::vector<Toleration> tolerations;  // those of the flavor are added by the room
  bool operator==(const NodeFilter&) const = default;
  friend bool operator<(const NodeFilter& a, const NodeFilter& b) {
    return std::tie(a.node_selector, a.required, a.preferred, a.tolerations) <
           std::tie(b.node_selector, b.required, b.preferred, b.tolerations);
  }
};

// A node as far as placement looks at it.
struct Node {
  NodeName name;
  Labels labels;
  std::vector<Taint> taints;
  Requests allocatable;
  bool ready = false;
  bool unschedulable = false;
  // One of DrainInProgress, Drained, MaintenanceInProgress, GracefulNodeShutdownInProgress is True.
  bool leaving = false;
  bool maintenance_planned = false;          // MaintenancePlanned is True
  std::optional<int64_t> maintenance_start;  // Unix seconds, where it is known
};

// A ResourceFlavor with a topology.
struct Flavor {
  std::string topology;             // name, for texts
  std::vector<std::string> levels;  // node labels, coarsest first
  Labels node_labels;
  std::vector<Toleration> tolerations;
  bool operator==(const Flavor&) const = default;
};

// Where the pods of one pod set go. In a topology that ends in hosts the host is the only level.
struct AssignedDomain {
  std::vector<std::string> values;
  int64_t count = 0;
  bool operator==(const AssignedDomain&) const = default;
};
struct Assignment {
  std::vector<std::string> levels;
  std::vector<AssignedDomain> domains;  // in the order of the tree: it is the order of ranks
  bool operator==(const Assignment&) const = default;
};

// What a workload occupies: for each pod set the pods on each domain, and what one pod takes.
struct PodSetUsage {
  FlavorName flavor;
  Requests per_pod;  // without the resource "pods", of which every pod takes one
  Assignment assignment;
  bool operator==(const PodSetUsage&) const = default;
};
using WorkloadUsage = std::vector<PodSetUsage>;

// ---- requests ----

struct SliceLayer {
  std::string level;
  int64_t size = 0;
  bool operator==(const SliceLayer&) const = default;
};

enum class Spreading {
  kPack,    // as few domains as possible
  kSpread,  // as even as possible over the domains of every level
};

struct TopologyRequest {
  std::string required = {};   // a level, or ""
  std::string preferred = {};  // a level, or ""
  bool unconstrained = false;
  bool implied = false;  // no request, but the queue has only flavors with a topology
  std::string slice_level = {};
  std::optional<int64_t> slice_size = {};
  std::vector<SliceLayer> layers =
      {};                  // outermost first; these win over slice_level and slice_size
  std::string group = {};  // pod sets of the same group are placed together
  Spreading spreading = Spreading::kPack;
  bool operator==(const TopologyRequest&) const = default;
};

// What is known of an earlier assignment of the pod set.
enum class Previous {
  kNone,
  kReplaceNode,  // the workload runs there, and one node failed
  kResize,       // an earlier slice of an elastic workload runs there
};

struct PodSetRequest {
  std::string name;
  FlavorName flavor;
  int64_t count = 0;
  Requests per_pod;  // without the resource "pods"
  TopologyRequest topology;
  NodeFilter filter;
  Previous previous_kind = Previous::kNone;
  Assignment previous;
  NodeName failed_node;  // for kReplaceNode
};

// Feature gates and configuration that change a placement.
struct Options {
  bool mixed_profile = true;        // TASProfileMixed
  bool balanced = false;            // TASBalancedPlacement
  bool preferred_affinity = false;  // TASRespectNodeAffinityPreferred
  bool overlapping_flavors = true;  // TASHandleOverlappingFlavors
  bool exclude_leaving = true;      // topology.nodeLifecycle: Exclude
  bool exclude_maintenance = true;  // topology.maintenance: Exclude
};

struct WorkloadRequest {
  std::vector<PodSetRequest> pod_sets;  // in the order of the workload's spec
  // As if no workload with a topology assignment were there; foreign pods still count.
  bool simulate_empty = false;
  int64_t now = 0;               // Unix seconds; for planned maintenance only
  std::optional<int64_t> bound;  // seconds the workload runs at most
};

}  // namespace sluice::topology
