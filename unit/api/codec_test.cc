#include "api/codec.h"

#include <string>
#include <vector>

#include "base/time.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

Json Parsed(const std::string& text) {
  absl::StatusOr<Json> json = ParseJson(text);
  INFO(text << ": " << json.status().ToString());
  REQUIRE(json.ok());
  return *std::move(json);
}

template <typename T>
T Decoded(const std::string& text) {
  absl::StatusOr<T> value = Decode<T>(Parsed(text));
  INFO(value.status().ToString());
  REQUIRE(value.ok());
  return *std::move(value);
}

template <typename T>
std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<T> value = Decode<T>(Parsed(text));
  if (value.ok()) return "no error";
  CHECK(value.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(value.status().message());
}

// What was read is written again, in any order of members.
template <typename T>
void CheckRoundTrip(const std::string& text) {
  const Json expected = Parsed(text);
  const Json written = Encode(Decoded<T>(text));
  INFO(written.PrettyText());
  CHECK(written == expected);
}

constexpr char kClusterQueue[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
  "metadata": {"name": "cq", "uid": "u", "resourceVersion": "7", "generation": 3,
    "creationTimestamp": "2026-08-22T10:00:00Z", "deletionTimestamp": "2026-08-22T10:00:01Z",
    "labels": {"a": "b"}, "annotations": {"c": "d"},
    "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
  "spec": {
    "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [
      {"name": "f", "resources": [
        {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": "0", "lendingLimit": "1"},
        {"name": "memory", "nominalQuota": "1Gi"}]}]}],
    "cohortName": "team", "queueingStrategy": "StrictFIFO",
    "namespaceSelector": {},
    "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor",
      "preference": "PreemptionOverBorrowing"},
    "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority",
      "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 0}},
    "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]},
      {"name": "d"}]},
    "stopPolicy": "Hold", "fairSharing": {"weight": "2"},
    "admissionScope": {"admissionMode": "NoAdmissionFairSharing"},
    "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors",
      "constraints": {"lastAcceptableFlavorName": "f"}}}},
  "status": {
    "conditions": [{"type": "Active", "status": "False", "reason": "Stopped", "message": "",
      "lastTransitionTime": "2026-08-22T10:00:00Z", "observedGeneration": 3}],
    "flavorsReservation": [{"name": "f", "resources": [
      {"name": "cpu", "total": "3", "borrowed": "0"}]}],
    "flavorsUsage": [{"name": "f", "resources": [
      {"name": "cpu", "total": "0", "borrowed": "0"}]}],
    "pendingWorkloads": 0, "reservingWorkloads": 1, "admittedWorkloads": 0,
    "fairSharing": {"weightedShare": 9223372036854775807}}})";

constexpr char kWorkload[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
  "metadata": {"name": "job-train-a-9e32b", "namespace": "team",
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train-a", "uid": "x",
      "controller": true, "blockOwnerDeletion": true},
      {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "y"}]},
  "spec": {
    "active": false, "queueName": "main", "priority": 0, "maximumExecutionTimeSeconds": 60,
    "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass",
      "name": "prod"},
    "preemptionGates": [{"name": "g1"}, {"name": "g2"}],
    "podSets": [{"name": "workers", "count": 0, "minCount": 1,
      "topologyRequest": {"required": "rack", "preferred": "block", "unconstrained": false,
        "podIndexLabel": "i", "subGroupIndexLabel": "s", "subGroupCount": 0,
        "podSetGroupName": "g", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2,
        "podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}]},
      "template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "custom": 1},
        "spec": {"restartPolicy": "Never", "unknown": {"kept": [1, 2.5, null]},
          "containers": [{"name": "c", "image": "img", "env": [{"name": "X", "value": ""}],
            "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2"},
              "claims": [{"name": "q", "request": "r"}]}}]}}}]},
  "status": {
    "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "workers", "count": 0,
      "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1500m", "memory": "3Gi"},
      "delayedTopologyRequest": "Pending",
      "topologyAssignment": {"levels": ["block", "rack"], "slices": [
        {"domainCount": 2, "podCounts": {"individual": [10, 20]},
         "valuesPerLevel": [{"universal": ""},
           {"individual": {"prefix": "b", "suffix": "s", "roots": ["", "2"]}}]},
        {"domainCount": 1, "podCounts": {"universal": 5},
         "valuesPerLevel": [{"universal": "a"}, {"individual": {"roots": ["x"]}}]}]}}]},
    "requeueState": {"count": 0, "requeueAt": "2026-08-22T10:00:00Z"},
    "reclaimablePods": [{"name": "workers", "count": 0}],
    "admissionChecks": [{"name": "prov", "state": "Retry", "message": "",
      "lastTransitionTime": "2026-08-22T10:00:00Z", "requeueAfterSeconds": 0, "retryCount": 1,
      "podSetUpdates": [{"name": "workers", "labels": {"a": "b"}, "annotations": {"c": "d"},
        "nodeSelector": {"e": "f"}, "tolerations": [{"key": "k", "operator": "Equal",
          "value": "v", "effect": "NoExecute", "tolerationSeconds": 0}]}]}],
    "resourceRequests": [{"name": "workers", "resources": {"cpu": "3"}}],
    "accumulatedPastExecutionTimeSeconds": 0,
    "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "",
      "count": 2}]},
    "nominatedClusterNames": ["w1", "w2"], "clusterName": "w2",
    "unhealthyNodes": [{"name": "n1"}],
    "preemptionGates": [{"name": "g1", "position": "Open",
      "lastTransitionTime": "2026-08-22T10:00:00Z"}]}})";

TEST_CASE("Queues survive a round trip") {
  CheckRoundTrip<ClusterQueue>(kClusterQueue);
  CheckRoundTrip<LocalQueue>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "ns"},
    "spec": {"clusterQueue": "cq", "stopPolicy": "HoldAndDrain", "fairSharing": {}},
    "status": {"pendingWorkloads": 1, "reservingWorkloads": 0, "admittedWorkloads": 0,
      "flavorsUsage": [{"name": "f", "resources": [{"name": "cpu", "total": "0"}]}],
      "flavorsReservation": [{"name": "f", "resources": []}],
      "fairSharing": {"weightedShare": 0, "admissionFairSharingStatus":
        {"consumedResources": {}, "lastUpdate": "2026-08-22T10:00:00Z"}}}})");
  CheckRoundTrip<Cohort>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "co"},
    "spec": {"parentName": "root", "fairSharing": {"weight": "500m"}, "resourceGroups": [
      {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [
        {"name": "cpu", "nominalQuota": "1"}]}]}]},
    "status": {"fairSharing": {"weightedShare": 0}}})");
}

TEST_CASE("Workloads survive a round trip") {
  const Workload workload = Decoded<Workload>(kWorkload);
  const PodSet& pods = workload.spec.pod_sets[0];
  CHECK(pods.pod_template.spec->containers[0].resources.requests.at("cpu").MilliValue() == 1000);
  CHECK(pods.pod_template.spec->containers[0].resources.claims == std::vector<std::string>{"q"});
  CHECK(pods.pod_template.labels.at("a") == "b");
  CHECK(workload.spec.preemption_gates == std::vector<std::string>{"g1", "g2"});
  CHECK(workload.spec.active == false);
  CHECK(workload.spec.priority == 0);
  CHECK(workload.status.unhealthy_nodes == std::vector<std::string>{"n1"});
  CHECK(workload.status.admission->pod_set_assignments[0]
            .topology_assignment->slices[0]
            .values_per_level[0]
            .universal == "");
  CheckRoundTrip<Workload>(kWorkload);
}

TEST_CASE("The other kinds of the group survive a round trip") {
  CheckRoundTrip<ResourceFlavor>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"},
    "spec": {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k", "value": "v",
      "effect": "NoSchedule", "timeAdded": "2026-08-22T10:00:00Z"}],
      "tolerations": [{"operator": "Exists"}], "topologyName": "t"}})");
  CheckRoundTrip<Topology>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"},
    "spec": {"levels": [{"nodeLabel": "a"}, {"nodeLabel": "kubernetes.io/hostname"}]}})");
  CheckRoundTrip<WorkloadPriorityClass>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
    "metadata": {"name": "p"}, "value": 0, "description": "d"})");
  CheckRoundTrip<AdmissionCheck>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "a"},
    "spec": {"controllerName": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}},
    "status": {"conditions": [{"type": "Active", "status": "Unknown", "reason": "R",
      "message": "m", "lastTransitionTime": "2026-08-22T10:00:00Z"}]}})");
  CheckRoundTrip<ProvisioningRequestConfig>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig",
    "metadata": {"name": "p"}, "spec": {"provisioningClassName": "c", "parameters": {"a": "b"},
      "managedResources": ["cpu"], "retryStrategy": {"backoffLimitCount": 0,
      "backoffBaseSeconds": 1, "backoffMaxSeconds": 2}, "podSetMergePolicy":
      "IdenticalPodTemplates", "podSetUpdates": {"nodeSelector": [
        {"key": "k", "valueFromProvisioningClassDetail": "d"}]}}})");
  CheckRoundTrip<MultiKueueConfig>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "MultiKueueConfig", "metadata": {"name": "m"},
    "spec": {"clusters": ["a", "b"], "quotaManagement": "Automated"}})");
  CheckRoundTrip<MultiKueueCluster>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "MultiKueueCluster",
    "metadata": {"name": "m"}, "spec": {"clusterSource": {"kubeConfig":
      {"location": "s", "locationType": "Secret"}}},
    "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active",
      "message": "", "lastTransitionTime": "2026-08-22T10:00:00Z"}]}})");
  CheckRoundTrip<MultiKueueCluster>(R"({
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "MultiKueueCluster",
    "metadata": {"name": "m"}, "spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}})");
}

TEST_CASE("An empty object has only what is always written") {
  CHECK(Encode(ClusterQueue{}).Text() ==
        R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","spec":{},)"
        R"("status":{"pendingWorkloads":0,"reservingWorkloads":0,"admittedWorkloads":0}})");
  CHECK(Encode(Workload{}).Text() ==
        R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","spec":{}})");
  CHECK(Encode(Cohort{}).Text() ==
        R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Cohort","spec":{}})");
  CHECK(Encode(WorkloadStatus{}).Text() == "{}");
  CHECK(Encode(AdmissionCheckState{}).Text() == R"({"name":"","state":"","message":""})");
  CHECK(Encode(EvictionStat{}).Text() == R"({"reason":"","underlyingCause":"","count":0})");
  CHECK(Encode(PodSetAssignment{}).Text() == R"({"name":"main"})");
  CHECK(Encode(ResourceUsage{}).Text() == R"({"name":"","total":"0","borrowed":"0"})");
  CHECK(Encode(Conditions{}).Text() == "[]");
  CHECK(Encode(ResourceList{{"cpu", Quantity::FromMilli(1500)}}).Text() == R"({"cpu":"1500m"})");
}

TEST_CASE("Absent and null members leave what the type starts with") {
  const PodSet pods = Decoded<PodSet>(R"({"template": {"spec": null}, "count": null})");
  CHECK(pods.name == "main");
  CHECK(pods.count == 1);
  CHECK_FALSE(pods.min_count.has_value());
  const ClusterQueue queue =
      Decoded<ClusterQueue>(R"({"spec": {"namespaceSelector": null, "stopPolicy": null}})");
  CHECK_FALSE(queue.spec.namespace_selector.has_value());
  CHECK(queue.spec.stop_policy.empty());
  CHECK(Decoded<ClusterQueue>(R"({"spec": {"namespaceSelector": {}}})")
            .spec.namespace_selector.has_value());
  CHECK(Decoded<Conditions>(R"([{"type": "A", "status": "True"}])")[0].last_transition_time ==
        std::nullopt);
}

TEST_CASE("Unknown members are ignored") {
  const LocalQueue queue =
      Decoded<LocalQueue>(R"({"future": {"deep": [1]}, "spec": {"clusterQueue": "c", "new": true},)"
                          R"( "metadata": {"name": "n", "managedFields": [{"x": 1}]}})");
  CHECK(queue.spec.cluster_queue == "c");
  CHECK(queue.metadata.name == "n");
}

TEST_CASE("Errors name the path") {
  CHECK(ErrorOf<ClusterQueue>(R"({"spec": {"resourceGroups": [{"flavors": [{}, {"resources": [
          {"nominalQuota": "1x"}]}]}]}})")
            .starts_with("spec.resourceGroups[0].flavors[1].resources[0].nominalQuota: \"1x\""));
  CHECK(ErrorOf<Workload>(R"({"spec": {"podSets": [{"count": "3"}]}})") ==
        "spec.podSets[0].count: must be an integer");
  CHECK(ErrorOf<Workload>(R"({"spec": {"podSets": [{"count": 3000000000}]}})") ==
        "spec.podSets[0].count: 3000000000 is beyond the range of \"int32\"");
  CHECK(ErrorOf<Workload>(R"({"spec": {"podSets": [{"count": 1.5}]}})") ==
        "spec.podSets[0].count: must be an integer");
  CHECK(ErrorOf<Workload>(R"({"spec": {"active": "true"}})") ==
        "spec.active: must be true or false");
  CHECK(ErrorOf<Workload>(R"({"spec": {"queueName": 5}})") == "spec.queueName: must be a string");
  CHECK(ErrorOf<Workload>(R"({"spec": {"podSets": {}}})") == "spec.podSets: must be a list");
  CHECK(ErrorOf<Workload>(R"({"spec": []})") == "spec: must be an object");
  CHECK(ErrorOf<Workload>("[]") == "must be an object");
  CHECK(ErrorOf<Workload>(R"({"spec": {"preemptionGates": ["a"]}})") ==
        "spec.preemptionGates[0]: must be an object");
  CHECK(ErrorOf<Workload>(R"({"spec": {"podSets": [{"template": {"spec": {"containers": [
          {"resources": {"requests": {"example.com/gpu": true}}}]}}}]}})") ==
        "spec.podSets[0].template.spec.containers[0].resources.requests[example.com/gpu]: must be "
        "a quantity such as 2, 500m or 1Gi");
  CHECK(ErrorOf<Workload>(R"({"status": {"conditions": [{"status": "true"}]}})") ==
        "status.conditions[0].status: must be True, False or Unknown");
  CHECK(ErrorOf<Workload>(R"({"metadata": {"creationTimestamp": "today"}})") ==
        "metadata.creationTimestamp: must be an RFC 3339 time");
  CHECK(ErrorOf<Workload>(R"({"metadata": {"creationTimestamp": "infinite-future"}})") ==
        "metadata.creationTimestamp: must be an RFC 3339 time");
  CHECK(ErrorOf<Workload>(R"({"metadata": {"creationTimestamp": "2026-13-01T00:00:00Z"}})")
            .starts_with("metadata.creationTimestamp: \"2026-13-01"));
  CHECK(ErrorOf<Workload>(R"({"metadata": {"labels": {"a": 1}}})") ==
        "metadata.labels[a]: must be a string");
  CHECK(ErrorOf<AdmissionCheck>(R"({"status": {"conditions": {}}})") ==
        "status.conditions: must be a list");
}

TEST_CASE("Quantities are read from strings and numbers") {
  const auto list = Decoded<ResourceList>(R"({"a": 1, "b": 0.5, "c": "1Gi", "d": 1e3, "e": -2})");
  CHECK(list.at("a").ToString() == "1");
  CHECK(list.at("b").ToString() == "500m");
  CHECK(list.at("c").ToString() == "1Gi");
  CHECK(list.at("d").Value() == 1000);
  CHECK(list.at("e").Value() == -2);
}

TEST_CASE("A pod template is copied whole, or written from its parts") {
  const std::string text =
      R"({"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}})";
  PodTemplate pods = Decoded<PodTemplate>(text);
  CHECK(EncodePodTemplate(pods).Text() == text);
  CHECK(Encode(pods).Text() == text);
  pods.raw = nullptr;
  pods.labels["a"] = "b";
  CHECK(EncodePodTemplate(pods).Text() ==
        R"({"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}})");
}

}  // namespace
}  // namespace sluice::api
