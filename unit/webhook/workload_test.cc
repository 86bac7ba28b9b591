#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
  "metadata": {"name": "w", "namespace": "team"},
  "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 3, "template": {"spec": {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}}}]}})";

const char kReserved[] =
    "{'type': 'QuotaReserved', 'status': 'True', 'reason': 'QuotaReserved', 'message': '', "
    "'lastTransitionTime': '2026-08-22T09:59:00Z'}";

// The pod set "main" with other members beside name and count.
std::string PodSet(const std::string& members) {
  return "{'spec': {'podSets': [{'name': 'main', 'count': 3, " + members + "}]}}";
}

std::string Reserved(const std::string& status) {
  return std::string("{'status': {'conditions': [") + kReserved + "]" +
         (status.empty() ? "" : ", " + status) + "}}";
}

std::string Assignment(const std::string& members) {
  return Reserved("'admission': {'clusterQueue': 'cq', 'podSetAssignments': [{" + members + "}]}");
}

struct Row {
  std::string name;
  std::string patch;
  List errors;
};

void CheckRow(const Row& row) {
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateWorkload, With(J(kBase), row.patch)) == row.errors);
  }
}

TEST_CASE("Workload: pod sets") {
  const std::string at = "spec.podSets[0].template.spec.";
  CheckRow(GENERATE_COPY(values<Row>({
      {"plain", "{}", {}},
      {"no spec", "{'spec': null}", {}},
      {"good metadata",
       PodSet("'template': {'metadata': {'labels': {'a': 'b'}, 'annotations': {'A.b/C': '{}'}}}"),
       {}},
      {"bad label",
       PodSet("'template': {'metadata': {'labels': {'a b': 'b'}}}"),
       {"spec.podSets[0].template.metadata.labels: Invalid value"}},
      {"bad annotation",
       PodSet("'template': {'metadata': {'annotations': {'a b': 'b'}}}"),
       {"spec.podSets[0].template.metadata.annotations: Invalid value"}},
      {"request for pods",
       PodSet("'template': {'spec': {'containers': [{'name': 'c', 'resources': {'requests': "
              "{'pods': '1'}}}]}}"),
       {at + "containers[0].resources.requests[pods]: Invalid value"}},
      {"limit of pods in an init container",
       PodSet("'template': {'spec': {'containers': [], 'initContainers': [{'name': 'c', "
              "'resources': {'limits': {'pods': '1'}}}]}}"),
       {at + "initContainers[0].resources.limits[pods]: Invalid value"}},
      {"request for pods at pod level",
       PodSet("'template': {'spec': {'containers': [], 'resources': {'requests': {'pods': 1}}}}"),
       {at + "resources.requests[pods]: Invalid value"}},
      {"negative request",
       PodSet("'template': {'spec': {'containers': [{'name': 'a'}, {'name': 'c', 'resources': "
              "{'requests': {'cpu': '-1'}}}]}}"),
       {at + "containers[1].resources.requests[cpu]: Invalid value"}},
      {"negative limit at pod level",
       PodSet("'template': {'spec': {'containers': [], 'resources': {'limits': {'cpu': '-1m'}}}}"),
       {at + "resources.limits[cpu]: Invalid value"}},
      {"ephemeral containers are not looked at",
       PodSet("'template': {'spec': {'containers': [], 'ephemeralContainers': [{'name': 'e', "
              "'resources': {'requests': {'pods': '1'}}}]}}"),
       {}},
      {"one minCount", PodSet("'template': {}, 'minCount': 1"), {}},
      {"two minCounts",
       "{'spec': {'podSets': [{'name': 'a', 'count': 2, 'minCount': 1, 'template': {}}, {'name': "
       "'b', 'count': 2, 'minCount': 1, 'template': {}}]}}",
       {"spec.podSets: Invalid value"}},
      {"minCount of an elastic workload",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'true'}}, 'spec': {'podSets': "
       "[{'name': 'a', 'count': 2, 'minCount': 1, 'template': {}}]}}",
       {"spec.podSets: Invalid value"}},
      {"True is not true",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'True'}}, 'spec': {'podSets': "
       "[{'name': 'a', 'count': 2, 'minCount': 1, 'template': {}}]}}",
       {}},
  })));
}

TEST_CASE("Workload: slices of a topology request") {
  const std::string at = "spec.podSets[0].topologyRequest.";
  const auto request = [](const std::string& members) {
    return PodSet("'template': {}, 'topologyRequest': {" + members + "}");
  };
  CheckRow(GENERATE_COPY(values<Row>({
      {"level and size", request("'podSetSliceRequiredTopology': 'a', 'podSetSliceSize': 2"), {}},
      {"level without size",
       request("'podSetSliceRequiredTopology': 'a'"),
       {at + "podSetSliceSize: Required value"}},
      {"size without level", request("'podSetSliceSize': 2"), {at + "podSetSliceSize: Forbidden"}},
      {"size 0",
       request("'podSetSliceRequiredTopology': 'a', 'podSetSliceSize': 0"),
       {at + "podSetSliceSize: Invalid value"}},
      {"constraint of size 0",
       request("'podsetSliceRequiredTopologyConstraints': [{'topology': 'a', 'size': 2}, "
               "{'topology': 'b', 'size': 0}]"),
       {at + "podsetSliceRequiredTopologyConstraints[1].size: Invalid value"}},
  })));
}

TEST_CASE("Workload: admission") {
  const std::string at = "status.admission.podSetAssignments[0].";
  CheckRow(GENERATE_COPY(values<Row>({
      {"cpu 1500m for 3",
       Assignment("'name': 'main', 'count': 3, 'resourceUsage': {'cpu': '1500m'}"),
       {}},
      {"cpu 1 for 3",
       Assignment("'name': 'main', 'count': 3, 'resourceUsage': {'cpu': '1'}"),
       {at + "resourceUsage[cpu]: Invalid value"}},
      {"memory 10 for 4",
       Assignment("'name': 'main', 'count': 4, 'resourceUsage': {'memory': '10'}"),
       {at + "resourceUsage[memory]: Invalid value"}},
      {"count 0", Assignment("'name': 'main', 'count': 0, 'resourceUsage': {'cpu': '1m'}"), {}},
      {"no count", Assignment("'name': 'main', 'resourceUsage': {'cpu': '1m'}"), {}},
      {"unknown pod set", Assignment("'name': 'other', 'count': 1"), {at + "name: Not found"}},
      {"reserved without admission", Reserved(""), {"status.admission: Required value"}},
      {"admission without reservation is not looked at",
       "{'status': {'admission': {'clusterQueue': 'cq', 'podSetAssignments': [{'name': 'x'}]}}}",
       {}},
  })));
}

TEST_CASE("Workload: the rest of the status") {
  const std::string update = "status.admissionChecks[0].podSetUpdates[0].";
  const auto check = [](const std::string& members) {
    return "{'status': {'admissionChecks': [{'name': 'a', 'state': 'Ready', 'message': '', "
           "'lastTransitionTime': '2026-08-22T10:00:00Z', 'podSetUpdates': [{" +
           members + "}]}]}}";
  };
  CheckRow(GENERATE_COPY(values<Row>({
      {"reclaimable pods", "{'status': {'reclaimablePods': [{'name': 'main', 'count': 3}]}}", {}},
      {"reclaimable pods of an unknown pod set",
       "{'status': {'reclaimablePods': [{'name': 'x', 'count': 1}]}}",
       {"status.reclaimablePods[x].name: Unsupported value"}},
      {"more reclaimable pods than there are",
       "{'status': {'reclaimablePods': [{'name': 'main', 'count': 4}]}}",
       {"status.reclaimablePods[main].count: Invalid value"}},
      {"pod set update",
       check("'name': 'main', 'labels': {'a': 'b'}, 'annotations': {'a': 'b'}, 'nodeSelector': "
             "{'a': 'b'}, 'tolerations': [{'operator': 'Exists'}, {'key': 'a.b/c', 'operator': "
             "'Exists'}]"),
       {}},
      {"update of an unknown pod set", check("'name': 'x'"), {update + "name: Unsupported value"}},
      {"bad toleration key",
       check("'name': 'main', 'tolerations': [{'key': '@', 'operator': 'Exists'}]"),
       {update + "tolerations[0].key: Invalid value"}},
      {"bad annotation",
       check("'name': 'main', 'annotations': {'@': ''}"),
       {update + "annotations: Invalid value"}},
      {"bad node selector",
       check("'name': 'main', 'nodeSelector': {'a': '@'}"),
       {update + "nodeSelector: Invalid value"}},
      {"bad label",
       check("'name': 'main', 'labels': {'a': '@'}"),
       {update + "labels: Invalid value"}},
      {"condition twice",
       "{'status': {'conditions': [{'type': 'A', 'status': 'True', 'reason': 'R', 'message': '', "
       "'lastTransitionTime': '2026-08-22T10:00:00Z'}, {'type': 'A', 'status': 'True', 'reason': "
       "'R', 'message': '', 'lastTransitionTime': '2026-08-22T10:00:00Z'}]}}",
       {"status.conditions[1]: Duplicate value"}},
      {"bad reason",
       "{'status': {'conditions': [{'type': 'A', 'status': 'True', 'reason': 'a b', 'message': '', "
       "'lastTransitionTime': '2026-08-22T10:00:00Z'}]}}",
       {"status.conditions[0].reason: Invalid value"}},
  })));
}

TEST_CASE("Workload: annotations") {
  const auto annotated = [](const std::string& key, const std::string& value) {
    return With(J(kBase), "{'metadata': {'annotations': {'" + key + "': '" + value + "'}}}");
  };
  const std::string gated = "kueue.x-k8s.io/admission-gated-by";
  const std::string boost = "kueue.x-k8s.io/priority-boost";
  const List bad_gate = {"metadata.annotations[" + gated + "]: Invalid value"};
  const List bad_boost = {"metadata.annotations[" + boost + "]: Invalid value"};
  CHECK(ShortErrors(ValidateWorkload, annotated(gated, "a/b")).empty());
  CHECK(ShortErrors(ValidateWorkload, annotated(gated, "a")) == bad_gate);
  const TestView no_gates({{"AdmissionGatedBy", false}});
  CHECK(Errors(ValidateWorkload, annotated(gated, "a"), {}, no_gates.view).empty());
  CHECK(ShortErrors(ValidateWorkload, annotated(boost, "x")).empty());
  const TestView boosts({{"PriorityBoost", true}});
  for (const char* good : {"0", "-7", "100"}) {
    CHECK(Errors(ValidateWorkload, annotated(boost, good), {}, boosts.view).empty());
  }
  for (const char* bad : {"", "x", "1.5", "2147483648"}) {
    INFO(bad);
    CHECK(Short(Errors(ValidateWorkload, annotated(boost, bad), {}, boosts.view)) == bad_boost);
  }
}

TEST_CASE("Workload: gates that switch rules off") {
  struct GateRow {
    std::string gate;
    std::string patch;
  };
  const GateRow row = GENERATE(values<GateRow>({
      {"WorkloadValidationForPodSetMetadata",
       PodSet("'template': {'metadata': {'labels': {'a b': 'b'}}}")},
      {"WorkloadValidateResourcesAreNonNegative",
       PodSet("'template': {'spec': {'containers': [{'name': 'c', 'resources': {'requests': "
              "{'cpu': '-1'}}}]}}")},
      {"TASValidateWorkloadSliceSize",
       PodSet("'template': {}, 'topologyRequest': {'podSetSliceSize': 2}")},
      {"ElasticJobsViaWorkloadSlices",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'true'}}, 'spec': {'podSets': "
       "[{'name': 'a', 'count': 2, 'minCount': 1, 'template': {}}]}}"},
  }));
  DYNAMIC_SECTION(row.gate) {
    const api::Json object = With(J(kBase), row.patch);
    const TestView on;
    CHECK(Errors(ValidateWorkload, object, {}, on.view).size() == 1);
    const TestView off({{row.gate, false}});
    CHECK(Errors(ValidateWorkload, object, {}, off.view).empty());
  }
}

}  // namespace
}  // namespace sluice::webhook
