// The kinds that the controller reads or writes, with their addresses in the API.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/object_key.h"

namespace sluice::api {

inline constexpr char kKueueGroup[] = "kueue.x-k8s.io";
inline constexpr char kSluiceGroup[] = "sluice.dev";

enum class Kind {
  kClusterQueue,
  kLocalQueue,
  kCohort,
  kWorkload,
  kResourceFlavor,
  kTopology,
  kAdmissionCheck,
  kWorkloadPriorityClass,
  kProvisioningRequestConfig,
  kMultiKueueConfig,
  kMultiKueueCluster,
  kJob,
  kPod,
  kNode,
  kNamespace,
  kLimitRange,
  kPriorityClass,
  kRuntimeClass,
  kSecret,
  kLease,
  kEvent,  // events.k8s.io/v1
  kPodGroup,
  kValidatingWebhookConfiguration,
  kMutatingWebhookConfiguration,
  kCustomResourceDefinition,
  kCreditPolicy,
  kCreditAccount,
};

struct KindInfo {
  Kind kind;
  const char* group;    // "" for the core group
  const char* version;  // the version that we read and write
  const char* name;     // "ClusterQueue"
  const char* plural;   // "clusterqueues"
  bool namespaced;
};

const KindInfo& InfoOf(Kind kind);
// Every kind, in the order of the enum.
std::span<const KindInfo> AllKinds();
// nullptr when the pair is unknown. The version is not compared.
const KindInfo* FindKind(std::string_view group, std::string_view name);

// "kueue.x-k8s.io/v1beta2", or "v1" for the core group.
std::string ApiVersionOf(Kind kind);
// "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/name"; an empty name gives the collection,
// an empty namespace the collection over all namespaces. subresource "" or "status".
std::string PathOf(Kind kind, const ObjectKey& key, std::string_view subresource = "");

}  // namespace sluice::api
