// Snapshot: everything that a cycle may look at.
//
// The World owns one and keeps it current as objects change (an entry per object, shared pointers
// to immutable values), so starting a cycle costs nothing. A cycle changes only usage in the quota
// tree, through an overlay that is undone before it returns. Thread-compatible.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "preemption/preemption.h"
#include "queueing/requests.h"
#include "quota/credit_standing.h"
#include "quota/tree.h"
#include "topology/inventory.h"

namespace sluice::admission {

struct ClusterQueueSnapshot {
  std::shared_ptr<const api::ClusterQueue> cluster_queue;
  bool active = false;  // its Active condition would be True
  // Of its spec, as the cycle needs them.
  preemption::Policies policies{};
  bool usage_based = false;  // admissionMode UsageBasedAdmissionFairSharing
  // Every flavor has a topology: pods that do not ask for a place get one all the same.
  bool only_topology = false;
  bool has_topology = false;  // at least one flavor does
  // Places are chosen when the checks are Ready: by other clusters, or on nodes that are yet to
  // come for these flavors.
  bool places_elsewhere = false;
  absl::btree_set<FlavorName> provisioned;

  ClusterQueueSnapshot() = default;
  ClusterQueueSnapshot(std::shared_ptr<const api::ClusterQueue> object, bool is_active);
};

// From the configuration and the feature gates.
struct CycleOptions {
  bool ignore_undeclared = false;              // quotaCheckStrategy IgnoreUndeclared
  bool flavor_fungibility = true;              // gate FlavorFungibility
  bool priority_sorting_within_cohort = true;  // gate PrioritySortingWithinCohort
  bool partial_admission = true;               // gate PartialAdmission
  bool prioritize_preemptors = false;          // gate PrioritizePreemptorWorkloads
  // Gate RecomputeAssignmentUponPreemptionTargetsOverlap.
  bool recompute_on_overlap = true;
  // Gate FlavorFungibilityPreserveScanProgress.
  bool preserve_scan_progress = true;
  bool block_admission = false;  // waitForPodsReady.blockAdmission
  // Set: preemption and the order of a cycle follow dominant resource shares.
  std::optional<preemption::FairSharingRules> fair_sharing{};
  bool prioritize_non_borrowing = true;  // gate FairSharingPrioritizeNonBorrowing
  bool elastic_jobs = true;              // gate ElasticJobsViaWorkloadSlices
  bool reclaimable_pods = true;          // gate ReclaimablePods
  bool hostname_prefixes = true;         // gate TASAssignmentsEncodingByHostnamePrefix
  bool recompute_places = true;          // gate TASRecomputeAssignmentWithinSchedulingCycle
  bool fail_fast = true;                 // gate TASFailedNodeReplacementFailFast
  bool skip_pod_owned = true;            // gate SkipReassignmentForPodOwnedWorkloads
  preemption::CheckpointRules checkpoints{};
};

struct Snapshot {
  absl::btree_map<std::string, ClusterQueueSnapshot> cluster_queues;
  absl::btree_map<FlavorName, std::shared_ptr<const api::ResourceFlavor>> flavors;
  absl::btree_map<std::string, std::shared_ptr<const api::Namespace>> namespaces;
  // Limits of all ClusterQueues, and the usage of everything that holds quota or was assumed to.
  quota::Tree tree;
  // The same workloads one by one, as candidates for preemption.
  preemption::ReservedWorkloads reserved;
  // Who was evicted for whom.
  preemption::History history;
  // How many of them have pods that are not all ready yet.
  int64_t not_ready = 0;
  // Whether LocalQueue `a` used more than `b`, for usage-based ClusterQueues. Empty: feature off.
  std::function<bool(const ObjectKey& a, const ObjectKey& b)> used_more;
  // The admitted variant of the same parent, nullptr for none. Empty: concurrent admission is off.
  std::function<std::shared_ptr<const api::Workload>(const api::Workload& variant)>
      admitted_sibling;
  // What is free on nodes; nullptr: the gate TopologyAwareScheduling is off. A cycle changes it
  // only through overlays that are undone before it returns.
  topology::Inventory* topology = nullptr;
  // What requests of workloads in the namespace depend on; set where `topology` is.
  std::function<queueing::RequestContext(const std::string& ns)> request_context;
  CycleOptions options;
  // What fair-share credits say at the instant of the cycle; nullptr without any policy.
  const quota::CreditStanding* credits = nullptr;

  const ClusterQueueSnapshot* FindClusterQueue(const std::string& name) const;
  const api::ResourceFlavor* FindFlavor(const FlavorName& name) const;
  // It names a topology, and topologies count.
  bool HasTopology(const FlavorName& name) const;
  const api::Namespace* FindNamespace(const std::string& name) const;
};

// The limits that a ClusterQueue's (or Cohort's) resource groups give, in quota units.
quota::CellLimits LimitsOf(const std::vector<api::ResourceGroup>& groups);

// Whether workloads of that namespace may use the ClusterQueue: no selector matches nothing.
bool NamespaceMatches(const api::ClusterQueue& cluster_queue, const api::Namespace& ns);

}  // namespace sluice::admission
