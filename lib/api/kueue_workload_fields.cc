// Description of the Workload and its parts.
#include <string>

#include "api/kueue_fields.h"
#include "api/rules.h"

namespace sluice::api {
namespace {

constexpr char kTimeDoc[] = "When the state last changed.";

// "the condition is True in `object`", in CEL.
std::string ConditionTrue(const std::string& object, const std::string& type) {
  return "(has(" + object + ".status) && has(" + object + ".status.conditions) && " + object +
         ".status.conditions.exists(c, c.type == '" + type + "' && c.status == 'True'))";
}

// "the field of spec is present in `object`".
std::string HasSpec(const std::string& object, const std::string& field) {
  return "(has(" + object + ".spec) && has(" + object + ".spec." + field + "))";
}

// Number of items of a list that may be absent.
std::string SizeOf(const std::string& parent_exists, const std::string& parent,
                   const std::string& field) {
  return "(" + parent_exists + "has(" + parent + "." + field + ") ? size(" + parent + "." + field +
         ") : 0)";
}

}  // namespace

void Describe(Fields<TopologySliceConstraint>& f) {
  f.Field("topology", &TopologySliceConstraint::topology).Required().MinLength(1).MaxLength(63);
  f.Field("size", &TopologySliceConstraint::size).Required().Min(1);
}

void Describe(Fields<PodSetTopologyRequest>& f) {
  f.Field("required", &PodSetTopologyRequest::required)
      .MaxLength(63)
      .Doc("Topology level (node label) within which all pods must fit.");
  f.Field("preferred", &PodSetTopologyRequest::preferred)
      .MaxLength(63)
      .Doc("Topology level within which all pods should fit.");
  f.Field("unconstrained", &PodSetTopologyRequest::unconstrained);
  f.Field("podIndexLabel", &PodSetTopologyRequest::pod_index_label).MaxLength(317);
  f.Field("subGroupIndexLabel", &PodSetTopologyRequest::sub_group_index_label).MaxLength(317);
  f.Field("subGroupCount", &PodSetTopologyRequest::sub_group_count).Min(0);
  f.Field("podSetGroupName", &PodSetTopologyRequest::pod_set_group_name).MaxLength(256);
  f.Field("podSetSliceRequiredTopology", &PodSetTopologyRequest::pod_set_slice_required_topology)
      .MaxLength(63);
  f.Field("podSetSliceSize", &PodSetTopologyRequest::pod_set_slice_size).Min(1);
  f.Field("podsetSliceRequiredTopologyConstraints",
          &PodSetTopologyRequest::pod_set_slice_required_topology_constraints)
      .Atomic()
      .MaxItems(3);
}

void Describe(Fields<PodSet>& f) {
  PodSetName(f.Field("name", &PodSet::name)).Always().Default("main");
  f.Field("template", &PodSet::pod_template).Required();
  f.Field("count", &PodSet::count).Always().Default(1).Min(0);
  f.Field("minCount", &PodSet::min_count)
      .Min(1)
      .Doc("Fewest pods with which the Workload may start.");
  f.Field("topologyRequest", &PodSet::topology_request);
  f.All().Cel("!has(self.minCount) || !has(self.count) || self.minCount <= self.count",
              "minCount must not be greater than count");
}

void Describe(Fields<PriorityClassRef>& f) {
  f.Field("group", &PriorityClassRef::group)
      .Required()
      .Enum({"kueue.x-k8s.io", "scheduling.k8s.io"});
  f.Field("kind", &PriorityClassRef::kind)
      .Required()
      .Enum({"WorkloadPriorityClass", "PriorityClass"});
  Reference(f.Field("name", &PriorityClassRef::name).Required().MinLength(1));
  f.All()
      .Cel("self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
           "the group scheduling.k8s.io has the kind PriorityClass only")
      .Cel("self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
           "the group kueue.x-k8s.io has the kind WorkloadPriorityClass only");
}

void Describe(Fields<WorkloadSpec>& f) {
  f.Field("podSets", &WorkloadSpec::pod_sets)
      .KeyedBy({"name"})
      .MinItems(1)
      .MaxItems(18)
      .Doc("Groups of equal pods; cannot be changed while quota is reserved.");
  Reference(f.Field("queueName", &WorkloadSpec::queue_name))
      .Doc("The LocalQueue; cannot be changed while quota is reserved.");
  f.Field("priorityClassRef", &WorkloadSpec::priority_class_ref)
      .Doc("The class from which the priority was taken.");
  f.Field("priority", &WorkloadSpec::priority).Doc("Higher goes first; absent is 0.");
  f.Field("active", &WorkloadSpec::active)
      .Default(true)
      .Doc("false keeps the Workload from being admitted, and evicts it.");
  f.Field("maximumExecutionTimeSeconds", &WorkloadSpec::maximum_execution_time_seconds)
      .Min(1)
      .Doc("Time admitted, in all, after which the Workload is deactivated.");
  f.Field("preemptionGates", &WorkloadSpec::preemption_gates, NameListType())
      .KeyedBy({"name"})
      .MaxItems(8)
      .EachName(Rules().MinLength(1).MaxLength(63))
      .Doc("While one of them is closed the Workload preempts nobody.");
  f.All().Cel("!has(self.priorityClassRef) || has(self.priority)",
              "priority must be set together with priorityClassRef");
}

// ---- status ----

void Describe(Fields<TopologyLevelValues>& f) {
  f.Field("universal", &TopologyLevelValues::universal).MaxLength(63);
  f.Group("individual", [](Fields<TopologyLevelValues>& g) {
    g.Field("prefix", &TopologyLevelValues::prefix).MaxLength(63);
    g.Field("suffix", &TopologyLevelValues::suffix).MaxLength(63);
    g.Field("roots", &TopologyLevelValues::roots)
        .Required()
        .Atomic()
        .MinItems(1)
        .MaxItems(100000)
        .Each(Rules().MaxLength(63));
  });
  f.All().Cel("has(self.universal) != has(self.individual)",
              "exactly one of universal and individual must be set");
}

void Describe(Fields<TopologyPodCounts>& f) {
  f.Field("universal", &TopologyPodCounts::universal).Min(1);
  f.Field("individual", &TopologyPodCounts::individual)
      .Atomic()
      .MinItems(1)
      .MaxItems(100000)
      .Each(Rules().Min(1));
  f.All().Cel("has(self.universal) != has(self.individual)",
              "exactly one of universal and individual must be set");
}

void Describe(Fields<TopologyAssignmentSlice>& f) {
  f.Field("domainCount", &TopologyAssignmentSlice::domain_count).Required().Min(1);
  f.Field("valuesPerLevel", &TopologyAssignmentSlice::values_per_level)
      .Required()
      .Atomic()
      .MinItems(1)
      .MaxItems(16);
  f.Field("podCounts", &TopologyAssignmentSlice::pod_counts).Required();
  f.All()
      .Cel(
          "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == "
          "self.domainCount)",
          "individual values must have one root per domain")
      .Cel("!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
           "individual pod counts must have one number per domain");
}

void Describe(Fields<TopologyAssignment>& f) {
  f.Field("levels", &TopologyAssignment::levels)
      .Required()
      .Atomic()
      .MinItems(1)
      .MaxItems(16)
      .Each(Rules().MaxLength(317));
  f.Field("slices", &TopologyAssignment::slices).Required().Atomic().MaxItems(1000);
  f.All().Cel("self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
              "each slice must have one entry of valuesPerLevel per level");
}

void Describe(Fields<PodSetAssignment>& f) {
  PodSetName(f.Field("name", &PodSetAssignment::name)).Always().Default("main");
  Rules flavor;
  f.Field("flavors", &PodSetAssignment::flavors)
      .Each(Reference(flavor))
      .Doc("The flavor of each resource.");
  f.Field("resourceUsage", &PodSetAssignment::resource_usage)
      .Doc("What all pods of the assignment use together.");
  f.Field("count", &PodSetAssignment::count).Min(0).Doc("Pods admitted.");
  f.Field("topologyAssignment", &PodSetAssignment::topology_assignment);
  f.Field("delayedTopologyRequest", &PodSetAssignment::delayed_topology_request)
      .Enum({"Pending", "Ready"});
}

void Describe(Fields<Admission>& f) {
  Reference(f.Field("clusterQueue", &Admission::cluster_queue));
  f.Field("podSetAssignments", &Admission::pod_set_assignments).KeyedBy({"name"}).MaxItems(18);
}

void Describe(Fields<RequeueState>& f) {
  f.Field("count", &RequeueState::count).Min(0);
  f.Field("requeueAt", &RequeueState::requeue_at);
}

void Describe(Fields<ReclaimablePod>& f) {
  PodSetName(f.Field("name", &ReclaimablePod::name).Required());
  f.Field("count", &ReclaimablePod::count).Required().Min(0);
}

void Describe(Fields<PodSetUpdate>& f) {
  PodSetName(f.Field("name", &PodSetUpdate::name).Required());
  f.Field("labels", &PodSetUpdate::labels);
  f.Field("annotations", &PodSetUpdate::annotations);
  f.Field("nodeSelector", &PodSetUpdate::node_selector);
  TolerationList(f.Field("tolerations", &PodSetUpdate::tolerations));
}

void Describe(Fields<AdmissionCheckState>& f) {
  f.Field("name", &AdmissionCheckState::name).Required().MinLength(1).MaxLength(316);
  f.Field("state", &AdmissionCheckState::state)
      .Required()
      .Enum({"Pending", "Ready", "Retry", "Rejected"});
  f.Field("lastTransitionTime", &AdmissionCheckState::last_transition_time)
      .Required()
      .Doc(kTimeDoc);
  f.Field("message", &AdmissionCheckState::message).Required().MaxLength(32768);
  f.Field("requeueAfterSeconds", &AdmissionCheckState::requeue_after_seconds).Min(0);
  f.Field("retryCount", &AdmissionCheckState::retry_count).Min(0);
  f.Field("podSetUpdates", &AdmissionCheckState::pod_set_updates).Atomic().MaxItems(18);
}

void Describe(Fields<PodSetRequest>& f) {
  PodSetName(f.Field("name", &PodSetRequest::name).Required());
  f.Field("resources", &PodSetRequest::resources);
}

void Describe(Fields<EvictionStat>& f) {
  f.Field("reason", &EvictionStat::reason).Required().MaxLength(316);
  f.Field("underlyingCause", &EvictionStat::underlying_cause).Required().MaxLength(316);
  f.Field("count", &EvictionStat::count).Required().Min(0);
}

void Describe(Fields<SchedulingStats>& f) {
  f.Field("evictions", &SchedulingStats::evictions)
      .KeyedBy({"reason", "underlyingCause"})
      .MaxItems(256);
}

void Describe(Fields<PreemptionGateState>& f) {
  f.Field("name", &PreemptionGateState::name).Required().MinLength(1).MaxLength(63);
  f.Field("position", &PreemptionGateState::position).Required().Enum({"Closed", "Open"});
  f.Field("lastTransitionTime", &PreemptionGateState::last_transition_time)
      .Required()
      .Doc(kTimeDoc);
}

void Describe(Fields<WorkloadStatus>& f) {
  ConditionList(f.Field("conditions", &WorkloadStatus::conditions));
  f.Field("admission", &WorkloadStatus::admission)
      .Doc("Where the Workload was admitted and what it got; present while quota is reserved.");
  f.Field("requeueState", &WorkloadStatus::requeue_state);
  f.Field("reclaimablePods", &WorkloadStatus::reclaimable_pods)
      .KeyedBy({"name"})
      .MaxItems(18)
      .Doc("Pods that do not need their quota any more.");
  f.Field("admissionChecks", &WorkloadStatus::admission_checks).KeyedBy({"name"}).MaxItems(8);
  f.Field("resourceRequests", &WorkloadStatus::resource_requests)
      .KeyedBy({"name"})
      .MaxItems(18)
      .Doc("What a waiting Workload asked for when it was last considered.");
  f.Field("accumulatedPastExecutionTimeSeconds",
          &WorkloadStatus::accumulated_past_execution_time_seconds);
  f.Field("schedulingStats", &WorkloadStatus::scheduling_stats);
  f.Field("nominatedClusterNames", &WorkloadStatus::nominated_cluster_names)
      .Atomic()
      .MaxItems(20)
      .Each(Rules().MaxLength(256));
  f.Field("clusterName", &WorkloadStatus::cluster_name).MaxLength(256);
  f.Field("unhealthyNodes", &WorkloadStatus::unhealthy_nodes, NameListType())
      .KeyedBy({"name"})
      .MaxItems(8)
      .EachName(Rules().MaxLength(63));
  f.Field("preemptionGates", &WorkloadStatus::preemption_gates).KeyedBy({"name"}).MaxItems(8);
  f.All()
      .Cel(
          "!has(oldSelf.clusterName) || !has(self.clusterName) || self.clusterName == "
          "oldSelf.clusterName",
          "clusterName cannot be changed once it is set")
      .Cel(
          "!has(self.clusterName) || !has(self.nominatedClusterNames) || "
          "size(self.nominatedClusterNames) == 0",
          "clusterName excludes nominatedClusterNames");
}

void Describe(Fields<Workload>& f) {
  f.Root(Kind::kWorkload);
  f.Field("metadata", &Workload::metadata);
  f.Field("spec", &Workload::spec).Always();
  f.Field("status", &Workload::status);

  const std::string reserved = ConditionTrue("self", "QuotaReserved");
  const std::string was_reserved = ConditionTrue("oldSelf", "QuotaReserved");
  const std::string has_ref = HasSpec("self", "priorityClassRef");
  const std::string had_ref = HasSpec("oldSelf", "priorityClassRef");
  const std::string both_refs = "!" + has_ref + " || !" + had_ref + " || ";
  // Every write of a status pays for these rules. What is compared nearly always agrees, so it
  // comes first, and the search through the conditions, which is the dear part, hardly ever runs.
  const auto rule = [&f](const std::string& agreed, const std::string& matters,
                         const char* message) {
    f.All().Cel((agreed + " || !" + matters).c_str(), message);
  };
  rule("!has(self.status) || !has(self.status.admission) || " +
           SizeOf("", "self.status.admission", "podSetAssignments") +
           " == " + SizeOf("has(self.spec) && ", "self.spec", "podSets"),
       reserved, "podSetAssignments must have one entry per pod set while quota is reserved");
  rule(has_ref + " == " + had_ref, was_reserved,
       "priorityClassRef can be neither added nor removed while quota is reserved");
  rule(both_refs + "self.spec.priorityClassRef.group == oldSelf.spec.priorityClassRef.group",
       was_reserved, "the group of priorityClassRef cannot be changed while quota is reserved");
  rule(both_refs + "self.spec.priorityClassRef.kind == oldSelf.spec.priorityClassRef.kind",
       was_reserved, "the kind of priorityClassRef cannot be changed while quota is reserved");
  rule(both_refs +
           "self.spec.priorityClassRef.kind != 'PriorityClass' || "
           "self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name",
       was_reserved, "the name of a PriorityClass cannot be changed while quota is reserved");
  rule("(" + HasSpec("self", "queueName") + " ? " + HasSpec("oldSelf", "queueName") +
           " && self.spec.queueName == oldSelf.spec.queueName : !" +
           HasSpec("oldSelf", "queueName") + ")",
       "(" + was_reserved + " && " + reserved + ")",
       "queueName cannot be changed while quota is reserved");
  const std::string limit = "maximumExecutionTimeSeconds";
  const auto limit_of = [&limit](const std::string& object) {
    return "(" + HasSpec(object, limit) + " ? " + object + ".spec." + limit + " : 0)";
  };
  rule(
      limit_of("self") + " == " + limit_of("oldSelf"),
      "(" + ConditionTrue("oldSelf", "Admitted") + " && " + ConditionTrue("self", "Admitted") + ")",
      "maximumExecutionTimeSeconds cannot be changed while the Workload is admitted");
}

}  // namespace sluice::api
