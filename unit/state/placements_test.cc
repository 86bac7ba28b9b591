// Pods of placed workloads, and whom a change concerns.
#include "state/placements.h"

#include <absl/strings/str_join.h>

#include "api/codec.h"
#include "api/names.h"
#include "queueing/topology_inputs.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Json;
using Type = ObjectEvent::Type;

Json Pod(const std::string& name, const std::string& workload, int version = 1) {
  Json pod = Json::MakeObject();
  Json& metadata = pod["metadata"];
  metadata.Set("namespace", "ns");
  metadata.Set("name", name);
  metadata.Set("uid", "uid-" + name);
  metadata.Set("resourceVersion", std::to_string(version));
  metadata["labels"].Set(api::kPodSetLabel, "main");
  metadata["annotations"].Set(api::kWorkloadAnnotation, workload);
  metadata["annotations"].Set("kueue.x-k8s.io/podset-required-topology", "rack");
  pod["spec"].Set("schedulingGates",
                  Json::MakeArray({Json::MakeObject({{"name", "kueue.x-k8s.io/topology"}})}));
  return pod;
}

std::string Names(const std::vector<PlacedPodPtr>& pods) {
  std::vector<std::string> names;
  for (const PlacedPodPtr& pod : pods) names.push_back(pod->key.name);
  return absl::StrJoin(names, " ");
}

struct Scene {
  Placements placements;
  std::string Send(Type type, Json object = {}) {
    Placements::Keys touched;
    placements.PodEvent({type, api::Kind::kPod, std::move(object)}, touched);
    return Text(touched);
  }
  std::string Node(const api::Node* before, const api::Node* after) {
    Placements::Keys touched;
    placements.NodeChanged(before, after, touched);
    return Text(touched);
  }
  std::string Workload(const api::Workload* before, const api::Workload* after) {
    Placements::Keys touched;
    placements.WorkloadChanged((before ? before : after)->metadata.Key(), before, after, touched);
    return Text(touched);
  }
  static std::string Text(const Placements::Keys& keys) {
    std::vector<std::string> names;
    for (const ObjectKey& key : keys) names.push_back(key.ToString());
    return absl::StrJoin(names, " ");
  }
  std::string Pods(const std::string& chain) const { return Names(placements.PodsOf("ns", chain)); }
};

TEST_CASE("Only pods that are placed and name their Workload are kept") {
  Scene scene;
  CHECK(scene.Send(Type::kUpsert, Pod("a", "w")) == "ns/w");
  Json foreign = Pod("foreign", "w");
  foreign["metadata"]["annotations"].Erase("kueue.x-k8s.io/podset-required-topology");
  CHECK(scene.Send(Type::kUpsert, foreign).empty());
  Json stray = Pod("stray", "w");
  stray["metadata"]["annotations"].Erase(api::kWorkloadAnnotation);
  CHECK(scene.Send(Type::kUpsert, stray).empty());
  CHECK(scene.Pods("w") == "a");
  CHECK(scene.placements.PodsOf("ns", "w").front()->Gated());
}

TEST_CASE("Pods of all slices of an elastic workload belong to the first one") {
  Scene scene;
  Json pod = Pod("a", "w-2");
  pod["metadata"]["annotations"].Set(api::kWorkloadSliceName, "w-1");
  CHECK(scene.Send(Type::kUpsert, pod) == "ns/w-1");
  CHECK(scene.Pods("w-1") == "a");
  CHECK(scene.Pods("w-2").empty());
}

TEST_CASE("What is old, deleted or no longer listed") {
  Scene scene;
  scene.Send(Type::kUpsert, Pod("a", "w", 7));
  CHECK(scene.Send(Type::kUpsert, Pod("a", "v", 6)).empty());
  CHECK(scene.Pods("w") == "a");
  CHECK(scene.Send(Type::kUpsert, Pod("a", "v", 8)) == "ns/v ns/w");
  CHECK(scene.Pods("w").empty());
  CHECK(scene.Send(Type::kDelete, Pod("a", "v", 9)) == "ns/v");
  scene.Send(Type::kUpsert, Pod("b", "w"));
  scene.Send(Type::kUpsert, Pod("c", "w"));
  scene.Send(Type::kListBegin);
  scene.Send(Type::kUpsert, Pod("c", "w"));
  CHECK(scene.Send(Type::kListEnd) == "ns/w");
  CHECK(scene.Pods("w") == "c");
  CHECK(scene.placements.pod_count() == 1);
}

api::Workload Placed(const std::string& name, const std::string& host) {
  api::Workload workload = build::Workload(name).Queue("q").Request("cpu", "1").Admitted("cq", "f");
  workload.status.admission->pod_set_assignments[0].topology_assignment =
      queueing::EncodeAssignment({{"kubernetes.io/hostname"}, {{{host}, 1}}}, true);
  return workload;
}

api::Node NodeOf(const std::string& name, const std::string& host, bool ready) {
  api::Node node;
  node.metadata.name = name;
  node.metadata.labels["kubernetes.io/hostname"] = host;
  api::Condition condition;
  condition.type = "Ready";
  condition.status = ready ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  node.conditions = {condition};
  return node;
}

TEST_CASE("A node's health concerns those that are placed on its host") {
  Scene scene;
  const api::Workload one = Placed("one", "h1");
  const api::Workload two = Placed("two", "h2");
  CHECK(scene.Workload(nullptr, &one) == "ns/one");
  CHECK(scene.Workload(nullptr, &two) == "ns/two");
  const api::Node ready = NodeOf("n1", "h1", true);
  CHECK(scene.Node(nullptr, &ready) == "ns/one");
  CHECK(scene.placements.NodesOf("h1") == std::vector<std::string>{"n1"});
  api::Node heartbeat = ready;
  heartbeat.metadata.resource_version = "9";
  CHECK(scene.Node(&ready, &heartbeat).empty());
  const api::Node lost = NodeOf("n1", "h1", false);
  CHECK(scene.Node(&ready, &lost) == "ns/one");
  api::Node tainted = ready;
  tainted.taints = {{"maintenance", "", "NoSchedule", {}}};
  CHECK(scene.Node(&ready, &tainted) == "ns/one");
  api::Node soft = ready;
  soft.taints = {{"maintenance", "", "PreferNoSchedule", {}}};
  CHECK(scene.Node(&ready, &soft).empty());
  const api::Node moved = NodeOf("n1", "h2", true);
  CHECK(scene.Node(&ready, &moved) == "ns/one ns/two");
  CHECK(scene.placements.NodesOf("h1").empty());
  CHECK(scene.Node(&moved, nullptr) == "ns/two");
}

TEST_CASE("The index follows an assignment that changes or goes") {
  Scene scene;
  const api::Workload before = Placed("w", "h1");
  const api::Workload after = Placed("w", "h2");
  scene.Workload(nullptr, &before);
  CHECK(scene.Workload(&before, &after) == "ns/w");
  const api::Node first = NodeOf("h1", "h1", true);
  const api::Node second = NodeOf("h2", "h2", true);
  CHECK(scene.Node(nullptr, &first).empty());
  CHECK(scene.Node(nullptr, &second) == "ns/w");
  api::Workload released = after;
  released.status.admission.reset();
  CHECK(scene.Workload(&after, &released) == "ns/w");
  CHECK(scene.Node(&second, nullptr).empty());
  CHECK(scene.placements.WorkloadsOf("ns", "w").empty());
  CHECK(scene.placements.Chains().empty());
}

TEST_CASE("A key for the places of a chain is no key of a pod") {
  const ObjectKey key = PlacementKey("ns", "w");
  CHECK(ChainOfKey(key) == "w");
  CHECK_FALSE(ChainOfKey({"ns", "w"}).has_value());
}

}  // namespace
}  // namespace sluice::state
