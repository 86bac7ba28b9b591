// Groups of plain pods as gangs of kube-scheduler: which form the gang has, and whether its pods
// agree as far as kube-scheduler demands it.
//
// A new pod of a group that is to be a gang names a PodGroup, whose name follows from that of the
// group, so that all pods of the group name the same without knowing of each other. We make that
// PodGroup before the first pod is released: as long as one member has a scheduling gate,
// kube-scheduler places none of them, so the last gate that goes is what starts the gang.
//
// Contract: pure. Source: KEP-4671 "Gang Scheduling"; Kubernetes documentation, "Workload-aware
// scheduling"; Kueue documentation, "Run a Group of Pods".
#pragma once

#include <optional>
#include <string>

#include "api/kueue_types.h"
#include "jobs/gang.h"
#include "jobs/pod_group.h"

namespace sluice::jobs {

// The name of the PodGroup of the pods of a group. Another priority class means another PodGroup: a
// PodGroup keeps its priority, and one that is deleted stays as long as pods name it, so a group
// that is made again with another class would wait for the end of what it keeps alive itself.
std::string PodGroupOfPods(const std::string& ns, const std::string& group,
                           const std::string& priority_class);

// The gang that a pod is in.
Gang PodGangOf(const state::ManagedPod& pod);
// Whether the pod is in that PodGroup, and kube-scheduler counts it.
bool IsMember(const state::ManagedPod& pod, const std::string& pod_group);

// Pods that are still to run, at a time: those that the Workload has without those that succeeded.
int32_t GroupPodsToRun(const api::Workload& workload, const Pods& kept);

// Why kube-scheduler will never place these pods as one, whatever room there is; "" when it may.
// `group` is null when there is no PodGroup yet.
std::string Disagreement(const Pods& pods, const api::PodGroup* group);

}  // namespace sluice::jobs
