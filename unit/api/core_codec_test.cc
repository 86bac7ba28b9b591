// Kubernetes' own kinds and the reviews, where the structs and the wire differ.
#include <string>
#include <vector>

#include "api/codec.h"
#include "base/time.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

template <typename T>
T Decoded(const std::string& text) {
  const absl::StatusOr<Json> json = ParseJson(text);
  REQUIRE(json.ok());
  absl::StatusOr<T> value = Decode<T>(*json);
  INFO(value.status().ToString());
  REQUIRE(value.ok());
  return *std::move(value);
}

template <typename T>
void CheckRoundTrip(const std::string& text) {
  const Json written = Encode(Decoded<T>(text));
  INFO(written.PrettyText());
  CHECK(written == *ParseJson(text));
}

constexpr char kPod[] = R"({
  "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"},
  "spec": {
    "initContainers": [{"name": "side", "restartPolicy": "Always"}],
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"},
      "claims": [{"name": "q"}]}}],
    "nodeSelector": {"a": "b"},
    "affinity": {"nodeAffinity": {
      "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
         "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
      "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]}},
    "tolerations": [{"operator": "Exists"}], "priorityClassName": "pc", "priority": 0,
    "runtimeClassName": "rc", "overhead": {"cpu": "100m"},
    "resources": {"limits": {"cpu": "2"}},
    "schedulingGates": [{"name": "g1"}, {"name": "g2"}],
    "resourceClaims": [{"name": "q", "resourceClaimTemplateName": "t"}],
    "nodeName": "node", "restartPolicy": "Never"},
  "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "",
    "message": "", "lastTransitionTime": "2026-08-22T10:00:00Z"}]}})";

TEST_CASE("Pods survive a round trip") {
  CheckRoundTrip<Pod>(kPod);
  const Pod pod = Decoded<Pod>(kPod);
  CHECK(pod.spec.scheduling_gates == std::vector<std::string>{"g1", "g2"});
  CHECK(pod.phase == "Running");
  CHECK(pod.spec.node_affinity->preferred[0].weight == 5);
  CHECK(IsTrue(pod.conditions, "Ready"));
}

TEST_CASE("Jobs survive a round trip") {
  CheckRoundTrip<Job>(R"({
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"},
    "spec": {"parallelism": 0, "completions": 3, "completionMode": "Indexed", "suspend": false,
      "backoffLimit": 0, "managedBy": "x", "template": {"spec": {"containers": []}}},
    "status": {"startTime": "2026-08-22T10:00:00Z", "active": 1, "succeeded": 2, "failed": 3,
      "ready": 0, "terminating": 0, "completedIndexes": "0-2"}})");
  const Job job = Decoded<Job>(
      R"({"spec": {"suspend": true}, "status": {"uncountedTerminatedPods":
          {"succeeded": ["a", "b"], "failed": ["c"]}}})");
  CHECK(job.spec.suspend == true);
  CHECK(job.status.uncounted_succeeded == 2);
  CHECK_FALSE(job.spec.parallelism.has_value());
}

TEST_CASE("Small core kinds survive a round trip") {
  CheckRoundTrip<Namespace>(
      R"({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})");
  CheckRoundTrip<LimitRange>(R"({"apiVersion": "v1", "kind": "LimitRange", "metadata":
    {"name": "l", "namespace": "n"}, "spec": {"limits": [{"type": "Container",
    "max": {"cpu": "4"}, "min": {"cpu": "1"}, "default": {"cpu": "2"},
    "defaultRequest": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}]}})");
  CheckRoundTrip<PriorityClass>(R"({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
    "metadata": {"name": "p"}, "value": 0, "globalDefault": true, "preemptionPolicy": "Never"})");
  CheckRoundTrip<RuntimeClass>(R"({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
    "metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}},
    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]}})");
  CheckRoundTrip<Node>(R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
    "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]},
    "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "Unknown",
    "reason": "R", "message": "m", "lastTransitionTime": "2026-08-22T10:00:00Z"}]}})");
  CheckRoundTrip<Secret>(R"({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
    "type": "Opaque", "data": {"k": "dg=="}})");
  CheckRoundTrip<PodGroup>(R"({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
    "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})");
}

TEST_CASE("Leases and events have times with microseconds") {
  CheckRoundTrip<Lease>(R"({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "l", "namespace": "n"}, "spec": {"holderIdentity": "h",
    "leaseDurationSeconds": 15, "acquireTime": "2026-08-22T10:00:00.000001Z",
    "renewTime": "2026-08-22T10:00:01.123456Z", "leaseTransitions": 0}})");
  CheckRoundTrip<Event>(R"({"apiVersion": "events.k8s.io/v1", "kind": "Event",
    "metadata": {"name": "e", "namespace": "n"}, "eventTime": "2026-08-22T10:00:00.500000Z",
    "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "R",
    "note": "text", "type": "Warning",
    "regarding": {"kind": "Workload", "namespace": "n", "name": "w", "uid": "u",
      "apiVersion": "kueue.x-k8s.io/v1beta2", "resourceVersion": "5"},
    "related": {"name": "x"},
    "series": {"count": 2, "lastObservedTime": "2026-08-22T10:00:00.000000Z"}})");
}

TEST_CASE("An admission review is decoded from its request") {
  const auto request = Decoded<AdmissionRequest>(R"({
    "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
      "uid": "705ab4f5", "kind": {"group": "batch", "version": "v1", "kind": "Job"},
      "resource": {"group": "batch", "version": "v1", "resource": "jobs"}, "subResource": "status",
      "requestKind": {"kind": "x"}, "name": "j1", "namespace": "team-a", "operation": "CREATE",
      "userInfo": {"username": "alice", "uid": "5", "groups": ["dev"], "extra": {"a": ["b"]}},
      "object": {"spec": {"deep": [1]}}, "oldObject": null, "dryRun": true,
      "options": {"kind": "CreateOptions"}}})");
  CHECK(request.uid == "705ab4f5");
  CHECK(request.kind == GroupVersionKind{"batch", "v1", "Job"});
  CHECK(request.resource == "jobs");
  CHECK(request.sub_resource == "status");
  CHECK(request.operation == "CREATE");
  CHECK(request.user_info.groups == std::vector<std::string>{"dev"});
  CHECK(request.object.Text() == R"({"spec":{"deep":[1]}})");
  CHECK(request.old_object.IsNull());
  CHECK(request.dry_run);
}

TEST_CASE("A conversion review is decoded from its request") {
  const auto request = Decoded<ConversionRequest>(R"({
    "kind": "ConversionReview", "request": {"uid": "u", "desiredAPIVersion":
    "kueue.x-k8s.io/v1beta2", "objects": [{"kind": "Workload"}, {"kind": "Cohort"}]}})");
  CHECK(request.desired_api_version == "kueue.x-k8s.io/v1beta2");
  REQUIRE(request.objects.size() == 2);
  CHECK(request.objects[1].GetString("kind") == "Cohort");
}

TEST_CASE("A review without a request is refused") {
  CHECK_FALSE(Decode<AdmissionRequest>(Json::MakeObject()).ok());
  CHECK_FALSE(Decode<ConversionRequest>(Json("x")).ok());
  const auto wrong = Decode<AdmissionRequest>(*ParseJson(R"({"request": {"userInfo": 5}})"));
  REQUIRE_FALSE(wrong.ok());
  CHECK(std::string(wrong.status().message()) == "request.userInfo: must be an object");
}

}  // namespace
}  // namespace sluice::api
