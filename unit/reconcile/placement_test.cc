// What is done for a workload that runs in given places: pods let go, failed nodes, pods that can
// never start.
#include <absl/container/btree_map.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "api/codec.h"
#include "api/names.h"
#include "queueing/topology_inputs.h"
#include "reconcile/reconcilers.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using Type = state::ObjectEvent::Type;

constexpr char kHost[] = "kubernetes.io/hostname";
const absl::Time kNow = build::At(1000);

std::string Joined(const Json* list, const char* field) {
  std::vector<std::string> parts;
  if (list != nullptr) {
    for (const Json& item : list->AsArray()) parts.push_back(item.GetString(field));
  }
  return absl::StrJoin(parts, ",");
}

// A plan as text, one part for each write.
std::string TextOf(const Plan& plan) {
  std::vector<std::string> parts;
  for (const Write& write : plan.writes) {
    const state::Action& action = write.action;
    const Json& body = action.body;
    if (action.kind == api::Kind::kWorkload) {
      const Json* conditions = body.Find("status", "conditions");
      std::string evicted;
      for (const Json& condition : conditions->AsArray()) {
        if (condition.GetString("type") == "Evicted" && condition.GetString("status") == "True") {
          evicted = condition.GetString("message");
        }
      }
      parts.push_back(
          evicted.empty()
              ? fmt::format("unhealthy [{}]", Joined(body.Find("status", "unhealthyNodes"), "name"))
              : "evict: " + evicted);
    } else if (action.subresource == "status") {
      parts.push_back(fmt::format("{} {}", action.key.name, body.GetString("status", "phase")));
    } else {
      parts.push_back(fmt::format("{}>{} gates [{}]", action.key.name,
                                  body.GetString("spec", "nodeSelector", kHost),
                                  Joined(body.Find("spec", "schedulingGates"), "name")));
    }
  }
  return absl::StrJoin(parts, "; ");
}

state::Settings With(const absl::btree_map<std::string, bool>& gates) {
  state::Settings settings;
  const absl::StatusOr<state::FeatureGates> made = state::FeatureGates::Make(gates);
  REQUIRE(made.ok());
  settings.gates = *made;
  return settings;
}

// One admitted Workload "w" of two pods on each of the hosts h1 and h2, all nodes well.
struct Scene {
  explicit Scene(const state::Settings& settings = {}) : world(settings) {
    workload = build::Workload("w").Queue("q").Count(4).Request("cpu", "1").Admitted("cq", "f");
    workload.metadata.resource_version = "5";
    workload.spec.pod_sets[0].topology_request = api::PodSetTopologyRequest{};
    workload.status.admission->pod_set_assignments[0].topology_assignment =
        queueing::EncodeAssignment({{kHost}, {{{"h1"}, 2}, {{"h2"}, 2}}}, true);
    api::ResourceFlavor flavor = build::Flavor("f").NodeLabel("pool", "p").Topology("t");
    Send(api::Kind::kResourceFlavor, Encode(flavor));
    for (const api::Kind kind : {api::Kind::kNode, api::Kind::kPod}) {
      Apply(Type::kListBegin, kind);
      if (kind == api::Kind::kNode) {
        for (const char* name : {"h1", "h2", "h3"}) SendNode(name);
      }
      Apply(Type::kListEnd, kind);
    }
    SendWorkload();
  }

  void Apply(Type type, api::Kind kind, Json object = {}) {
    state::Refs touched;
    const auto rejected = world.Apply({type, kind, std::move(object)}, kNow, touched);
    if (rejected) FAIL(rejected->error);
  }
  void Send(api::Kind kind, Json object) {
    object["metadata"].Set("resourceVersion", std::to_string(++version));
    Apply(Type::kUpsert, kind, std::move(object));
  }
  void SendWorkload() { Send(api::Kind::kWorkload, api::Encode(workload)); }
  // `ready_since` in seconds since the epoch of the tests.
  void SendNode(const std::string& name, bool ready = true, const std::string& taint = "",
                double since = 0) {
    api::Node node;
    node.metadata.name = name;
    node.metadata.labels = {{kHost, name}, {"pool", "p"}};
    api::Condition condition;
    condition.type = "Ready";
    condition.status = ready ? api::ConditionStatus::kTrue : api::ConditionStatus::kUnknown;
    condition.last_transition_time = build::At(since);
    node.conditions = {condition};
    if (!taint.empty()) node.taints = {{taint, "", "NoSchedule", {}}};
    Send(api::Kind::kNode, api::Encode(node));
  }
  void DropNode(const std::string& name) {
    Json node = Json::MakeObject();
    node["metadata"].Set("name", name);
    node["metadata"].Set("resourceVersion", std::to_string(++version));
    Apply(Type::kDelete, api::Kind::kNode, std::move(node));
  }
  // host "": gated. node "": not bound.
  void SendPod(const std::string& name, const std::string& host, const std::string& node = "",
               const std::string& phase = "Pending") {
    Json pod = Json::MakeObject();
    Json& metadata = pod["metadata"];
    metadata.Set("namespace", "ns");
    metadata.Set("name", name);
    metadata.Set("uid", name);
    metadata["labels"].Set(api::kPodSetLabel, "main");
    metadata["annotations"].Set(api::kWorkloadAnnotation, "w");
    metadata["annotations"].Set(queueing::kUnconstrainedTopology, "true");
    Json gates = Json::MakeArray({Json::MakeObject({{"name", "example.com/other"}})});
    if (host.empty()) {
      gates.Append(Json::MakeObject({{"name", "kueue.x-k8s.io/topology"}}));
    } else {
      pod["spec"]["nodeSelector"].Set(kHost, host);
    }
    if (node.empty()) {
      pod["spec"].Set("schedulingGates", std::move(gates));
    } else {
      pod["spec"].Set("nodeName", node);
    }
    pod["status"].Set("phase", phase);
    Send(api::Kind::kPod, std::move(pod));
  }
  void DropPod(const std::string& name) {
    Json pod = Json::MakeObject();
    pod["metadata"].Set("namespace", "ns");
    pod["metadata"].Set("name", name);
    pod["metadata"].Set("resourceVersion", std::to_string(++version));
    Apply(Type::kDelete, api::Kind::kPod, std::move(pod));
  }
  void RunAll() {
    SendPod("p0", "h1", "h1", "Running");
    SendPod("p1", "h1", "h1", "Running");
    SendPod("p2", "h2", "h2", "Running");
    SendPod("p3", "h2", "h2", "Running");
  }
  Plan PlanAt(absl::Time now = kNow) const { return ReconcilePlacement(world, {"ns", "w"}, now); }
  std::string Text(absl::Time now = kNow) const { return TextOf(PlanAt(now)); }

  state::World world;
  api::Workload workload;
  int version = 10;
};

TEST_CASE("Gated pods get their nodes in the write that lets them go; gates of others stay") {
  Scene scene;
  scene.SendPod("p0", "");
  scene.SendPod("p1", "h1", "h1", "Running");
  scene.SendPod("p2", "");
  CHECK(scene.Text() == "p0>h1 gates [example.com/other]; p2>h2 gates [example.com/other]");
  const Plan plan = scene.PlanAt();
  CHECK(plan.writes.front().action.body.GetString("metadata", "resourceVersion") != "");
  CHECK(plan.writes.front().action.body.GetString("metadata", "uid") == "p0");
  REQUIRE(plan.writes.front().gates.size() == 1);
  const GateRemoval& removal = plan.writes.front().gates.front();
  CHECK(std::string(removal.gate) == "kueue.x-k8s.io/topology");
  CHECK(removal.cluster_queue == "cq");
  CHECK_FALSE(removal.of_group);
  CHECK(removal.admitted.has_value());
}

TEST_CASE("Nothing starts before the admission, after an eviction, or while pods are not known") {
  Scene scene;
  scene.SendPod("p0", "");
  scene.workload.status.conditions.clear();
  scene.SendWorkload();
  CHECK(scene.Text().empty());
  scene.workload = build::Workload("w").Admitted("cq", "f").Evicted("Preempted", kNow);
  scene.SendWorkload();
  CHECK(scene.Text().empty());
  const state::World unlisted{state::Settings{}};
  CHECK(ReconcilePlacement(unlisted, {"ns", "w"}, kNow).empty());
}

TEST_CASE("94 a node that is not ready has failed once nothing of the gang runs there") {
  Scene scene;
  scene.RunAll();
  scene.SendNode("h2", false);
  CHECK(scene.Text().empty());
  scene.DropPod("p2");
  CHECK(scene.Text().empty());
  scene.DropPod("p3");
  CHECK(scene.Text() == "unhealthy [h2]");
  scene.workload.status.unhealthy_nodes = {"h2"};
  scene.SendWorkload();
  scene.SendPod("p2", "");
  CHECK(scene.Text().empty());  // waits for the replacement
  scene.SendNode("h2", true);
  CHECK(scene.Text() == "unhealthy []");
}

TEST_CASE("95 a taint that the pods do not tolerate: a failure when they are gone") {
  Scene scene;
  scene.RunAll();
  scene.SendNode("h2", true, "maint");
  CHECK(scene.Text().empty());
  scene.DropPod("p2");
  scene.SendPod("new", "h2");
  INFO("a pod that was sent there again can never start");
  CHECK(scene.Text() == "new Failed");
  scene.DropPod("p3");
  CHECK(scene.Text() == "unhealthy [h2]");
  Scene tolerant;
  api::ResourceFlavor flavor =
      build::Flavor("f").NodeLabel("pool", "p").Topology("t").Tolerate("maint", "", "NoSchedule");
  tolerant.Send(api::Kind::kResourceFlavor, api::Encode(flavor));
  tolerant.SendNode("h2", true, "maint");
  CHECK(tolerant.Text().empty());
}

TEST_CASE("A node that is gone has failed at once; of more than one the gang does not recover") {
  Scene scene;
  scene.RunAll();
  scene.DropNode("h2");
  CHECK(scene.Text() == "unhealthy [h2]");
  scene.workload.status.unhealthy_nodes = {"h2"};
  scene.SendWorkload();
  CHECK(scene.Text().empty());
  scene.DropNode("h1");
  CHECK(scene.Text() == "evict: More than one node of the topology assignment has failed: h2, h1");
  Scene both;
  both.DropNode("h1");
  both.DropNode("h2");
  CHECK(both.Text() == "evict: More than one node of the topology assignment has failed: h1, h2");
}

TEST_CASE("A pod that waits for a node that is no longer part of the assignment ends") {
  Scene scene;
  scene.RunAll();
  scene.SendPod("stray", "h3");
  CHECK(scene.Text() == "stray Failed");
  const Plan plan = scene.PlanAt();
  REQUIRE(plan.writes.front().notes.size() == 1);
  CHECK(plan.writes.front().notes.front().reason == "PodTerminatedByKueue");
}

TEST_CASE("The name of a host need not be that of its node") {
  Scene scene;
  scene.DropNode("h2");
  api::Node node;
  node.metadata.name = "node-of-h2";
  node.metadata.labels = {{kHost, "h2"}, {"pool", "p"}};
  api::Condition ready;
  ready.type = "Ready";
  ready.status = api::ConditionStatus::kTrue;
  node.conditions = {ready};
  scene.Send(api::Kind::kNode, api::Encode(node));
  CHECK(scene.Text().empty());
}

TEST_CASE("With the fixed time a node fails after 30 seconds, whatever runs there") {
  Scene scene(With({{"TASReplaceNodeDueToNotReadyOverFixedTime", true}}));
  scene.RunAll();
  scene.SendNode("h2", false, "", 990);
  CHECK(scene.Text().empty());
  CHECK(scene.PlanAt().recheck == build::At(1020));
  CHECK(scene.Text(build::At(1020)) == "unhealthy [h2]");
}

TEST_CASE("With the gate off nobody looks at nodes") {
  Scene scene(With({{"TASFailedNodeReplacement", false},
                    {"TASFailedNodeReplacementFailFast", false},
                    {"TASReplaceNodeOnPodTermination", false}}));
  scene.DropNode("h2");
  scene.SendPod("p0", "");
  CHECK(scene.Text() == "p0>h1 gates [example.com/other]");
}

TEST_CASE("An offset that is no number is told and stops the ungating") {
  Scene scene;
  Json pod = Json::MakeObject();
  pod["metadata"].Set("namespace", "ns");
  pod["metadata"].Set("name", "p0");
  pod["metadata"]["labels"].Set(api::kPodSetLabel, "main");
  pod["metadata"]["annotations"].Set(api::kWorkloadAnnotation, "w");
  pod["metadata"]["annotations"].Set(queueing::kUnconstrainedTopology, "true");
  pod["metadata"]["annotations"].Set("kueue.x-k8s.io/pod-index-offset", "x");
  pod["spec"].Set("schedulingGates",
                  Json::MakeArray({Json::MakeObject({{"name", "kueue.x-k8s.io/topology"}})}));
  scene.workload.spec.pod_sets[0].topology_request->pod_index_label = "index";
  scene.SendWorkload();
  scene.Send(api::Kind::kPod, std::move(pod));
  const Plan plan = scene.PlanAt();
  CHECK(plan.writes.empty());
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes.front().reason == "UngatingFailed");
}

}  // namespace
}  // namespace sluice::reconcile
