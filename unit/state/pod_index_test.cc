#include "state/pod_index.h"

#include "unit/catch.h"

namespace sluice::state {
namespace {

using Keys = absl::btree_set<ObjectKey>;
using Type = ObjectEvent::Type;

api::Json PodJson(const std::string& name, const std::string& version, const std::string& labels) {
  const absl::StatusOr<api::Json> json = api::ParseJson(
      R"({"metadata":{"namespace":"ns","name":")" + name + R"(","resourceVersion":")" + version +
      R"(","labels":{)" + labels +
      R"(}},"spec":{"containers":[{"name":"c","image":"i"}],"priority":7},"status":{"phase":"Running"}})");
  REQUIRE(json.ok());
  return *json;
}
const char kManaged[] = R"("kueue.x-k8s.io/managed":"true")";
const char kOfGroup[] = R"("kueue.x-k8s.io/managed":"true","kueue.x-k8s.io/pod-group-name":"g")";

class Fixture {
 public:
  Fixture() : index(settings) {}
  Keys Apply(Type type, const api::Json& object) {
    Keys touched;
    const auto error = index.Apply({type, api::Kind::kPod, object}, templates, touched);
    CHECK_FALSE(error.has_value());
    return touched;
  }
  Settings settings;
  api::TemplatePool templates;
  PodIndex index;
};

TEST_CASE_METHOD(Fixture, "Only managed pods are kept, with their whole spec") {
  CHECK(Apply(Type::kUpsert, PodJson("free", "1", R"("a":"b")")).empty());
  CHECK(index.Find({"ns", "free"}) == nullptr);
  CHECK(Apply(Type::kUpsert, PodJson("a", "2", kManaged)) == Keys{{"ns", "a"}});
  const ManagedPodPtr pod = index.Find({"ns", "a"});
  REQUIRE(pod != nullptr);
  CHECK(pod->phase == "Running");
  CHECK(pod->spec().priority == 7);
  CHECK(pod->pod_template.raw->find("\"image\":\"i\"") != std::string::npos);
  CHECK(pod->pod_template.raw->find("labels") == std::string::npos);
  // The label goes, and the pod with it.
  CHECK(Apply(Type::kUpsert, PodJson("a", "3", R"("a":"b")")) == Keys{{"ns", "a"}});
  CHECK(index.Find({"ns", "a"}) == nullptr);
}

TEST_CASE_METHOD(Fixture,
                 "Pods of a group are found together, and their work is that of the group") {
  const ObjectKey group = GroupKey("ns", "g");
  CHECK(GroupOfKey(group) == "g");
  CHECK_FALSE(GroupOfKey({"ns", "g"}).has_value());
  CHECK(Apply(Type::kUpsert, PodJson("b", "1", kOfGroup)) == Keys{group});
  CHECK(Apply(Type::kUpsert, PodJson("a", "2", kOfGroup)) == Keys{group});
  REQUIRE(index.Group("ns", "g").size() == 2);
  CHECK(index.Group("ns", "g").front()->metadata.name == "a");
  // A pod that changes its group concerns both.
  CHECK(Apply(Type::kUpsert, PodJson("a", "3", kManaged)) == Keys{group, {"ns", "a"}});
  CHECK(index.Group("ns", "g").size() == 1);
  CHECK(Apply(Type::kDelete, PodJson("b", "4", kOfGroup)) == Keys{group});
  CHECK_FALSE(index.HasGroup("ns", "g"));
}

TEST_CASE_METHOD(Fixture, "Old news changes nothing") {
  Apply(Type::kUpsert, PodJson("a", "5", kOfGroup));
  CHECK(Apply(Type::kUpsert, PodJson("a", "4", kManaged)).empty());
  CHECK(Apply(Type::kDelete, PodJson("a", "4", kManaged)).empty());
  CHECK(index.HasGroup("ns", "g"));
}

TEST_CASE_METHOD(Fixture, "What a new list does not bring is gone") {
  Apply(Type::kUpsert, PodJson("a", "1", kManaged));
  Apply(Type::kUpsert, PodJson("b", "2", kOfGroup));
  Apply(Type::kListBegin, {});
  Apply(Type::kUpsert, PodJson("a", "3", kManaged));
  CHECK(Apply(Type::kListEnd, {}) == Keys{GroupKey("ns", "g")});
  CHECK(index.Find({"ns", "a"}) != nullptr);
  CHECK(index.all().size() == 1);
}

// "a" went before the list was taken, "c" was written after it.
TEST_CASE_METHOD(Fixture, "The answer to a write while a list runs shows nothing that is older") {
  Apply(Type::kUpsert, PodJson("a", "1", kManaged));
  Apply(Type::kUpsert, PodJson("b", "2", kManaged));
  const api::Json list =
      api::Json::MakeObject({{"metadata", api::Json::MakeObject({{"resourceVersion", "10"}})}});
  const auto answer = [this](const char* name, const char* version) {
    Keys touched;
    index.Apply({Type::kUpsert, api::Kind::kPod, PodJson(name, version, kManaged), true}, templates,
                touched);
  };
  answer("d", "12");  // of a write that was answered before the first page came
  Apply(Type::kListBegin, {});
  answer("a", "9");
  Apply(Type::kUpsert, PodJson("b", "2", kManaged));
  answer("c", "11");
  CHECK(Apply(Type::kListEnd, list) == Keys{{"ns", "a"}});
  CHECK(index.all().size() == 3);
}

TEST_CASE_METHOD(Fixture,
                 "A pod that cannot be read stays as it was, and is known to be unreadable") {
  Apply(Type::kUpsert, PodJson("a", "1", kManaged));
  api::Json broken = PodJson("a", "2", kManaged);
  broken["spec"].Set("containers", "none");
  Keys touched;
  CHECK(index.Apply({Type::kUpsert, api::Kind::kPod, broken}, templates, touched).has_value());
  CHECK(index.Unreadable({"ns", "a"}));
  CHECK(index.Find({"ns", "a"}) != nullptr);
  Apply(Type::kUpsert, PodJson("a", "3", kManaged));
  CHECK_FALSE(index.Unreadable({"ns", "a"}));
}

TEST_CASE("The annotation names the group before the label does, where that is on") {
  api::ObjectMeta metadata;
  metadata.labels["kueue.x-k8s.io/pod-group-name"] = "label";
  metadata.annotations["kueue.x-k8s.io/pod-group-name"] = "annotation";
  CHECK(PodGroupNameOf(metadata, true) == "annotation");
  CHECK(PodGroupNameOf(metadata, false) == "label");
  metadata.annotations.clear();
  CHECK(PodGroupNameOf(metadata, true) == "label");
}

}  // namespace
}  // namespace sluice::state
