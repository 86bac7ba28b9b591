#include <algorithm>

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "j", "namespace": "team",
               "labels": {"kueue.x-k8s.io/queue-name": "lq"},
               "annotations": {"sluice.dev/native-gang": "true"}},
  "spec": {"parallelism": 4, "completions": 4, "suspend": true,
           "template": {"spec": {"containers": [], "restartPolicy": "Never"}}}})";

struct GangView : TestView {
  explicit GangView(state::ClusterFeatures features, bool gate = false)
      : TestView({{"NativeGangs", gate}}) {
    AddNamespace("team", false);
    AddNamespace("kube-system", false);
    view.features = features;
  }
};

api::Json Defaulted(const api::Json& object, const View& view, const std::string& uid = "u-1") {
  std::vector<std::string> warnings;
  Request request;
  request.uid = uid;
  request.operation = "CREATE";
  request.ns = object.GetString("metadata", "namespace");
  request.object = &object;
  request.warnings = &warnings;
  const absl::StatusOr<PatchOps> ops = DefaultJob(request, view);
  REQUIRE(ops.ok());
  absl::StatusOr<api::Json> result = api::ApplyJsonPatch(object, api::Json(*ops));
  REQUIRE(result.ok());
  // Called again for its own result it changes nothing.
  request.object = &*result;
  const absl::StatusOr<PatchOps> again = DefaultJob(request, view);
  REQUIRE(again.ok());
  CHECK(again->empty());
  return *result;
}

std::string Mode(const api::Json& job) {
  return job.GetString("metadata", "annotations", "sluice.dev/gang-mode");
}
std::string Group(const api::Json& job) {
  return job.GetString("spec", "template", "spec", "schedulingGroup", "podGroupName");
}

TEST_CASE("A new Job becomes a gang in the form that the cluster has") {
  SECTION("by the Job controller") {
    GangView v({true, true});
    const api::Json job = Defaulted(J(kBase), v.view);
    CHECK(Mode(job) == "JobScheduling");
    CHECK(*job.Find("spec", "scheduling") ==
          J("{'schedulingPolicy': {'gang': {}}, 'disruptionMode': {'all': {}}}"));
    CHECK(Group(job).empty());
  }
  SECTION("by a PodGroup of ours") {
    GangView v({true, false});
    const api::Json job = Defaulted(J(kBase), v.view);
    CHECK(Mode(job) == "PodGroup");
    CHECK(Group(job).rfind("j-", 0) == 0);
    CHECK(Group(job) != Group(Defaulted(J(kBase), v.view, "u-2")));
    CHECK_FALSE(job.Find("spec")->Has("scheduling"));
  }
  SECTION("not at all") {
    GangView v({});
    CHECK(Mode(Defaulted(J(kBase), v.view)) == "Fallback");
  }
}

TEST_CASE("Names that the Job controller cannot use get a PodGroup of ours") {
  GangView v({true, true});
  for (const char* name : {"a.b", "a234567890123456789012345678901234567890123456789012345678"}) {
    const api::Json job = With(J(kBase), std::string("{'metadata': {'name': '") + name + "'}}");
    CHECK(Mode(Defaulted(job, v.view)) == "PodGroup");
  }
  const std::string prefix(53, 'a');
  const api::Json generated =
      With(J(kBase), "{'metadata': {'name': null, 'generateName': '" + prefix + "'}}");
  CHECK(Mode(Defaulted(generated, v.view)) == "PodGroup");
  CHECK(Group(Defaulted(generated, v.view)).rfind(prefix, 0) == 0);
}

TEST_CASE("Pods that never preempt are in a PodGroup of ours, which can say so") {
  GangView v({true, true});
  v.view.never_preempting.classes = {"polite"};
  const auto of_class = [](const std::string& name) {
    return With(J(kBase),
                "{'spec': {'template': {'spec': {'priorityClassName': '" + name + "'}}}}");
  };
  CHECK(Mode(Defaulted(of_class("polite"), v.view)) == "PodGroup");
  CHECK(Mode(Defaulted(of_class("rude"), v.view)) == "JobScheduling");
  CHECK(Mode(Defaulted(J(kBase), v.view)) == "JobScheduling");
  v.view.never_preempting.by_default = true;
  CHECK(Mode(Defaulted(J(kBase), v.view)) == "PodGroup");
}

TEST_CASE(
    "Where the Job controller could make no PodGroup, a Job's own wish is met by one of ours") {
  GangView v({true, true});
  v.view.never_preempting.classes = {"polite"};
  const std::string no_wish = "{'metadata': {'annotations': null}, 'spec': {";
  const std::string polite = "'template': {'spec': {'priorityClassName': 'polite'}}";
  const auto with = [&](const std::string& spec) { return With(J(kBase), no_wish + spec + "}}"); };
  const std::string own = "'scheduling': {'schedulingPolicy': {'gang': {'minCount': 2}}";
  const api::Json gang = Defaulted(with(own + "}, " + polite), v.view);
  CHECK(Mode(gang) == "PodGroup");
  CHECK_FALSE(Group(gang).empty());
  CHECK(*gang.Find("spec", "scheduling") == J("{'schedulingPolicy': {'gang': {'minCount': 2}}}"));
  CHECK(Mode(Defaulted(with(polite), v.view)) == "BasicPodGroup");
  CHECK(Mode(Defaulted(with("'scheduling': {'schedulingPolicy': {'basic': {}}}, " + polite),
                       v.view)) == "BasicPodGroup");
  CHECK(Mode(Defaulted(With(with(own + "}"), "{'metadata': {'name': 'a.b'}}"), v.view)) ==
        "PodGroup");
  // What a PodGroup of ours could not say, or nobody needs, stays as it is.
  const api::Json claims = with(own + ", 'resourceClaims': [{'name': 'c'}]}, " + polite);
  CHECK(Mode(Defaulted(claims, v.view)).empty());
  CHECK(Mode(Defaulted(with(own + "}"), v.view)).empty());
  CHECK(Mode(Defaulted(with("'completions': 4"), v.view)).empty());
  std::vector<std::string> warnings;
  CHECK(Errors(ValidateJob, claims, {}, v.view, &warnings).empty());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].rfind("spec.template.spec.priorityClassName: ", 0) == 0);
  GangView alone({true, false});
  alone.view.never_preempting.classes = {"polite"};
  CHECK(Mode(Defaulted(with(polite), alone.view)).empty());
}

TEST_CASE("An elastic Job is in a PodGroup of ours, whose minimum is that of its slice") {
  GangView v({true, true});
  const api::Json job =
      With(J(kBase), "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'true'}}}");
  CHECK(Mode(Defaulted(job, v.view)) == "PodGroup");
  CHECK_FALSE(Group(Defaulted(job, v.view)).empty());
}

TEST_CASE("Which Jobs become gangs") {
  const char* no_wish = "{'metadata': {'annotations': {'sluice.dev/native-gang': null}}}";
  struct Row {
    const char* name;
    const char* patch;
    bool gate;
    bool gang;
  };
  const Row rows[] = {
      {"asked for", "{}", false, true},
      {"not asked for", no_wish, false, false},
      {"by the gate", no_wish, true, true},
      {"one pod", "{'metadata': {'annotations': null}, 'spec': {'parallelism': 1}}", true, false},
      {"against the gate", "{'metadata': {'annotations': {'sluice.dev/native-gang': 'false'}}}",
       true, false},
      {"not managed", "{'metadata': {'labels': null}}", false, false},
      {"unmanaged namespace", "{'metadata': {'namespace': 'kube-system'}}", false, false},
      {"its own policy", "{'spec': {'scheduling': {'schedulingPolicy': {'basic': {}}}}}", true,
       false},
      {"its own group",
       "{'spec': {'template': {'spec': {'schedulingGroup': {'podGroupName': 'g'}}}}}", true, false},
      {"somebody else's Job", "{'spec': {'managedBy': 'example.com/x'}}", true, false},
      {"a child",
       "{'metadata': {'ownerReferences': [{'apiVersion': 'example.com/v1', 'kind': 'Flow', 'name': "
       "'f', 'uid': 'f', 'controller': true}]}}",
       true, false},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    GangView v({true, true}, row.gate);
    const api::Json before = With(J(kBase), row.patch);
    const api::Json job = Defaulted(before, v.view);
    CHECK((Mode(job) == "JobScheduling") == row.gang);
    if (!row.gang) {
      CHECK(Mode(job).empty());
      CHECK(Group(job) == Group(before));
    }
  }
}

TEST_CASE("What is wrong with annotations about gangs") {
  struct Row {
    const char* patch;
    std::vector<std::string> errors;
  };
  const std::string at = "metadata.annotations";
  const Row rows[] = {
      {"{}", {}},
      {"{'metadata': {'annotations': {'sluice.dev/native-gang': 'yes'}}}",
       {at + "[sluice.dev/native-gang]: Unsupported value"}},
      {"{'metadata': {'annotations': {'sluice.dev/on-gang-broken': 'Repair'}}}", {}},
      {"{'metadata': {'annotations': {'sluice.dev/on-gang-broken': 'Explode'}}}",
       {at + "[sluice.dev/on-gang-broken]: Unsupported value"}},
      {"{'metadata': {'annotations': {'sluice.dev/on-gang-broken': 'Shrink'}}}",
       {at + "[sluice.dev/on-gang-broken]: Invalid value"}},
      {"{'metadata': {'annotations': {'sluice.dev/on-gang-broken': 'Shrink', "
       "'kueue.x-k8s.io/job-min-parallelism': '2'}}}",
       {}},
      {"{'metadata': {'annotations': {'sluice.dev/repair-timeout': '0s'}}}",
       {at + "[sluice.dev/repair-timeout]: Invalid value"}},
  };
  GangView v({true, true});
  for (const Row& row : rows) {
    INFO(row.patch);
    CHECK(Short(Errors(ValidateJob, With(J(kBase), row.patch), std::nullopt, v.view)) ==
          row.errors);
  }
}

TEST_CASE("How a Job was made a gang cannot change, and old mistakes stop no update") {
  GangView v({true, true});
  const api::Json old_job =
      With(J(kBase),
           "{'metadata': {'annotations': {'sluice.dev/gang-mode': 'PodGroup', "
           "'sluice.dev/repair-timeout': 'soon'}}}");
  const api::Json other =
      With(old_job, "{'metadata': {'annotations': {'sluice.dev/gang-mode': null}}}");
  CHECK(Short(Errors(ValidateJob, other, old_job, v.view)) ==
        std::vector<std::string>{"metadata.annotations[sluice.dev/gang-mode]: Invalid value"});
  CHECK(Errors(ValidateJob, With(old_job, "{'metadata': {'labels': {'a': 'b'}}}"), old_job, v.view)
            .empty());
}

TEST_CASE("A user is warned of what a Job will not get") {
  std::vector<std::string> warnings;
  SECTION("no PodGroups") {
    GangView v({});
    Errors(ValidateJob, Defaulted(J(kBase), v.view), std::nullopt, v.view, &warnings);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("does not serve PodGroups") != std::string::npos);
  }
  SECTION("an owner") {
    GangView v({true, true});
    const api::Json child =
        With(J(kBase),
             "{'metadata': {'ownerReferences': [{'apiVersion': 'example.com/v1', 'kind': 'Flow', "
             "'name': 'f', 'uid': 'f', 'controller': true}]}}");
    Errors(ValidateJob, child, std::nullopt, v.view, &warnings);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("Flow f") != std::string::npos);
  }
  SECTION("a name that the Job controller cannot use") {
    GangView v({true, true});
    const api::Json job =
        With(J(kBase),
             "{'metadata': {'name': 'a.b', 'annotations': {'sluice.dev/native-gang': 'false'}}}");
    Errors(ValidateJob, job, std::nullopt, v.view, &warnings);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("metadata.name") == 0);
  }
}

}  // namespace
}  // namespace sluice::webhook
