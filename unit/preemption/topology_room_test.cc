// Preemption for places on nodes: quota would be enough, the nodes are not.
#include "preemption/topology_room.h"

#include <algorithm>

#include "unit/catch.h"

namespace sluice::preemption {
namespace {

constexpr char kHost[] = "kubernetes.io/hostname";
const FlavorResource kCell{"tas", kCpu};

struct Nodes {
  quota::Tree tree;
  ReservedWorkloads reserved;
  topology::Inventory inventory;
  Context context;

  explicit Nodes(int64_t quota) {
    tree.SetClusterQueue("cq", "", {{kCell, {quota, std::nullopt, std::nullopt}}});
    inventory.SetFlavor("tas", {"default", {kHost}, {}, {}});
    context.tree = &tree;
    context.reserved = &reserved;
  }
  void AddNode(const std::string& name, int64_t cpu) {
    topology::Node node;
    node.name = name;
    node.labels = {{kHost, name}};
    node.allocatable = {{kCpu, cpu}, {kPods, 110}};
    node.ready = true;
    inventory.SetNode(node);
  }
  // One pod of `cpu` on the node.
  void Run(const std::string& name, int64_t priority, const std::string& node, int64_t cpu) {
    auto object = std::make_shared<api::Workload>();
    object->metadata.name = name;
    object->metadata.uid = name;
    ReservedWorkload workload;
    workload.workload = object;
    workload.cluster_queue = "cq";
    workload.priority = priority;
    workload.usage = tree.IdsOf({{kCell, cpu}});
    reserved.Put(workload);
    tree.AddUsage("cq", {{kCell, cpu}});
    inventory.SetWorkload(name, {{"tas", {{kCpu, cpu}}, {{kHost}, {{{node}, 1}}}}});
  }
  // The victims of a preemptor of priority 5 with pods of `cpu`.
  std::vector<std::string> Victims(int64_t count, int64_t cpu) {
    topology::Placer placer(inventory);
    topology::WorkloadRequest request;
    request.pod_sets.resize(1);
    request.pod_sets[0].flavor = "tas";
    request.pod_sets[0].count = count;
    request.pod_sets[0].per_pod = {{kCpu, cpu}};
    request.pod_sets[0].topology.unconstrained = true;
    TopologyRoom room(inventory, placer, request, [this](const ReservedWorkload& workload) {
      return inventory.FindWorkload(workload.Key().ToString());
    });
    Preemptor preemptor;
    preemptor.queue = tree.FindQueue("cq");
    preemptor.priority = 5;
    preemptor.policies.within_cluster_queue = Policy::kLowerPriority;
    preemptor.requests = tree.IdsOf({{kCell, count * cpu}});
    preemptor.contested = {tree.IdOf(kCell)};
    preemptor.room = &room;
    std::vector<std::string> names;
    const std::vector<Target> targets = FindTargets(context, preemptor);
    for (const Target& target : targets) names.push_back(target.workload->Key().name);
    if (!targets.empty()) CHECK(FitsWithout(context, preemptor, targets));
    return names;
  }
};

using Names = std::vector<std::string>;

TEST_CASE("56 the one that is in the way on the node") {
  Nodes nodes(8);
  nodes.AddNode("n1", 4);
  nodes.Run("low", 1, "n1", 3);
  CHECK(nodes.Victims(2, 2) == Names{"low"});
  // Nothing that could be removed makes room for five.
  CHECK(nodes.Victims(5, 1) == Names{});
  CHECK(nodes.tree.Usage("cq", kCell) == 3);
  nodes.inventory.CheckInvariants();
}

TEST_CASE("only the workloads whose places help are preempted") {
  Nodes nodes(100);
  nodes.AddNode("n1", 4);
  nodes.AddNode("n2", 4);
  // Taken first as the least important, but it frees nothing that is large enough.
  nodes.Run("small", 0, "n1", 1);
  nodes.Run("high", 9, "n1", 3);
  nodes.Run("medium", 2, "n2", 4);
  CHECK(nodes.Victims(1, 4) == Names{"medium"});
  CHECK(nodes.Victims(1, 1) == Names{"small"});
  CHECK(nodes.Victims(2, 4) == Names{});
  nodes.inventory.CheckInvariants();
}

}  // namespace
}  // namespace sluice::preemption
