// What is free on nodes follows the objects of the cluster, and wakes what waits.
#include <string>
#include <vector>

#include "state/world.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Json;
using api::Kind;
using Type = ObjectEvent::Type;

const absl::Time kStart = absl::FromUnixSeconds(1000);

Json Parse(const std::string& text) {
  auto json = api::ParseJson(text);
  REQUIRE(json.ok());
  return *json;
}

class Cluster {
 public:
  explicit Cluster(Settings settings = {}) : world_(settings) {}

  void Put(Kind kind, const std::string& text) { Send(Type::kUpsert, kind, Parse(text)); }
  void Delete(Kind kind, const std::string& text) { Send(Type::kDelete, kind, Parse(text)); }
  void Begin(Kind kind, Json object = {}) { Send(Type::kListBegin, kind, std::move(object)); }
  void End(Kind kind) { Send(Type::kListEnd, kind, {}); }
  void Send(Type type, Kind kind, Json object) {
    Refs touched;
    const auto rejected = world_.Apply({type, kind, std::move(object)}, now_, touched);
    CHECK_FALSE(rejected.has_value());
  }
  void Flavor() {
    Put(Kind::kTopology, R"({"metadata":{"name":"default","resourceVersion":"1"},)"
                         R"("spec":{"levels":[{"nodeLabel":"kubernetes.io/hostname"}]}})");
    Put(Kind::kResourceFlavor, R"({"metadata":{"name":"tas","resourceVersion":"1"},)"
                               R"("spec":{"topologyName":"default","nodeLabels":{"pool":"a"}}})");
  }
  void Node(const std::string& name, const std::string& cpu, int version = 1) {
    Put(Kind::kNode, R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" +
                         std::to_string(version) +
                         R"(","labels":{"pool":"a","kubernetes.io/hostname":")" + name +
                         R"("}},"status":{"allocatable":{"cpu":")" + cpu +
                         R"(","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}})");
  }
  static std::string Pod(const std::string& name, const std::string& node, const std::string& phase,
                         const std::string& metadata = "") {
    return R"({"metadata":{"namespace":"ns","name":")" + name + R"(","resourceVersion":"1")" +
           metadata + R"(},"spec":{"nodeName":")" + node +
           R"(","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},)"
           R"("status":{"phase":")" +
           phase + R"("}})";
  }
  // Free cpu of the node in thousandths, -1 when it is not in the tree.
  int64_t Free(const std::string& node) const {
    const topology::Inventory& inventory = world_.topology()->inventory();
    const topology::Tree* tree = inventory.FindTree("tas");
    if (tree == nullptr) return -1;
    const int32_t slot = tree->FindLeaf(node);
    if (slot < 0) return -1;
    return tree->base(inventory.FindResource("cpu"))[slot];
  }
  World& world() { return world_; }
  absl::Time now_ = kStart;

 private:
  World world_;
};

TEST_CASE("Nodes and foreign pods reach the inventory in any order") {
  Cluster cluster;
  CHECK_FALSE(cluster.world().NeedsNodes());
  cluster.Put(Kind::kPod, Cluster::Pod("other", "n1", "Running"));
  cluster.Node("n1", "4");
  CHECK(cluster.Free("n1") == -1);
  cluster.Flavor();
  CHECK(cluster.world().NeedsNodes());
  CHECK(cluster.Free("n1") == 3000);

  cluster.Put(Kind::kPod, Cluster::Pod("pending", "", "Pending"));
  cluster.Put(Kind::kPod,
              Cluster::Pod("ours", "n1", "Running",
                           R"(,"annotations":{"kueue.x-k8s.io/podset-required-topology":"x"})"));
  CHECK(cluster.Free("n1") == 3000);
  cluster.Put(Kind::kPod, Cluster::Pod("second", "n1", "Pending"));
  CHECK(cluster.Free("n1") == 2000);
  cluster.Put(Kind::kPod, Cluster::Pod("other", "n1", "Succeeded"));
  CHECK(cluster.Free("n1") == 3000);
  cluster.Delete(Kind::kPod, Cluster::Pod("second", "n1", "Pending"));
  CHECK(cluster.Free("n1") == 4000);
  cluster.Node("n1", "8", 2);
  CHECK(cluster.Free("n1") == 8000);
  CHECK(cluster.world().nodes().size() == 1);
}

TEST_CASE("Pods that went while nobody watched are no longer counted") {
  Cluster cluster;
  cluster.Flavor();
  cluster.Node("n1", "4");
  cluster.Put(Kind::kPod, Cluster::Pod("a", "n1", "Running"));
  cluster.Put(Kind::kPod, Cluster::Pod("b", "n1", "Running"));
  CHECK(cluster.Free("n1") == 2000);
  cluster.Begin(Kind::kPod);
  cluster.Put(Kind::kPod, Cluster::Pod("b", "n1", "Running"));
  cluster.End(Kind::kPod);
  CHECK(cluster.Free("n1") == 3000);
}

TEST_CASE("A list of some pods says nothing about what nodes have room for") {
  Cluster cluster;
  cluster.Flavor();
  cluster.Begin(Kind::kNode);
  cluster.Node("n1", "4");
  cluster.End(Kind::kNode);
  cluster.Begin(Kind::kPod, Parse(R"js({"labelSelector":"kueue.x-k8s.io/managed in (true)"})js"));
  cluster.Put(Kind::kPod, Cluster::Pod("a", "n1", "Running"));
  cluster.End(Kind::kPod);
  CHECK_FALSE(cluster.world().NodesKnown());
  CHECK(cluster.Free("n1") == 4000);
  cluster.Begin(Kind::kPod);
  cluster.Put(Kind::kPod, Cluster::Pod("a", "n1", "Running"));
  CHECK_FALSE(cluster.world().NodesKnown());
  cluster.End(Kind::kPod);
  CHECK(cluster.world().NodesKnown());
  CHECK(cluster.Free("n1") == 3000);
}

TEST_CASE("Nodes wake who waits for them together, pods that are not ours later") {
  Cluster cluster;
  cluster.Flavor();
  cluster.Put(Kind::kClusterQueue,
              R"({"metadata":{"name":"cq","resourceVersion":"1"},"spec":{"namespaceSelector":{},)"
              R"("resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"tas",)"
              R"("resources":[{"name":"cpu","nominalQuota":"8"}]}]}]}})");
  cluster.world().RunReleases(kStart);
  CHECK_FALSE(cluster.world().HasReleases());
  cluster.Node("n1", "4");
  cluster.now_ += absl::Milliseconds(300);
  cluster.Node("n2", "4");
  CHECK_FALSE(cluster.world().HasReleases());
  CHECK(cluster.world().NextRelease() == kStart + absl::Seconds(1));
  cluster.world().RunReleases(kStart + absl::Seconds(1));
  CHECK(cluster.world().NextRelease() == std::nullopt);
  cluster.Put(Kind::kPod, Cluster::Pod("a", "n1", "Running"));
  CHECK(cluster.world().NextRelease() == std::nullopt);  // less room wakes nobody
  cluster.Delete(Kind::kPod, Cluster::Pod("a", "n1", "Running"));
  CHECK(cluster.world().NextRelease() == cluster.now_ + absl::Seconds(10));
}

TEST_CASE("Without the gate nodes are not watched") {
  Settings settings;
  absl::btree_map<std::string, bool> values;
  for (const GateInfo& gate : AllFeatureGates()) {
    const std::string name(gate.name);
    if (name.starts_with("TAS") || name == kTopologyGate) values[name] = false;
  }
  const auto gates = FeatureGates::Make(values);
  REQUIRE(gates.ok());
  settings.gates = *gates;
  World world(settings);
  CHECK_FALSE(world.Watches(Kind::kNode));
  CHECK(world.topology() == nullptr);
  CHECK_FALSE(world.NeedsNodes());
}

}  // namespace
}  // namespace sluice::state
