#include "api/kind.h"

#include <array>

#include "base/check.h"

namespace sluice::api {
namespace {

constexpr std::array kKinds = {
    KindInfo{Kind::kClusterQueue, kKueueGroup, "v1beta2", "ClusterQueue", "clusterqueues", false},
    KindInfo{Kind::kLocalQueue, kKueueGroup, "v1beta2", "LocalQueue", "localqueues", true},
    KindInfo{Kind::kCohort, kKueueGroup, "v1beta2", "Cohort", "cohorts", false},
    KindInfo{Kind::kWorkload, kKueueGroup, "v1beta2", "Workload", "workloads", true},
    KindInfo{Kind::kResourceFlavor, kKueueGroup, "v1beta2", "ResourceFlavor", "resourceflavors",
             false},
    KindInfo{Kind::kTopology, kKueueGroup, "v1beta2", "Topology", "topologies", false},
    KindInfo{Kind::kAdmissionCheck, kKueueGroup, "v1beta2", "AdmissionCheck", "admissionchecks",
             false},
    KindInfo{Kind::kWorkloadPriorityClass, kKueueGroup, "v1beta2", "WorkloadPriorityClass",
             "workloadpriorityclasses", false},
    KindInfo{Kind::kProvisioningRequestConfig, kKueueGroup, "v1beta2", "ProvisioningRequestConfig",
             "provisioningrequestconfigs", false},
    KindInfo{Kind::kMultiKueueConfig, kKueueGroup, "v1beta2", "MultiKueueConfig",
             "multikueueconfigs", false},
    KindInfo{Kind::kMultiKueueCluster, kKueueGroup, "v1beta2", "MultiKueueCluster",
             "multikueueclusters", false},
    KindInfo{Kind::kJob, "batch", "v1", "Job", "jobs", true},
    KindInfo{Kind::kPod, "", "v1", "Pod", "pods", true},
    KindInfo{Kind::kNode, "", "v1", "Node", "nodes", false},
    KindInfo{Kind::kNamespace, "", "v1", "Namespace", "namespaces", false},
    KindInfo{Kind::kLimitRange, "", "v1", "LimitRange", "limitranges", true},
    KindInfo{Kind::kPriorityClass, "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses",
             false},
    KindInfo{Kind::kRuntimeClass, "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false},
    KindInfo{Kind::kSecret, "", "v1", "Secret", "secrets", true},
    KindInfo{Kind::kLease, "coordination.k8s.io", "v1", "Lease", "leases", true},
    KindInfo{Kind::kEvent, "events.k8s.io", "v1", "Event", "events", true},
    KindInfo{Kind::kPodGroup, "scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true},
    KindInfo{Kind::kValidatingWebhookConfiguration, "admissionregistration.k8s.io", "v1",
             "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false},
    KindInfo{Kind::kMutatingWebhookConfiguration, "admissionregistration.k8s.io", "v1",
             "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false},
    KindInfo{Kind::kCustomResourceDefinition, "apiextensions.k8s.io", "v1",
             "CustomResourceDefinition", "customresourcedefinitions", false},
    KindInfo{Kind::kCreditPolicy, kSluiceGroup, "v1alpha1", "CreditPolicy", "creditpolicies",
             false},
    KindInfo{Kind::kCreditAccount, kSluiceGroup, "v1alpha1", "CreditAccount", "creditaccounts",
             false},
};

}  // namespace

const KindInfo& InfoOf(Kind kind) {
  const KindInfo& info = kKinds.at(static_cast<size_t>(kind));
  SLUICE_CHECK(info.kind == kind, "the table of kinds is not in the order of the enum at {}",
               info.name);
  return info;
}

std::span<const KindInfo> AllKinds() { return kKinds; }

const KindInfo* FindKind(std::string_view group, std::string_view name) {
  for (const KindInfo& info : kKinds) {
    if (group == info.group && name == info.name) return &info;
  }
  return nullptr;
}

std::string ApiVersionOf(Kind kind) {
  const KindInfo& info = InfoOf(kind);
  return info.group[0] == '\0' ? info.version : std::string(info.group) + "/" + info.version;
}

std::string PathOf(Kind kind, const ObjectKey& key, std::string_view subresource) {
  const KindInfo& info = InfoOf(kind);
  std::string path = info.group[0] == '\0' ? "/api/" : "/apis/";
  path += ApiVersionOf(kind);
  if (info.namespaced && !key.ns.empty()) path.append("/namespaces/").append(key.ns);
  path.append("/").append(info.plural);
  if (!key.name.empty()) path.append("/").append(key.name);
  if (!subresource.empty()) path.append("/").append(subresource);
  return path;
}

}  // namespace sluice::api
