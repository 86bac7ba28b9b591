#include "api/crd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "api/schema.h"
#include "base/check.h"

namespace sluice::api {
namespace {

struct Column {
  const char* name;
  const char* path;
  const char* type;
  bool wide = false;
};

struct CrdTraits {
  Kind kind;
  std::vector<const char*> short_names;
  bool status;
  bool webhook;  // conversion
  std::vector<Column> columns;
};

constexpr char kAdmittedPath[] = ".status.conditions[?(@.type=='Admitted')].status";
constexpr char kFinishedPath[] = ".status.conditions[?(@.type=='Finished')].status";
constexpr char kActivePath[] = ".status.conditions[?(@.type=='Active')].status";
const Column kAge = {"Age", ".metadata.creationTimestamp", "date"};

const std::vector<CrdTraits>& AllTraits() {
  static const std::vector<CrdTraits> kTraits = {
      {Kind::kClusterQueue,
       {"cq"},
       true,
       true,
       {{"Cohort", ".spec.cohortName", "string"},
        {"Strategy", ".spec.queueingStrategy", "string", true},
        {"Pending Workloads", ".status.pendingWorkloads", "integer"},
        {"Admitted Workloads", ".status.admittedWorkloads", "integer", true}}},
      {Kind::kLocalQueue,
       {"queue", "queues", "lq"},
       true,
       true,
       {{"ClusterQueue", ".spec.clusterQueue", "string"},
        {"Pending Workloads", ".status.pendingWorkloads", "integer"},
        {"Admitted Workloads", ".status.admittedWorkloads", "integer"}}},
      {Kind::kCohort, {"co"}, true, true, {}},
      {Kind::kWorkload,
       {"wl", "kwl", "kueueworkload", "kueueworkloads"},
       true,
       true,
       {{"Queue", ".spec.queueName", "string"},
        {"Reserved in", ".status.admission.clusterQueue", "string"},
        {"Admitted", kAdmittedPath, "string"},
        {"Finished", kFinishedPath, "string"},
        kAge}},
      {Kind::kResourceFlavor, {"flavor", "flavors", "rf"}, false, false, {}},
      {Kind::kTopology, {"topo"}, false, false, {}},
      {Kind::kAdmissionCheck, {"ac"}, true, false, {}},
      {Kind::kWorkloadPriorityClass, {"wpc"}, false, false, {{"Value", ".value", "integer"}}},
      {Kind::kProvisioningRequestConfig, {"prc"}, false, false, {}},
      {Kind::kMultiKueueConfig, {"mkconf"}, false, false, {}},
      {Kind::kMultiKueueCluster, {"mkc"}, true, true, {{"Connected", kActivePath, "string"}, kAge}},
      {Kind::kCreditPolicy,
       {"crp"},
       true,
       false,
       {{"Cohort", ".spec.selector.cohort", "string"},
        {"Effect", ".spec.effect", "string"},
        {"Horizon", ".spec.horizon", "string"},
        {"Active", kActivePath, "string"},
        kAge}},
      {Kind::kCreditAccount,
       {"cra"},
       true,
       false,
       {{"Balance", ".status.balance", "string"},
        {"Bank-Limit", ".status.bankLimit", "string"},
        {"Entitlement", ".status.entitlement", "string"},
        {"Usage", ".status.usage", "string"},
        {"Rate", ".status.rate", "string"},
        {"Empty-At", ".status.emptyAt", "string"}}},
  };
  return kTraits;
}

const CrdTraits& TraitsOf(Kind kind) {
  for (const CrdTraits& traits : AllTraits()) {
    if (traits.kind == kind) return traits;
  }
  SLUICE_CHECK(false, "{} has no definition here", InfoOf(kind).name);
  return AllTraits().front();
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Json ColumnsOf(const CrdTraits& traits, bool old) {
  Json columns = Json::MakeArray();
  for (const Column& column : traits.columns) {
    const std::string path = column.path;
    Json json = Json::MakeObject({{"name", column.name}, {"type", column.type}});
    json.Set("jsonPath", old && path == ".spec.cohortName" ? ".spec.cohort" : path);
    if (column.wide) json.Set("priority", 1);
    columns.Append(std::move(json));
  }
  return columns;
}

Json VersionOf(const CrdTraits& traits, const char* name) {
  const bool old = std::string_view(name) == "v1beta1";
  Json version = Json::MakeObject({{"name", name}, {"served", true}, {"storage", !old}});
  if (old && traits.kind != Kind::kMultiKueueConfig) {
    version.Set("deprecated", true);
    version.Set("deprecationWarning", "This version is deprecated. Use v1beta2 instead.");
  }
  if (!traits.columns.empty()) version.Set("additionalPrinterColumns", ColumnsOf(traits, old));
  if (traits.kind == Kind::kWorkload && !old) {
    version.Set(
        "selectableFields",
        Json::MakeArray({Json::MakeObject({{"jsonPath", ".status.admission.clusterQueue"}})}));
  }
  if (traits.status) {
    version.Set("subresources", Json::MakeObject({{"status", Json::MakeObject()}}));
  }
  version.Set("schema", Json::MakeObject({{"openAPIV3Schema", SchemaOf(traits.kind, name)}}));
  return version;
}

}  // namespace

Json MakeCrd(Kind kind) {
  const CrdTraits& traits = TraitsOf(kind);
  const KindInfo& info = InfoOf(kind);
  Json metadata = Json::MakeObject({{"name", fmt::format("{}.{}", info.plural, info.group)}});
  if (traits.webhook) {
    metadata.Set("annotations", Json::MakeObject({{kConversionAnnotation, "webhook"}}));
  }
  Json short_names = Json::MakeArray();
  for (const char* name : traits.short_names) short_names.Append(name);
  Json names = Json::MakeObject({{"kind", info.name},
                                 {"listKind", std::string(info.name) + "List"},
                                 {"plural", info.plural},
                                 {"singular", LowerCase(info.name)},
                                 {"shortNames", std::move(short_names)}});
  Json spec = Json::MakeObject({{"group", info.group},
                                {"names", std::move(names)},
                                {"scope", info.namespaced ? "Namespaced" : "Cluster"},
                                {"conversion", Json::MakeObject({{"strategy", "None"}})}});
  Json versions = Json::MakeArray({VersionOf(traits, info.version)});
  if (std::string_view(info.group) == kKueueGroup) versions.Append(VersionOf(traits, "v1beta1"));
  spec.Set("versions", std::move(versions));
  return Json::MakeObject({{"apiVersion", "apiextensions.k8s.io/v1"},
                           {"kind", "CustomResourceDefinition"},
                           {"metadata", std::move(metadata)},
                           {"spec", std::move(spec)}});
}

std::string CrdFileName(Kind kind) {
  return fmt::format("{}_{}.yaml", InfoOf(kind).group, InfoOf(kind).plural);
}

std::string CrdFileText(Kind kind) {
  return "# Written by generate-crds from the descriptions in lib/api. Do not edit.\n" +
         ToYaml(MakeCrd(kind));
}

}  // namespace sluice::api
