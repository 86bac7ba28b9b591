// Replacement of a failed node inside its domain, elastic growth and shrinking, and the check
// before an assignment is acted on.
#include "unit/catch.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

constexpr char kTreeA[] = "b1: r1: h1=4 h2=4 r2: h3=8; b2: r3: h4=6 h5=2 r4: h6=3;";
constexpr char kPairs[] = "b1: r1: x1=2 x2=2 x3=2 r2: y1=2 y2=2 y3=2";

// The workload runs on `running`, and `failed` has left the cluster.
std::string Replace(Lab& lab, Ask ask, const std::string& running, const std::string& failed) {
  lab.inventory().SetWorkload("w", {Lab::Usage(running, ask.per_pod)});
  lab.inventory().RemoveNode(failed);
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets(ask);
  request.pod_sets[0].previous_kind = Previous::kReplaceNode;
  request.pod_sets[0].previous = Lab::On(running);
  request.pod_sets[0].failed_node = failed;
  return lab.Place(request);
}

TEST_CASE("87 a required rack confines the replacement") {
  Lab lab(kTreeA);
  CHECK(Replace(lab, {.count = 8, .required = "rack"}, "h1:4 h2:4", "h1") ==
        "topology \"default\" doesn't allow to fit any of 4 pod(s). Total nodes: 5; excluded: "
        "resource \"example.com/gpu\": 1, topologyDomain: 4");
}

TEST_CASE("88 a preferred rack does not") {
  Lab lab(kTreeA);
  CHECK(Replace(lab, {.count = 8, .preferred = "rack"}, "h1:4 h2:4", "h1") == "h2:4 h3:4");
}

TEST_CASE("89 a broken slice is completed where it is") {
  const std::string running = "x1:2 x2:2 y1:2 y2:2";
  Lab lab(kPairs);
  CHECK(Replace(lab, {.count = 8, .required = "block", .layers = {{"rack", 4}}}, running, "y1") ==
        "x1:2 x2:2 y2:2 y3:2");
  Lab slices_only(kPairs);
  CHECK(Replace(slices_only, {.count = 8, .layers = {{"rack", 4}}}, running, "y1") ==
        "topology level not specified");
}

TEST_CASE("90 inner groups that are whole stay groups") {
  const std::string running = "x1:2 x2:2 y1:2 y2:2";
  const std::vector<SliceLayer> layers = {{"rack", 4}, {kHostname, 2}};
  Lab lab(kPairs);
  CHECK(Replace(lab, {.count = 8, .required = "block", .layers = layers}, running, "y1") ==
        "x1:2 x2:2 y2:2 y3:2");
  Lab slices_only(kPairs);
  CHECK(Replace(slices_only, {.count = 8, .layers = layers}, running, "y1") ==
        "x1:2 x2:2 y2:2 y3:2");
}

TEST_CASE("91 a workload of one node is free to move") {
  Lab lab(kTreeA);
  CHECK(Replace(lab, {.count = 3, .required = "rack"}, "h6:3", "h6") == "h1:3");
}

TEST_CASE("92 a rack's name that starts with another's is another rack") {
  Lab lab("row-1: n1=1 n2=1 row-10: n3=1", {"rack", kHostname}, {}, kCpu);
  CHECK(Replace(lab, {.count = 2, .required = "rack", .per_pod = {{kCpu, 1}}}, "n1:1 n2:1", "n1") ==
        "topology \"default\" doesn't allow to fit any of 1 pod(s). Total nodes: 2; excluded: "
        "resource \"cpu\": 1, topologyDomain: 1");
}

TEST_CASE("a second node that is gone makes the assignment stale") {
  Lab lab(kTreeA);
  lab.inventory().RemoveNode("h2");
  CHECK(Replace(lab, {.count = 8, .preferred = "rack"}, "h1:4 h2:4", "h1") ==
        "the existing assignment is invalid: domain \"h2\" is stale");
}

TEST_CASE("a failed node that is still there is not chosen again") {
  Lab lab(kTreeA);
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets({.count = 8, .preferred = "rack"});
  request.pod_sets[0].previous_kind = Previous::kReplaceNode;
  request.pod_sets[0].previous = Lab::On("h1:4 h2:4");
  request.pod_sets[0].failed_node = "h1";
  lab.inventory().SetWorkload("w", {Lab::Usage("h2:4")});
  CHECK(lab.Place(request) == "h2:4 h3:4");
}

TEST_CASE("domains of a repaired assignment are in tree order") {
  // By name alone a1 would come first, between nobody's ranks.
  Lab lab("r1: m=2 n=2 r2: a1=2 b1=2", {"rack", kHostname});
  CHECK(Replace(lab, {.count = 4, .preferred = "rack"}, "m:2 n:2", "m") == "n:2 a1:2");
}

std::string Resize(const Lab& lab, const std::string& before, int64_t count) {
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets({.count = count, .unconstrained = true, .per_pod = {{kCpu, 1}}});
  request.pod_sets[0].previous_kind = Previous::kResize;
  request.pod_sets[0].previous = Lab::On(before);
  return lab.Place(request);
}

TEST_CASE("97, 98 elastic workloads keep their places") {
  Lab lab("x1=3 x2=2 x3=2", {kHostname}, {}, kCpu);
  lab.inventory().SetWorkload("before", {Lab::Usage("x1:3", {{kCpu, 1}})});
  CHECK(Resize(lab, "x1:3", 5) == "x1:3 x2:2");
  CHECK(Resize(lab, "x1:3", 3) == "x1:3");
  CHECK(Resize(lab, "x1:3", 8) ==
        "topology \"default\" allows to fit only 4 out of 5 pod(s). Total nodes: 3; excluded: "
        "resource \"cpu\": 1");
  lab.inventory().SetWorkload("before", {Lab::Usage("x1:3 x2:2", {{kCpu, 1}})});
  CHECK(Resize(lab, "x1:3 x2:2", 4) == "x1:3 x2:1");
  CHECK(Resize(lab, "x1:3 x2:2", 3) == "x1:3");
  CHECK(Resize(lab, "gone:1", 2) == "x3:2");
}

TEST_CASE("an assignment is checked before it is acted on") {
  Lab lab(kTreeA);
  Placer placer(lab.inventory());
  const PodSetRequest pod_set = Lab::PodSets({.count = 8, .required = "rack"})[0];
  const Assignment assignment = Lab::On("h1:4 h2:4");
  CHECK_FALSE(placer.Check(pod_set, assignment).has_value());
  lab.inventory().SetWorkload("other", {Lab::Usage("h2:1")});
  auto broken = placer.Check(pod_set, assignment);
  REQUIRE(broken.has_value());
  CHECK(broken->kind == Broken::Kind::kNoRoom);
  CHECK(broken->domain == std::vector<std::string>{"h2"});
  CHECK(broken->fit == 3);
  // What the workload holds already is not asked for twice.
  const Assignment held = Lab::On("h2:1");
  CHECK_FALSE(placer.Check(pod_set, assignment, &held).has_value());
  Node cordoned = lab.nodes()[0];
  cordoned.unschedulable = true;
  lab.inventory().SetNode(cordoned);
  broken = placer.Check(pod_set, assignment);
  REQUIRE(broken.has_value());
  CHECK(broken->kind == Broken::Kind::kGone);
  Node tainted = lab.nodes()[0];
  tainted.taints = {{"maint", "true", "NoSchedule"}};
  lab.inventory().SetNode(tainted);
  broken = placer.Check(pod_set, assignment);
  REQUIRE(broken.has_value());
  CHECK(broken->kind == Broken::Kind::kExcluded);
}

}  // namespace
}  // namespace sluice::topology
