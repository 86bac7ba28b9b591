#include <algorithm>

#include "unit/webhook/fixture.h"
#include "webhook/pod.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "p", "namespace": "team",
               "labels": {"kueue.x-k8s.io/queue-name": "lq",
                          "kueue.x-k8s.io/pod-group-name": "g"},
               "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2",
                               "sluice.dev/native-gang": "true"}},
  "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})";

class Pods : public TestView {
 public:
  explicit Pods(state::ClusterFeatures features, bool gate = false)
      : TestView({{"NativeGangs", gate}}) {
    settings.integrations.frameworks = {"batch/job", "pod"};
    AddNamespace("team", false);
    view.features = features;
  }
  api::Json Defaulted(const api::Json& object) {
    std::vector<std::string> warnings;
    Request request;
    request.operation = "CREATE";
    request.ns = "team";
    request.object = &object;
    request.warnings = &warnings;
    const absl::StatusOr<PatchOps> ops = DefaultPod(request, view);
    REQUIRE(ops.ok());
    absl::StatusOr<api::Json> result = api::ApplyJsonPatch(object, api::Json(*ops));
    REQUIRE(result.ok());
    // Called again for its own result it changes nothing.
    request.object = &*result;
    const absl::StatusOr<PatchOps> again = DefaultPod(request, view);
    REQUIRE(again.ok());
    CHECK(again->empty());
    return *result;
  }
  std::vector<std::string> Warnings(const api::Json& object) {
    std::vector<std::string> warnings;
    Request request;
    request.operation = "CREATE";
    request.ns = "team";
    request.object = &object;
    request.warnings = &warnings;
    REQUIRE(ValidatePod(request, view).ok());
    return warnings;
  }
  std::vector<std::string> Create(const std::string& patch) {
    return Short(Errors(ValidatePod, With(J(kBase), patch), std::nullopt, view));
  }
  std::vector<std::string> Update(const std::string& change) {
    const api::Json old_object = J(kBase);
    return Short(Errors(ValidatePod, With(old_object, change), old_object, view));
  }
};

std::string Mode(const api::Json& pod) {
  return pod.GetString("metadata", "annotations", "sluice.dev/gang-mode");
}
std::string Group(const api::Json& pod) {
  return pod.GetString("spec", "schedulingGroup", "podGroupName");
}
const char kUnasked[] = "{'metadata': {'annotations': {'sluice.dev/native-gang': null}}}";

TEST_CASE("Pods of a group that ask for it become members of one PodGroup") {
  Pods pods({true, false});
  const api::Json one = pods.Defaulted(J(kBase));
  const api::Json two = pods.Defaulted(With(J(kBase), "{'metadata': {'name': 'q'}}"));
  CHECK(Mode(one) == "PodGroup");
  CHECK(Group(one).starts_with("g-"));
  CHECK(Group(one) == Group(two));
  const api::Json other = pods.Defaulted(
      With(J(kBase), "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': 'h'}}}"));
  CHECK(Group(other) != Group(one));
  CHECK(pods.Warnings(one).empty());
}

TEST_CASE("The feature gate asks for all groups of more than one pod") {
  Pods pods({true, false}, true);
  CHECK(Mode(pods.Defaulted(With(J(kBase), kUnasked))) == "PodGroup");
  const char* refused = "{'metadata': {'annotations': {'sluice.dev/native-gang': 'false'}}}";
  CHECK(Mode(pods.Defaulted(With(J(kBase), refused))).empty());
  const char* alone =
      "{'metadata': {'annotations': {'sluice.dev/native-gang': null, "
      "'kueue.x-k8s.io/pod-group-total-count': '1'}}}";
  CHECK(Mode(pods.Defaulted(With(J(kBase), alone))).empty());
  Pods off({true, false});
  CHECK(Mode(off.Defaulted(With(J(kBase), kUnasked))).empty());
}

TEST_CASE("Pods that cannot be a gang are left as they are, with a warning") {
  Pods pods({true, false});
  const char* change = GENERATE(
      "{'metadata': {'labels': {'kueue.x-k8s.io/pod-group-name': null}, "
      "'annotations': {'kueue.x-k8s.io/pod-group-total-count': null}}}",
      "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-group-fast-admission': 'true'}}}",
      "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-group-serving': 'true'}}}",
      "{'metadata': {'annotations': {'kueue.x-k8s.io/pod-suspending-parent': 'x'}}}");
  const api::Json pod = pods.Defaulted(With(J(kBase), change));
  CHECK(Mode(pod).empty());
  CHECK(Group(pod).empty());
  const std::vector<std::string> warnings = pods.Warnings(pod);
  CHECK(std::count_if(warnings.begin(), warnings.end(), [](const std::string& text) {
          return text.starts_with("sluice.dev/native-gang: kube-scheduler will place");
        }) == 1);
}

TEST_CASE("A pod in a PodGroup of somebody else keeps it") {
  Pods pods({true, false}, true);
  const api::Json pod =
      pods.Defaulted(With(J(kBase), "{'spec': {'schedulingGroup': {'podGroupName': 'mine'}}}"));
  CHECK(Group(pod) == "mine");
  CHECK(Mode(pod).empty());
  CHECK(pods.Warnings(pod).empty());
}

TEST_CASE("Without PodGroups in the cluster a pod that asked says so") {
  Pods pods({false, false});
  const api::Json pod = pods.Defaulted(J(kBase));
  CHECK(Mode(pod) == "Fallback");
  CHECK(Group(pod).empty());
  CHECK(pods.Warnings(J(kBase)).size() == 1);
}

TEST_CASE("Annotations about gangs of pods are checked") {
  Pods pods({true, false});
  const auto with = [](const std::string& pairs) {
    return "{'metadata': {'annotations': {" + pairs + "}}}";
  };
  CHECK(pods.Create("{}").empty());
  CHECK(pods.Create(with("'sluice.dev/on-gang-broken': 'Requeue'")).empty());
  CHECK(pods.Create(with("'sluice.dev/native-gang': 'yes'")) ==
        List{"metadata.annotations[sluice.dev/native-gang]: Unsupported value"});
  CHECK(pods.Create(with("'sluice.dev/on-gang-broken': 'Shrink'")) ==
        List{"metadata.annotations[sluice.dev/on-gang-broken]: Invalid value"});
  CHECK(pods.Create(with("'sluice.dev/repair-timeout': '-1s'")) ==
        List{"metadata.annotations[sluice.dev/repair-timeout]: Invalid value"});
  CHECK(pods.Update(with("'sluice.dev/gang-mode': 'PodGroup'")) ==
        List{"metadata.annotations[sluice.dev/gang-mode]: Invalid value"});
  CHECK(pods.Update(with("'sluice.dev/repair-timeout': 'soon'")) ==
        List{"metadata.annotations[sluice.dev/repair-timeout]: Invalid value"});
}

}  // namespace
}  // namespace sluice::webhook
