#include "state/slice_pods.h"

#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Json;

Json PodOf(const std::string& text) {
  Json pod = api::ParseJson(text).value();
  pod["metadata"].Set("namespace", "ns");
  pod["metadata"].Set("name", "p");
  pod["metadata"].Set("resourceVersion", "1");
  pod["metadata"]["labels"].Set(api::kManagedLabel, api::kManagedElastic);
  return pod;
}

SlicePodPtr Read(const std::string& text) {
  SlicePods pods;
  absl::btree_set<ObjectKey> jobs;
  pods.Apply({ObjectEvent::Type::kUpsert, api::Kind::kPod, PodOf(text)}, jobs);
  const std::vector<SlicePodPtr> found = pods.Of("ns", "");
  REQUIRE(found.size() == 1);
  return found.front();
}

TEST_CASE("a pod waits for kube-scheduler until it has a node, has ended or is deleted") {
  CHECK(Read("{}")->Pending());
  CHECK(Read(R"({"spec":{"schedulingGates":[{"name":"g"}]}})")->Pending());
  CHECK_FALSE(Read(R"({"spec":{"nodeName":"a"}})")->Pending());
  CHECK_FALSE(Read(R"({"status":{"phase":"Failed"}})")->Pending());
  CHECK_FALSE(Read(R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})")->Pending());
}

TEST_CASE("what tells whether a deleted pod will still be heard of") {
  const SlicePodPtr pod = Read(R"({
    "metadata":{"deletionTimestamp":"1970-01-01T00:00:30Z"},
    "spec":{"nodeName":"a","schedulingGroup":{"podGroupName":"g"}},
    "status":{"conditions":[{"type":"Ready","status":"Unknown"}]}})");
  CHECK(pod->deletion_timestamp == absl::FromUnixSeconds(30));
  CHECK(pod->node == "a");
  CHECK(pod->pod_group == "g");
  CHECK(pod->not_ready);
  CHECK_FALSE(Read(R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})")->not_ready);
  CHECK_FALSE(Read("{}")->not_ready);
}

}  // namespace
}  // namespace sluice::state
