// Which flavors serve which pod sets, and what placement makes of an assignment by quota.
#include "flavor/topology_match.h"

#include "unit/catch.h"

namespace sluice::flavor {
namespace {

constexpr char kHost[] = "kubernetes.io/hostname";

topology::Node Host(const std::string& name, int64_t cpu) {
  topology::Node node;
  node.name = name;
  node.labels = {{kHost, name}};
  node.allocatable = {{kCpu, cpu}, {kPods, 110}};
  node.ready = true;
  return node;
}

TEST_CASE("which flavors serve which pod sets") {
  topology::Inventory inventory;
  inventory.SetFlavor("tas", {"default", {"rack", kHost}, {}, {}});
  const topology::Tree* tree = inventory.FindTree("tas");
  const topology::TopologyRequest rack{.required = "rack"};
  const topology::TopologyRequest zone{.required = "zone"};
  const topology::TopologyRequest slices{.required = "rack", .layers = {{"zone", 2}}};
  using Wish = TopologyWish;
  using Match = TopologyMatch;
  CHECK(MatchTopology(Wish::kAsked, rack, true, tree, true) == Match::kMatches);
  CHECK(MatchTopology(Wish::kAsked, zone, true, tree, true) == Match::kLevelMissing);
  CHECK(MatchTopology(Wish::kAsked, slices, true, tree, true) == Match::kLevelMissing);
  // Asking for nothing in particular names no level.
  CHECK(MatchTopology(Wish::kAsked, {}, true, tree, true) == Match::kLevelMissing);
  CHECK(MatchTopology(Wish::kAsked, rack, true, nullptr, true) == Match::kUnknown);
  CHECK(MatchTopology(Wish::kAsked, rack, false, nullptr, true) == Match::kNotSupported);
  CHECK(MatchTopology(Wish::kAsked, rack, false, nullptr, false) == Match::kMatches);
  CHECK(MatchTopology(Wish::kNone, {}, true, tree, true) == Match::kOnlyTopology);
  CHECK(MatchTopology(Wish::kNone, {}, false, nullptr, true) == Match::kMatches);
  CHECK(MatchTopology(Wish::kImplied, {}, true, tree, true) == Match::kMatches);
}

TEST_CASE("the one flavor with a topology") {
  const auto tas = [](const FlavorName& name) { return name.starts_with("tas"); };
  PodSetAssignment pod_set;
  CHECK(FindTopologyFlavor(pod_set, tas).error == "no TAS flavor assigned");
  pod_set.flavors["cpu"].flavor = "tas-b";
  pod_set.flavors["licenses"].flavor = "plain";
  CHECK(FindTopologyFlavor(pod_set, tas).flavor == "tas-b");
  pod_set.flavors["gpu"].flavor = "tas-a";
  CHECK(FindTopologyFlavor(pod_set, tas).error ==
        "more than one TAS flavor assigned: tas-a, tas-b");
  api::ClusterQueueSpec queue;
  CHECK(HasOnlyTopology(queue, tas));
  queue.resource_groups.resize(1);
  queue.resource_groups[0].flavors.resize(2);
  queue.resource_groups[0].flavors[0].name = "tas-a";
  queue.resource_groups[0].flavors[1].name = "plain";
  CHECK_FALSE(HasOnlyTopology(queue, tas));
  queue.resource_groups[0].flavors.pop_back();
  CHECK(HasOnlyTopology(queue, tas));
}

TEST_CASE("56 a fit by quota that the nodes cannot take becomes a preemption, or nothing") {
  topology::Inventory inventory;
  inventory.SetFlavor("tas", {"default", {kHost}, {}, {}});
  inventory.SetNode(Host("n1", 4));
  const topology::Assignment on = {{kHost}, {{{"n1"}, 1}}};
  inventory.SetWorkload("low", {{"tas", {{kCpu, 3}}, on}});
  topology::Placer placer(inventory);
  topology::WorkloadRequest request;
  request.pod_sets.resize(1);
  topology::PodSetRequest& pod_set = request.pod_sets[0];
  pod_set.name = "main";
  pod_set.flavor = "tas";
  pod_set.count = 2;
  pod_set.per_pod = {{kCpu, 2}};
  pod_set.topology.unconstrained = true;
  const std::string full =
      "topology \"default\" doesn't allow to fit any of 2 pod(s). Total nodes: 1; excluded: "
      "resource \"cpu\": 1";
  TopologyOutcome outcome = DecideTopology(placer, request, Mode::kFit);
  CHECK(outcome.mode == Mode::kPreempt);
  CHECK(outcome.placement.fits());
  CHECK(outcome.failed_pod_set == "main");
  CHECK(outcome.reason == full);
  CHECK(DecideTopology(placer, request, Mode::kPreempt).mode == Mode::kPreempt);
  CHECK(DecideTopology(placer, request, Mode::kNoFit).mode == Mode::kNoFit);
  {
    topology::Overlay without(inventory);
    without.Remove(*inventory.FindWorkload("low"));
    outcome = DecideTopology(placer, request, Mode::kFit);
    CHECK(outcome.mode == Mode::kFit);
    CHECK(outcome.reason.empty());
    REQUIRE(outcome.placement.pod_sets[0].assignment.has_value());
    CHECK(outcome.placement.pod_sets[0].assignment->domains[0].count == 2);
  }
  // Not even an empty cluster has room.
  pod_set.count = 3;
  outcome = DecideTopology(placer, request, Mode::kFit);
  CHECK(outcome.mode == Mode::kNoFit);
  CHECK(outcome.reason == "topology \"default\" allows to fit only 2 out of 3 pod(s)");
  // A repair does not ask what an empty cluster could take.
  pod_set.previous_kind = topology::Previous::kReplaceNode;
  pod_set.previous = {{kHost}, {{{"n0"}, 3}}};
  pod_set.failed_node = "n0";
  outcome = DecideTopology(placer, request, Mode::kFit);
  CHECK(outcome.mode == Mode::kPreempt);
  CHECK_FALSE(outcome.placement.fits());
}

}  // namespace
}  // namespace sluice::flavor
