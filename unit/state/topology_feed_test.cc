// The inventory of nodes in step with API objects, and what each change wakes.
#include "state/topology_feed.h"

#include "queueing/topology_inputs.h"
#include "topology/placer.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using Wake = TopologyFeed::Wake;

constexpr char kRack[] = "example.com/rack";

api::ResourceFlavor Flavor(const std::string& topology) {
  api::ResourceFlavor flavor;
  flavor.metadata.name = "tas";
  flavor.spec.topology_name = topology;
  flavor.spec.node_labels = {{"pool", "tas"}};
  return flavor;
}

api::Topology Levels(const std::vector<std::string>& levels) {
  api::Topology topology;
  topology.metadata.name = "default";
  for (const std::string& level : levels) topology.spec.levels.push_back({level});
  return topology;
}

api::Node Node(const std::string& name, const std::string& rack, const char* cpu) {
  api::Node node;
  node.metadata.name = name;
  node.metadata.labels = {{"pool", "tas"}, {kRack, rack}, {"kubernetes.io/hostname", name}};
  node.allocatable = {{"cpu", *Quantity::Parse(cpu)}, {"pods", *Quantity::Parse("110")}};
  api::Condition ready;
  ready.type = "Ready";
  ready.status = api::ConditionStatus::kTrue;
  node.conditions = {ready};
  return node;
}

api::PodSpec Spec(const char* cpu) {
  api::Container container;
  container.resources.requests = {{"cpu", *Quantity::Parse(cpu)}};
  api::PodSpec spec;
  spec.containers = {container};
  return spec;
}

// Pods of one cpu that fit on the node.
int64_t Room(const TopologyFeed& feed, const std::string& node) {
  topology::Placer placer(feed.inventory());
  topology::WorkloadRequest request;
  request.pod_sets.resize(1);
  topology::PodSetRequest& pod_set = request.pod_sets[0];
  pod_set.flavor = "tas";
  pod_set.per_pod = {{"cpu", 1000}};
  pod_set.topology.required = "kubernetes.io/hostname";
  pod_set.filter.node_selector = {{"kubernetes.io/hostname", node}};
  for (pod_set.count = 1; placer.Place(request).fits(); ++pod_set.count) {
  }
  return pod_set.count - 1;
}

TEST_CASE("flavor, topology and nodes in any order") {
  const api::ResourceFlavor flavor = Flavor("default");
  const api::Topology topology = Levels({kRack, "kubernetes.io/hostname"});
  const api::Node node = Node("n1", "r1", "4");
  TopologyFeed feed{topology::Options()};
  CHECK(feed.NodeChanged("n1", &node) == Wake());
  CHECK(feed.FlavorChanged("tas", &flavor) == Wake{{"tas"}, absl::ZeroDuration()});
  CHECK(feed.FlavorChanged("tas", &flavor) == Wake());
  CHECK(feed.inventory().FindTree("tas") == nullptr);
  CHECK(feed.TopologyChanged("default", &topology) == Wake{{"tas"}, absl::ZeroDuration()});
  CHECK(Room(feed, "n1") == 4);
  // A level more hides the nodes that lack its label.
  const api::Topology deeper = Levels({"example.com/block", kRack, "kubernetes.io/hostname"});
  feed.TopologyChanged("default", &deeper);
  CHECK(Room(feed, "n1") == 0);
  feed.TopologyChanged("default", &topology);
  CHECK(Room(feed, "n1") == 4);
  CHECK(feed.TopologyChanged("default", nullptr) == Wake());
  CHECK(feed.inventory().FindTree("tas") == nullptr);
  feed.TopologyChanged("default", &topology);
  CHECK(feed.FlavorChanged("tas", nullptr) == Wake());
  CHECK(feed.inventory().FindTree("tas") == nullptr);
}

TEST_CASE("what wakes waiting workloads, and when") {
  const api::ResourceFlavor flavor = Flavor("default");
  const api::Topology topology = Levels({kRack, "kubernetes.io/hostname"});
  TopologyFeed feed{topology::Options()};
  feed.FlavorChanged("tas", &flavor);
  feed.TopologyChanged("default", &topology);
  api::Node node = Node("n1", "r1", "4");
  const Wake by_node{{"tas"}, TopologyFeed::kNodeBatch};
  CHECK(feed.NodeChanged("n1", &node) == by_node);
  node.metadata.resource_version = "2";  // a heartbeat
  CHECK(feed.NodeChanged("n1", &node) == Wake());
  node.unschedulable = true;
  CHECK(feed.NodeChanged("n1", &node) == by_node);
  CHECK(Room(feed, "n1") == 0);
  node.unschedulable = false;
  CHECK(feed.NodeChanged("n1", &node) == by_node);
  api::Node other = Node("n2", "r1", "4");
  other.metadata.labels["pool"] = "other";
  CHECK(feed.NodeChanged("n2", &other) == Wake());

  api::Pod pod;
  pod.metadata.ns = "kube-system";
  pod.metadata.name = "proxy";
  pod.spec = Spec("1");
  pod.phase = "Pending";
  const ObjectKey key{"kube-system", "proxy"};
  CHECK(feed.PodChanged(key, &pod) == Wake());  // not bound
  pod.spec.node_name = "n1";
  CHECK(feed.PodChanged(key, &pod) == Wake());  // takes room
  CHECK(Room(feed, "n1") == 3);
  pod.phase = "Succeeded";
  CHECK(feed.PodChanged(key, &pod) == Wake{{"tas"}, TopologyFeed::kPodBatch});
  CHECK(Room(feed, "n1") == 4);
  CHECK(feed.PodChanged(key, nullptr) == Wake());
}

TEST_CASE("workloads take their places, and give them back") {
  const api::ResourceFlavor flavor = Flavor("default");
  const api::Topology topology = Levels({kRack, "kubernetes.io/hostname"});
  const api::Node node = Node("n1", "r1", "4");
  TopologyFeed feed{topology::Options()};
  api::Workload workload;
  workload.spec.pod_sets.resize(1);
  workload.spec.pod_sets[0].pod_template.spec = Spec("1");
  api::PodSetAssignment assigned;
  assigned.flavors = {{"cpu", "tas"}};
  assigned.topology_assignment =
      queueing::EncodeAssignment({{"kubernetes.io/hostname"}, {{{"n1"}, 3}}}, true);
  workload.status.admission = api::Admission{"cq", {assigned}};
  // Known before everything that it refers to.
  feed.WorkloadChanged({"team", "w"}, &workload, {});
  feed.FlavorChanged("tas", &flavor);
  feed.NodeChanged("n1", &node);
  feed.TopologyChanged("default", &topology);
  CHECK(Room(feed, "n1") == 1);
  feed.WorkloadChanged({"team", "w"}, nullptr, {});
  CHECK(Room(feed, "n1") == 4);
  feed.inventory().CheckInvariants();
}

}  // namespace
}  // namespace sluice::state
