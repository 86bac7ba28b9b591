#include "reconcile/excluded_nodes.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "api/codec.h"
#include "reconcile/explain.h"
#include "reconcile/explain_reason.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/reconcile/synced_world.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using api::Kind;
using build::At;

// Hosts of four cpus in racks, and one ClusterQueue with quota for all of them.
class Fixture : public SyncedWorld {
 public:
  Fixture() {
    Add(Kind::kTopology,
        *api::ParseJson(R"({"metadata":{"name":"t"},"spec":{"levels":[{"nodeLabel":"rack"},)"
                        R"({"nodeLabel":"kubernetes.io/hostname"}]}})"));
    Add(Kind::kResourceFlavor,
        *api::ParseJson(R"({"metadata":{"name":"f"},"spec":{"nodeLabels":{"pool":"p"},)"
                        R"("topologyName":"t"}})"));
    Add(Kind::kClusterQueue,
        api::Encode<api::ClusterQueue>(build::ClusterQueue("cq").Flavor("f", {{"cpu", "100"}})));
    Add(Kind::kLocalQueue, api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
  }

  // `spec` and `condition` (beside Ready) are the insides of JSON objects.
  void Node(const std::string& name, const std::string& spec = "",
            const std::string& condition = "", bool ready = true, const std::string& pool = "p") {
    const std::string more =
        condition.empty() ? "" : fmt::format(R"(,{{"type":"{}","status":"True"}})", condition);
    Add(Kind::kNode,
        *api::ParseJson(fmt::format(
            R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","labels":)"
            R"({{"pool":"{4}","rack":"r1","kubernetes.io/hostname":"{0}"}}}},"spec":{{{1}}},)"
            R"("status":{{"allocatable":{{"cpu":"4","pods":"10"}},"conditions":[{{"type":)"
            R"("Ready","status":"{2}"}}{3}]}}}})",
            name, spec, ready ? "True" : "False", more, pool)));
  }
  void Gang(const std::string& name, int pods) {
    Json json = api::Encode<api::Workload>(
        build::Workload(name).Queue("q").Request("cpu", "4").Uid(name).ResourceVersion("1"));
    Json& pod_set = json.Find("spec")->Find("podSets")->MutableArray().front();
    pod_set.Set("count", pods);
    pod_set.Set("topologyRequest", Json::MakeObject({{"required", "rack"}}));
    Add(Kind::kWorkload, json);
  }
  void Admit() {
    for (const admission::Decision& decision :
         admission::Schedule(world.snapshot(), world.queues(), At(1))) {
      if (decision.kind != admission::Decision::Kind::kAdmit) continue;
      auto workload = std::make_shared<api::Workload>(*decision.info->workload);
      admission::SetQuotaReservation(*workload, decision.admission, {}, At(1));
      world.Assume(workload);
    }
  }
  Why Ask(const std::string& name) {
    const ObjectKey key{"ns", name};
    return WhyOf(world, ExplainWorkload(world, key, At(2)), *world.workloads().Find(key));
  }
};

TEST_CASE("nodes that may not be used are counted by why") {
  Fixture fixture;
  fixture.Node("n1");
  fixture.Node("n2", R"("unschedulable":true,"taints":[{"key":"node.kubernetes.io/unschedulable",)"
                     R"("effect":"NoSchedule"}])");
  fixture.Node("n3", "", "", false);
  fixture.Node("n4", R"("taints":[{"key":"a","value":"b","effect":"NoSchedule"}])");
  fixture.Node("n5", "", "DrainInProgress");
  fixture.Node("n6", "", "MaintenancePlanned");
  fixture.Node("elsewhere", R"("unschedulable":true)", "", true, "other");
  fixture.Gang("w", 4);
  const Why why = fixture.Ask("w");
  CHECK(why.reason == "NodesExcluded");
  CHECK(why.help ==
        "nodes back: 5 of 6 may not be used (cordon 1, drain 1, maintenance 1, notReady 1, taint "
        "1)");
  Json json = Json::MakeObject();
  AddWhy(why, json);
  CHECK(json.Find("excludedNodes")->Text() ==
        R"({"nodes":6,"byCause":{"cordon":1,"drain":1,"maintenance":1,"notReady":1,"taint":1}})");
  // All of them together would not do.
  fixture.Gang("huge", 9);
  CHECK(fixture.Ask("huge").reason == "InsufficientCapacity");
}

TEST_CASE("all nodes of a flavor can be out") {
  Fixture fixture;
  fixture.Node("n1", R"("unschedulable":true)");
  fixture.Node("n2", R"("unschedulable":true)");
  fixture.Gang("w", 2);
  const Why why = fixture.Ask("w");
  CHECK(why.reason == "NodesExcluded");
  CHECK(why.help == "nodes back: 2 of 2 may not be used (cordon 2)");
  fixture.Gang("huge", 3);
  CHECK(fixture.Ask("huge").reason == "InsufficientCapacity");
}

TEST_CASE("a node that is out and full would not help") {
  Fixture fixture;
  fixture.Node("n1");
  fixture.Gang("runs", 1);
  fixture.Admit();
  REQUIRE(fixture.world.IsAssumed({"ns", "runs"}));
  fixture.Node("n1", R"("unschedulable":true)");
  fixture.Node("n2");
  fixture.Gang("w", 2);
  CHECK(fixture.Ask("w").reason == "InsufficientCapacity");
}

}  // namespace
}  // namespace sluice::reconcile
