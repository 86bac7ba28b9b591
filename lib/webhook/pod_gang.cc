// New pods of a group become members of a gang of kube-scheduler.
// Source: KEP-4671 "Gang Scheduling" (pod.spec.schedulingGroup).
#include <fmt/format.h>

#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod.h"
#include "jobs/pod_gang.h"
#include "webhook/pod.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

using state::ManagedPod;

std::string GroupOf(const View& view, const ManagedPod& pod) {
  return state::PodGroupNameOf(pod.metadata, view.GateOn("WorkloadIdentifierAnnotations"));
}

// Why pods like this one cannot be a gang; "" when they can.
std::string Obstacle(const View& view, const ManagedPod& pod) {
  if (GroupOf(view, pod).empty()) return "a pod without a pod group is no gang";
  if (pod.metadata.annotations.contains(api::kPodSuspendingParent)) {
    return "the owner of the pod decides about it";
  }
  if (jobs::IsServing(pod)) return "pods of a serving group come and go one by one";
  if (jobs::IsFastAdmission(pod)) {
    return "with fast admission pods start before the others are there";
  }
  return "";
}

// One pod is no gang, unless the user insists.
bool Wanted(const View& view, const ManagedPod& pod) {
  const std::string wish = pod.metadata.Annotation(api::kNativeGang);
  if (!wish.empty()) return wish == "true";
  return view.GateOn("NativeGangs") && jobs::TotalCount(pod).value_or(1) > 1;
}

}  // namespace

PodGangChoice ChoosePodGang(const View& view, const ManagedPod& pod, const std::string& ns) {
  const bool decided =
      !pod.metadata.Annotation(api::kGangMode).empty() || !pod.spec().scheduling_group.empty();
  if (decided || !Wanted(view, pod) || !Obstacle(view, pod).empty()) return {};
  if (!view.features.pod_groups) return {"", jobs::kModeFallback};
  return {jobs::PodGroupOfPods(ns, GroupOf(view, pod), pod.spec().priority_class_name),
          jobs::kModePodGroup};
}

void CheckPodGang(const Request& request, const View& view, const ManagedPod& pod,
                  const ManagedPod* old_pod, FieldErrors* errors) {
  const std::string no_shrink = "pods of a group are all needed; use Repair, Requeue or Ignore";
  if (old_pod == nullptr) {
    CheckGangAnnotations(pod.metadata, no_shrink, errors);
    if (pod.metadata.Annotation(api::kNativeGang) != "true" ||
        !pod.spec().scheduling_group.empty()) {
      return;
    }
    std::string why = Obstacle(view, pod);
    if (why.empty() && !view.features.pod_groups) {
      why = "the cluster does not serve PodGroups of scheduling.k8s.io/v1beta1";
    }
    if (!why.empty()) {
      request.warnings->push_back(fmt::format(
          "{}: kube-scheduler will place the pods one by one: {}", api::kNativeGang, why));
    }
    return;
  }
  // What slipped in while nobody checked must not keep the pod from being written to.
  const auto changed = [&](const char* key) {
    return pod.metadata.Annotation(key) != old_pod->metadata.Annotation(key);
  };
  if (changed(api::kNativeGang) || changed(api::kOnGangBroken) || changed(api::kRepairTimeout)) {
    CheckGangAnnotations(pod.metadata, no_shrink, errors);
  }
  if (changed(api::kGangMode)) {
    errors->push_back(FieldError::Invalid(Path("metadata").Child("annotations").Key(api::kGangMode),
                                          pod.metadata.Annotation(api::kGangMode), kImmutable));
  }
}

}  // namespace sluice::webhook
