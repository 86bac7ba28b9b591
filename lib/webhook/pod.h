// The rules of plain pods: what a new pod gets so that it waits, and what is refused.
// Source: Kueue documentation, "Run Plain Pods", "Run a Group of Pods".
#pragma once

#include <string>

#include "state/managed_pod.h"
#include "webhook/rules.h"

namespace sluice::webhook {

absl::StatusOr<PatchOps> DefaultPod(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidatePod(const Request& request, const View& view);

// ---- native gangs of pod groups (pod_gang.cc) ----

// What makes a new pod of a group a member of a gang of kube-scheduler; all pods of a group get the
// same. Nothing when neither the pod nor the configuration asks for it, or when it is in a PodGroup
// already.
struct PodGangChoice {
  std::string pod_group;       // for spec.schedulingGroup; "" for none
  const char* mode = nullptr;  // of the annotation sluice.dev/gang-mode; null for none
};
PodGangChoice ChoosePodGang(const View& view, const state::ManagedPod& pod, const std::string& ns);
// The annotations about gangs; of a new pod also, as a warning, why it does not become one.
void CheckPodGang(const Request& request, const View& view, const state::ManagedPod& pod,
                  const state::ManagedPod* old_pod, FieldErrors* errors);

}  // namespace sluice::webhook
