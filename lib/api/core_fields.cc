#include "api/core_fields.h"

#include "api/rules.h"

namespace sluice::api {

// ---- metadata ----

void Describe(Fields<OwnerReference>& f) {
  f.Field("apiVersion", &OwnerReference::api_version).Required();
  f.Field("kind", &OwnerReference::kind).Required();
  f.Field("name", &OwnerReference::name).Required();
  f.Field("uid", &OwnerReference::uid).Required();
  f.Field("controller", &OwnerReference::controller);
  f.Field("blockOwnerDeletion", &OwnerReference::block_owner_deletion);
}

void Describe(Fields<ObjectMeta>& f) {
  f.Field("name", &ObjectMeta::name);
  f.Field("generateName", &ObjectMeta::generate_name);
  f.Field("namespace", &ObjectMeta::ns);
  f.Field("uid", &ObjectMeta::uid);
  f.Field("resourceVersion", &ObjectMeta::resource_version);
  f.Field("generation", &ObjectMeta::generation);
  f.Field("creationTimestamp", &ObjectMeta::creation_timestamp);
  f.Field("deletionTimestamp", &ObjectMeta::deletion_timestamp);
  f.Field("labels", &ObjectMeta::labels);
  f.Field("annotations", &ObjectMeta::annotations);
  f.Field("ownerReferences", &ObjectMeta::owner_references);
  f.Field("finalizers", &ObjectMeta::finalizers);
}

void Describe(Fields<Condition>& f) {
  f.Field("type", &Condition::type).Required().MaxLength(316).Pattern(kLabelKeyPattern);
  f.Field("status", &Condition::status).Required();
  f.Field("observedGeneration", &Condition::observed_generation).Min(0);
  f.Field("lastTransitionTime", &Condition::last_transition_time).Required();
  f.Field("reason", &Condition::reason)
      .Required()
      .MinLength(1)
      .MaxLength(1024)
      .Pattern(kReasonPattern);
  f.Field("message", &Condition::message).Required().MaxLength(32768);
}

void Describe(Fields<LabelSelectorRequirement>& f) {
  f.Field("key", &LabelSelectorRequirement::key).Required();
  f.Field("operator", &LabelSelectorRequirement::op).Required();
  f.Field("values", &LabelSelectorRequirement::values).Atomic();
}

void Describe(Fields<LabelSelector>& f) {
  f.Field("matchLabels", &LabelSelector::match_labels);
  f.Field("matchExpressions", &LabelSelector::match_expressions).Atomic();
  f.All().AtomicMap();
}

// ---- pods ----

void Describe(Fields<ResourceRequirements>& f) {
  f.Field("limits", &ResourceRequirements::limits);
  f.Field("requests", &ResourceRequirements::requests);
  f.Field("claims", &ResourceRequirements::claims, NameListType())
      .KeyedBy({"name"})
      .Each(Rules().Preserve());
}

void Describe(Fields<Container>& f) {
  f.Field("name", &Container::name).Required();
  f.Field("restartPolicy", &Container::restart_policy);
  f.Field("resources", &Container::resources);
  f.All().Preserve();
}

void Describe(Fields<Toleration>& f) {
  f.Field("key", &Toleration::key);
  f.Field("operator", &Toleration::op);
  f.Field("value", &Toleration::value);
  f.Field("effect", &Toleration::effect);
  f.Field("tolerationSeconds", &Toleration::toleration_seconds);
}

void Describe(Fields<Taint>& f) {
  f.Field("key", &Taint::key).Required();
  f.Field("value", &Taint::value);
  f.Field("effect", &Taint::effect).Required();
  f.Field("timeAdded", &Taint::time_added);
}

void Describe(Fields<NodeSelectorRequirement>& f) {
  f.Field("key", &NodeSelectorRequirement::key).Required();
  f.Field("operator", &NodeSelectorRequirement::op).Required();
  f.Field("values", &NodeSelectorRequirement::values).Atomic();
}

void Describe(Fields<NodeSelectorTerm>& f) {
  f.Field("matchExpressions", &NodeSelectorTerm::match_expressions).Atomic();
  f.Field("matchFields", &NodeSelectorTerm::match_fields).Atomic();
}

void Describe(Fields<PreferredSchedulingTerm>& f) {
  f.Field("weight", &PreferredSchedulingTerm::weight).Required();
  f.Field("preference", &PreferredSchedulingTerm::preference).Required();
}

void Describe(Fields<NodeAffinity>& f) {
  f.Group("requiredDuringSchedulingIgnoredDuringExecution", [](Fields<NodeAffinity>& g) {
    g.Field("nodeSelectorTerms", &NodeAffinity::required).Required().Atomic();
  });
  f.Field("preferredDuringSchedulingIgnoredDuringExecution", &NodeAffinity::preferred).Atomic();
}

void Describe(Fields<PodResourceClaim>& f) {
  f.Field("name", &PodResourceClaim::name).Required();
  f.Field("resourceClaimName", &PodResourceClaim::resource_claim_name);
  f.Field("resourceClaimTemplateName", &PodResourceClaim::resource_claim_template_name);
  f.All().Preserve();
}

void Describe(Fields<PodSpec>& f) {
  f.Field("initContainers", &PodSpec::init_containers).KeyedBy({"name"});
  f.Field("containers", &PodSpec::containers).Required().KeyedBy({"name"});
  f.Field("nodeSelector", &PodSpec::node_selector).AtomicMap();
  f.Group("affinity", [](Fields<PodSpec>& g) {
     g.Field("nodeAffinity", &PodSpec::node_affinity);
   }).Preserve();
  f.Field("tolerations", &PodSpec::tolerations).Atomic();
  f.Field("priorityClassName", &PodSpec::priority_class_name);
  f.Field("priority", &PodSpec::priority);
  f.Field("runtimeClassName", &PodSpec::runtime_class_name);
  f.Field("overhead", &PodSpec::overhead);
  f.Field("resources", &PodSpec::resources);
  f.Field("schedulingGates", &PodSpec::scheduling_gates, NameListType()).KeyedBy({"name"});
  f.Field("resourceClaims", &PodSpec::resource_claims).KeyedBy({"name"});
  f.Field("nodeName", &PodSpec::node_name);
  f.Field("restartPolicy", &PodSpec::restart_policy);
  f.Group("schedulingGroup", [](Fields<PodSpec>& g) {
     g.Field("podGroupName", &PodSpec::scheduling_group);
   }).Preserve();
  f.All().Preserve();
}

void Describe(Fields<PodTemplate>& f) {
  f.Group("metadata", [](Fields<PodTemplate>& g) {
     g.Field("labels", &PodTemplate::labels);
     g.Field("annotations", &PodTemplate::annotations);
   }).Preserve();
  f.Field("spec", &PodTemplate::spec);
}

void Describe(Fields<Pod>& f) {
  f.Root(Kind::kPod);
  f.Field("metadata", &Pod::metadata);
  f.Field("spec", &Pod::spec);
  f.Group("status", [](Fields<Pod>& g) {
    g.Field("phase", &Pod::phase);
    g.Field("conditions", &Pod::conditions);
  });
}

// ---- scheduling.k8s.io/v1beta1 ----

void Describe(Fields<Marker>& /*f*/) {}

void Describe(Fields<GangPolicy>& f) { f.Field("minCount", &GangPolicy::min_count); }

void Describe(Fields<SchedulingPolicy>& f) {
  f.Field("basic", &SchedulingPolicy::basic);
  f.Field("gang", &SchedulingPolicy::gang);
}

void Describe(Fields<DisruptionMode>& f) {
  f.Field("single", &DisruptionMode::single);
  f.Field("all", &DisruptionMode::all);
}

void Describe(Fields<TopologyConstraint>& f) {
  f.Field("key", &TopologyConstraint::key).Required();
}

void Describe(Fields<PodGroup>& f) {
  f.Root(Kind::kPodGroup);
  f.Field("metadata", &PodGroup::metadata);
  f.Group("spec", [](Fields<PodGroup>& spec) {
    spec.Field("schedulingPolicy", &PodGroup::policy);
    spec.Group("workloadRef", [](Fields<PodGroup>& ref) {
      ref.Field("workloadName", &PodGroup::workload_name);
      ref.Field("templateName", &PodGroup::template_name);
    });
    spec.Field("parentCompositePodGroupName", &PodGroup::parent);
    spec.Group("schedulingConstraints",
               [](Fields<PodGroup>& g) { g.Field("topology", &PodGroup::topology); });
    spec.Field("disruptionMode", &PodGroup::disruption_mode);
    spec.Field("priorityClassName", &PodGroup::priority_class_name);
    spec.Field("priority", &PodGroup::priority);
    spec.Field("preemptionPolicy", &PodGroup::preemption_policy);
  });
  f.Group("status", [](Fields<PodGroup>& g) { g.Field("conditions", &PodGroup::conditions); });
}

// ---- batch/v1 ----

void Describe(Fields<JobScheduling>& f) {
  f.Field("schedulingPolicy", &JobScheduling::policy);
  f.Group("schedulingConstraints",
          [](Fields<JobScheduling>& g) { g.Field("topology", &JobScheduling::topology); });
  f.Field("disruptionMode", &JobScheduling::disruption_mode);
}

void Describe(Fields<JobSpec>& f) {
  f.Field("parallelism", &JobSpec::parallelism);
  f.Field("completions", &JobSpec::completions);
  f.Field("completionMode", &JobSpec::completion_mode);
  f.Field("backoffLimit", &JobSpec::backoff_limit);
  f.Field("suspend", &JobSpec::suspend);
  f.Field("managedBy", &JobSpec::managed_by);
  f.Field("scheduling", &JobSpec::scheduling);
  f.Field("template", &JobSpec::pod_template);
}

void Describe(Fields<JobStatus>& f) {
  f.Field("conditions", &JobStatus::conditions);
  f.Field("startTime", &JobStatus::start_time);
  f.Field("active", &JobStatus::active);
  f.Field("succeeded", &JobStatus::succeeded);
  f.Field("failed", &JobStatus::failed);
  f.Field("ready", &JobStatus::ready);
  f.Field("terminating", &JobStatus::terminating);
  f.Field("completedIndexes", &JobStatus::completed_indexes);
  f.Group("uncountedTerminatedPods", [](Fields<JobStatus>& g) {
    g.Field("succeeded", &JobStatus::uncounted_succeeded, ListLengthType());
  });
}

void Describe(Fields<Job>& f) {
  f.Root(Kind::kJob);
  f.Field("metadata", &Job::metadata);
  f.Field("spec", &Job::spec);
  f.Field("status", &Job::status);
}

// ---- core/v1 and friends ----

void Describe(Fields<Namespace>& f) {
  f.Root(Kind::kNamespace);
  f.Field("metadata", &Namespace::metadata);
}

void Describe(Fields<LimitRangeItem>& f) {
  f.Field("type", &LimitRangeItem::type).Required();
  f.Field("max", &LimitRangeItem::max);
  f.Field("min", &LimitRangeItem::min);
  f.Field("default", &LimitRangeItem::default_limits);
  f.Field("defaultRequest", &LimitRangeItem::default_requests);
  f.Field("maxLimitRequestRatio", &LimitRangeItem::max_limit_request_ratio);
}

void Describe(Fields<LimitRange>& f) {
  f.Root(Kind::kLimitRange);
  f.Field("metadata", &LimitRange::metadata);
  f.Group("spec", [](Fields<LimitRange>& g) { g.Field("limits", &LimitRange::limits).Required(); });
}

void Describe(Fields<PriorityClass>& f) {
  f.Root(Kind::kPriorityClass);
  f.Field("metadata", &PriorityClass::metadata);
  f.Field("value", &PriorityClass::value).Required();
  f.Field("globalDefault", &PriorityClass::global_default);
  f.Field("preemptionPolicy", &PriorityClass::preemption_policy);
}

void Describe(Fields<RuntimeClass>& f) {
  f.Root(Kind::kRuntimeClass);
  f.Field("metadata", &RuntimeClass::metadata);
  f.Field("handler", &RuntimeClass::handler).Required();
  f.Group("overhead",
          [](Fields<RuntimeClass>& g) { g.Field("podFixed", &RuntimeClass::overhead); });
  f.Group("scheduling", [](Fields<RuntimeClass>& g) {
    g.Field("nodeSelector", &RuntimeClass::node_selector);
    g.Field("tolerations", &RuntimeClass::tolerations);
  });
}

void Describe(Fields<Node>& f) {
  f.Root(Kind::kNode);
  f.Field("metadata", &Node::metadata);
  f.Group("spec", [](Fields<Node>& g) {
    g.Field("unschedulable", &Node::unschedulable);
    g.Field("taints", &Node::taints);
  });
  f.Group("status", [](Fields<Node>& g) {
    g.Field("allocatable", &Node::allocatable);
    g.Field("conditions", &Node::conditions);
  });
}

void Describe(Fields<Secret>& f) {
  f.Root(Kind::kSecret);
  f.Field("metadata", &Secret::metadata);
  f.Field("type", &Secret::type);
  f.Field("data", &Secret::data);
}

void Describe(Fields<LeaseSpec>& f) {
  f.Field("holderIdentity", &LeaseSpec::holder_identity);
  f.Field("leaseDurationSeconds", &LeaseSpec::lease_duration_seconds);
  f.Field("acquireTime", &LeaseSpec::acquire_time, MicroTimeType());
  f.Field("renewTime", &LeaseSpec::renew_time, MicroTimeType());
  f.Field("leaseTransitions", &LeaseSpec::lease_transitions).Always();
}

void Describe(Fields<Lease>& f) {
  f.Root(Kind::kLease);
  f.Field("metadata", &Lease::metadata);
  f.Field("spec", &Lease::spec);
}

void Describe(Fields<ObjectReference>& f) {
  f.Field("kind", &ObjectReference::kind);
  f.Field("namespace", &ObjectReference::ns);
  f.Field("name", &ObjectReference::name);
  f.Field("uid", &ObjectReference::uid);
  f.Field("apiVersion", &ObjectReference::api_version);
  f.Field("resourceVersion", &ObjectReference::resource_version);
}

void Describe(Fields<EventSeries>& f) {
  f.Field("count", &EventSeries::count).Required();
  f.Field("lastObservedTime", &EventSeries::last_observed_time, MicroTimeType()).Required();
}

void Describe(Fields<Event>& f) {
  f.Root(Kind::kEvent);
  f.Field("metadata", &Event::metadata);
  f.Field("eventTime", &Event::event_time, MicroTimeType());
  f.Field("series", &Event::series);
  f.Field("reportingController", &Event::reporting_controller);
  f.Field("reportingInstance", &Event::reporting_instance);
  f.Field("action", &Event::action);
  f.Field("reason", &Event::reason);
  f.Field("regarding", &Event::regarding);
  f.Field("related", &Event::related);
  f.Field("note", &Event::note);
  f.Field("type", &Event::type);
}

// ---- reviews: the descriptions are those of the member "request" ----

void Describe(Fields<GroupVersionKind>& f) {
  f.Field("group", &GroupVersionKind::group).Always();
  f.Field("version", &GroupVersionKind::version).Always();
  f.Field("kind", &GroupVersionKind::kind).Always();
}

void Describe(Fields<UserInfo>& f) {
  f.Field("username", &UserInfo::username);
  f.Field("groups", &UserInfo::groups);
}

void Describe(Fields<AdmissionRequest>& f) {
  f.Field("uid", &AdmissionRequest::uid).Required();
  f.Field("kind", &AdmissionRequest::kind).Required();
  f.Group("resource", [](Fields<AdmissionRequest>& g) {
    g.Field("resource", &AdmissionRequest::resource).Required();
  });
  f.Field("subResource", &AdmissionRequest::sub_resource);
  f.Field("name", &AdmissionRequest::name);
  f.Field("namespace", &AdmissionRequest::ns);
  f.Field("operation", &AdmissionRequest::operation).Required();
  f.Field("userInfo", &AdmissionRequest::user_info).Required();
  f.Field("object", &AdmissionRequest::object);
  f.Field("oldObject", &AdmissionRequest::old_object);
  f.Field("dryRun", &AdmissionRequest::dry_run);
}

void Describe(Fields<ConversionRequest>& f) {
  f.Field("uid", &ConversionRequest::uid).Required();
  f.Field("desiredAPIVersion", &ConversionRequest::desired_api_version).Required();
  f.Field("objects", &ConversionRequest::objects).Required();
}

}  // namespace sluice::api
