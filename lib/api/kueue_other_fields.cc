// Descriptions of flavors, topologies, priority classes, admission checks and MultiKueue kinds.
#include "api/kueue_fields.h"
#include "api/rules.h"

namespace sluice::api {

Rules& TolerationList(Rules& rules) {
  return rules.Atomic()
      .MaxItems(8)
      .Cel("self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
           "a toleration without key needs the operator Exists")
      .Cel("self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
           "tolerationSeconds needs the effect NoExecute")
      .Cel("self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
           "the operator of a toleration is Equal or Exists")
      .Cel("self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
           "a toleration with the operator Exists has no value")
      .Cel(
          "self.all(t, !has(t.effect) || t.effect in ['NoSchedule', 'PreferNoSchedule', "
          "'NoExecute'])",
          "the effect of a toleration is NoSchedule, PreferNoSchedule or NoExecute");
}

void Describe(Fields<ResourceFlavorSpec>& f) {
  f.Field("nodeLabels", &ResourceFlavorSpec::node_labels)
      .AtomicMap()
      .MaxProperties(8)
      .Doc("Labels of the nodes of this flavor; become node selectors of the pods.");
  f.Field("nodeTaints", &ResourceFlavorSpec::node_taints)
      .Atomic()
      .MaxItems(8)
      .Doc("Taints of the nodes of this flavor that pods must tolerate.")
      .Cel("self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
           "the effect of a taint is NoSchedule, PreferNoSchedule or NoExecute");
  TolerationList(f.Field("tolerations", &ResourceFlavorSpec::tolerations))
      .Doc("Tolerations that the pods get.");
  Reference(f.Field("topologyName", &ResourceFlavorSpec::topology_name))
      .Doc("Topology in which pods of this flavor are placed.");
  f.All()
      .Cel("!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)",
           "topologyName needs at least one entry in nodeLabels")
      .Cel(
          "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == "
          "oldSelf.topologyName)",
          "topologyName can be neither changed nor removed");
}

void Describe(Fields<ResourceFlavor>& f) {
  f.Root(Kind::kResourceFlavor);
  f.Field("metadata", &ResourceFlavor::metadata);
  f.Field("spec", &ResourceFlavor::spec).Always();
}

void Describe(Fields<TopologyLevel>& f) {
  f.Field("nodeLabel", &TopologyLevel::node_label)
      .Required()
      .MinLength(1)
      .MaxLength(316)
      .Pattern(kLabelKeyPattern);
}

void Describe(Fields<TopologySpec>& f) {
  f.Field("levels", &TopologySpec::levels)
      .Required()
      .Atomic()
      .MinItems(1)
      .MaxItems(16)
      .Doc("Levels from the widest to the narrowest.")
      .Cel("self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))",
           "every level must have its own nodeLabel")
      .Cel(
          "!self.exists(a, a.nodeLabel == 'kubernetes.io/hostname') || "
          "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
          "kubernetes.io/hostname can only be the last level")
      .Cel(
          "self == oldSelf || (self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname' && "
          "oldSelf[size(oldSelf) - 1].nodeLabel == 'kubernetes.io/hostname')",
          "levels can be changed only while kubernetes.io/hostname is and remains the last one");
}

void Describe(Fields<Topology>& f) {
  f.Root(Kind::kTopology);
  f.Field("metadata", &Topology::metadata);
  f.Field("spec", &Topology::spec).Always();
}

void Describe(Fields<WorkloadPriorityClass>& f) {
  f.Root(Kind::kWorkloadPriorityClass);
  f.Field("metadata", &WorkloadPriorityClass::metadata);
  f.Field("value", &WorkloadPriorityClass::value)
      .Required()
      .Doc("Priority of the Workloads of this class; higher goes first.");
  f.Field("description", &WorkloadPriorityClass::description).MaxLength(2048);
}

// ---- admission checks ----

void Describe(Fields<AdmissionCheckParametersReference>& f) {
  Reference(
      f.Field("apiGroup", &AdmissionCheckParametersReference::api_group).Required().MinLength(1));
  f.Field("kind", &AdmissionCheckParametersReference::kind)
      .Required()
      .MinLength(1)
      .MaxLength(63)
      .Pattern(kKindNamePattern);
  PodSetName(f.Field("name", &AdmissionCheckParametersReference::name).Required().MinLength(1));
}

void Describe(Fields<AdmissionCheckSpec>& f) {
  f.Field("controllerName", &AdmissionCheckSpec::controller_name)
      .Required()
      .MinLength(1)
      .MaxLength(253)
      .Doc("Who performs the check; cannot be changed.")
      .Cel("self == oldSelf", "controllerName cannot be changed");
  f.Field("parameters", &AdmissionCheckSpec::parameters)
      .Doc("An object with settings for the controller.");
}

void Describe(Fields<AdmissionCheck>& f) {
  f.Root(Kind::kAdmissionCheck);
  f.Field("metadata", &AdmissionCheck::metadata);
  f.Field("spec", &AdmissionCheck::spec).Always();
  f.Group("status", [](Fields<AdmissionCheck>& g) {
    ConditionList(g.Field("conditions", &AdmissionCheck::conditions));
  });
}

void Describe(Fields<ProvisioningRequestRetryStrategy>& f) {
  f.Field("backoffLimitCount", &ProvisioningRequestRetryStrategy::backoff_limit_count).Default(3);
  f.Field("backoffBaseSeconds", &ProvisioningRequestRetryStrategy::backoff_base_seconds)
      .Default(60);
  f.Field("backoffMaxSeconds", &ProvisioningRequestRetryStrategy::backoff_max_seconds)
      .Default(1800);
}

void Describe(Fields<ProvisioningNodeSelectorUpdate>& f) {
  f.Field("key", &ProvisioningNodeSelectorUpdate::key)
      .Required()
      .MinLength(1)
      .MaxLength(317)
      .Pattern(kLabelKeyPattern);
  f.Field("valueFromProvisioningClassDetail",
          &ProvisioningNodeSelectorUpdate::value_from_provisioning_class_detail)
      .Required()
      .MinLength(1)
      .MaxLength(32768);
}

void Describe(Fields<ProvisioningRequestConfigSpec>& f) {
  Reference(
      f.Field("provisioningClassName", &ProvisioningRequestConfigSpec::provisioning_class_name)
          .Required()
          .MinLength(1));
  f.Field("parameters", &ProvisioningRequestConfigSpec::parameters)
      .MaxProperties(100)
      .Each(Rules().MaxLength(255));
  f.Field("managedResources", &ProvisioningRequestConfigSpec::managed_resources)
      .Set()
      .MaxItems(100)
      .Doc("Resources that need the request; none means all.");
  f.Field("retryStrategy", &ProvisioningRequestConfigSpec::retry_strategy)
      .Default(Json::MakeObject(
          {{"backoffLimitCount", 3}, {"backoffBaseSeconds", 60}, {"backoffMaxSeconds", 1800}}));
  f.Group("podSetUpdates", [](Fields<ProvisioningRequestConfigSpec>& g) {
    g.Field("nodeSelector", &ProvisioningRequestConfigSpec::pod_set_updates_node_selector)
        .KeyedBy({"key"})
        .MaxItems(8);
  });
  f.Field("podSetMergePolicy", &ProvisioningRequestConfigSpec::pod_set_merge_policy)
      .Enum({"IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"});
}

void Describe(Fields<ProvisioningRequestConfig>& f) {
  f.Root(Kind::kProvisioningRequestConfig);
  f.Field("metadata", &ProvisioningRequestConfig::metadata);
  f.Field("spec", &ProvisioningRequestConfig::spec).Always();
}

// ---- MultiKueue ----

void Describe(Fields<MultiKueueConfigSpec>& f) {
  f.Field("clusters", &MultiKueueConfigSpec::clusters)
      .Required()
      .Atomic()
      .MinItems(1)
      .MaxItems(20)
      .Each(Rules().MaxLength(256))
      .Doc("Names of MultiKueueClusters in the order of preference.")
      .Cel("self.all(a, self.exists_one(b, a == b))", "every cluster must be listed once");
  f.Field("quotaManagement", &MultiKueueConfigSpec::quota_management).Enum({"Manual", "Automated"});
}

void Describe(Fields<MultiKueueConfig>& f) {
  f.Root(Kind::kMultiKueueConfig);
  f.Field("metadata", &MultiKueueConfig::metadata);
  f.Field("spec", &MultiKueueConfig::spec).Always();
}

void Describe(Fields<KubeConfigSource>& f) {
  f.Field("location", &KubeConfigSource::location).Required().MinLength(1).MaxLength(256);
  f.Field("locationType", &KubeConfigSource::location_type)
      .Enum({"Secret", "Path"})
      .Default("Secret");
}

void Describe(Fields<ClusterSource>& f) {
  f.Field("kubeConfig", &ClusterSource::kube_config);
  f.Group("clusterProfileRef", [](Fields<ClusterSource>& g) {
    g.Field("name", &ClusterSource::cluster_profile_ref_name)
        .Required()
        .MinLength(1)
        .MaxLength(256);
  });
  f.All().Cel("has(self.kubeConfig) != has(self.clusterProfileRef)",
              "exactly one of kubeConfig and clusterProfileRef must be set");
}

void Describe(Fields<MultiKueueClusterSpec>& f) {
  f.Field("clusterSource", &MultiKueueClusterSpec::cluster_source).Required();
}

void Describe(Fields<MultiKueueCluster>& f) {
  f.Root(Kind::kMultiKueueCluster);
  f.Field("metadata", &MultiKueueCluster::metadata);
  f.Field("spec", &MultiKueueCluster::spec).Always();
  f.Group("status", [](Fields<MultiKueueCluster>& g) {
    ConditionList(g.Field("conditions", &MultiKueueCluster::conditions));
  });
}

}  // namespace sluice::api
