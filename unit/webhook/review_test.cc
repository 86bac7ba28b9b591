#include "webhook/review.h"

#include <absl/strings/escaping.h>

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const std::string kQueuePath = "/validate-kueue-x-k8s-io-v1beta2-clusterqueue";

api::Json Review(const std::string& operation, const api::Json& object,
                 const api::Json& old_object = {}) {
  api::Json review = J(
      "{'kind': 'AdmissionReview', 'apiVersion': 'admission.k8s.io/v1', 'request': {'uid': 'u-1', "
      "'namespace': 'team', 'unknown': {'x': 1}}}");
  api::Json* request = review.Find("request");
  request->Set("operation", operation);
  request->Set("object", object);
  request->Set("oldObject", old_object);
  return review;
}

api::Json Handle(const std::string& path, const api::Json& review) {
  const TestView test;
  return HandleAdmissionReview(path, review, test.view);
}

api::Json PatchOf(const api::Json& answer) {
  std::string text;
  REQUIRE(absl::Base64Unescape(answer.GetString("response", "patch"), &text));
  return J(text);
}

void CheckDenied(const api::Json& answer, int code, const std::string& reason,
                 const std::string& message_part) {
  CHECK(answer.GetString("kind") == "AdmissionReview");
  CHECK(answer.GetString("apiVersion") == "admission.k8s.io/v1");
  CHECK_FALSE(answer.Find("response", "allowed")->AsBool(true));
  CHECK(answer.Find("response", "status", "code")->AsInt() == code);
  CHECK(answer.GetString("response", "status", "reason") == reason);
  const std::string message = answer.GetString("response", "status", "message");
  INFO(message);
  CHECK(message.find(message_part) != std::string::npos);
}

TEST_CASE("an allowed review") {
  const api::Json answer = Handle(kQueuePath + "?timeout=10s", Review("CREATE", J("{'spec': {}}")));
  CHECK(answer == J("{'kind': 'AdmissionReview', 'apiVersion': 'admission.k8s.io/v1', 'response': "
                    "{'uid': 'u-1', 'allowed': true}}"));
}

TEST_CASE("a denial carries the text of the errors") {
  const api::Json one =
      Handle(kQueuePath, Review("CREATE", J("{'spec': {'fairSharing': {'weight': '-1'}}}")));
  CHECK(one.GetString("response", "uid") == "u-1");
  CheckDenied(one, 403, "Forbidden", "spec.fairSharing: Invalid value: \"-1\": ");
  const api::Json two = Handle(
      kQueuePath, Review("CREATE", J("{'spec': {'fairSharing': {'weight': '-1'}, 'resourceGroups': "
                                     "[{'coveredResources': ['@cpu'], 'flavors': []}]}}")));
  CheckDenied(two, 403, "Forbidden", "[spec.fairSharing: Invalid value: \"-1\": ");
  CheckDenied(two, 403, "Forbidden",
              ", spec.resourceGroups[0].coveredResources[0]: Invalid value: \"@cpu\": ");
}

TEST_CASE("finalizers are added once") {
  for (const std::string kind : {"clusterqueue", "resourceflavor"}) {
    const std::string path = "/mutate-kueue-x-k8s-io-v1beta2-" + kind;
    const auto answer = [&](const std::string& object) {
      return Handle(path, Review("CREATE", J(object)));
    };
    const std::string finalizer = "'kueue.x-k8s.io/resource-in-use'";
    const api::Json fresh = answer("{'metadata': {'name': 'x'}}");
    CHECK(fresh.GetString("response", "patchType") == "JSONPatch");
    CHECK(PatchOf(fresh) ==
          J("[{'op': 'add', 'path': '/metadata/finalizers', 'value': [" + finalizer + "]}]"));
    CHECK(PatchOf(answer("{'metadata': {'finalizers': ['a']}}")) ==
          J("[{'op': 'add', 'path': '/metadata/finalizers/-', 'value': " + finalizer + "}]"));
    CHECK(PatchOf(answer("{}")) ==
          J("[{'op': 'add', 'path': '/metadata', 'value': {'finalizers': [" + finalizer + "]}}]"));
    CHECK_FALSE(
        answer("{'metadata': {'finalizers': [" + finalizer + "]}}").Find("response")->Has("patch"));
  }
}

TEST_CASE("a Workload gets nothing by default") {
  const std::string path = "/mutate-kueue-x-k8s-io-v1beta2-workload";
  const api::Json review =
      Review("CREATE",
             J("{'metadata': {'name': 'w'}, 'spec': {'podSets': [{'minCount': 1}, {'name': 'b'}, "
               "{'minCount': 2}]}}"));
  CHECK_FALSE(Handle(path, review).Find("response")->Has("patch"));
  const TestView off({{"PartialAdmission", false}});
  CHECK(PatchOf(HandleAdmissionReview(path, review, off.view)) ==
        J("[{'op': 'remove', 'path': '/spec/podSets/0/minCount'}, {'op': 'remove', 'path': "
          "'/spec/podSets/2/minCount'}]"));
}

TEST_CASE("a Job that waits gets its patch") {
  const api::Json answer =
      Handle("/mutate-batch-v1-job",
             Review("CREATE", J("{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'q'}}, "
                                "'spec': {'template': {}}}")));
  CHECK(answer.Find("response", "allowed")->AsBool());
  CHECK(PatchOf(answer) == J("[{'op': 'add', 'path': '/spec/suspend', 'value': true}]"));
}

TEST_CASE("a missing owner is answered with 404") {
  class NoOwners : public OwnerLookup {
    Answer Find(const std::string&, const std::string&, const ObjectKey&) const override {
      return {Answer::Kind::kMissing, {}};
    }
  };
  TestView test;
  test.view.owners = std::make_shared<NoOwners>();
  const api::Json answer = HandleAdmissionReview(
      "/mutate-batch-v1-job",
      Review("CREATE", J("{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'q'}, "
                         "'ownerReferences': [{'apiVersion': 'batch/v1', 'kind': 'Job', 'name': "
                         "'p', 'uid': 'u', 'controller': true}]}, 'spec': {'template': {}}}")),
      test.view);
  CheckDenied(answer, 404, "NotFound", "Job team/p");
}

TEST_CASE("warnings reach the user") {
  const api::Json answer =
      Handle("/validate-batch-v1-job",
             Review("CREATE", J("{'metadata': {'annotations': {'sluice.dev/native-gang': 'true'}}, "
                                "'spec': {'parallelism': 2, 'template': {}}}")));
  CHECK(answer.Find("response", "allowed")->AsBool());
  CHECK(answer.Find("response", "warnings")->AsArray().size() == 1);
}

TEST_CASE("nothing refuses a deletion, and nothing is set on what exists") {
  const api::Json bad = J("{'spec': {'fairSharing': {'weight': '-1'}}}");
  for (const std::string_view path : AdmissionPaths()) {
    INFO(path);
    const api::Json deletion = Handle(std::string(path), Review("DELETE", {}, bad));
    CHECK(deletion.Find("response", "allowed")->AsBool());
    if (path.rfind("/mutate", 0) != 0) continue;
    const api::Json update = Handle(std::string(path), Review("UPDATE", bad, bad));
    CHECK(update.Find("response", "allowed")->AsBool());
    CHECK_FALSE(update.Find("response")->Has("patch"));
  }
}

TEST_CASE("malformed reviews") {
  struct Row {
    std::string name;
    std::string path;
    api::Json review;
    int code;
    std::string reason;
    std::string message;
  };
  const api::Json good = Review("CREATE", J("{}"));
  const Row row = GENERATE_COPY(values<Row>({
      {"unknown path", "/validate-x", good, 404, "NotFound", "/validate-x"},
      {"not an object", kQueuePath, J("[]"), 400, "BadRequest", "not an AdmissionReview"},
      {"null", kQueuePath, {}, 400, "BadRequest", "not an AdmissionReview"},
      {"another kind", kQueuePath, With(good, "{'kind': 'X'}"), 400, "BadRequest", "not an"},
      {"another version", kQueuePath, With(good, "{'apiVersion': 'admission.k8s.io/v1beta1'}"), 400,
       "BadRequest", "admission.k8s.io/v1 "},
      {"no request", kQueuePath, With(good, "{'request': null}"), 400, "BadRequest", "no request"},
      {"no operation", kQueuePath, With(good, "{'request': {'operation': null}}"), 400,
       "BadRequest", "operation"},
      {"no object", kQueuePath, With(good, "{'request': {'object': null}}"), 400, "BadRequest",
       "request.object is missing"},
      {"object of another shape", kQueuePath, With(good, "{'request': {'object': 'x'}}"), 400,
       "BadRequest", "request.object is not an object"},
      {"update without old object", kQueuePath, Review("UPDATE", J("{}")), 400, "BadRequest",
       "request.oldObject is missing"},
      {"another kind of object", kQueuePath, Review("CREATE", J("{'kind': 'Cohort'}")), 400,
       "BadRequest", "ClusterQueue"},
      {"another version of the object", kQueuePath,
       Review("CREATE", J("{'apiVersion': 'kueue.x-k8s.io/v1beta1', 'kind': 'ClusterQueue'}")), 400,
       "BadRequest", "v1beta2"},
      {"a field of the wrong type", kQueuePath,
       Review("CREATE", J("{'spec': {'resourceGroups': 'x'}}")), 400, "BadRequest",
       "spec.resourceGroups"},
      {"a quantity that is none", kQueuePath,
       Review("CREATE", J("{'spec': {'fairSharing': {'weight': '1K'}}}")), 400, "BadRequest",
       "spec.fairSharing.weight"},
      {"labels of the wrong type", "/mutate-batch-v1-job",
       Review("CREATE", J("{'metadata': {'labels': [1]}}")), 400, "BadRequest", "metadata.labels"},
  }));
  DYNAMIC_SECTION(row.name) {
    CheckDenied(Handle(row.path, row.review), row.code, row.reason, row.message);
  }
}

}  // namespace
}  // namespace sluice::webhook
