// Free capacity, filters of nodes, texts of failures, flavors that share hosts, life of nodes.
#include "topology/inventory.h"

#include "topology/fragmentation.h"
#include "unit/catch.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

const std::vector<std::string> kHosts = {kHostname};
const Requests kCpu1000 = {{kCpu, 1000}};

Ask Cpu(int64_t count, int64_t milli) {
  return {.count = count, .required = kHostname, .per_pod = {{kCpu, milli}}};
}

TEST_CASE("51 what is free on a leaf") {
  Lab lab("", kHosts);
  Inventory& inventory = lab.inventory();
  Node node = Lab::Host("n1", {}, {{kCpu, 8000}});
  node.allocatable[kPods] = 5;
  // Pods and usage may be known before their node.
  inventory.SetForeignPod("kube-system/daemon", "n1", {{kCpu, 500}});
  inventory.SetForeignPod("default/web", "n1", kCpu1000);
  inventory.SetWorkload("team/train", {Lab::Usage("n1:2", kCpu1000)});
  inventory.SetNode(node);
  CHECK(lab.Place(Cpu(1, 1000)) == "n1:1");
  CHECK(lab.Place(Cpu(2, 1000)) == "topology \"default\" allows to fit only 1 out of 2 pod(s)");
  CHECK(lab.Place(Cpu(3, 1000), true) == "n1:3");
  CHECK_FALSE(lab.Place(Cpu(4, 1000), true) == "n1:4");
  // A pod that ended twice, and one that moved away.
  CHECK(inventory.RemoveForeignPod("default/web").capacity_grew);
  CHECK_FALSE(inventory.RemoveForeignPod("default/web").capacity_grew);
  CHECK(lab.Place(Cpu(2, 1000)) == "n1:2");
  inventory.SetForeignPod("kube-system/daemon", "n2", {{kCpu, 500}});
  CHECK(lab.Place(Cpu(3, 2000)) == "n1:3");
  inventory.RemoveWorkload("team/train");
  inventory.RemoveWorkload("team/train");
  CHECK(lab.Place(Cpu(4, 2000)) == "n1:4");
  inventory.CheckInvariants();
}

TEST_CASE("52 leaves are counted under the first reason that excludes them") {
  Lab lab("", kHosts);
  const Labels zone_a = {{"zone", "a"}};
  const Labels zone_b = {{"zone", "b"}};
  Node tainted = Lab::Host("x1", zone_a, {{kCpu, 4000}});
  tainted.taints = {{"soft", "", "PreferNoSchedule"}, {"team", "ml", "NoSchedule"}};
  lab.inventory().SetNode(tainted);
  for (const char* name : {"x2", "x3", "x4"}) {
    lab.inventory().SetNode(Lab::Host(name, zone_b, {{kCpu, 4000}}));
  }
  lab.inventory().SetNode(Lab::Host("x5", zone_a, {{kCpu, 300}}));
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets(Cpu(2, 1000));
  request.pod_sets[0].filter.node_selector = zone_a;
  CHECK(lab.Place(request) ==
        "topology \"default\" doesn't allow to fit any of 2 pod(s). Total nodes: 5; excluded: "
        "nodeSelector: 3, resource \"cpu\": 1, taint \"team=ml:NoSchedule\": 1");
  request.pod_sets[0].filter.tolerations = {{"team", "Equal", "ml", ""}};
  CHECK(lab.Place(request) == "x1:2");
  // The filter is kept for the next question; a change of the node must reach it.
  tainted.taints.clear();
  lab.inventory().SetNode(tainted);
  request.pod_sets[0].filter.tolerations.clear();
  CHECK(lab.Place(request) == "x1:2");
  tainted.labels["zone"] = "b";
  lab.inventory().SetNode(tainted);
  CHECK(lab.Place(request).find("nodeSelector: 4") != std::string::npos);
}

TEST_CASE("53 of two limiting resources the first by name is named") {
  Lab lab("", kHosts);
  lab.inventory().SetNode(Lab::Host("n1", {}, {{kCpu, 500}, {kGpu, 0}}));
  const Ask ask = {.count = 1, .required = kHostname, .per_pod = {{kCpu, 1000}, {kGpu, 1}}};
  CHECK(lab.Place(ask) ==
        "topology \"default\" doesn't allow to fit any of 1 pod(s). Total nodes: 1; excluded: "
        "resource \"cpu\": 1");
  // A resource that no node ever had is missing everywhere.
  const Ask odd = {.count = 1, .required = kHostname, .per_pod = {{"example.com/never", 1}}};
  CHECK(lab.Place(odd).find("resource \"example.com/never\": 1") != std::string::npos);
}

TEST_CASE("54 an empty tree") {
  Lab lab("", kHosts);
  Node node = Lab::Host("n1", {}, {{kCpu, 4000}});
  node.ready = false;
  lab.inventory().SetNode(node);
  CHECK(lab.Place(Cpu(1, 1000)) == "no topology domains at level: kubernetes.io/hostname");
  node.ready = true;
  lab.inventory().SetNode(node);
  CHECK(lab.Place(Cpu(1, 1000)) == "n1:1");
}

TEST_CASE("55 flavors that share a host share its usage") {
  for (const bool overlapping : {true, false}) {
    Options options;
    options.overlapping_flavors = overlapping;
    Lab lab("n1=4", kHosts, options, kCpu);
    Flavor spot = lab.inventory().FindTree("tas")->flavor();
    spot.node_labels = {{"pool", "tas"}};
    PodSetUsage usage = Lab::Usage("n1:3", {{kCpu, 1}});
    usage.flavor = "spot";
    // The usage is known before its flavor.
    lab.inventory().SetWorkload("w", {usage});
    CHECK(lab.Place({.count = 1, .required = kHostname, .per_pod = {{kCpu, 2}}}) == "n1:1");
    lab.inventory().SetFlavor("spot", spot);
    const std::string now = lab.Place({.count = 1, .required = kHostname, .per_pod = {{kCpu, 2}}});
    CHECK((now == "n1:1") == !overlapping);
    lab.inventory().CheckInvariants();
    lab.inventory().RemoveFlavor("spot");
    CHECK(lab.Place({.count = 1, .required = kHostname, .per_pod = {{kCpu, 2}}}) == "n1:1");
    lab.inventory().CheckInvariants();
  }
}

TEST_CASE("an overlay is undone exactly") {
  Lab lab("n1=4 n2=4", kHosts);
  const WorkloadUsage victim = {Lab::Usage("n1:4")};
  lab.inventory().SetWorkload("victim", victim);
  const Ask five = {.count = 8, .preferred = kHostname};
  const std::string before = lab.Place(five);
  {
    Overlay overlay(lab.inventory());
    overlay.Remove(victim);
    CHECK(lab.Place(five) == "n1:4 n2:4");
    const size_t mark = overlay.Mark();
    overlay.Add({Lab::Usage("n2:1"), Lab::Usage("elsewhere:1")});
    CHECK_FALSE(lab.Place(five) == "n1:4 n2:4");
    overlay.Rollback(mark);
    CHECK(lab.Place(five) == "n1:4 n2:4");
  }
  CHECK(lab.Place(five) == before);
  lab.inventory().CheckInvariants();
}

TEST_CASE("usage on a node that went comes back with it") {
  Lab lab("n1=4", kHosts);
  lab.inventory().SetWorkload("w", {Lab::Usage("n1:3")});
  lab.inventory().RemoveNode("n1");
  CHECK_FALSE(lab.inventory().HasDomain("tas", {"n1"}));
  lab.inventory().SetNode(lab.nodes()[0]);
  CHECK(lab.Place({.count = 2, .required = kHostname}) ==
        "topology \"default\" allows to fit only 1 out of 2 pod(s)");
  lab.inventory().RemoveWorkload("w");
  CHECK(lab.Place({.count = 4, .required = kHostname}) == "n1:4");
}

TEST_CASE("a node without all labels is not in the tree, one with others' labels neither") {
  Lab lab("b1: r1: n1=4", {"block", "rack", kHostname});
  lab.inventory().SetNode(Lab::Host("n2", {{"block", "b1"}}, {{kGpu, 8}}));
  Node other = Lab::Host("n3", {{"block", "b1"}, {"rack", "r1"}}, {{kGpu, 8}});
  other.labels["pool"] = "other";
  lab.inventory().SetNode(other);
  CHECK(lab.Place({.count = 8, .required = "block"}) ==
        "topology \"default\" allows to fit only 4 out of 8 pod(s)");
  // A label that changes moves the node.
  other.labels["pool"] = "tas";
  CHECK(lab.inventory().SetNode(other).flavors == std::vector<FlavorName>{"tas"});
  CHECK(lab.Place({.count = 8, .required = "rack"}) == "n3:8");
  other.labels["rack"] = "r2";
  lab.inventory().SetNode(other);
  CHECK(lab.Place({.count = 12, .required = "rack"}) ==
        "topology \"default\" allows to fit only 8 out of 12 pod(s)");
  CHECK(lab.inventory().SetNode(other).flavors.empty());
  lab.inventory().CheckInvariants();
}

TEST_CASE("nodes with the same host label are one leaf") {
  Lab lab("b1: r1: n1=4", {"block", "rack", kHostname});
  Node twin = Lab::Host("n0", {{"block", "b1"}, {"rack", "r0"}}, {{kGpu, 3}});
  twin.labels[kHostname] = "n1";
  lab.inventory().SetNode(twin);
  CHECK(lab.Place({.count = 7, .required = kHostname}) == "n1:7");
  CHECK(lab.inventory().FindTree("tas")->ValuesAt(1, 0)[1] == "r0");
  lab.inventory().CheckInvariants();
  lab.inventory().RemoveNode("n0");
  CHECK(lab.inventory().FindTree("tas")->ValuesAt(1, 0)[1] == "r1");
  CHECK(lab.Place({.count = 4, .required = kHostname}) == "n1:4");
  lab.inventory().CheckInvariants();
}

TEST_CASE("nodes that are to be left take nothing new, but what runs there still counts") {
  Lab lab("n1=4 n2=2", kHosts);
  Node node = lab.nodes()[0];
  node.leaving = true;
  lab.inventory().SetNode(node);
  CHECK(lab.inventory().HasDomain("tas", {"n1"}));
  CHECK(lab.Place({.count = 3, .required = kHostname}) ==
        "topology \"default\" allows to fit only 2 out of 3 pod(s). Total nodes: 2; excluded: "
        "nodeLifecycle: 1");
  Options ignoring;
  ignoring.exclude_leaving = false;
  Lab other("", kHosts, ignoring);
  other.inventory().SetNode(node);
  CHECK(other.Place({.count = 3, .required = kHostname}) == "n1:3");
}

TEST_CASE("planned maintenance excludes what would run into it") {
  Lab lab("n1=4", kHosts);
  Node node = lab.nodes()[0];
  node.maintenance_planned = true;
  lab.inventory().SetNode(node);
  const auto fits = [&](std::optional<int64_t> bound, int64_t now) {
    WorkloadRequest request;
    request.pod_sets = Lab::PodSets({.count = 1, .required = kHostname});
    request.bound = bound;
    request.now = now;
    return lab.Place(request) == "n1:1";
  };
  // Without a start: nothing unbounded and nothing longer than an hour.
  CHECK_FALSE(fits(std::nullopt, 0));
  CHECK(fits(3600, 0));
  CHECK_FALSE(fits(3601, 0));
  node.maintenance_start = 10000;
  lab.inventory().SetNode(node);
  CHECK_FALSE(fits(std::nullopt, 0));
  CHECK(fits(10000, 0));
  CHECK_FALSE(fits(10000, 1));
  node.maintenance_planned = false;
  lab.inventory().SetNode(node);
  CHECK(fits(std::nullopt, 0));
}

TEST_CASE("affinity: required terms are alternatives, preferred ones order domains") {
  Options options;
  options.preferred_affinity = true;
  const auto lab = [&](int h1, int h2, Options with) {
    Lab made("", kHosts, with);
    made.inventory().SetNode(Lab::Host("h1", {{"gen", "1"}}, {{kGpu, h1}}));
    made.inventory().SetNode(Lab::Host("h2", {{"gen", "2"}}, {{kGpu, h2}}));
    return made;
  };
  const auto place = [&](const Lab& in, int64_t count) {
    WorkloadRequest request;
    request.pod_sets = Lab::PodSets({.count = count, .required = kHostname});
    request.pod_sets[0].filter.preferred = {{10, {{{"gen", "Gt", {"1"}}}, {}}}};
    return in.Place(request);
  };
  CHECK(place(lab(8, 4, options), 3) == "h2:3");
  CHECK(place(lab(8, 4, options), 6) == "h1:6");
  CHECK(place(lab(4, 8, options), 3) == "h2:3");
  CHECK(place(lab(4, 8, {}), 3) == "h1:3");
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets({.count = 1, .required = kHostname});
  request.pod_sets[0].filter.required = {{{{"gen", "In", {"7"}}}, {}},
                                         {{}, {{"metadata.name", "In", {"h2"}}}}};
  CHECK(lab(8, 8, {}).Place(request) == "h2:1");
  request.pod_sets[0].filter.required = {{{{"gen", "NotIn", {"1", "2"}}}, {}}};
  CHECK(lab(8, 8, {}).Place(request).find("affinity: 2") != std::string::npos);
  request.pod_sets[0].filter.required = {{{{"gen", "Near", {"1"}}}, {}}};
  CHECK(lab(8, 8, {}).Place(request) ==
        "invalid node affinity: key \"gen\": \"Near\" is not an operator");
}

TEST_CASE("requests that contradict the topology say what is wrong") {
  const Lab lab("b1: r1: n1=4", {"block", "rack", kHostname});
  const auto place = [&](const TopologyRequest& topology) {
    WorkloadRequest request;
    request.pod_sets = Lab::PodSets({.count = 4});
    request.pod_sets[0].topology = topology;
    return lab.Place(request);
  };
  CHECK(place({.slice_level = "rack", .slice_size = 0}) ==
        "slice topology requested, but slice size not provided");
  CHECK(place({.slice_level = "rack"}) == "slice topology requested, but slice size not provided");
  CHECK(place({}) == "topology level not specified");
  CHECK(place({.slice_size = 2}) == "topology level not specified");
  CHECK(place({.required = "zone"}) == "no requested topology level: zone");
  CHECK(place({.required = "rack", .slice_level = "zone", .slice_size = 2}) ==
        "no requested topology level for slices: zone");
  CHECK(place({.required = "rack", .slice_level = "block", .slice_size = 2}) ==
        "podset slice topology block is above the podset topology rack");
  CHECK(place({.required = "block", .layers = {{"rack", 4}, {"zone", 2}}}) ==
        "no requested topology level for additional slice layer: zone");
  CHECK(place({.required = "block", .layers = {{"rack", 4}, {"rack", 2}}}) ==
        "additional slice layer topology rack must be at a lower level than rack");
  CHECK(place({.required = "block", .layers = {{"rack", 4}, {kHostname, 3}}}) ==
        "additional slice layer size 3 must evenly divide parent layer size 4");
  CHECK(place({.required = "block", .layers = {{"rack", 4}, {kHostname, 0}}}) ==
        "additional slice layer size 0 must evenly divide parent layer size 4");
  CHECK(place({.implied = true}) == "n1:4");
}

TEST_CASE("a failure names the closest domain and what is in its way") {
  const Lab lab("b1: r1: n1=4 n2=0; b2: r2: n3=3", {"block", "rack", kHostname});
  Placer placer(lab.inventory());
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets({.count = 6, .required = "block"});
  const WorkloadPlacement placement = placer.Place(request);
  REQUIRE_FALSE(placement.fits());
  const Failure& failure = *placement.first_failure()->failure;
  CHECK(failure.total == 7);
  REQUIRE(failure.closest.has_value());
  CHECK(failure.closest->values == std::vector<std::string>{"b1"});
  CHECK(failure.closest->fit == 4);
  CHECK(failure.closest->leaves == 2);
  CHECK(failure.closest->excluded == Exclusions{{"resource \"example.com/gpu\"", 1}});
}

TEST_CASE("fragmentation of what is free") {
  Lab lab("b1: r1: n1=4 n2=4 r2: n3=4; b2: r3: n4=4", {"block", "rack", kHostname});
  lab.inventory().SetWorkload("w", {Lab::Usage("n1:2")});
  lab.inventory().SetWorkload("beyond", {Lab::Usage("n4:6")});
  std::vector<Fragmentation> all = FragmentationOf(lab.inventory(), "tas");
  std::erase_if(all, [](const Fragmentation& one) { return one.resource != kGpu; });
  REQUIRE(all.size() == 3);
  CHECK(all[0] == Fragmentation{"block", kGpu, 10, 10});
  CHECK(all[1] == Fragmentation{"rack", kGpu, 10, 6});
  CHECK(all[1].PerMille() == 400);
  CHECK(all[2] == Fragmentation{kHostname, kGpu, 10, 4});
  CHECK(FragmentationOf(lab.inventory(), "none").empty());
}

}  // namespace
}  // namespace sluice::topology
