// API objects as the topology room sees them, and its answers as API objects.
#include "queueing/topology_inputs.h"

#include "base/time.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

api::Condition True(const std::string& type) {
  api::Condition condition;
  condition.type = type;
  condition.status = api::ConditionStatus::kTrue;
  return condition;
}

TEST_CASE("a node: readiness, lifecycle and planned maintenance") {
  api::Node node;
  node.metadata.name = "n1";
  node.metadata.labels = {{"a", "b"}};
  node.taints = {{"k", "v", "NoSchedule", std::nullopt}};
  node.allocatable = {{"cpu", *Quantity::Parse("1500m")}, {"memory", *Quantity::Parse("1Gi")}};
  topology::Node seen = TopologyNode(node);
  CHECK(seen.name == "n1");
  CHECK(seen.labels == topology::Labels{{"a", "b"}});
  CHECK(seen.taints == std::vector<topology::Taint>{{"k", "v", "NoSchedule"}});
  CHECK(seen.allocatable == Requests{{"cpu", 1500}, {"memory", 1 << 30}});
  CHECK_FALSE(seen.ready);
  CHECK_FALSE(seen.leaving);
  node.conditions = {True("Ready")};
  CHECK(TopologyNode(node).ready);
  for (const char* type :
       {"DrainInProgress", "Drained", "MaintenanceInProgress", "GracefulNodeShutdownInProgress"}) {
    INFO(type);
    node.conditions = {True("Ready"), True(type)};
    CHECK(TopologyNode(node).leaving);
    node.conditions[1].status = api::ConditionStatus::kFalse;
    CHECK_FALSE(TopologyNode(node).leaving);
  }
  node.conditions = {True("MaintenancePlanned")};
  node.metadata.annotations = {{kMaintenanceStart, "2026-12-01T00:00:00Z"}};
  seen = TopologyNode(node);
  CHECK(seen.maintenance_planned);
  CHECK_FALSE(seen.leaving);
  CHECK(seen.maintenance_start == absl::ToUnixSeconds(*sluice::ParseTime("2026-12-01T00:00:00Z")));
  node.metadata.annotations = {{kMaintenanceStart, "tomorrow"}};
  CHECK_FALSE(TopologyNode(node).maintenance_start.has_value());
}

TEST_CASE("which pods count by themselves") {
  api::Pod pod;
  pod.phase = "Pending";
  CHECK_FALSE(IsForeignPod(pod));
  pod.spec.node_name = "n1";
  CHECK(IsForeignPod(pod));
  for (const char* ended : {"Succeeded", "Failed"}) {
    pod.phase = ended;
    CHECK_FALSE(IsForeignPod(pod));
  }
  pod.phase = "Running";
  for (const char* ours : {kRequiredTopology, kPreferredTopology, kUnconstrainedTopology,
                           kSliceRequiredTopology, kSliceConstraints}) {
    pod.metadata.annotations = {{ours, "x"}};
    CHECK_FALSE(IsForeignPod(pod));
  }
  pod.metadata.annotations = {{kPodSetGroupName, "g"}};
  CHECK(IsForeignPod(pod));
}

std::string Text(const api::StringMap& annotations, bool multi_layer = true) {
  const auto request = RequestOfAnnotations(annotations, multi_layer);
  if (!request.ok()) return "error: " + std::string(request.status().message());
  if (!request->has_value()) return "none";
  const api::PodSetTopologyRequest& r = **request;
  std::string text;
  if (r.required) text += "required " + *r.required + " ";
  if (r.preferred) text += "preferred " + *r.preferred + " ";
  if (r.unconstrained) text += *r.unconstrained ? "unconstrained " : "constrained ";
  if (r.pod_set_slice_required_topology) {
    text += "slice " + *r.pod_set_slice_required_topology + " " +
            std::to_string(r.pod_set_slice_size.value_or(0)) + " ";
  }
  for (const auto& one : r.pod_set_slice_required_topology_constraints) {
    text += one.topology + "x" + std::to_string(one.size) + " ";
  }
  if (r.pod_set_group_name) text += "group " + *r.pod_set_group_name + " ";
  return text;
}

TEST_CASE("requests from annotations") {
  CHECK(Text({}) == "none");
  CHECK(Text({{kRequiredTopology, "rack"}}) == "required rack ");
  CHECK(Text({{kPreferredTopology, "rack"}, {kPodSetGroupName, "g"}}) == "preferred rack group g ");
  // A group without a level is no request.
  CHECK(Text({{kPodSetGroupName, "g"}}) == "none");
  CHECK(Text({{kUnconstrainedTopology, "true"}}) == "unconstrained ");
  CHECK(Text({{kUnconstrainedTopology, "false"}}) == "constrained ");
  CHECK(Text({{kUnconstrainedTopology, "yes"}}).starts_with("error: "));
  CHECK(Text({{kRequiredTopology, "rack"}, {kPreferredTopology, "block"}}) == "required rack ");
  CHECK(Text({{kSliceRequiredTopology, "rack"}, {kSliceSize, "4"}}) == "slice rack 4 ");
  CHECK(Text({{kSliceRequiredTopology, "rack"}}) == "none");
  CHECK(Text({{kSliceSize, "4"}}) == "none");
  CHECK(Text({{kSliceRequiredTopology, "rack"}, {kSliceSize, "four"}}).starts_with("error: "));
  const std::string layers =
      R"([{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}])";
  CHECK(Text({{kSliceConstraints, layers}}) == "rackx4 hostx2 ");
  CHECK(Text({{kSliceConstraints, layers}}, false) == "none");
  for (const char* bad : {"[]", "{}", "[1]", "[{\"topology\": \"rack\"}]", "no",
                          "[{\"topology\": \"rack\", \"size\": 0}]"}) {
    INFO(bad);
    CHECK(Text({{kSliceConstraints, bad}}).starts_with("error: "));
  }
}

TEST_CASE("which pod sets ask, and for what") {
  api::PodSet pod_set;
  CHECK_FALSE(AsksForTopology(pod_set));
  pod_set.topology_request = api::PodSetTopologyRequest{};
  pod_set.topology_request->pod_index_label = "index";
  pod_set.topology_request->pod_set_group_name = "g";
  CHECK_FALSE(AsksForTopology(pod_set));
  pod_set.topology_request->unconstrained = false;
  CHECK(AsksForTopology(pod_set));
  pod_set.topology_request->unconstrained.reset();
  pod_set.topology_request->pod_set_slice_required_topology_constraints = {{"rack", 4}};
  CHECK(AsksForTopology(pod_set));
  pod_set.pod_template.annotations = {{kPlacement, "Spread"}};
  const topology::TopologyRequest request = TopologyRequestOf(pod_set, false);
  CHECK(request.spreading == topology::Spreading::kSpread);
  CHECK(request.layers == std::vector<topology::SliceLayer>{{"rack", 4}});
  CHECK(request.group == "g");
}

TEST_CASE("admission checks that are ready add to what pods accept") {
  api::Workload workload;
  api::PodSet pod_set;
  pod_set.pod_template.spec->node_selector = {{"zone", "a"}};
  api::AdmissionCheckState check;
  check.name = "provision";
  check.state = "Pending";
  check.pod_set_updates = {{"main", {}, {}, {{"pool", "new"}}, {{"t", "Exists", "", "", {}}}}};
  workload.status.admission_checks = {check};
  CHECK(NodeFilterOf(workload, pod_set)->node_selector == topology::Labels{{"zone", "a"}});
  workload.status.admission_checks[0].state = "Ready";
  const auto filter = NodeFilterOf(workload, pod_set);
  CHECK(filter->node_selector == topology::Labels{{"pool", "new"}, {"zone", "a"}});
  CHECK(filter->tolerations.size() == 1);
  workload.status.admission_checks[0].pod_set_updates[0].node_selector = {{"zone", "b"}};
  const auto conflict = NodeFilterOf(workload, pod_set);
  REQUIRE_FALSE(conflict.ok());
  CHECK(std::string(conflict.status().message()).find("pod set main") != std::string::npos);
}

TEST_CASE("usage of an admission, and assignments back and forth") {
  const topology::Assignment places = {{"kubernetes.io/hostname"}, {{{"n-1"}, 2}, {{"n-2"}, 1}}};
  const api::TopologyAssignment encoded = EncodeAssignment(places, true);
  CHECK(encoded.slices.size() == 1);
  CHECK(*DecodeAssignment(encoded) == places);
  api::Workload workload;
  CHECK(TopologyUsage(workload, {}).empty());
  api::PodSet pod_set;
  api::Container container;
  container.resources.requests = {{"cpu", *Quantity::Parse("250m")}};
  pod_set.pod_template.spec->containers = {container};
  pod_set.count = 3;
  workload.spec.pod_sets = {pod_set};
  api::PodSetAssignment assigned;
  assigned.flavors = {{"cpu", "tas"}, {"licenses", "quota-only"}, {"memory", "tas"}};
  assigned.topology_assignment = encoded;
  workload.status.admission = api::Admission{"cq", {assigned}};
  const topology::WorkloadUsage usage = TopologyUsage(workload, {});
  REQUIRE(usage.size() == 2);
  CHECK(usage[0] == topology::PodSetUsage{"quota-only", {{"cpu", 250}}, places});
  CHECK(usage[1] == topology::PodSetUsage{"tas", {{"cpu", 250}}, places});
}

}  // namespace
}  // namespace sluice::queueing
