// Flavor assignment: which ResourceFlavor every requested resource of a workload gets.
//
// Pod sets are handled in the order of the spec (pod sets with the same podSetGroupName together).
// Per group of resources the flavors of the ClusterQueue are scanned in its order: a flavor is
// eligible when its taints are tolerated and its node labels match the pod's node selector and
// required node affinity; then the quota decides; `flavorFungibility` says where the scan stops.
// A workload that takes the place of another one (a slice of an elastic job) needs only what it
// asks for beyond that one, in the same flavors.
//
// Contract: pure; everything it found is data (Finding), texts are made elsewhere. The quota tree
// is only asked, never changed. Resource groups are searched in the order of the ClusterQueue's
// spec. Sources: Kueue documentation "Cluster Queue" (flavor fungibility) and "Resource Flavor";
// Kubernetes documentation "Taints and Tolerations", "Assigning Pods to Nodes"; KEP-582, KEP-77,
// KEP-8691.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "flavor/eligibility.h"
#include "quota/tree.h"
#include "resource/resource.h"
#include "topology/types.h"

namespace sluice::topology {
class Tree;
struct Failure;
}  // namespace sluice::topology

namespace sluice::flavor {

// Of an assignment, from worst to best: the worst of its parts.
enum class Mode { kNoFit, kPreempt, kDeferredFit, kFit };

// Of one flavor, from worst to best.
enum class Rank { kNoFit, kNoPreemptionCandidates, kPreempt, kReclaim, kFit };

// Why something does not fit, from the least to the most severe.
enum class Cause {
  kNone,
  kTopologyPlacementFailed,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kNoMatchingFlavor,
};

// One observation about one flavor (or about a resource without one).
struct Finding {
  enum class Kind {
    kResourceNotCovered,  // no resource group of the ClusterQueue has it
    kFlavorNotFound,      // there is no such ResourceFlavor
    kUntoleratedTaint,
    kAffinityMismatch,
    kTopologyMismatch,   // the flavor cannot serve the pod set as topology goes; `text` says why
    kNoPlace,            // there is quota, but no place on nodes; `text` and `place` say why
    kAboveMaximum,       // more than could ever be available
    kNotEnoughUnused,    // more than is available now
    kNoneAllowed,        // the ClusterQueue has none of the flavors that the workload may get
    kOtherThanReplaced,  // the workload whose place it takes has another flavor, `replaced`
  };
  Kind kind = Kind::kResourceNotCovered;
  FlavorName flavor;
  ResourceName resource;
  std::optional<api::Taint> taint;  // kUntoleratedTaint
  FlavorName replaced;              // kOtherThanReplaced
  std::string text;
  std::shared_ptr<const topology::Failure> place;
  // Amounts of the resource in the flavor.
  int64_t requested = 0;   // of this pod set (group)
  int64_t previously = 0;  // of pod sets of the same workload that were assigned before
  int64_t available = 0;   // what the ClusterQueue could take now
  int64_t maximum = 0;     // what it could take with everything else idle
  int64_t nominal = 0;     // its own quota
  bool operator==(const Finding&) const = default;

  int64_t Missing() const { return SaturatingSub(SaturatingAdd(requested, previously), available); }
};

// What was seen of one flavor that the scan looked at.
struct FlavorAttempt {
  FlavorName flavor;
  Rank rank = Rank::kNoFit;
  int borrow_level = 0;
  Cause cause = Cause::kNone;  // only for kNoFit
  std::vector<Finding> findings;
};

struct FlavorChoice {
  FlavorName flavor;
  Mode mode = Mode::kNoFit;
  int borrow_level = 0;
  // Position where the scan stopped in the list of flavors; -1 when it saw the last one.
  int tried_index = -1;
  bool operator==(const FlavorChoice&) const = default;
};

struct PodSetAssignment {
  std::string name;
  int32_t count = 0;
  Requests requests;                                    // with "pods" where that is covered
  Requests held;                                        // of these, what it has already
  absl::btree_map<ResourceName, FlavorChoice> flavors;  // empty when it does not fit
  std::vector<FlavorAttempt> attempts;
  std::vector<Finding> findings;  // why it does not fit or would have to preempt
  std::string error;              // "" or why the assignment could not be made at all
  Cause cause = Cause::kNone;
  bool fits = false;  // every resource got a flavor
};

struct Assignment {
  Mode mode = Mode::kFit;
  int borrow_level = 0;
  Cause cause = Cause::kNone;  // most severe over the pod sets
  std::vector<PodSetAssignment> pod_sets;
  FlavorResourceAmounts usage;  // of everything that got a flavor, beyond what is held

  // Whether a scan stopped before the last flavor.
  bool HasUntriedFlavors() const;
};

// Answers whether preempting would make room for `request` (the whole amount that the workload
// needs) in one cell. Not given: nothing can be preempted.
struct PreemptionOutcome {
  Rank rank = Rank::kNoPreemptionCandidates;  // or kPreempt, kReclaim
  int borrow_level = 0;
};
using PreemptionOracle =
    std::function<PreemptionOutcome(const FlavorResource& cell, int64_t request)>;

struct AssignOptions {
  bool ignore_undeclared = false;  // resources.quotaCheckStrategy: IgnoreUndeclared
  bool fungibility = true;         // gate FlavorFungibility
  bool fair_sharing = false;       // preemption follows shares: it may borrow
};

// What a pod set wants of topology: it asks itself; or it gets one because its ClusterQueue has
// nothing else; or nothing.
enum class TopologyWish { kNone, kAsked, kImplied };

struct TopologyAsk {
  TopologyWish wish = TopologyWish::kNone;
  topology::TopologyRequest request;
  // Resources that the pods themselves request. What is only quota may come from any flavor.
  std::vector<ResourceName> pod_resources;
};

// What an assignment depends on beside the workload. Everything must outlive the call.
struct AssignContext {
  const api::ClusterQueue* cluster_queue = nullptr;
  std::function<const api::ResourceFlavor*(const FlavorName&)>
      flavor;  // nullptr: none of that name
  const quota::Tree* tree = nullptr;
  AssignOptions options;
  PreemptionOracle preemption;  // may be empty
  // The only flavor that the resource of the pod set (by position) may get; "" or empty: any.
  std::function<FlavorName(size_t pod_set, const ResourceName&)> only_flavor;
  // The flavors that the workload may get at all; nullptr: any.
  const std::vector<FlavorName>* allowed = nullptr;
  // Position in the list of flavors at which the scan for the resource of the pod set begins. Empty
  // or past the end: 0.
  std::function<size_t(size_t pod_set, const ResourceName&)> start_at;
  // The tree of a flavor's topology, nullptr while it is unknown. Empty: topology does not count.
  std::function<const topology::Tree*(const FlavorName&)> topology;
};

// What the same pod set has in the workload whose place is taken.
struct PodSetHolding {
  Requests amounts;  // with "pods" where that is covered
  absl::btree_map<ResourceName, FlavorName> flavors;
};

struct PodSetInput {
  const api::PodSet* pod_set = nullptr;
  int32_t count = 0;
  const Requests* requests = nullptr;  // total of `count` pods, without "pods"
  const PodSetHolding* holding = nullptr;
  const TopologyAsk* topology = nullptr;  // nullptr: it wants nothing of topology
};

Assignment Assign(const AssignContext& context, const std::vector<PodSetInput>& pod_sets);

// What the workload has in all when it gets the assignment; its usage where nothing was held.
FlavorResourceAmounts WholeUsage(const std::vector<PodSetAssignment>& pod_sets);

// status.admission for an assignment of mode kFit.
api::Admission MakeAdmission(const std::string& cluster_queue, const Assignment& assignment);

}  // namespace sluice::flavor
