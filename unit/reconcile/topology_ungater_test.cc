// Which gated pods of an admitted workload start, and where.
#include "reconcile/topology_ungater.h"

#include <absl/strings/str_join.h>

#include "api/names.h"
#include "api/pod_names.h"
#include "queueing/topology_inputs.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

constexpr char kHost[] = "kubernetes.io/hostname";
constexpr char kIndex[] = "batch.kubernetes.io/job-completion-index";

// One workload with its pods.
struct Scene {
  api::Workload workload;
  std::vector<std::shared_ptr<state::PlacedPod>> pods;

  Scene() {
    workload.metadata.ns = "team";
    workload.metadata.name = "w";
    api::Condition admitted;
    admitted.type = api::kAdmitted;
    admitted.status = api::ConditionStatus::kTrue;
    workload.status.conditions = {admitted};
    workload.status.admission = api::Admission{"cq", {}};
  }
  void AddPodSet(const std::string& name, int32_t count, std::vector<topology::AssignedDomain> on) {
    api::PodSet pod_set;
    pod_set.name = name;
    pod_set.count = count;
    pod_set.topology_request = api::PodSetTopologyRequest{};
    pod_set.topology_request->pod_index_label = kIndex;
    workload.spec.pod_sets.push_back(pod_set);
    api::PodSetAssignment assigned;
    assigned.name = name;
    assigned.topology_assignment = queueing::EncodeAssignment({{kHost}, std::move(on)}, true);
    workload.status.admission->pod_set_assignments.push_back(assigned);
  }
  state::PlacedPod& AddPod(const std::string& name, const std::string& index,
                           const std::string& pod_set = "main") {
    auto pod = std::make_shared<state::PlacedPod>();
    pod->key = {"team", name};
    pod->chain = "w";
    pod->pod_set = pod_set;
    pod->labels = {{kIndex, index}, {api::kPodSetLabel, pod_set}};
    pod->gates = {api::kTopologyGate};
    pod->phase = "Pending";
    return *pods.emplace_back(std::move(pod));
  }
  state::PlacedPod& AddRunning(const std::string& name, const std::string& index,
                               const std::string& host) {
    state::PlacedPod& pod = AddPod(name, index);
    pod.gates.clear();
    pod.node_selector = {{kHost, host}};
    pod.node_name = host;
    pod.phase = "Running";
    return pod;
  }
  // "p0>h1 p2>h2"
  std::string Text() const {
    const auto ungated = UngatePods(workload, {pods.begin(), pods.end()});
    if (!ungated.ok()) return "error";
    std::vector<std::string> parts;
    for (const UngatedPod& pod : *ungated) {
      parts.push_back(pod.pod->key.name + ">" + pod.node_selector.at(kHost));
    }
    return absl::StrJoin(parts, " ");
  }
};

TEST_CASE("79 pods go where their rank belongs, once the workload is admitted") {
  Scene scene;
  scene.AddPodSet("main", 4, {{{"h1"}, 2}, {{"h2"}, 2}});
  for (const char* index : {"2", "0", "3", "1"}) scene.AddPod(std::string("p") + index, index);
  CHECK(scene.Text() == "p2>h2 p0>h1 p3>h2 p1>h1");
  scene.workload.status.conditions.clear();
  CHECK(scene.Text().empty());
}

TEST_CASE("81 a group: the leader by itself, workers from behind it") {
  Scene scene;
  scene.AddPodSet("leader", 1, {{{"h1"}, 1}});
  scene.AddPodSet("worker", 3, {{{"h1"}, 1}, {{"h2"}, 2}});
  for (api::PodSet& pod_set : scene.workload.spec.pod_sets) {
    pod_set.topology_request->pod_set_group_name = "g";
  }
  scene.workload.spec.pod_sets[0].topology_request->pod_index_label.reset();
  scene.AddPod("l", "0", "leader");
  scene.AddPod("w3", "3", "worker");
  scene.AddPod("w1", "1", "worker");
  scene.AddPod("w2", "2", "worker");
  CHECK(scene.Text() == "l>h1 w3>h2 w1>h1 w2>h2");
}

TEST_CASE("84 pods that ended are not there, those of other pod sets neither") {
  Scene scene;
  scene.AddPodSet("main", 2, {{{"h1"}, 2}});
  scene.AddRunning("p0", "0", "h1");
  scene.AddPod("p1", "1").phase = "Failed";
  scene.AddPod("other-set", "1", "other");
  scene.AddPod("p2", "1");
  CHECK(scene.Text() == "p2>h1");
}

TEST_CASE("85 nothing starts on a node that has failed") {
  Scene scene;
  scene.AddPodSet("main", 3, {{{"h1"}, 2}, {{"h2"}, 1}});
  scene.workload.status.unhealthy_nodes = {"h1"};
  scene.AddPod("p0", "0");
  scene.AddPod("p2", "2");
  CHECK(scene.Text() == "p2>h2");
}

TEST_CASE(
    "83 a pod that runs elsewhere than its rank belongs makes the others go where there is room") {
  Scene scene;
  scene.AddPodSet("main", 2, {{{"h1"}, 1}, {{"h2"}, 1}});
  scene.AddRunning("p0", "0", "h2");
  scene.AddPod("p1", "1");
  CHECK(scene.Text() == "p1>h1");
}

TEST_CASE("a pod that is being deleted keeps its place until it is gone") {
  Scene scene;
  scene.AddPodSet("main", 1, {{{"h1"}, 1}});
  scene.AddRunning("old", "0", "h1").deleting = true;
  scene.AddPod("new", "0");
  CHECK(scene.Text().empty());
  scene.pods.erase(scene.pods.begin());
  CHECK(scene.Text() == "new>h1");
}

TEST_CASE("the places of an elastic Job are for the pods that have its quota") {
  Scene scene;
  scene.AddPodSet("main", 2, {{{"h1"}, 1}, {{"h2"}, 1}});
  scene.workload.spec.pod_sets[0].topology_request->pod_index_label.reset();
  scene.AddRunning("job-1", "0", "h1");
  // job-4 was let go; then job-2 appeared, which comes before it in every list.
  scene.AddPod("job-2", "1").gates.push_back(api::kElasticJob);
  CHECK(scene.Text().empty());
  scene.AddPod("job-4", "2");
  CHECK(scene.Text() == "job-4>h2");
}

TEST_CASE("pods of a run before do not mix up the ranks of the pods that take their turn") {
  Scene scene;
  scene.AddPodSet("main", 11, {{{"h1"}, 8}, {{"h2"}, 3}});
  for (const char* index : {"0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"}) {
    scene.AddRunning(std::string("job-") + index + "-a", index, "h9").deleting = true;
    scene.AddPod(std::string("job-") + index + "-b", index);
  }
  CHECK(scene.Text() ==
        "job-0-b>h1 job-1-b>h1 job-10-b>h2 job-2-b>h1 job-3-b>h1 job-4-b>h1 job-5-b>h1 "
        "job-6-b>h1 job-7-b>h1 job-8-b>h2 job-9-b>h2");
}

TEST_CASE("86 pods that the places have no room for stay gated") {
  Scene scene;
  scene.AddPodSet("main", 5, {{{"h1"}, 4}});
  for (const char* index : {"0", "1", "2", "3", "4"}) scene.AddPod(std::string("p") + index, index);
  CHECK(scene.Text() == "p0>h1 p1>h1 p2>h1 p3>h1");
}

TEST_CASE("an offset that is no number is an error") {
  Scene scene;
  scene.AddPodSet("main", 1, {{{"h1"}, 1}});
  scene.AddPod("p0", "0").index_offset = "x";
  CHECK(scene.Text() == "error");
}

}  // namespace
}  // namespace sluice::reconcile
