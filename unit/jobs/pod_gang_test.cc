#include "jobs/pod_gang.h"

#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::jobs {
namespace {

using state::ManagedPod;

ManagedPod Member(const std::string& name, const std::string& pod_group, int32_t priority = 0) {
  ManagedPod pod;
  pod.metadata.name = name;
  pod.metadata.ns = "ns";
  pod.phase = "Pending";
  pod.pod_template.spec->scheduling_group = pod_group;
  pod.pod_template.spec->priority = priority;
  return pod;
}

Pods Group(const std::vector<ManagedPod>& pods) {
  Pods list;
  for (const ManagedPod& pod : pods) list.push_back(std::make_shared<const ManagedPod>(pod));
  return list;
}

TEST_CASE("All pods of a group name one PodGroup, and those of another group another") {
  CHECK(PodGroupOfPods("ns", "g", "") == PodGroupOfPods("ns", "g", ""));
  CHECK(PodGroupOfPods("ns", "g", "") != PodGroupOfPods("ns", "h", ""));
  CHECK(PodGroupOfPods("ns", "g", "") != PodGroupOfPods("other", "g", ""));
  CHECK(PodGroupOfPods("ns", "g", "").starts_with("g-"));
  CHECK(PodGroupOfPods("ns", "g", "high") == PodGroupOfPods("ns", "g", "high"));
  CHECK(PodGroupOfPods("ns", "g", "high") != PodGroupOfPods("ns", "g", ""));
  CHECK(PodGroupOfPods("ns", std::string(250, 'x'), "").size() <= 253);
}

TEST_CASE("Whose gang a pod is in is read from the pod") {
  ManagedPod pod = Member("p", "");
  CHECK(PodGangOf(pod).form == GangForm::kNone);
  pod.metadata.annotations[api::kGangMode] = kModePodGroup;
  CHECK(PodGangOf(pod).form == GangForm::kFallback);
  CHECK(PodGangOf(pod).lost == "spec.schedulingGroup");
  pod.metadata.annotations[api::kGangMode] = kModeFallback;
  CHECK(PodGangOf(pod).form == GangForm::kFallback);
  CHECK(PodGangOf(pod).lost.empty());
  pod = Member("p", "g");
  CHECK(PodGangOf(pod).form == GangForm::kForeign);
  CHECK_FALSE(PodGangOf(pod).ours);
  CHECK(PodGangOf(pod).pod_group == ObjectKey{"ns", "g"});
  pod.metadata.annotations[api::kGangMode] = kModePodGroup;
  CHECK(PodGangOf(pod).form == GangForm::kOwn);
  CHECK(PodGangOf(pod).ours);
}

TEST_CASE("Pods that ended do not count for kube-scheduler") {
  ManagedPod pod = Member("p", "g");
  CHECK(IsMember(pod, "g"));
  CHECK_FALSE(IsMember(pod, "h"));
  pod.phase = "Running";
  CHECK(IsMember(pod, "g"));
  for (const char* phase : {"Succeeded", "Failed"}) {
    pod.phase = phase;
    CHECK_FALSE(IsMember(pod, "g"));
  }
}

TEST_CASE("What is left to run is what the Workload has without what ended well") {
  api::Workload workload;
  workload.spec.pod_sets.resize(2);
  workload.spec.pod_sets[0].count = 1;
  workload.spec.pod_sets[1].count = 3;
  std::vector<ManagedPod> pods = {Member("a", "g"), Member("b", "g"), Member("c", "g")};
  CHECK(GroupPodsToRun(workload, Group(pods)) == 4);
  pods[0].phase = "Succeeded";
  pods[1].phase = "Failed";  // to be replaced
  CHECK(GroupPodsToRun(workload, Group(pods)) == 3);
}

TEST_CASE("Pods that differ where kube-scheduler wants them alike are told apart") {
  api::PodGroup group;
  group.metadata.name = "g";
  std::vector<ManagedPod> pods = {Member("a", "g"), Member("b", "g")};
  CHECK(Disagreement(Group(pods), nullptr).empty());
  CHECK(Disagreement(Group(pods), &group).empty());

  SECTION("in different PodGroups") {
    pods[1].pod_template.spec->scheduling_group = "h";
    CHECK(Disagreement(Group(pods), &group) == "pods a and b are in different PodGroups: g and h");
    pods[1].pod_template.spec->scheduling_group = "";
    CHECK(Disagreement(Group(pods), &group) ==
          "pods a and b are in different PodGroups: g and none");
  }
  SECTION("of different priorities") {
    pods[1].pod_template.spec->priority = 7;
    CHECK(Disagreement(Group(pods), nullptr) ==
          "pod b has priority 7 and pod a has 0: kube-scheduler places no gang whose priorities "
          "differ");
  }
  SECTION("of another priority than the PodGroup") {
    group.priority = 7;
    CHECK(Disagreement(Group(pods), &group) ==
          "pod a has priority 0 and PodGroup g has 7: kube-scheduler places no gang whose "
          "priorities differ");
  }
  SECTION("what has ended is not asked") {
    pods[1].pod_template.spec->scheduling_group = "h";
    pods[1].phase = "Succeeded";
    CHECK(Disagreement(Group(pods), &group).empty());
    pods[1].phase = "Failed";
    CHECK(Disagreement(Group(pods), &group).empty());
  }
  SECTION("without any PodGroup priorities may differ") {
    for (ManagedPod& pod : pods) pod.pod_template.spec->scheduling_group = "";
    pods[1].pod_template.spec->priority = 7;
    CHECK(Disagreement(Group(pods), nullptr).empty());
  }
}

}  // namespace
}  // namespace sluice::jobs
