#include "webhook/pod.h"

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"},
  "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})";
const char kQueued[] = "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'lq'}}}";

class Pods : public TestView {
 public:
  explicit Pods(const absl::btree_map<std::string, bool>& gates = {}) : TestView(gates) {
    settings.integrations.frameworks = {"batch/job", "pod"};
    AddNamespace("team", false);
  }
  // The pod as it is stored.
  api::Json Defaulted(const std::string& patch) {
    const api::Json object = With(J(kBase), patch);
    std::vector<std::string> warnings;
    Request request;
    request.operation = "CREATE";
    request.ns = "team";
    request.object = &object;
    request.warnings = &warnings;
    absl::StatusOr<PatchOps> ops = DefaultPod(request, view);
    REQUIRE(ops.ok());
    absl::StatusOr<api::Json> patched = api::ApplyJsonPatch(object, api::Json(*std::move(ops)));
    REQUIRE(patched.ok());
    return *patched;
  }
  std::vector<std::string> Create(const std::string& patch) {
    return Short(Errors(ValidatePod, With(J(kBase), patch), std::nullopt, view));
  }
  std::vector<std::string> Update(const std::string& before, const std::string& change) {
    const api::Json old_object = With(J(kBase), before);
    return Short(Errors(ValidatePod, With(old_object, change), old_object, view));
  }
};
using List = std::vector<std::string>;

TEST_CASE("A pod with a queue waits: label, finalizer, gates and role") {
  Pods pods;
  const api::Json pod = pods.Defaulted(kQueued);
  CHECK(pod.GetString("metadata", "labels", "kueue.x-k8s.io/managed") == "true");
  CHECK(pod.Find("metadata", "finalizers")->Text() == R"(["kueue.x-k8s.io/managed"])");
  CHECK(pod.Find("spec", "schedulingGates")->Text() ==
        R"([{"name":"kueue.x-k8s.io/admission"},{"name":"kueue.x-k8s.io/topology"}])");
  CHECK(pod.GetString("metadata", "annotations", "kueue.x-k8s.io/role-hash") == "dc85db45");
}

TEST_CASE("Without topology there is no gate for it") {
  absl::btree_map<std::string, bool> gates = {{"TopologyAwareScheduling", false}};
  for (const state::GateInfo& gate : state::AllFeatureGates()) {
    const bool needs = gate.depends_on.find("TopologyAwareScheduling") != std::string_view::npos;
    if (needs) gates[std::string(gate.name)] = false;
  }
  Pods pods(gates);
  CHECK(pods.Defaulted(kQueued).Find("spec", "schedulingGates")->Text() ==
        R"([{"name":"kueue.x-k8s.io/admission"}])");
}

TEST_CASE("What is there already is not added again") {
  Pods pods;
  const api::Json pod = pods.Defaulted(
      "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'lq', 'kueue.x-k8s.io/managed': 'x'},"
      " 'annotations': {'kueue.x-k8s.io/role-hash': 'mine'}, 'finalizers': ['other']},"
      " 'spec': {'schedulingGates': [{'name': 'kueue.x-k8s.io/topology'}, {'name': 'x'}]}}");
  CHECK(pod.GetString("metadata", "labels", "kueue.x-k8s.io/managed") == "true");
  CHECK(pod.GetString("metadata", "annotations", "kueue.x-k8s.io/role-hash") == "mine");
  CHECK(pod.Find("metadata", "finalizers")->Text() == R"(["other","kueue.x-k8s.io/managed"])");
  CHECK(pod.Find("spec", "schedulingGates")->Text() ==
        R"([{"name":"kueue.x-k8s.io/topology"},{"name":"x"},{"name":"kueue.x-k8s.io/admission"}])");
}

TEST_CASE("Pods that nobody asked to be managed stay as they are") {
  Pods pods;
  CHECK(pods.Defaulted("{}") == J(kBase));
  pods.settings.manage_jobs_without_queue_name = true;
  CHECK(pods.Defaulted("{}").GetString("metadata", "labels", "kueue.x-k8s.io/managed") == "true");
  pods.settings.managed_jobs_namespace_selector.match_labels["team"] = "x";
  CHECK(pods.Defaulted(kQueued) == With(J(kBase), kQueued));
  Pods off;
  off.settings.integrations.frameworks = {"batch/job"};
  CHECK(off.Defaulted(kQueued) == With(J(kBase), kQueued));
}

TEST_CASE("The default queue and the default class are given to pods") {
  Pods pods;
  pods.AddNamespace("team", true);
  pods.view.has_default_priority_class = true;
  const api::Json pod = pods.Defaulted("{}");
  CHECK(pod.GetString("metadata", "labels", "kueue.x-k8s.io/queue-name") == "default");
  CHECK(pod.GetString("metadata", "labels", "kueue.x-k8s.io/priority-class") == "default");
  CHECK(pod.GetString("metadata", "labels", "kueue.x-k8s.io/managed") == "true");
}

TEST_CASE("A parent that holds its pods itself gets the gates alone") {
  Pods pods;
  const api::Json pod = pods.Defaulted(
      "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-suspending-parent': 'deployment'}}}");
  CHECK_FALSE(pod.Find("metadata")->Has("finalizers"));
  CHECK_FALSE(pod.Find("metadata")->Has("labels"));
  CHECK(pod.Find("spec", "schedulingGates")->AsArray().size() == 2);
  CHECK(pod.GetString("metadata", "annotations", "kueue.x-k8s.io/role-hash") == "dc85db45");
}

TEST_CASE("The rank is copied from the label that is named") {
  Pods pods;
  const std::string named =
      "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'lq', 'rank': '3'}, 'annotations': "
      "{'kueue.x-k8s.io/pod-group-pod-index-label': 'rank'}}}";
  CHECK(pods.Defaulted(named).GetString("metadata", "labels",
                                        "kueue.x-k8s.io/pod-group-pod-index") == "3");
}

TEST_CASE("What a pod group must say") {
  const std::string label = "metadata.labels[kueue.x-k8s.io/pod-group-name]";
  const std::string annotation = "metadata.annotations[kueue.x-k8s.io/pod-group-name]";
  const std::string total = "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]";
  const std::string in_group = "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': '";
  const std::string of = "'}, 'annotations': {'kueue.x-k8s.io/pod-group-total-count': '";
  struct Row {
    const char* name;
    std::string patch;
    List errors;
  };
  const Row rows[] = {
      {"nothing", "{}", {}},
      {"a group", in_group + "g" + of + "2'}}}", {}},
      {"a total without a group",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-group-total-count': '2'}}}",
       {label + ": Required value"}},
      {"a group without a total", in_group + "g'}}}", {total + ": Required value"}},
      {"zero", in_group + "g" + of + "0'}}}", {total + ": Invalid value"}},
      {"no number", in_group + "g" + of + "two'}}}", {total + ": Invalid value"}},
      {"a bad name", in_group + "G" + of + "2'}}}", {label + ": Invalid value"}},
      {"a bad name in the annotation",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-group-name': 'G', "
       "'kueue.x-k8s.io/pod-group-total-count': '2'}}}",
       {annotation + ": Invalid value"}},
      {"another prebuilt Workload",
       in_group + "g" + of + "2', 'kueue.x-k8s.io/prebuilt-workload-name': 'w'}}}",
       {"metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value"}},
      {"the label",
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': 'yes'}}}",
       {"metadata.labels[kueue.x-k8s.io/managed]: Forbidden"}},
      {"the label of an elastic Job's pod, without a Job",
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': 'elastic'}}}",
       {"metadata.labels[kueue.x-k8s.io/managed]: Forbidden"}},
      {"the label of an elastic Job's pod",
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': 'elastic'}, 'ownerReferences': "
       "[{'apiVersion': 'batch/v1', 'kind': 'Job', 'name': 'j', 'uid': 'u', 'controller': true}]}}",
       {}},
      {"the label of a pod whose Job tells of its checkpoints",
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': 'checkpoint'}, 'ownerReferences': "
       "[{'apiVersion': 'batch/v1', 'kind': 'Job', 'name': 'j', 'uid': 'u', 'controller': true}]}}",
       {}},
      {"a queue",
       "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'A'}}}",
       {"metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value"}},
      {"elastic",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'true'}}}",
       {"metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden"}},
      {"two topologies",
       "{'metadata': {'annotations': {'kueue.x-k8s.io/podset-required-topology': 'a', "
       "'kueue.x-k8s.io/podset-preferred-topology': 'b'}}}",
       {"metadata.annotations: Invalid value"}}};
  Pods pods;
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(pods.Create(row.patch) == row.errors);
  }
}

TEST_CASE("What may not change about a pod") {
  const std::string group =
      "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': 'g', 'kueue.x-k8s.io/queue-name': "
      "'lq'}, 'annotations': {'kueue.x-k8s.io/pod-group-total-count': '2', "
      "'kueue.x-k8s.io/retriable-in-group': 'false'}}, 'spec': {'schedulingGates': [{'name': "
      "'kueue.x-k8s.io/admission'}]}}";
  const std::string running =
      "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'lq', 'kueue.x-k8s.io/managed': "
      "'true'}, 'finalizers': ['kueue.x-k8s.io/managed']}, 'status': {'phase': 'Running'}}";
  struct Row {
    const char* name;
    std::string before;
    std::string change;
    List errors;
  };
  const Row rows[] = {
      {"the group",
       group,
       "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': 'h'}}}",
       {"metadata.labels[kueue.x-k8s.io/pod-group-name]: Invalid value"}},
      {"the group moves into the annotation",
       group,
       "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': null}, 'annotations': "
       "{'kueue.x-k8s.io/pod-group-name': 'g'}}}",
       {}},
      {"retriable again",
       group,
       "{'metadata': {'annotations': {'kueue.x-k8s.io/retriable-in-group': 'true'}}}",
       {"metadata.annotations[kueue.x-k8s.io/retriable-in-group]: Forbidden"}},
      {"retriable removed",
       group,
       "{'metadata': {'annotations': {'kueue.x-k8s.io/retriable-in-group': null}}}",
       {"metadata.annotations[kueue.x-k8s.io/retriable-in-group]: Forbidden"}},
      {"the queue of a waiting pod",
       group,
       "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'x'}}}",
       {}},
      {"the queue of a running pod",
       running,
       "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'x'}}}",
       {"metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value"}},
      {"the queue of a pod that has ended",
       running,
       "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'x'}}, 'status': {'phase': "
       "'Succeeded'}}",
       {}},
      {"the label of a managed pod",
       running,
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': null}}}",
       {"metadata.labels[kueue.x-k8s.io/managed]: Forbidden"}},
      {"the label together with the finalizer",
       running,
       "{'metadata': {'labels': {'kueue.x-k8s.io/managed': null}, 'finalizers': null}}",
       {}},
      {"anything of a pod that goes",
       group,
       "{'metadata': {'deletionTimestamp': '2026-01-01T00:00:00Z', 'labels': "
       "{'kueue.x-k8s.io/pod-group-name': 'h'}}}",
       {}}};
  Pods pods;
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(pods.Update(row.before, row.change) == row.errors);
  }
}

TEST_CASE("A managed pod whose owner is managed is worth a warning") {
  Pods pods;
  const api::Json pod = With(
      J(kBase),
      "{'metadata': {'labels': {'kueue.x-k8s.io/managed': 'true'}, 'ownerReferences': [{"
      "'apiVersion': 'batch/v1', 'kind': 'Job', 'name': 'j', 'uid': 'u', 'controller': true}]}}");
  std::vector<std::string> warnings;
  CHECK(Errors(ValidatePod, pod, std::nullopt, pods.view, &warnings).empty());
  CHECK(warnings.size() == 1);
}

}  // namespace
}  // namespace sluice::webhook
