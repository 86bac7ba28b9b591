// The parts of core, batch, coordination, scheduling and admission objects that we read or write.
//
// Fields that we do not model are never lost: existing objects are only patched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/meta_types.h"
#include "base/boxed.h"
#include "base/shared_value.h"
#include "resource/resource.h"

namespace sluice::api {

struct ResourceRequirements {
  ResourceList requests;
  ResourceList limits;
  std::vector<std::string> claims;  // names of pod resource claims
  bool operator==(const ResourceRequirements&) const = default;
};

struct Container {
  std::string name;
  std::string restart_policy;  // "Always" makes an init container a sidecar
  ResourceRequirements resources;
  bool operator==(const Container&) const = default;
};

struct Toleration {
  std::string key;
  std::string op;  // "", "Equal", "Exists", "Lt", "Gt"
  std::string value;
  std::string effect;
  std::optional<int64_t> toleration_seconds;
  bool operator==(const Toleration&) const = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
  std::optional<absl::Time> time_added;
  bool operator==(const Taint&) const = default;
};

struct NodeSelectorRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
  bool operator==(const NodeSelectorRequirement&) const = default;
};

struct NodeSelectorTerm {
  std::vector<NodeSelectorRequirement> match_expressions;
  std::vector<NodeSelectorRequirement> match_fields;
  bool operator==(const NodeSelectorTerm&) const = default;
};

struct PreferredSchedulingTerm {
  int32_t weight = 0;
  NodeSelectorTerm preference;
  bool operator==(const PreferredSchedulingTerm&) const = default;
};

struct NodeAffinity {
  // requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms; terms are ORed.
  std::vector<NodeSelectorTerm> required;
  std::vector<PreferredSchedulingTerm> preferred;
  bool operator==(const NodeAffinity&) const = default;
};

struct PodResourceClaim {
  std::string name;
  std::string resource_claim_name;
  std::string resource_claim_template_name;
  bool operator==(const PodResourceClaim&) const = default;
};

struct PodSpec {
  std::vector<Container> init_containers;
  std::vector<Container> containers;
  StringMap node_selector;
  std::optional<NodeAffinity> node_affinity;  // spec.affinity.nodeAffinity
  std::vector<Toleration> tolerations;
  std::string priority_class_name;
  std::optional<int32_t> priority;
  std::string runtime_class_name;
  ResourceList overhead;
  std::optional<ResourceRequirements> resources;  // pod level
  std::vector<std::string> scheduling_gates;
  std::vector<PodResourceClaim> resource_claims;
  std::string node_name;
  std::string restart_policy;
  std::string scheduling_group;  // schedulingGroup.podGroupName
  bool operator==(const PodSpec&) const = default;
};

struct PodTemplate {
  StringMap labels;
  StringMap annotations;
  SharedValue<PodSpec> spec;  // see TemplatePool
  // The template as it came, for copying it whole (compact JSON); null when built in memory. The
  // labels differ between the Jobs of one template, so the text may have `false` in their place.
  std::shared_ptr<const std::string> raw;
};

// ---- scheduling.k8s.io/v1beta1 ----

// An object without members: only its presence says something.
struct Marker {
  bool operator==(const Marker&) const = default;
};

struct GangPolicy {
  std::optional<int32_t> min_count;  // in a Job absent: as many as run at a time
  bool operator==(const GangPolicy&) const = default;
};

// Exactly one is set.
struct SchedulingPolicy {
  std::optional<Marker> basic;
  std::optional<GangPolicy> gang;
  bool operator==(const SchedulingPolicy&) const = default;
};

// What kube-scheduler may preempt: single pods, or all of them together.
struct DisruptionMode {
  std::optional<Marker> single;
  std::optional<Marker> all;
  bool operator==(const DisruptionMode&) const = default;
};

struct TopologyConstraint {
  std::string key;  // a label of nodes
  bool operator==(const TopologyConstraint&) const = default;
};

struct PodGroup {
  ObjectMeta metadata;
  SchedulingPolicy policy;
  std::string workload_name;  // workloadRef
  std::string template_name;
  std::string parent;  // parentCompositePodGroupName
  std::vector<TopologyConstraint> topology;
  std::optional<DisruptionMode> disruption_mode;
  std::string priority_class_name;
  std::optional<int32_t> priority;
  std::string preemption_policy;
  Conditions conditions;  // PodGroupInitiallyScheduled
};

// ---- batch/v1 ----

// The Job controller makes a PodGroup for the pods of a Job that has this.
struct JobScheduling {
  SchedulingPolicy policy;
  std::vector<TopologyConstraint> topology;
  std::optional<DisruptionMode> disruption_mode;
  bool operator==(const JobScheduling&) const = default;
};

struct JobSpec {
  std::optional<int32_t> parallelism;
  std::optional<int32_t> completions;
  std::string completion_mode;  // "NonIndexed", "Indexed"
  std::optional<bool> suspend;
  std::optional<int32_t> backoff_limit;
  std::optional<std::string> managed_by;
  Boxed<JobScheduling> scheduling;
  PodTemplate pod_template;
};

struct JobStatus {
  Conditions conditions;  // Complete, Failed, Suspended, SuccessCriteriaMet, FailureTarget
  std::optional<absl::Time> start_time;
  int32_t active = 0;
  int32_t succeeded = 0;
  int32_t failed = 0;
  std::optional<int32_t> ready;
  std::optional<int32_t> terminating;
  std::string completed_indexes;
  std::string failed_indexes;
  int32_t uncounted_succeeded = 0;  // length of uncountedTerminatedPods.succeeded
};

struct Job {
  ObjectMeta metadata;
  JobSpec spec;
  JobStatus status;
};

// ---- core/v1 and friends ----

struct Namespace {
  ObjectMeta metadata;
};

struct LimitRangeItem {
  std::string type;  // Pod, Container, PersistentVolumeClaim
  ResourceList max;
  ResourceList min;
  ResourceList default_limits;
  ResourceList default_requests;
  ResourceList max_limit_request_ratio;
  bool operator==(const LimitRangeItem&) const = default;
};

struct LimitRange {
  ObjectMeta metadata;
  std::vector<LimitRangeItem> limits;
};

struct PriorityClass {
  ObjectMeta metadata;
  int32_t value = 0;
  bool global_default = false;
  std::string preemption_policy;
};

struct RuntimeClass {
  ObjectMeta metadata;
  std::string handler;
  ResourceList overhead;    // overhead.podFixed
  StringMap node_selector;  // scheduling.nodeSelector
  std::vector<Toleration> tolerations;
};

struct Pod {
  ObjectMeta metadata;
  PodSpec spec;
  std::string phase;
  Conditions conditions;
};

struct Node {
  ObjectMeta metadata;
  bool unschedulable = false;
  std::vector<Taint> taints;
  ResourceList allocatable;
  Conditions conditions;
};

struct Secret {
  ObjectMeta metadata;
  std::string type;
  StringMap data;  // values are base64, as on the wire
};

struct LeaseSpec {
  std::string holder_identity;
  std::optional<int32_t> lease_duration_seconds;
  std::optional<absl::Time> acquire_time;
  std::optional<absl::Time> renew_time;
  int32_t lease_transitions = 0;
};

struct Lease {
  ObjectMeta metadata;
  LeaseSpec spec;
};

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  bool operator==(const ObjectReference&) const = default;
};

struct EventSeries {
  int32_t count = 0;
  std::optional<absl::Time> last_observed_time;
};

// events.k8s.io/v1
struct Event {
  ObjectMeta metadata;
  std::optional<absl::Time> event_time;
  std::string reporting_controller;
  std::string reporting_instance;
  std::string action;
  std::string reason;
  std::string note;
  std::string type;  // Normal, Warning
  ObjectReference regarding;
  std::optional<ObjectReference> related;
  std::optional<EventSeries> series;
};

// ---- admission.k8s.io/v1 and apiextensions.k8s.io/v1 reviews ----

struct GroupVersionKind {
  std::string group;
  std::string version;
  std::string kind;
  bool operator==(const GroupVersionKind&) const = default;
};

struct UserInfo {
  std::string username;
  std::vector<std::string> groups;
};

struct AdmissionRequest {
  std::string uid;
  GroupVersionKind kind;
  std::string resource;  // plural, from request.resource.resource
  std::string sub_resource;
  std::string name;
  std::string ns;
  std::string operation;  // CREATE, UPDATE, DELETE, CONNECT
  UserInfo user_info;
  Json object;
  Json old_object;
  bool dry_run = false;
};

struct ConversionRequest {
  std::string uid;
  std::string desired_api_version;
  std::vector<Json> objects;
};

}  // namespace sluice::api
