// The question to placement that an assignment of flavors leads to, and the admission it ends in.
#include "admission/topology_request.h"

#include "queueing/topology_inputs.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

constexpr char kHost[] = "kubernetes.io/hostname";

api::PodSet PodSet(const std::string& name, int32_t count, const char* cpu) {
  api::PodSet pod_set;
  pod_set.name = name;
  pod_set.count = count;
  if (*cpu != '\0') {
    api::Container container;
    container.resources.requests = {{"cpu", *Quantity::Parse(cpu)}};
    pod_set.pod_template.spec->containers = {container};
  }
  return pod_set;
}

flavor::PodSetAssignment Assigned(const std::string& name, int32_t count,
                                  const std::vector<FlavorName>& flavors) {
  flavor::PodSetAssignment assigned;
  assigned.name = name;
  assigned.count = count;
  for (size_t i = 0; i < flavors.size(); ++i) {
    assigned.flavors["r" + std::to_string(i)].flavor = flavors[i];
  }
  return assigned;
}

TopologySources Sources(bool only_topology = false) {
  TopologySources sources;
  sources.has_topology = [](const FlavorName& name) { return name.starts_with("tas"); };
  sources.only_topology = only_topology;
  sources.now = absl::FromUnixSeconds(1000);
  return sources;
}

TEST_CASE("pod sets that ask are asked about, others only where there is nothing else") {
  api::Workload workload;
  workload.spec.pod_sets = {PodSet("asks", 2, "500m"), PodSet("does-not", 3, "1")};
  workload.spec.pod_sets[0].topology_request = api::PodSetTopologyRequest{};
  workload.spec.pod_sets[0].topology_request->required = "rack";
  workload.spec.maximum_execution_time_seconds = 60;
  flavor::Assignment assignment;
  assignment.pod_sets = {Assigned("asks", 2, {"plain", "tas"}), Assigned("does-not", 1, {"tas"})};
  TopologyQuestion question = AskTopology(Sources(), workload, assignment);
  CHECK(question.error.empty());
  CHECK(question.request.now == 1000);
  CHECK(question.request.bound == 60);
  REQUIRE(question.request.pod_sets.size() == 1);
  CHECK(question.request.pod_sets[0].name == "asks");
  CHECK(question.request.pod_sets[0].flavor == "tas");
  CHECK(question.request.pod_sets[0].count == 2);
  CHECK(question.request.pod_sets[0].per_pod == Requests{{"cpu", 500}});
  CHECK(question.request.pod_sets[0].topology.required == "rack");
  CHECK_FALSE(question.request.pod_sets[0].topology.implied);

  question = AskTopology(Sources(true), workload, assignment);
  REQUIRE(question.request.pod_sets.size() == 2);
  CHECK(question.request.pod_sets[1].topology.implied);
  // As many as were assigned, not as many as there are.
  CHECK(question.request.pod_sets[1].count == 1);

  assignment.pod_sets[1].count = 0;
  CHECK(AskTopology(Sources(true), workload, assignment).request.pod_sets.size() == 1);
  assignment.pod_sets[0] = Assigned("asks", 2, {"plain"});
  question = AskTopology(Sources(), workload, assignment);
  CHECK(question.failed_pod_set == "asks");
  CHECK(question.error == "no TAS flavor assigned");
  CHECK(question.request.pod_sets.empty());
  assignment.pod_sets[0] = Assigned("asks", 2, {"tas-b", "tas-a"});
  CHECK(AskTopology(Sources(), workload, assignment).error ==
        "more than one TAS flavor assigned: tas-a, tas-b");
}

TEST_CASE("a leader without requests takes the flavor of its group") {
  api::Workload workload;
  workload.spec.pod_sets = {PodSet("leader", 1, ""), PodSet("workers", 4, "1")};
  for (api::PodSet& pod_set : workload.spec.pod_sets) {
    pod_set.topology_request = api::PodSetTopologyRequest{};
    pod_set.topology_request->preferred = "rack";
    pod_set.topology_request->pod_set_group_name = "g";
  }
  flavor::Assignment assignment;
  assignment.pod_sets = {Assigned("leader", 1, {}), Assigned("workers", 4, {"tas"})};
  const TopologyQuestion question = AskTopology(Sources(), workload, assignment);
  REQUIRE(question.request.pod_sets.size() == 2);
  CHECK(question.request.pod_sets[0].flavor == "tas");
  CHECK(question.request.pod_sets[0].topology.group == "g");
}

TEST_CASE("places are written where there are any") {
  api::Admission admission;
  admission.pod_set_assignments.resize(3);
  admission.pod_set_assignments[0].name = "a";
  admission.pod_set_assignments[1].name = "b";
  admission.pod_set_assignments[2].name = "c";
  const topology::Assignment on = {{kHost}, {{{"n-1"}, 2}, {{"n-2"}, 1}}};
  topology::WorkloadPlacement placement;
  placement.pod_sets = {{"a", "tas", on, std::nullopt},
                        {"b", "tas", topology::Assignment{{kHost}, {}}, std::nullopt}};
  AddAssignments(admission, placement, true);
  REQUIRE(admission.pod_set_assignments[0].topology_assignment.has_value());
  CHECK(*queueing::DecodeAssignment(*admission.pod_set_assignments[0].topology_assignment) == on);
  CHECK_FALSE(admission.pod_set_assignments[1].topology_assignment.has_value());
  CHECK_FALSE(admission.pod_set_assignments[2].topology_assignment.has_value());
}

}  // namespace
}  // namespace sluice::admission
