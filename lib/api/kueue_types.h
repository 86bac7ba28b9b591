// The kinds of the API group kueue.x-k8s.io, version v1beta2.
//
// Source of names and meanings: the public Kueue API reference (kueue.sigs.k8s.io, "Kueue API").
// Plain values; the rules that a field must obey stand beside its description in kueue_fields.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core_types.h"
#include "api/meta_types.h"
#include "base/boxed.h"
#include "resource/resource.h"

namespace sluice::api {

// ---- shared ----

struct ResourceQuota {
  ResourceName name;
  Quantity nominal_quota;
  std::optional<Quantity> borrowing_limit;
  std::optional<Quantity> lending_limit;
  bool operator==(const ResourceQuota&) const = default;
};
struct FlavorQuotas {
  FlavorName name;
  std::vector<ResourceQuota> resources;
  bool operator==(const FlavorQuotas&) const = default;
};
struct ResourceGroup {
  std::vector<ResourceName> covered_resources;
  std::vector<FlavorQuotas> flavors;
  bool operator==(const ResourceGroup&) const = default;
};
struct FairSharing {
  std::optional<Quantity> weight;
  bool operator==(const FairSharing&) const = default;
};

struct ResourceUsage {
  ResourceName name;
  Quantity total;
  Quantity borrowed;
  bool operator==(const ResourceUsage&) const = default;
};
struct FlavorUsage {
  FlavorName name;
  std::vector<ResourceUsage> resources;
  bool operator==(const FlavorUsage&) const = default;
};
struct LocalQueueResourceUsage {
  ResourceName name;
  Quantity total;
  bool operator==(const LocalQueueResourceUsage&) const = default;
};
struct LocalQueueFlavorUsage {
  FlavorName name;
  std::vector<LocalQueueResourceUsage> resources;
  bool operator==(const LocalQueueFlavorUsage&) const = default;
};

struct AdmissionFairSharingStatus {
  ResourceList consumed_resources;
  std::optional<absl::Time> last_update;
  bool operator==(const AdmissionFairSharingStatus&) const = default;
};
struct FairSharingStatus {
  int64_t weighted_share = 0;
  std::optional<AdmissionFairSharingStatus> admission_fair_sharing_status;  // LocalQueue only
  bool operator==(const FairSharingStatus&) const = default;
};

// ---- ClusterQueue ----

struct FlavorFungibility {
  std::string when_can_borrow;   // MayStopSearch, TryNextFlavor
  std::string when_can_preempt;  // MayStopSearch, TryNextFlavor
  std::string preference;        // "", BorrowingOverPreemption, PreemptionOverBorrowing
  bool operator==(const FlavorFungibility&) const = default;
};
struct BorrowWithinCohort {
  std::string policy;  // Never, LowerPriority
  std::optional<int32_t> max_priority_threshold;
  bool operator==(const BorrowWithinCohort&) const = default;
};
struct ClusterQueuePreemption {
  std::string reclaim_within_cohort;  // Never, LowerPriority, Any
  std::optional<BorrowWithinCohort> borrow_within_cohort;
  std::string within_cluster_queue;  // Never, LowerPriority, LowerOrNewerEqualPriority
  bool operator==(const ClusterQueuePreemption&) const = default;
};
struct AdmissionCheckStrategyRule {
  std::string name;
  std::vector<FlavorName> on_flavors;
  bool operator==(const AdmissionCheckStrategyRule&) const = default;
};
struct AdmissionChecksStrategy {
  std::vector<AdmissionCheckStrategyRule> admission_checks;
  bool operator==(const AdmissionChecksStrategy&) const = default;
};
struct AdmissionScope {
  std::string admission_mode;
  bool operator==(const AdmissionScope&) const = default;
};
struct ConcurrentAdmissionConstraints {
  std::string last_acceptable_flavor_name;
  bool operator==(const ConcurrentAdmissionConstraints&) const = default;
};
struct ConcurrentAdmissionMigration {
  std::string mode;  // TryPreferredFlavors, RetainFirstAdmission
  std::optional<ConcurrentAdmissionConstraints> constraints;
  bool operator==(const ConcurrentAdmissionMigration&) const = default;
};
struct ConcurrentAdmissionPolicy {
  ConcurrentAdmissionMigration migration;
  bool operator==(const ConcurrentAdmissionPolicy&) const = default;
};
struct ClusterQueueSpec {
  std::vector<ResourceGroup> resource_groups;
  std::string cohort_name;
  std::string queueing_strategy;  // "" reads as BestEffortFIFO
  std::optional<LabelSelector> namespace_selector;
  std::optional<FlavorFungibility> flavor_fungibility;
  std::optional<ClusterQueuePreemption> preemption;
  std::optional<AdmissionChecksStrategy> admission_checks_strategy;
  std::string stop_policy;  // "" reads as None
  std::optional<FairSharing> fair_sharing;
  std::optional<AdmissionScope> admission_scope;
  std::optional<ConcurrentAdmissionPolicy> concurrent_admission_policy;
  bool operator==(const ClusterQueueSpec&) const = default;
};
struct ClusterQueueStatus {
  Conditions conditions;
  std::vector<FlavorUsage> flavors_reservation;
  std::vector<FlavorUsage> flavors_usage;
  int32_t pending_workloads = 0;
  int32_t reserving_workloads = 0;
  int32_t admitted_workloads = 0;
  std::optional<FairSharingStatus> fair_sharing;
  bool operator==(const ClusterQueueStatus&) const = default;
};
struct ClusterQueue {
  ObjectMeta metadata;
  ClusterQueueSpec spec;
  ClusterQueueStatus status;
};

// ---- LocalQueue ----

struct LocalQueueSpec {
  std::string cluster_queue;
  std::string stop_policy;
  std::optional<FairSharing> fair_sharing;
  bool operator==(const LocalQueueSpec&) const = default;
};
struct LocalQueueStatus {
  Conditions conditions;
  int32_t pending_workloads = 0;
  int32_t reserving_workloads = 0;
  int32_t admitted_workloads = 0;
  std::vector<LocalQueueFlavorUsage> flavors_reservation;
  std::vector<LocalQueueFlavorUsage> flavors_usage;
  std::optional<FairSharingStatus> fair_sharing;
  bool operator==(const LocalQueueStatus&) const = default;
};
struct LocalQueue {
  ObjectMeta metadata;
  LocalQueueSpec spec;
  LocalQueueStatus status;
};

// ---- Cohort ----

struct CohortSpec {
  std::string parent_name;
  std::vector<ResourceGroup> resource_groups;
  std::optional<FairSharing> fair_sharing;
  bool operator==(const CohortSpec&) const = default;
};
struct CohortStatus {
  std::optional<FairSharingStatus> fair_sharing;
  bool operator==(const CohortStatus&) const = default;
};
struct Cohort {
  ObjectMeta metadata;
  CohortSpec spec;
  CohortStatus status;
};

// ---- ResourceFlavor, Topology ----

struct ResourceFlavorSpec {
  StringMap node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string topology_name;
  bool operator==(const ResourceFlavorSpec&) const = default;
};
struct ResourceFlavor {
  ObjectMeta metadata;
  ResourceFlavorSpec spec;
};
struct TopologyLevel {
  std::string node_label;
  bool operator==(const TopologyLevel&) const = default;
};
struct TopologySpec {
  std::vector<TopologyLevel> levels;  // coarsest first
  bool operator==(const TopologySpec&) const = default;
};
struct Topology {
  ObjectMeta metadata;
  TopologySpec spec;
};

// ---- Workload ----

struct TopologySliceConstraint {
  std::string topology;
  int32_t size = 0;
  bool operator==(const TopologySliceConstraint&) const = default;
};
struct PodSetTopologyRequest {
  std::optional<std::string> required;
  std::optional<std::string> preferred;
  std::optional<bool> unconstrained;
  std::optional<std::string> pod_index_label;
  std::optional<std::string> sub_group_index_label;
  std::optional<int32_t> sub_group_count;
  std::optional<std::string> pod_set_group_name;
  std::optional<std::string> pod_set_slice_required_topology;
  std::optional<int32_t> pod_set_slice_size;
  // On the wire "podsetSliceRequiredTopologyConstraints" (lower-case s).
  std::vector<TopologySliceConstraint> pod_set_slice_required_topology_constraints;
  bool operator==(const PodSetTopologyRequest&) const = default;
};
struct PodSet {
  std::string name = "main";
  PodTemplate pod_template;  // "template" on the wire
  int32_t count = 1;
  std::optional<int32_t> min_count;
  Boxed<PodSetTopologyRequest> topology_request;
};
struct PriorityClassRef {
  std::string group;
  std::string kind;
  std::string name;
  bool operator==(const PriorityClassRef&) const = default;
};
struct WorkloadSpec {
  std::vector<PodSet> pod_sets;
  std::string queue_name;
  Boxed<PriorityClassRef> priority_class_ref;
  std::optional<int32_t> priority;
  std::optional<bool> active;
  std::optional<int32_t> maximum_execution_time_seconds;
  std::vector<std::string> preemption_gates;  // names
};

struct TopologyLevelValues {
  std::optional<std::string> universal;
  std::string prefix;
  std::string suffix;
  std::vector<std::string> roots;  // with `universal` absent: individual values
  bool operator==(const TopologyLevelValues&) const = default;
};
struct TopologyPodCounts {
  std::optional<int32_t> universal;
  std::vector<int32_t> individual;
  bool operator==(const TopologyPodCounts&) const = default;
};
struct TopologyAssignmentSlice {
  int32_t domain_count = 0;
  std::vector<TopologyLevelValues> values_per_level;
  TopologyPodCounts pod_counts;
  bool operator==(const TopologyAssignmentSlice&) const = default;
};
struct TopologyAssignment {
  std::vector<std::string> levels;
  std::vector<TopologyAssignmentSlice> slices;
  bool operator==(const TopologyAssignment&) const = default;
};
struct PodSetAssignment {
  std::string name = "main";
  absl::btree_map<ResourceName, FlavorName> flavors;
  ResourceList resource_usage;
  std::optional<int32_t> count;
  std::optional<TopologyAssignment> topology_assignment;
  std::string delayed_topology_request;  // "", Pending, Ready
  bool operator==(const PodSetAssignment&) const = default;
};
struct Admission {
  std::string cluster_queue;
  std::vector<PodSetAssignment> pod_set_assignments;
  bool operator==(const Admission&) const = default;
};
struct RequeueState {
  std::optional<int32_t> count;
  std::optional<absl::Time> requeue_at;
  bool operator==(const RequeueState&) const = default;
};
struct ReclaimablePod {
  std::string name;
  int32_t count = 0;
  bool operator==(const ReclaimablePod&) const = default;
};
struct PodSetUpdate {
  std::string name;
  StringMap labels;
  StringMap annotations;
  StringMap node_selector;
  std::vector<Toleration> tolerations;
  bool operator==(const PodSetUpdate&) const = default;
};
struct AdmissionCheckState {
  std::string name;
  std::string state;  // Pending, Ready, Retry, Rejected
  std::optional<absl::Time> last_transition_time;
  std::string message;
  std::optional<int32_t> requeue_after_seconds;
  std::optional<int32_t> retry_count;
  std::vector<PodSetUpdate> pod_set_updates;
  bool operator==(const AdmissionCheckState&) const = default;
};
struct PodSetRequest {
  std::string name;
  ResourceList resources;
  bool operator==(const PodSetRequest&) const = default;
};
struct EvictionStat {
  std::string reason;
  std::string underlying_cause;
  int32_t count = 0;
  bool operator==(const EvictionStat&) const = default;
};
struct SchedulingStats {
  std::vector<EvictionStat> evictions;
  bool operator==(const SchedulingStats&) const = default;
};
struct PreemptionGateState {
  std::string name;
  std::string position;  // Closed, Open
  std::optional<absl::Time> last_transition_time;
  bool operator==(const PreemptionGateState&) const = default;
};
struct WorkloadStatus {
  Conditions conditions;
  Boxed<Admission> admission;
  Boxed<RequeueState> requeue_state;
  std::vector<ReclaimablePod> reclaimable_pods;
  std::vector<AdmissionCheckState> admission_checks;
  std::vector<PodSetRequest> resource_requests;
  std::optional<int32_t> accumulated_past_execution_time_seconds;
  Boxed<SchedulingStats> scheduling_stats;
  std::vector<std::string> nominated_cluster_names;
  Boxed<std::string> cluster_name;
  std::vector<std::string> unhealthy_nodes;
  std::vector<PreemptionGateState> preemption_gates;
  bool operator==(const WorkloadStatus&) const = default;
};
struct Workload {
  ObjectMeta metadata;
  WorkloadSpec spec;
  WorkloadStatus status;
};

// ---- the other kinds ----

struct WorkloadPriorityClass {
  ObjectMeta metadata;
  int32_t value = 0;
  std::string description;
};

struct AdmissionCheckParametersReference {
  std::string api_group;
  std::string kind;
  std::string name;
  bool operator==(const AdmissionCheckParametersReference&) const = default;
};
struct AdmissionCheckSpec {
  std::string controller_name;
  std::optional<AdmissionCheckParametersReference> parameters;
};
struct AdmissionCheck {
  ObjectMeta metadata;
  AdmissionCheckSpec spec;
  Conditions conditions;  // status.conditions
};

struct ProvisioningRequestRetryStrategy {
  std::optional<int32_t> backoff_limit_count;
  std::optional<int32_t> backoff_base_seconds;
  std::optional<int32_t> backoff_max_seconds;
};
struct ProvisioningNodeSelectorUpdate {
  std::string key;
  std::string value_from_provisioning_class_detail;
};
struct ProvisioningRequestConfigSpec {
  std::string provisioning_class_name;
  StringMap parameters;
  std::vector<ResourceName> managed_resources;
  std::optional<ProvisioningRequestRetryStrategy> retry_strategy;
  std::vector<ProvisioningNodeSelectorUpdate> pod_set_updates_node_selector;
  std::string pod_set_merge_policy;
};
struct ProvisioningRequestConfig {
  ObjectMeta metadata;
  ProvisioningRequestConfigSpec spec;
};

struct MultiKueueConfigSpec {
  std::vector<std::string> clusters;
  std::string quota_management;
};
struct MultiKueueConfig {
  ObjectMeta metadata;
  MultiKueueConfigSpec spec;
};

struct KubeConfigSource {
  std::string location;
  std::string location_type;  // Secret, Path
};
struct ClusterSource {
  std::optional<KubeConfigSource> kube_config;
  std::optional<std::string> cluster_profile_ref_name;
};
struct MultiKueueClusterSpec {
  std::optional<ClusterSource> cluster_source;
};
struct MultiKueueCluster {
  ObjectMeta metadata;
  MultiKueueClusterSpec spec;
  Conditions conditions;
};

}  // namespace sluice::api
