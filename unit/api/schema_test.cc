#include "api/schema.h"

#include <string>
#include <vector>

#include "unit/catch.h"

namespace sluice::api {
namespace {

Json Parsed(const std::string& text) {
  absl::StatusOr<Json> json = ParseJson(text);
  INFO(text << ": " << json.status().ToString());
  REQUIRE(json.ok());
  return *std::move(json);
}

std::vector<std::string> Problems(Kind kind, const std::string& text,
                                  const std::string& version = "v1beta2") {
  Json object = Parsed(text);
  ApplyDefaults(object, SchemaOf(kind, version));
  std::vector<std::string> problems;
  for (const SchemaError& error : ValidateSchema(object, SchemaOf(kind, version))) {
    problems.push_back(error.path + ": " + error.message);
  }
  return problems;
}

TEST_CASE("A ClusterQueue with an empty spec gets its defaults") {
  Json queue = Parsed(R"({"metadata": {"name": "foo"}, "spec": {"stopPolicy": null}})");
  ApplyDefaults(queue, SchemaOf(Kind::kClusterQueue));
  CHECK(queue == Parsed(R"({"metadata": {"name": "foo"}, "spec": {
    "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never",
      "borrowWithinCohort": {"policy": "Never"}}}})"));
  Json bare = Parsed(R"({"metadata": {"name": "foo"}})");
  ApplyDefaults(bare, SchemaOf(Kind::kClusterQueue));
  CHECK_FALSE(bare.Has("spec"));
}

TEST_CASE("Defaults reach into lists") {
  Json workload = Parsed(R"({"spec": {"podSets": [{"template": {}}, {"name": "b", "count": 0}]}})");
  ApplyDefaults(workload, SchemaOf(Kind::kWorkload));
  CHECK(workload == Parsed(R"({"spec": {"active": true, "podSets": [
    {"template": {}, "name": "main", "count": 1}, {"name": "b", "count": 0}]}})"));
}

TEST_CASE("Pruning drops what is not described and keeps pod templates whole") {
  Json workload = Parsed(R"({"apiVersion": "x", "kind": "Workload", "extra": 1,
    "metadata": {"name": "w", "labels": {"a": "b"}},
    "spec": {"unknown": 1, "queueName": "q", "podSets": [{"zzz": 1, "template": {
      "metadata": {"labels": {"a": "b"}, "other": 1}, "zzz": 2,
      "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i",
        "resources": {"zzz": 1, "requests": {"cpu": "1"}}}]}}}]}})");
  Prune(workload, SchemaOf(Kind::kWorkload));
  CHECK(workload == Parsed(R"({"apiVersion": "x", "kind": "Workload",
    "metadata": {"name": "w", "labels": {"a": "b"}},
    "spec": {"queueName": "q", "podSets": [{"template": {
      "metadata": {"labels": {"a": "b"}, "other": 1},
      "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1"}}}]}}}]}})"));
}

struct Row {
  const char* name;
  Kind kind;
  const char* object;
  std::vector<std::string> problems;
};

TEST_CASE("Violations are found and named") {
  const auto row = GENERATE(values<Row>({
      {"good", Kind::kClusterQueue, R"({"spec": {"cohortName": "a.b"}})", {}},
      {"required", Kind::kTopology, R"({"spec": {}})", {"spec.levels: Required value"}},
      {"root required",
       Kind::kWorkloadPriorityClass,
       R"({"metadata": {}})",
       {"value: Required value"}},
      {"enum",
       Kind::kClusterQueue,
       R"({"spec": {"queueingStrategy": "FIFO"}})",
       {R"(spec.queueingStrategy: Unsupported value: "FIFO": supported values: "StrictFIFO", )"
        R"("BestEffortFIFO")"}},
      {"type",
       Kind::kWorkload,
       R"({"spec": {"active": "yes"}})",
       {R"(spec.active: Invalid value: "yes": must be of type boolean)"}},
      {"minimum",
       Kind::kWorkload,
       R"({"spec": {"maximumExecutionTimeSeconds": 0}})",
       {"spec.maximumExecutionTimeSeconds: Invalid value: 0: should be greater than or equal to "
        "1"}},
      {"int32",
       Kind::kWorkload,
       R"({"spec": {"priority": 2147483648}})",
       {"spec.priority: Invalid value: 2147483648: must be a 32-bit integer"}},
      {"fraction",
       Kind::kWorkload,
       R"({"spec": {"priority": 1.5}})",
       {"spec.priority: Invalid value: 1.5: must be of type integer"}},
      {"no items",
       Kind::kWorkload,
       R"({"spec": {"podSets": []}})",
       {"spec.podSets: Invalid value: 0: should have at least 1 items"}},
      {"duplicate",
       Kind::kWorkload,
       R"({"spec": {"preemptionGates": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}})",
       {R"(spec.preemptionGates[2]: Duplicate value: {"name":"a"})"}},
      {"set",
       Kind::kProvisioningRequestConfig,
       R"({"spec": {"provisioningClassName": "c", "managedResources": ["a", "a"]}})",
       {R"(spec.managedResources[1]: Duplicate value: "a")"}},
      {"length in characters", Kind::kMultiKueueConfig, R"({"spec": {"clusters": [""]}})", {}},
      {"min length",
       Kind::kAdmissionCheck,
       R"({"spec": {"controllerName": ""}})",
       {R"(spec.controllerName: Invalid value: "": should be at least 1 chars long)"}},
      {"quantity",
       Kind::kWorkload,
       R"({"status": {"resourceRequests": [{"name": "main", "resources": {"cpu": "1K"}}]}})",
       {R"(status.resourceRequests[0].resources[cpu]: Invalid value: "1K": must be a quantity)"}},
      {"kind name",
       Kind::kAdmissionCheck,
       R"({"spec": {"controllerName": "c", "parameters": {"apiGroup": "g", "kind": "MultiKueue",
           "name": "n"}}})",
       {}},
      {"two keys",
       Kind::kWorkload,
       R"({"status": {"schedulingStats": {"evictions": [
           {"reason": "a", "underlyingCause": "", "count": 0},
           {"reason": "a", "underlyingCause": "b", "count": 0}]}}})",
       {}},
  }));
  DYNAMIC_SECTION(row.name) { CHECK(Problems(row.kind, row.object) == row.problems); }
}

TEST_CASE("Names are checked by pattern and length") {
  const auto problems = [](const std::string& name) {
    return Problems(Kind::kLocalQueue,
                    Json::MakeObject({{"spec", Json::MakeObject({{"clusterQueue", name}})}}).Text())
        .size();
  };
  CHECK(problems("a-b.c") == 0);
  CHECK(problems(std::string(253, 'a')) == 0);
  CHECK(problems(std::string(254, 'a')) == 1);
  for (const char* bad : {"", "A", "a..b", "-a", "a-", "a.", ".a", "a_b", "a b", "ä"}) {
    CAPTURE(bad);
    CHECK(problems(bad) == 1);
  }
  const auto label_problems = [](const std::string& label) {
    Json level = Json::MakeObject({{"nodeLabel", label}});
    Json spec = Json::MakeObject({{"levels", Json::MakeArray({level})}});
    return Problems(Kind::kTopology, Json::MakeObject({{"spec", spec}}).Text()).size();
  };
  for (const char* good : {"rack", "cloud.com/rack", "A", "a_B.c-1", "a/b"}) {
    CAPTURE(good);
    CHECK(label_problems(good) == 0);
  }
  for (const char* bad : {"/a", "a/", "a/b/c", "A.b/c", "-a", "a-", "a b", "@a"}) {
    CAPTURE(bad);
    CHECK(label_problems(bad) == 1);
  }
}

TEST_CASE("v1beta1 has its own names and looser limits") {
  CHECK(Problems(Kind::kClusterQueue,
                 R"({"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow"}}})", "v1beta1")
            .empty());
  CHECK(Problems(Kind::kClusterQueue,
                 R"({"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow"}}})")
            .size() == 1);
  CHECK(Problems(Kind::kWorkload, R"({"spec": {}})", "v1beta1") ==
        std::vector<std::string>{"spec.podSets: Required value"});
  const Json& queue = SchemaOf(Kind::kClusterQueue, "v1beta1");
  CHECK(queue.Find("properties", "spec", "properties", "cohort") != nullptr);
  CHECK(queue.Find("properties", "spec", "properties", "cohortName") == nullptr);
  const Json& workload = SchemaOf(Kind::kWorkload, "v1beta1");
  CHECK(workload.Find("properties", "status", "properties",
                      "accumulatedPastExexcutionTimeSeconds") != nullptr);
  const Json* status =
      SchemaOf(Kind::kLocalQueue, "v1beta1").Find("properties", "status", "properties");
  CHECK(status->Has("flavorUsage"));
  CHECK_FALSE(status->Has("flavorsUsage"));
}

// Every node of every schema must be structural, and every rule must be cheap to bound.
void CheckStructural(const Json& schema, const std::string& path) {
  INFO(path);
  const bool open = schema.Has("x-kubernetes-preserve-unknown-fields") ||
                    schema.Has("x-kubernetes-int-or-string");
  CHECK((schema.Has("type") || open));
  CHECK_FALSE((schema.Has("properties") && schema.Has("additionalProperties")));
  if (schema.GetString("type") == "array") {
    REQUIRE(schema.Has("items"));
    CheckStructural(*schema.Find("items"), path + "[]");
  }
  if (schema.GetString("x-kubernetes-list-type") == "map") {
    for (const Json& key : schema.Find("x-kubernetes-list-map-keys")->AsArray()) {
      // A key must be required or have a default.
      bool known = schema.Find("items", "properties", key.AsString(), "default") != nullptr;
      if (const Json* required = schema.Find("items", "required")) {
        for (const Json& name : required->AsArray()) known = known || name == key;
      }
      CHECK(known);
    }
  }
  if (const Json* properties = schema.Find("properties")) {
    for (const auto& [name, child] : properties->AsObject()) {
      CheckStructural(child, path + "." + name);
    }
  }
  if (const Json* values = schema.Find("additionalProperties")) {
    CheckStructural(*values, path + "[*]");
  }
}

TEST_CASE("All schemas are structural") {
  CHECK(KueueKinds().size() == 11);
  CHECK(DefinedKinds().size() == 13);
  for (const Kind kind : DefinedKinds()) {
    for (const char* version : {"v1beta1", "v1beta2"}) {
      CheckStructural(SchemaOf(kind, version), std::string(InfoOf(kind).name) + "/" + version);
    }
  }
}

// The matchers of patterns must know every pattern that a schema uses.
size_t CountPatterns(const Json& schema) {
  size_t count = 0;
  for (const auto& [name, child] : schema.AsObject()) {
    if (name == "pattern" && child.IsString() && !schema.Has("x-kubernetes-int-or-string")) {
      ++count;
      CHECK_FALSE(ValidateSchema(Json("!"), schema).empty());
    }
    count += CountPatterns(child);
  }
  return count;
}

TEST_CASE("Every pattern has a matcher") {
  size_t count = 0;
  for (const Kind kind : KueueKinds()) {
    for (const char* version : {"v1beta1", "v1beta2"})
      count += CountPatterns(SchemaOf(kind, version));
  }
  CHECK(count > 40);
}

}  // namespace
}  // namespace sluice::api
