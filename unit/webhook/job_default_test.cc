#include "base/object_key.h"
#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team"},
  "spec": {"template": {"spec": {"containers": []}}}})";
const char kQueued[] = "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': 'lq'}}}";

// A fixed set of owners; kinds that are not in it are not watched.
class FixedOwners : public OwnerLookup {
 public:
  void Watch(const std::string& kind) { watched_.push_back(kind); }
  void Add(const std::string& kind, const std::string& name, const std::string& uid,
           const std::string& queue_name, std::optional<api::OwnerReference> controller = {}) {
    owners_.push_back({kind, name, {uid, queue_name, std::move(controller)}});
  }
  Answer Find(const std::string&, const std::string& kind, const ObjectKey& key) const override {
    for (const Entry& entry : owners_) {
      if (entry.kind == kind && entry.name == key.name) {
        return {Answer::Kind::kFound, entry.owner};
      }
    }
    const bool watched = std::find(watched_.begin(), watched_.end(), kind) != watched_.end();
    return {watched ? Answer::Kind::kMissing : Answer::Kind::kNotWatched, {}};
  }

 private:
  struct Entry {
    std::string kind;
    std::string name;
    Owner owner;
  };
  std::vector<Entry> owners_;
  std::vector<std::string> watched_ = {"Job"};
};

api::OwnerReference Ref(const std::string& kind, const std::string& name, const std::string& uid) {
  api::OwnerReference ref;
  ref.kind = kind;
  ref.name = name;
  ref.uid = uid;
  ref.controller = true;
  ref.api_version = kind == "Job"          ? "batch/v1"
                    : kind == "ReplicaSet" ? "apps/v1"
                    : kind == "JobSet"     ? "jobset.x-k8s.io/v1alpha2"
                    : kind == "CronJob"    ? "batch/v1"
                                           : "example.com/v1";
  return ref;
}

std::string OwnedBy(const std::string& kind, const std::string& name, const std::string& uid) {
  return "{'metadata': {'ownerReferences': [{'apiVersion': '" + Ref(kind, name, uid).api_version +
         "', 'kind': '" + kind + "', 'name': '" + name + "', 'uid': '" + uid +
         "', 'controller': true}]}}";
}

absl::StatusOr<PatchOps> Ops(const api::Json& object, const View& view) {
  std::vector<std::string> warnings;
  Request request;
  request.operation = "CREATE";
  request.ns = "team";
  request.object = &object;
  request.warnings = &warnings;
  return DefaultJob(request, view);
}

// The object after defaulting; applying the same webhook again changes nothing more.
api::Json Defaulted(const api::Json& object, const View& view) {
  const absl::StatusOr<PatchOps> ops = Ops(object, view);
  INFO(ops.status().message());
  REQUIRE(ops.ok());
  const absl::StatusOr<api::Json> result = api::ApplyJsonPatch(object, api::Json(*ops));
  INFO(result.status().message());
  REQUIRE(result.ok());
  const absl::StatusOr<PatchOps> again = Ops(*result, view);
  REQUIRE(again.ok());
  CHECK(again->empty());
  return *result;
}

bool Suspended(const api::Json& object) {
  const api::Json* suspend = object.Find("spec", "suspend");
  return suspend != nullptr && suspend->AsBool();
}

std::string LabelOf(const api::Json& object, const std::string& key) {
  return object.GetString("metadata", "labels", "kueue.x-k8s.io/" + key);
}

TEST_CASE("Job defaulting: suspend") {
  TestView test;
  test.AddNamespace("team", false);
  SECTION("a queue name suspends") {
    CHECK(Suspended(Defaulted(With(J(kBase), kQueued), test.view)));
  }
  SECTION("also in a namespace that is not selected") {
    test.settings.managed_jobs_namespace_selector.match_labels = {{"never", "matches"}};
    CHECK(Suspended(Defaulted(With(J(kBase), kQueued), test.view)));
  }
  SECTION("no queue name, no change") { CHECK(Defaulted(J(kBase), test.view) == J(kBase)); }
  SECTION("suspend: false is changed") {
    CHECK(Suspended(
        Defaulted(With(With(J(kBase), kQueued), "{'spec': {'suspend': false}}"), test.view)));
  }
  SECTION("suspend: true is kept") {
    const api::Json object = With(With(J(kBase), kQueued), "{'spec': {'suspend': true}}");
    CHECK(Defaulted(object, test.view) == object);
  }
  SECTION("all jobs are managed") {
    test.settings.manage_jobs_without_queue_name = true;
    CHECK(Suspended(Defaulted(J(kBase), test.view)));
    test.settings.managed_jobs_namespace_selector.match_labels = {{"never", "matches"}};
    CHECK_FALSE(Suspended(Defaulted(J(kBase), test.view)));
  }
  SECTION("all jobs are managed, in a namespace that is not known") {
    test.settings.manage_jobs_without_queue_name = true;
    test.view.namespaces = std::make_shared<NamespaceViews>();
    CHECK(Ops(J(kBase), test.view).status().code() == absl::StatusCode::kNotFound);
  }
  SECTION("a job that is being deleted") {
    CHECK_FALSE(
        Suspended(Defaulted(With(With(J(kBase), kQueued),
                                 "{'metadata': {'deletionTimestamp': '2026-01-01T00:00:00Z'}}"),
                            test.view)));
  }
  SECTION("the integration is off") {
    test.settings.integrations.frameworks = {"pod"};
    CHECK_FALSE(Suspended(Defaulted(With(J(kBase), kQueued), test.view)));
  }
}

TEST_CASE("Job defaulting: the default queue") {
  TestView test;
  test.AddNamespace("team", true);
  SECTION("is set, and the job waits in it") {
    const api::Json object = Defaulted(J(kBase), test.view);
    CHECK(LabelOf(object, "queue-name") == "default");
    CHECK(Suspended(object));
  }
  SECTION("beside other labels") {
    const api::Json object =
        Defaulted(With(J(kBase), "{'metadata': {'labels': {'a': 'b'}}}"), test.view);
    CHECK(LabelOf(object, "queue-name") == "default");
    CHECK(object.GetString("metadata", "labels", "a") == "b");
  }
  SECTION("replaces an empty name") {
    CHECK(LabelOf(Defaulted(With(J(kBase),
                                 "{'metadata': {'labels': {'kueue.x-k8s.io/queue-name': "
                                 "''}}}"),
                            test.view),
                  "queue-name") == "default");
  }
  SECTION("not over another queue") {
    CHECK(LabelOf(Defaulted(With(J(kBase), kQueued), test.view), "queue-name") == "lq");
  }
  SECTION("not in a namespace that is not selected") {
    test.settings.managed_jobs_namespace_selector.match_labels = {{"never", "matches"}};
    CHECK(LabelOf(Defaulted(J(kBase), test.view), "queue-name").empty());
  }
  SECTION("not for the child of a managed kind") {
    auto owners = std::make_shared<FixedOwners>();
    owners->Add("Job", "parent", "p", "");
    test.view.owners = owners;
    CHECK(LabelOf(Defaulted(With(J(kBase), OwnedBy("Job", "parent", "p")), test.view), "queue-name")
              .empty());
  }
  SECTION("but for the child of a kind that is not enabled") {
    CHECK(LabelOf(Defaulted(With(J(kBase), OwnedBy("JobSet", "s", "s")), test.view),
                  "queue-name") == "default");
  }
}

TEST_CASE("Job defaulting: the default priority class") {
  TestView test;
  test.AddNamespace("team", false);
  test.view.has_default_priority_class = true;
  CHECK(LabelOf(Defaulted(J(kBase), test.view), "priority-class") == "default");
  CHECK(LabelOf(Defaulted(With(J(kBase),
                               "{'metadata': {'labels': "
                               "{'kueue.x-k8s.io/priority-class': 'high'}}}"),
                          test.view),
                "priority-class") == "high");
  TestView off({{"WorkloadPriorityClassDefaulting", false}});
  off.view.has_default_priority_class = true;
  CHECK(LabelOf(Defaulted(J(kBase), off.view), "priority-class").empty());
}

TEST_CASE("Job defaulting: owners that decide in the job's place") {
  TestView test;
  test.AddNamespace("team", false);
  auto owners = std::make_shared<FixedOwners>();
  test.view.owners = owners;
  const api::Json child = With(With(J(kBase), kQueued), OwnedBy("Job", "parent", "p"));
  SECTION("a parent with a queue") {
    owners->Add("Job", "parent", "p", "lq");
    CHECK_FALSE(Suspended(Defaulted(child, test.view)));
  }
  SECTION("a parent without one") {
    owners->Add("Job", "parent", "p", "");
    CHECK(Suspended(Defaulted(child, test.view)));
  }
  SECTION("a parent without one, when all jobs are managed") {
    owners->Add("Job", "parent", "p", "");
    test.settings.manage_jobs_without_queue_name = true;
    CHECK_FALSE(Suspended(Defaulted(child, test.view)));
  }
  SECTION("a parent that is gone") {
    const absl::Status status = Ops(child, test.view).status();
    CHECK(status.code() == absl::StatusCode::kNotFound);
    CHECK(std::string(status.message()).find("Job team/parent") != std::string::npos);
  }
  SECTION("another object of the parent's name") {
    owners->Add("Job", "parent", "q", "lq");
    CHECK(Suspended(Defaulted(child, test.view)));
  }
  SECTION("an owner of an unknown kind ends the search") {
    const api::Json cron = With(With(J(kBase), kQueued), OwnedBy("CronJob", "c", "c"));
    CHECK(Suspended(Defaulted(cron, test.view)));
  }
  SECTION("an owner of a kind that is not watched ends the search") {
    const api::Json set = With(With(J(kBase), kQueued), OwnedBy("JobSet", "s", "s"));
    CHECK(Suspended(Defaulted(set, test.view)));
  }
  SECTION("a grandparent behind a kind that is not enabled") {
    owners->Add("JobSet", "s", "s", "", Ref("Job", "top", "t"));
    owners->Add("Job", "top", "t", "lq");
    const api::Json set = With(With(J(kBase), kQueued), OwnedBy("JobSet", "s", "s"));
    CHECK_FALSE(Suspended(Defaulted(set, test.view)));
  }
  SECTION("an external framework") {
    test.settings.integrations.external_frameworks = {"Thing.v1.example.com"};
    owners->Add("Thing", "t", "t", "lq");
    const api::Json thing = With(With(J(kBase), kQueued), OwnedBy("Thing", "t", "t"));
    CHECK_FALSE(Suspended(Defaulted(thing, test.view)));
  }
  SECTION("owners in a circle") {
    owners->Add("Job", "parent", "p", "", Ref("Job", "other", "o"));
    owners->Add("Job", "other", "o", "", Ref("Job", "parent", "p"));
    const absl::Status status = Ops(child, test.view).status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(std::string(status.message()).find("cyclic ownership") != std::string::npos);
  }
}

TEST_CASE("Job defaulting: a chain of ten owners is followed, of eleven not") {
  TestView test;
  test.AddNamespace("team", false);
  auto owners = std::make_shared<FixedOwners>();
  test.view.owners = owners;
  const int length = GENERATE(10, 11);
  for (int i = 1; i <= length; ++i) {
    const std::string name = "o" + std::to_string(i);
    const std::string next = "o" + std::to_string(i + 1);
    owners->Add("Job", name, name, i == 10 ? "lq" : "",
                i < length ? std::optional(Ref("Job", next, next)) : std::nullopt);
  }
  const auto ops = Ops(With(With(J(kBase), kQueued), OwnedBy("Job", "o1", "o1")), test.view);
  CHECK(ops.ok() == (length == 10));
}

}  // namespace
}  // namespace sluice::webhook
