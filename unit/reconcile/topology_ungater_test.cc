// Which gated pods of an admitted workload start, and where.
#include "reconcile/topology_ungater.h"

#include <absl/strings/str_join.h>

#include <deque>

#include "api/names.h"
#include "queueing/topology_inputs.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

constexpr char kHost[] = "kubernetes.io/hostname";
constexpr char kIndex[] = "batch.kubernetes.io/job-completion-index";

// One workload with its pods.
struct Scene {
  api::Workload workload;
  std::deque<api::Pod> pods;

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
  api::Pod& AddPod(const std::string& name, const std::string& index,
                   const std::string& pod_set = "main") {
    api::Pod& pod = pods.emplace_back();
    pod.metadata.ns = "team";
    pod.metadata.name = name;
    pod.metadata.labels = {{kIndex, index}, {api::kPodSetLabel, pod_set}};
    pod.metadata.annotations = {{api::kWorkloadAnnotation, "w"}};
    pod.spec.scheduling_gates = {kTopologyGate};
    pod.phase = "Pending";
    return pod;
  }
  void AddRunning(const std::string& name, const std::string& index, const std::string& host) {
    api::Pod& pod = AddPod(name, index);
    pod.spec.scheduling_gates.clear();
    pod.spec.node_selector = {{kHost, host}};
    pod.phase = "Running";
  }
  // "p0>h1 p2>h2"
  std::string Text(const std::string& chain = "w") const {
    std::vector<PodView> views;
    for (const api::Pod& pod : pods) views.push_back({&pod.metadata, &pod.spec, pod.phase});
    const auto ungated = UngatePods(workload, chain, views);
    if (!ungated.ok()) return "error";
    std::vector<std::string> parts;
    for (const UngatedPod& pod : *ungated) {
      parts.push_back(pod.pod.name + ">" + pod.node_selector.at(kHost));
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

TEST_CASE("84 pods that ended are not there, those of others neither") {
  Scene scene;
  scene.AddPodSet("main", 2, {{{"h1"}, 2}});
  scene.AddRunning("p0", "0", "h1");
  scene.AddPod("p1", "1").phase = "Failed";
  scene.AddPod("other-set", "1", "other");
  scene.AddPod("other-workload", "1").metadata.annotations[api::kWorkloadAnnotation] = "v";
  scene.AddPod("other-namespace", "1").metadata.ns = "elsewhere";
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

TEST_CASE("pods of all slices of an elastic workload") {
  Scene scene;
  scene.AddPodSet("main", 2, {{{"h1"}, 1}, {{"h2"}, 1}});
  scene.AddPod("p0", "0").metadata.annotations = {{api::kWorkloadAnnotation, "w-2"},
                                                  {"kueue.x-k8s.io/workload-slice-name", "w-1"}};
  CHECK(scene.Text("w-1") == "p0>h1");
  CHECK(scene.Text("w-2").empty());
}

TEST_CASE("an offset that is no number is an error") {
  Scene scene;
  scene.AddPodSet("main", 1, {{{"h1"}, 1}});
  scene.AddPod("p0", "0").metadata.annotations["kueue.x-k8s.io/pod-index-offset"] = "x";
  CHECK(scene.Text() == "error");
}

}  // namespace
}  // namespace sluice::reconcile
