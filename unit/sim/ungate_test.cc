// Pods that get places on nodes are released by one write each: gates off and node selector in.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include "api/names.h"
#include "api/pod_names.h"
#include "sim/scenario_objects.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

SimulationOptions Options() {
  SimulationOptions options;
  options.settings.integrations.frameworks = {"batch/job", api::kPodFramework};
  options.jobs.pod_objects = true;
  return options;
}

// Gates that a write to a pod leaves, -1 for a write that does not name them.
int GatesLeft(const state::Action& action) {
  const Json* gates = action.body.Find("spec", "schedulingGates");
  return gates == nullptr ? -1 : static_cast<int>(gates->AsArray().size());
}

TEST_CASE("A pod with a place is released by one write") {
  Simulation sim(Options());
  for (const char* text :
       {"namespace ns", "topology racks levels=rack,kubernetes.io/hostname",
        "flavor tas label:pool=p topology=racks", "clusterqueue cq flavor=tas{cpu=100}",
        "localqueue q cq=cq", "node a label:pool=p label:rack=r cpu=4",
        "node b label:pool=p label:rack=r cpu=4", "node c label:pool=p label:rack=s cpu=4"}) {
    Make(sim, text);
  }
  absl::btree_map<std::string, int> releases;
  sim.SetFaultHook([&](const state::Action& action, uint64_t) {
    if (action.kind == Kind::kPod && GatesLeft(action) >= 0) {
      ++releases[action.key.name];
      CHECK(GatesLeft(action) == 0);
      CHECK(action.body.Find("spec", "nodeSelector")->Has("kubernetes.io/hostname"));
    }
    return FaultDecision{};
  });
  sim.Start();
  for (int i = 0; i < 6; ++i) {
    Make(sim, fmt::format("pod g-{} queue=q group=g total=6 cpu=1 index={} "
                          "annotation:kueue.x-k8s.io/podset-required-topology=rack",
                          i, i));
  }
  Make(sim, "pod alone queue=q cpu=1 annotation:kueue.x-k8s.io/podset-required-topology=rack");
  Make(sim, "pod anywhere queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Minutes(2));
  CHECK(releases.size() == 8);
  for (const auto& [name, writes] : releases) {
    INFO(name);
    CHECK(writes == 1);
  }
  absl::btree_map<std::string, std::string> hosts;
  sim.api().ForEach(Kind::kPod, [&](const Json& pod) {
    hosts[pod.GetString("metadata", "name")] =
        pod.GetString("spec", "nodeSelector", "kubernetes.io/hostname");
  });
  for (int i = 0; i < 6; ++i) CHECK(hosts[fmt::format("g-{}", i)] == (i < 4 ? "a" : "b"));
  CHECK_FALSE(hosts["alone"].empty());
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
}

}  // namespace
}  // namespace sluice::sim
