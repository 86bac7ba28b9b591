#include "jobs/pod_gang.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"

namespace sluice::jobs {

using state::ManagedPod;
using state::ManagedPodPtr;

std::string PodGroupOfPods(const std::string& ns, const std::string& group,
                           const std::string& priority_class) {
  std::string seed = fmt::format("{}\n{}", ns, group);
  if (!priority_class.empty()) seed += "\n" + priority_class;
  return PodGroupName(group, seed);
}

Gang PodGangOf(const ManagedPod& pod) {
  Gang gang;
  const std::string mode = pod.metadata.Annotation(api::kGangMode);
  const std::string& named = pod.spec().scheduling_group;
  if (!named.empty()) {
    gang.ours = mode == kModePodGroup;
    gang.form = gang.ours ? GangForm::kOwn : GangForm::kForeign;
    gang.pod_group = {pod.metadata.ns, named};
  } else if (!mode.empty()) {
    gang.form = GangForm::kFallback;
    gang.ours = true;
    if (mode == kModePodGroup) gang.lost = "spec.schedulingGroup";
  }
  return gang;
}

bool IsMember(const ManagedPod& pod, const std::string& pod_group) {
  return pod.spec().scheduling_group == pod_group && !IsTerminated(pod);
}

int32_t GroupPodsToRun(const api::Workload& workload, const Pods& kept) {
  int64_t count = 0;
  for (const api::PodSet& pod_set : workload.spec.pod_sets) count += pod_set.count;
  count -= std::count_if(kept.begin(), kept.end(),
                         [](const ManagedPodPtr& pod) { return IsSucceeded(*pod); });
  return static_cast<int32_t>(std::max<int64_t>(count, 0));
}

std::string Disagreement(const Pods& pods, const api::PodGroup* group) {
  const auto name = [](const ManagedPod& pod) {
    return pod.spec().scheduling_group.empty() ? std::string("none") : pod.spec().scheduling_group;
  };
  const ManagedPod* first = nullptr;
  for (const ManagedPodPtr& pod : pods) {
    if (!IsRunnableOrSucceeded(*pod) || IsSucceeded(*pod)) continue;
    if (first == nullptr) first = pod.get();
    // Before the names: those of ours differ where the classes do.
    const int32_t priority = pod->spec().priority.value_or(0);
    const int32_t wanted =
        group != nullptr ? group->priority.value_or(0) : first->spec().priority.value_or(0);
    const bool grouped =
        !pod->spec().scheduling_group.empty() && !first->spec().scheduling_group.empty();
    if (grouped && priority != wanted) {
      return fmt::format(
          "pod {} has priority {} and {} has {}: kube-scheduler places no gang whose priorities "
          "differ",
          pod->metadata.name, priority,
          group != nullptr ? "PodGroup " + group->metadata.name : "pod " + first->metadata.name,
          wanted);
    }
    if (name(*pod) != name(*first)) {
      return fmt::format("pods {} and {} are in different PodGroups: {} and {}",
                         first->metadata.name, pod->metadata.name, name(*first), name(*pod));
    }
  }
  return "";
}

}  // namespace sluice::jobs
