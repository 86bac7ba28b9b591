// v1beta1 differs from v1beta2 in few places; each is one edit here. Source: the public Kueue API
// reference of both versions.
#include "api/schema_v1beta1.h"

#include <string>
#include <string_view>
#include <vector>

#include "api/rules.h"
#include "base/check.h"

namespace sluice::api {
namespace {

constexpr char kValidations[] = "x-kubernetes-validations";
constexpr char kListType[] = "x-kubernetes-list-type";
constexpr char kListMapKeys[] = "x-kubernetes-list-map-keys";

// Edits of one schema. Paths are like "spec.podSets[].count": names of properties, [] for items.
class Editor {
 public:
  explicit Editor(Json schema) : schema_(std::move(schema)) {}
  Json Take() { return std::move(schema_); }

  Json& At(std::string_view path) {
    Json* at = &schema_;
    while (!path.empty()) {
      const size_t end = path.find('.');
      std::string_view name = path.substr(0, end);
      path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
      const bool items = name.ends_with("[]");
      if (items) name.remove_suffix(2);
      Json* properties = at->Find("properties");
      Json* child = properties == nullptr ? nullptr : properties->Find(name);
      if (child != nullptr && items) child = child->Find("items");
      SLUICE_CHECK(child != nullptr, "the schema has no property {}", name);
      at = child;
    }
    return *at;
  }
  Json& Properties(std::string_view path) { return At(path)["properties"]; }

  void Drop(std::string_view path, std::initializer_list<const char*> keywords) {
    for (const char* keyword : keywords) {
      SLUICE_CHECK(At(path).Erase(keyword), "{} has no {}", path, keyword);
    }
  }
  void Require(std::string_view path, std::initializer_list<const char*> names) {
    for (const char* name : names) At(path)["required"].Append(name);
  }
  void Remove(std::string_view parent, std::string_view name) {
    SLUICE_CHECK(Properties(parent).Erase(name), "{} has no property {}", parent, name);
    Json* required = At(parent).Find("required");
    if (required == nullptr) return;
    Json::Array kept;
    for (const Json& entry : required->AsArray()) {
      if (entry.AsString() != name) kept.push_back(entry);
    }
    if (kept.empty()) {
      At(parent).Erase("required");
    } else {
      *required = std::move(kept);
    }
  }
  void Rename(std::string_view parent, std::string_view from, std::string_view to) {
    for (auto& [name, value] : Properties(parent).MutableObject()) {
      if (name == from) name = to;
    }
  }
  void Put(std::string_view parent, std::string_view name, Json schema) {
    Properties(parent).Set(name, std::move(schema));
  }

 private:
  Json schema_;
};

Json Typed(const char* type) { return Json::MakeObject({{"type", type}}); }

Json String(int64_t max_length) {
  return Json::MakeObject({{"type", "string"}, {"maxLength", max_length}});
}

Json ListOf(Json items) {
  return Json::MakeObject({{"type", "array"}, {"items", std::move(items)}});
}

Json ObjectOf(Json properties, std::initializer_list<const char*> required = {}) {
  Json object = Json::MakeObject({{"type", "object"}, {"properties", std::move(properties)}});
  for (const char* name : required) object["required"].Append(name);
  return object;
}

Json Rule(const std::string& rule, const char* message) {
  return Json::MakeObject({{"rule", rule}, {"message", message}});
}

void EditClusterQueue(Editor& edit) {
  edit.Rename("spec", "cohortName", "cohort");
  edit.At("spec").Set(
      kValidations,
      Json::MakeArray(
          {Rule("has(self.cohort) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
                "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
                "borrowingLimit needs a cohort")}));
  edit.Put("spec", "admissionChecks", ListOf(String(316)));
  edit.Drop("spec.resourceGroups[].coveredResources", {kListType});
  edit.At("spec.flavorFungibility.whenCanBorrow")["enum"].Append("Borrow");
  edit.At("spec.flavorFungibility.whenCanPreempt")["enum"].Append("Preempt");
  edit.Drop("spec.admissionChecksStrategy.admissionChecks",
            {"minItems", "maxItems", kListType, kListMapKeys});
  edit.Drop("spec.admissionChecksStrategy", {"required"});
  edit.Drop("spec.admissionChecksStrategy.admissionChecks[].name", {"minLength"});
  edit.Drop("spec.admissionChecksStrategy.admissionChecks[].onFlavors", {"maxItems", kListType});
  edit.Drop("spec.admissionScope.admissionMode", {"enum"});
  edit.Remove("spec", "concurrentAdmissionPolicy");
  Json pending =
      ObjectOf(Json::MakeObject({{"name", Typed("string")}, {"namespace", Typed("string")}}),
               {"name", "namespace"});
  Json pending_list = ListOf(std::move(pending));
  pending_list.Set(kListType, "atomic");
  edit.Put(
      "status", "pendingWorkloadsStatus",
      ObjectOf(Json::MakeObject({{"clusterQueuePendingWorkload", std::move(pending_list)},
                                 {"lastChangeTime", Json::MakeObject({{"type", "string"},
                                                                      {"format", "date-time"}})}}),
               {"lastChangeTime"}));
}

void EditLocalQueue(Editor& edit) {
  edit.Rename("status", "flavorsUsage", "flavorUsage");
  Json taints = ListOf(ObjectOf(
      Json::MakeObject(
          {{"key", Typed("string")}, {"value", Typed("string")}, {"effect", Typed("string")}}),
      {"key", "effect"}));
  Json labels = Typed("object");
  labels.Set("additionalProperties", Typed("string"));
  Json flavor = ObjectOf(
      Json::MakeObject(
          {{"name", String(253)},
           {"resources", ListOf(Typed("string"))},
           {"nodeLabels", std::move(labels)},
           {"nodeTaints", std::move(taints)},
           {"topology", ObjectOf(Json::MakeObject(
                            {{"name", String(253)}, {"levels", ListOf(Typed("string"))}}))}}),
      {"name"});
  Json flavors = ListOf(std::move(flavor));
  flavors.Set(kListType, "map");
  flavors.Set(kListMapKeys, Json::MakeArray({"name"}));
  flavors.Set("maxItems", 16);
  edit.Put("status", "flavors", std::move(flavors));
}

// "QuotaReserved is True in the object", as in the rules of v1beta2.
std::string Reserved(const std::string& object) {
  return "(has(" + object + ".status) && has(" + object + ".status.conditions) && " + object +
         ".status.conditions.exists(c, c.type == 'QuotaReserved' && c.status == 'True'))";
}

std::string BothHave(const std::string& field) {
  return "has(self.spec) && has(oldSelf.spec) && has(self.spec." + field +
         ") && has(oldSelf.spec." + field + ")";
}

// Rules about priorityClassRef give way to rules about the two older fields.
void EditWorkloadRules(Editor& edit) {
  Json rules = Json::MakeArray();
  for (const Json& rule : edit.At("")[kValidations].AsArray()) {
    if (rule.GetString("rule").find("priorityClassRef") == std::string::npos) rules.Append(rule);
  }
  rules.Append(Rule("!(" + BothHave("priorityClassSource") +
                        ") || self.spec.priorityClassSource == oldSelf.spec.priorityClassSource "
                        "|| !" +
                        Reserved("oldSelf"),
                    "priorityClassSource cannot be changed while quota is reserved"));
  rules.Append(Rule("!(" + BothHave("priorityClassName") +
                        ") || (has(self.spec.priorityClassSource) && self.spec.priorityClassSource "
                        "== 'kueue.x-k8s.io/workloadpriorityclass') || "
                        "self.spec.priorityClassName == oldSelf.spec.priorityClassName || !" +
                        Reserved("oldSelf"),
                    "priorityClassName cannot be changed while quota is reserved"));
  edit.At("").Set(kValidations, std::move(rules));
  edit.At("spec").Set(kValidations,
                      Json::MakeArray({Rule("!has(self.priorityClassName) || has(self.priority)",
                                            "priority must be set together with "
                                            "priorityClassName")}));
}

void EditWorkloadSpec(Editor& edit) {
  edit.Require("spec", {"podSets"});
  edit.Require("spec.podSets[]", {"count"});
  edit.Remove("spec", "priorityClassRef");
  edit.Remove("spec", "preemptionGates");
  Json name = String(253);
  name.Set("pattern", kSubdomainPattern);
  edit.Put("spec", "priorityClassName", std::move(name));
  Json source = Typed("string");
  source.Set("default", "");
  source.Set("enum", Json::MakeArray({"kueue.x-k8s.io/workloadpriorityclass",
                                      "scheduling.k8s.io/priorityclass", ""}));
  edit.Put("spec", "priorityClassSource", std::move(source));
  const std::string request = "spec.podSets[].topologyRequest";
  edit.Remove(request, "podsetSliceRequiredTopologyConstraints");
  edit.Drop(request + ".subGroupCount", {"minimum"});
  for (const char* field : {"required", "preferred", "podIndexLabel", "subGroupIndexLabel",
                            "podSetGroupName", "podSetSliceRequiredTopology"}) {
    edit.Drop(request + "." + field, {"maxLength"});
  }
}

void EditTopologyAssignment(Editor& edit) {
  const std::string assignment = "status.admission.podSetAssignments[].topologyAssignment";
  edit.Drop(assignment, {kValidations});
  edit.Drop(assignment + ".levels[]", {"maxLength"});
  edit.Remove(assignment, "slices");
  Json values = ListOf(Typed("string"));
  values.Set("minItems", 1);
  values.Set("maxItems", 16);
  values.Set(kListType, "atomic");
  Json count = Json::MakeObject({{"type", "integer"}, {"format", "int32"}, {"minimum", 1}});
  Json domains = ListOf(
      ObjectOf(Json::MakeObject({{"values", std::move(values)}, {"count", std::move(count)}}),
               {"values", "count"}));
  domains.Set("maxItems", 100000);
  domains.Set(kListType, "atomic");
  edit.Put(assignment, "domains", std::move(domains));
  edit.Require(assignment, {"domains"});
}

void EditWorkload(Editor& edit) {
  EditWorkloadRules(edit);
  EditWorkloadSpec(edit);
  EditTopologyAssignment(edit);
  edit.Require("status.admission", {"clusterQueue", "podSetAssignments"});
  edit.Drop("status.admission.podSetAssignments[].delayedTopologyRequest", {"enum"});
  edit.Rename("status", "accumulatedPastExecutionTimeSeconds",
              "accumulatedPastExexcutionTimeSeconds");
  edit.Remove("status", "preemptionGates");
  edit.Drop("status.clusterName", {"maxLength"});
  edit.Drop("status.nominatedClusterNames[]", {"maxLength"});
  edit.Drop("status.unhealthyNodes", {"maxItems", kListType, kListMapKeys});
  edit.Drop("status.unhealthyNodes[].name", {"maxLength"});
  edit.Drop("status.schedulingStats.evictions", {"maxItems"});
  edit.Drop("status.admissionChecks[].name", {"minLength"});
  edit.Drop("status.admissionChecks[].podSetUpdates[].tolerations", {kListType});
}

void EditAdmissionCheck(Editor& edit) {
  edit.Put("spec", "retryDelayMinutes",
           Json::MakeObject({{"type", "integer"}, {"format", "int64"}, {"default", 15}}));
  edit.Drop("spec.controllerName", {"minLength", "maxLength"});
  for (const char* field : {"apiGroup", "kind", "name"}) {
    edit.Drop(std::string("spec.parameters.") + field, {"minLength"});
  }
}

void EditTopology(Editor& edit) {
  Json& rules = edit.At("spec.levels")[kValidations];
  rules.MutableArray().back() = Rule("self == oldSelf", "levels cannot be changed");
}

void EditMultiKueueConfig(Editor& edit) {
  edit.Remove("spec", "quotaManagement");
  edit.Drop("spec.clusters", {kValidations});
  edit.Drop("spec.clusters[]", {"maxLength"});
  edit.At("spec.clusters").Set(kListType, "set");
}

void EditMultiKueueCluster(Editor& edit) {
  Json config = edit.At("spec.clusterSource.kubeConfig");
  config["properties"]["location"].Erase("minLength");
  config["properties"]["location"].Erase("maxLength");
  config["required"].Append("locationType");
  Json profile = edit.At("spec.clusterSource.clusterProfileRef");
  edit.Remove("spec", "clusterSource");
  edit.Put("spec", "kubeConfig", std::move(config));
  edit.Put("spec", "clusterProfileRef", std::move(profile));
  edit.Require("spec", {"kubeConfig"});
}

}  // namespace

Json SchemaV1beta1(Kind kind, const Json& v1beta2) {
  Editor edit(v1beta2);
  if (v1beta2.Find("properties", "status") != nullptr && kind != Kind::kCohort) {
    edit.Drop("status.conditions", {"maxItems"});
  }
  switch (kind) {
    case Kind::kClusterQueue:
      EditClusterQueue(edit);
      break;
    case Kind::kLocalQueue:
      EditLocalQueue(edit);
      break;
    case Kind::kCohort:
      edit.Drop("spec.resourceGroups[].coveredResources", {kListType});
      break;
    case Kind::kWorkload:
      EditWorkload(edit);
      break;
    case Kind::kTopology:
      EditTopology(edit);
      break;
    case Kind::kAdmissionCheck:
      EditAdmissionCheck(edit);
      break;
    case Kind::kWorkloadPriorityClass:
      edit.Drop("description", {"maxLength"});
      break;
    case Kind::kProvisioningRequestConfig:
      edit.Drop("spec.provisioningClassName", {"minLength"});
      edit.Drop("spec.podSetUpdates.nodeSelector", {kListType, kListMapKeys});
      break;
    case Kind::kMultiKueueConfig:
      EditMultiKueueConfig(edit);
      break;
    case Kind::kMultiKueueCluster:
      EditMultiKueueCluster(edit);
      break;
    default:  // ResourceFlavor is the same in both
      break;
  }
  return edit.Take();
}

}  // namespace sluice::api
