#include "jobs/pod_group.h"

#include <absl/time/time.h>

#include "api/names.h"
#include "api/pod_names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::jobs {
namespace {

using state::ManagedPod;
using state::ManagedPodPtr;

// A pod of a group: it waits, has the finalizer and the role "r".
class PodText {
 public:
  PodText(const std::string& name, int32_t total) {
    pod_.metadata.name = name;
    pod_.metadata.ns = "ns";
    pod_.metadata.uid = "uid-" + name;
    pod_.metadata.creation_timestamp = build::At(0);
    pod_.metadata.finalizers = {api::kManagedFinalizer};
    pod_.metadata.labels[api::kQueueNameLabel] = "q";
    pod_.metadata.annotations[api::kPodGroupTotalCount] = std::to_string(total);
    pod_.metadata.annotations[api::kRoleHash] = "r";
    pod_.group = "g";
    pod_.phase = "Pending";
    pod_.pod_template.spec->scheduling_gates = {api::kAdmissionGate};
  }
  PodText& Role(const std::string& role) {
    pod_.metadata.annotations[api::kRoleHash] = role;
    return *this;
  }
  PodText& Annotation(const char* key, const char* value) {
    pod_.metadata.annotations[key] = value;
    return *this;
  }
  PodText& Label(const char* key, const char* value) {
    pod_.metadata.labels[key] = value;
    return *this;
  }
  PodText& Phase(const std::string& phase) {
    pod_.phase = phase;
    pod_.pod_template.spec->scheduling_gates.clear();
    pod_.pod_template.spec->node_name = "node";
    if (phase != "Failed") return *this;
    api::Condition ready;
    ready.type = "ContainersReady";
    ready.status = api::ConditionStatus::kFalse;
    ready.reason = "PodFailed";
    ready.last_transition_time = build::At(50);
    pod_.conditions = {ready};
    return *this;
  }
  PodText& FailedAt(double second) {
    Phase("Failed");
    pod_.conditions.front().last_transition_time = build::At(second);
    return *this;
  }
  PodText& Ready() {
    api::Condition ready;
    ready.type = "Ready";
    ready.status = api::ConditionStatus::kTrue;
    pod_.conditions = {ready};
    return *this;
  }
  PodText& Created(double second) {
    pod_.metadata.creation_timestamp = build::At(second);
    return *this;
  }
  PodText& Deleted(double second) {
    pod_.metadata.deletion_timestamp = build::At(second);
    return *this;
  }
  PodText& NoFinalizer() {
    pod_.metadata.finalizers.clear();
    return *this;
  }
  operator ManagedPodPtr() const { return std::make_shared<const ManagedPod>(pod_); }

 private:
  ManagedPod pod_;
};

std::vector<std::string> Names(const Pods& pods) {
  std::vector<std::string> names;
  for (const ManagedPodPtr& pod : pods) names.push_back(pod->metadata.name);
  return names;
}
using List = std::vector<std::string>;

api::Workload WorkloadOf(const std::vector<std::pair<std::string, int32_t>>& roles) {
  api::Workload workload = build::Workload("g");
  workload.spec.pod_sets.clear();
  for (const auto& [role, count] : roles) {
    api::PodSet pod_set;
    pod_set.name = role;
    pod_set.count = count;
    workload.spec.pod_sets.push_back(pod_set);
  }
  return workload;
}

const absl::Time kNow = build::At(100);

TEST_CASE("Pods of one role are one pod set, in the order of roles") {
  const Pods pods = {PodText("driver", 4).Role("aaaa1111"), PodText("w-0", 4).Role("0bbb2222"),
                     PodText("w-1", 4).Role("0bbb2222"), PodText("w-2", 4).Role("0bbb2222")};
  const auto pod_sets = GroupPodSets(pods, {.aware = true});
  REQUIRE(pod_sets.ok());
  REQUIRE(pod_sets->size() == 2);
  CHECK(pod_sets->at(0).name == "0bbb2222");
  CHECK(pod_sets->at(0).count == 3);
  CHECK(pod_sets->at(1).name == "aaaa1111");
  CHECK(pod_sets->at(1).count == 1);
  CHECK(pod_sets->at(0).topology_request->pod_index_label == api::kPodGroupPodIndex);
  CHECK(pod_sets->at(0).pod_template.labels.empty());
}

TEST_CASE("With fast admission the first pod that can run stands for all") {
  const Pods pods = {
      PodText("a", 5).Annotation(api::kPodGroupFastAdmission, "true").Phase("Failed"),
      PodText("b", 5).Role("s"), PodText("c", 5)};
  const auto pod_sets = GroupPodSets(pods, {});
  REQUIRE(pod_sets.ok());
  REQUIRE(pod_sets->size() == 1);
  CHECK(pod_sets->at(0).name == "s");
  CHECK(pod_sets->at(0).count == 5);
}

TEST_CASE("A group has at most 18 roles") {
  Pods pods;
  for (int i = 0; i < 18; ++i) {
    const std::string name = std::string("p") + static_cast<char>('a' + i);
    pods.push_back(PodText(name, 19).Role(name));
  }
  CHECK(GroupPodSets(pods, {}).ok());
  pods.push_back(PodText("z", 19).Role("z"));
  CHECK(absl::IsInvalidArgument(GroupPodSets(pods, {}).status()));
}

TEST_CASE("What cannot become a Workload says why") {
  struct Row {
    const char* name;
    Pods pods;
    const char* text;  // "" when it can
  };
  const Row rows[] = {
      {"complete", {PodText("a", 2), PodText("b", 2)}, ""},
      {"one missing", {PodText("a", 2)}, "1 of 2"},
      {"one failed", {PodText("a", 2), PodText("b", 2).Phase("Failed")}, "1 of 2"},
      {"one succeeded", {PodText("a", 2), PodText("b", 2).Phase("Succeeded")}, ""},
      {"one deleted on no node", {PodText("a", 2), PodText("b", 2).Deleted(1)}, "1 of 2"},
      {"fast", {PodText("a", 2).Annotation(api::kPodGroupFastAdmission, "true")}, ""},
      {"two queues", {PodText("a", 2), PodText("b", 2).Label(api::kQueueNameLabel, "r")}, "queue"},
      {"two totals", {PodText("a", 2), PodText("b", 3)}, "total counts"},
      {"no total", {PodText("a", 1).Annotation(api::kPodGroupTotalCount, "x")}, "positive number"},
      {"index in range", {PodText("a", 1).Label(api::kPodGroupPodIndex, "0")}, ""},
      {"index too large", {PodText("a", 1).Label(api::kPodGroupPodIndex, "1")}, "index"},
      {"negative index", {PodText("a", 1).Label(api::kPodGroupPodIndex, "-1")}, "index"}};
  for (const Row& row : rows) {
    INFO(row.name);
    const absl::Status status = CheckComposable(row.pods);
    INFO(std::string(status.message()));
    CHECK(status.ok() == std::string(row.text).empty());
    CHECK(std::string(status.message()).find(row.text) != std::string::npos);
  }
}

TEST_CASE(
    "Too many pods: those let go already come first, then those that wait, then the youngest") {
  const Pods pods = {PodText("a", 2).Created(3).Phase("Running"), PodText("b", 2).Created(1),
                     PodText("c", 2).Created(2), PodText("d", 2).NoFinalizer().Phase("Running")};
  const NewGroup group = SortOut(pods);
  CHECK(Names(group.kept) == List{"a", "b"});
  CHECK(Names(group.excess) == List{"c", "d"});
}

TEST_CASE("A failed pod stays until another takes its place") {
  const api::Workload workload = WorkloadOf({{"r", 2}});
  const ManagedPodPtr a = PodText("a", 2).Phase("Running");
  const ManagedPodPtr b = PodText("b", 2).Phase("Failed");
  const Assembly before = Assemble({a, b}, workload, kNow);
  CHECK(before.absent == 1);
  CHECK(Names(before.kept) == List{"a", "b"});
  CHECK(before.replaced.empty());
  const Assembly after = Assemble({a, b, PodText("c", 2)}, workload, kNow);
  CHECK(after.absent == 0);
  CHECK(Names(after.kept) == List{"a", "c"});
  CHECK(Names(after.replaced) == List{"b"});
}

TEST_CASE("Of several failed pods the one that failed first is let go first") {
  const api::Workload workload = WorkloadOf({{"r", 2}});
  const Assembly assembly = Assemble({PodText("a", 2).FailedAt(20), PodText("b", 2).FailedAt(10),
                                      PodText("c", 2).Phase("Running")},
                                     workload, kNow);
  CHECK(assembly.absent == 1);
  CHECK(Names(assembly.replaced) == List{"b"});
  CHECK(Names(assembly.kept) == List{"a", "c"});
}

TEST_CASE("Roles that the Workload does not have are not looked at") {
  const Assembly assembly =
      Assemble({PodText("a", 1), PodText("b", 1).Role("s")}, WorkloadOf({{"r", 1}}), kNow);
  CHECK(Names(assembly.kept) == List{"a"});
  CHECK(assembly.excess.empty());
  CHECK(assembly.absent == 0);
}

TEST_CASE("With fast admission only a role without any pod is missing") {
  const api::Workload workload = WorkloadOf({{"r", 3}});
  const ManagedPodPtr one = PodText("a", 3).Annotation(api::kPodGroupFastAdmission, "true");
  CHECK(Assemble({one}, workload, kNow).absent == 0);
  const ManagedPodPtr failed =
      PodText("a", 3).Annotation(api::kPodGroupFastAdmission, "true").Phase("Failed");
  CHECK(Assemble({failed}, workload, kNow).absent == 1);
}

TEST_CASE("A Workload is that of the group while the roles and counts fit into it") {
  const Pods pods = {PodText("a", 3), PodText("b", 3).Role("s"), PodText("c", 3).Role("s")};
  CHECK(GroupMatches(WorkloadOf({{"r", 1}, {"s", 2}}), pods));
  CHECK(GroupMatches(WorkloadOf({{"r", 2}, {"s", 2}}), pods));
  CHECK(GroupMatches(WorkloadOf({{"q", 1}, {"r", 1}, {"s", 2}}), pods));
  CHECK_FALSE(GroupMatches(WorkloadOf({{"s", 2}, {"r", 1}}), pods));
  CHECK_FALSE(GroupMatches(WorkloadOf({{"r", 1}, {"s", 1}}), pods));
  CHECK_FALSE(GroupMatches(WorkloadOf({{"r", 1}}), pods));
  CHECK_FALSE(GroupMatches(WorkloadOf({{"r", 1}}), {}));
  CHECK(GroupMatches(WorkloadOf({{"r", 1}}), {PodText("a", 1).Phase("Failed")}));
}

TEST_CASE("When a group has ended") {
  struct Row {
    const char* name;
    Pods pods;
    const char* message;  // nullptr while it has not
  };
  const auto last = [](const char* name, const char* phase) {
    return PodText(name, 2).Annotation(api::kRetriableInGroup, "false").Phase(phase);
  };
  const Row rows[] = {
      {"all succeeded",
       {PodText("a", 2).Phase("Succeeded"), PodText("b", 2).Phase("Succeeded")},
       "Pods succeeded: 2/2."},
      {"one failed",
       {PodText("a", 2).Phase("Succeeded"), PodText("b", 2).Phase("Failed")},
       nullptr},
      {"one failed for good",
       {PodText("a", 2).Phase("Succeeded"), last("b", "Failed")},
       "Pods succeeded: 1/2."},
      {"one failed for good, one runs",
       {PodText("a", 2).Phase("Running"), last("b", "Failed")},
       nullptr},
      {"serving",
       {PodText("a", 1).Annotation(api::kPodGroupServing, "true").Phase("Succeeded")},
       nullptr}};
  for (const Row& row : rows) {
    INFO(row.name);
    const auto finish = GroupFinished(row.pods);
    CHECK(finish.has_value() == (row.message != nullptr));
    if (!finish) continue;
    CHECK(finish->success);
    CHECK(finish->message == row.message);
  }
}

TEST_CASE("A group is ready when all its pods are there and ready or have succeeded") {
  CHECK(GroupReady({PodText("a", 2).Phase("Running").Ready(), PodText("b", 2).Phase("Succeeded")}));
  CHECK_FALSE(GroupReady({PodText("a", 2).Phase("Running").Ready()}));
  CHECK_FALSE(GroupReady({PodText("a", 2).Phase("Running").Ready(), PodText("b", 2)}));
  CHECK_FALSE(GroupReady({}));
}

TEST_CASE("Pods that succeeded are given back, but not of a serving group") {
  const auto pods = GroupReclaimable({PodText("a", 3).Phase("Succeeded"), PodText("b", 3).Role("s"),
                                      PodText("c", 3).Phase("Failed")});
  REQUIRE(pods.size() == 1);
  CHECK(pods.front().name == "r");
  CHECK(pods.front().count == 1);
  CHECK(GroupReclaimable(
            {PodText("a", 1).Annotation(api::kPodGroupServing, "true").Phase("Succeeded")})
            .empty());
}

TEST_CASE("A pod counts as active until its time to stop is over") {
  const ManagedPodPtr runs = PodText("a", 1).Phase("Running");
  const ManagedPodPtr stops = PodText("a", 1).Phase("Running").Deleted(110);
  const ManagedPodPtr lost = PodText("a", 1).Phase("Running").Deleted(90);
  CHECK(IsActive(*runs, true, kNow));
  CHECK(IsActive(*stops, false, kNow));
  CHECK_FALSE(IsActive(*stops, true, kNow));
  CHECK_FALSE(IsActive(*lost, false, kNow));
}

TEST_CASE("A release is planned for all pods or for none") {
  PodSetInfo info;
  info.name = "r";
  info.node_selector["pool"] = "a";
  info.labels["kueue.x-k8s.io/podset"] = "r";
  const Pods pods = {PodText("a", 3), PodText("b", 3).Phase("Running"), PodText("c", 3)};
  const auto releases = PlanRelease(pods, {info});
  REQUIRE(releases.ok());
  REQUIRE(releases->size() == 2);
  CHECK(releases->at(0).pod->metadata.name == "a");
  CHECK(releases->at(0).patch.Text() ==
        R"({"metadata":{"labels":{"kueue.x-k8s.io/podset":"r"}},)"
        R"("spec":{"nodeSelector":{"pool":"a"},"schedulingGates":[]}})");
  CHECK(absl::IsFailedPrecondition(
      PlanRelease({PodText("a", 2), PodText("b", 2).Role("s")}, {info}).status()));
  CHECK(absl::IsFailedPrecondition(
      PlanRelease({PodText("a", 2), PodText("b", 2).Label("kueue.x-k8s.io/podset", "x")}, {info})
          .status()));
}

TEST_CASE("The gate of topology stays when the admission places the pod") {
  ManagedPod pod = *ManagedPodPtr(PodText("a", 1));
  pod.pod_template.spec->scheduling_gates = {"x", api::kAdmissionGate, api::kTopologyGate};
  PodSetInfo info;
  const auto plain = UngatePatch(pod, info);
  REQUIRE(plain.ok());
  CHECK(plain->Text() == R"({"spec":{"schedulingGates":[{"name":"x"}]}})");
  info.scheduling_gates = {api::kTopologyGate};
  const auto placed = UngatePatch(pod, info);
  REQUIRE(placed.ok());
  CHECK(placed->Text() ==
        R"({"spec":{"schedulingGates":[{"name":"x"},{"name":"kueue.x-k8s.io/topology"}]}})");
}

}  // namespace
}  // namespace sluice::jobs
