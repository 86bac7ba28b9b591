// Plain pods as jobs: what a pod is, and the patches that hold, start and stop it.
//
// A managed pod is created with the scheduling gate kueue.x-k8s.io/admission. To start it is to
// take the gate off and to add what the admission gives in one patch; to stop it is to delete it.
// What becomes of groups is in jobs/pod_group.h. Source: Kueue documentation, "Run Plain Pods";
// Kubernetes documentation, "Pod Scheduling Readiness". All functions are pure.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "jobs/job_kind.h"
#include "jobs/pod_set_info.h"
#include "state/managed_pod.h"
#include "state/settings.h"

namespace sluice::jobs {

inline constexpr char kPodKind[] = "Pod";
inline constexpr char kPodApiVersion[] = "v1";
inline constexpr char kPodEventSource[] = "pod-kueue-controller";

// Waits at the admission gate.
bool IsGated(const state::ManagedPod& pod);
bool IsSucceeded(const state::ManagedPod& pod);
bool IsFailed(const state::ManagedPod& pod);
// Has ended, one way or the other.
bool IsTerminated(const state::ManagedPod& pod);
// Released, and neither ended nor about to be deleted.
bool IsReleased(const state::ManagedPod& pod);
// Counts for its group: may still run, or has succeeded. A pod that failed, or that is deleted
// before it reached a node, does not.
bool IsRunnableOrSucceeded(const state::ManagedPod& pod);
// Occupies what its admission gave it. `fast_release`: one that is being deleted does not.
bool IsActive(const state::ManagedPod& pod, bool fast_release, absl::Time now);
bool IsPodReady(const state::ManagedPod& pod);
bool IsServing(const state::ManagedPod& pod);
bool IsFastAdmission(const state::ManagedPod& pod);
std::string RoleOf(const state::ManagedPod& pod);
// The annotation pod-group-total-count when it is an integer of at least 1.
std::optional<int32_t> TotalCount(const state::ManagedPod& pod);

// A pod set of pods like this one. The template is the spec without labels and annotations.
// Topology is asked for by the annotations of the pod; InvalidArgument when they cannot be read.
absl::StatusOr<api::PodSet> PodSetOf(const state::ManagedPod& pod, std::string name, int32_t count,
                                     const TopologyOptions& topology);

// How a single pod ended, nullopt while it has not.
std::optional<JobFinish> PodFinished(const state::ManagedPod& pod);

// The one patch that releases the pod: labels, annotations, node selector and tolerations of the
// admission in, the gates off. FailedPrecondition when pod and admission contradict each other.
absl::StatusOr<api::Json> UngatePatch(const state::ManagedPod& pod, const PodSetInfo& info);

// The condition that says why the pod is about to be deleted, as an object to apply to its status.
api::Json TerminationTargetPatch(const state::ManagedPod& pod, const std::string& reason,
                                 const std::string& message, absl::Time now);

}  // namespace sluice::jobs
