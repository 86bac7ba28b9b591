#include "api/schema.h"

#include <absl/container/btree_map.h>

#include <utility>

#include "api/credit_fields.h"
#include "api/fields.h"
#include "api/kueue_fields.h"
#include "api/schema_v1beta1.h"
#include "base/check.h"

namespace sluice::api {
namespace {

Json DescribedSchema(Kind kind) {
  switch (kind) {
    case Kind::kClusterQueue:
      return TypeOf<ClusterQueue>().Schema();
    case Kind::kLocalQueue:
      return TypeOf<LocalQueue>().Schema();
    case Kind::kCohort:
      return TypeOf<Cohort>().Schema();
    case Kind::kWorkload:
      return TypeOf<Workload>().Schema();
    case Kind::kResourceFlavor:
      return TypeOf<ResourceFlavor>().Schema();
    case Kind::kTopology:
      return TypeOf<Topology>().Schema();
    case Kind::kAdmissionCheck:
      return TypeOf<AdmissionCheck>().Schema();
    case Kind::kWorkloadPriorityClass:
      return TypeOf<WorkloadPriorityClass>().Schema();
    case Kind::kProvisioningRequestConfig:
      return TypeOf<ProvisioningRequestConfig>().Schema();
    case Kind::kMultiKueueConfig:
      return TypeOf<MultiKueueConfig>().Schema();
    case Kind::kMultiKueueCluster:
      return TypeOf<MultiKueueCluster>().Schema();
    case Kind::kCreditPolicy:
      return TypeOf<CreditPolicy>().Schema();
    case Kind::kCreditAccount:
      return TypeOf<CreditAccount>().Schema();
    default:
      break;
  }
  SLUICE_CHECK(false, "{} has no schema here", InfoOf(kind).name);
  return Json();
}

struct Versions {
  Json v1beta2;
  Json v1beta1;
};

Versions MakeVersions(Kind kind) {
  Versions versions;
  versions.v1beta2 = DescribedSchema(kind);
  if (std::string_view(InfoOf(kind).group) == kSluiceGroup) return versions;
  versions.v1beta1 = SchemaV1beta1(kind, versions.v1beta2);
  // One struct serves three kinds; in v1beta2 only a LocalQueue has the part about admission.
  if (kind == Kind::kClusterQueue || kind == Kind::kCohort) {
    Json& status = versions.v1beta2["properties"]["status"];
    status["properties"]["fairSharing"]["properties"].Erase("admissionFairSharingStatus");
  }
  return versions;
}

void AddKinds(const char* group, std::vector<Kind>& kinds) {
  for (const KindInfo& info : AllKinds()) {
    if (std::string_view(info.group) == group) kinds.push_back(info.kind);
  }
}

}  // namespace

const std::vector<Kind>& KueueKinds() {
  static const std::vector<Kind> kKinds = [] {
    std::vector<Kind> kinds;
    AddKinds(kKueueGroup, kinds);
    return kinds;
  }();
  return kKinds;
}

const std::vector<Kind>& DefinedKinds() {
  static const std::vector<Kind> kKinds = [] {
    std::vector<Kind> kinds = KueueKinds();
    AddKinds(kSluiceGroup, kinds);
    return kinds;
  }();
  return kKinds;
}

const Json& SchemaOf(Kind kind, std::string_view version) {
  static const absl::btree_map<Kind, Versions> kSchemas = [] {
    absl::btree_map<Kind, Versions> schemas;
    for (const Kind each : DefinedKinds()) schemas.emplace(each, MakeVersions(each));
    return schemas;
  }();
  const auto found = kSchemas.find(kind);
  SLUICE_CHECK(found != kSchemas.end(), "{} has no schema here", InfoOf(kind).name);
  const bool old = version == "v1beta1" && !found->second.v1beta1.IsNull();
  return old ? found->second.v1beta1 : found->second.v1beta2;
}

}  // namespace sluice::api
