// Snapshot: everything that a cycle may look at.
//
// The World owns one and keeps it current as objects change (an entry per object, shared pointers
// to immutable values), so starting a cycle costs nothing. A cycle changes only usage in the quota
// tree, through an overlay that is undone before it returns. Thread-compatible.
#pragma once

#include <absl/container/btree_map.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "preemption/preemption.h"
#include "quota/tree.h"

namespace sluice::admission {

struct ClusterQueueSnapshot {
  std::shared_ptr<const api::ClusterQueue> cluster_queue;
  bool active = false;  // its Active condition would be True
  // Of its spec, as the cycle needs them.
  preemption::Policies policies{};
  bool usage_based = false;  // admissionMode UsageBasedAdmissionFairSharing

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
  CycleOptions options;

  const ClusterQueueSnapshot* FindClusterQueue(const std::string& name) const;
  const api::ResourceFlavor* FindFlavor(const FlavorName& name) const;
  const api::Namespace* FindNamespace(const std::string& name) const;
};

// The limits that a ClusterQueue's (or Cohort's) resource groups give, in quota units.
quota::CellLimits LimitsOf(const std::vector<api::ResourceGroup>& groups);

// Whether workloads of that namespace may use the ClusterQueue: no selector matches nothing.
bool NamespaceMatches(const api::ClusterQueue& cluster_queue, const api::Namespace& ns);

}  // namespace sluice::admission
