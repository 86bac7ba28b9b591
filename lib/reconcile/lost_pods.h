// Pods that nobody will report the end of. Private to this room.
//
// A pod that is deleted stays until its kubelet says that it has stopped. Where the node has died
// nobody says so, and the pod would keep the place of its replacement for ever. So in a gang, and
// in an elastic Job, a pod counts no more when its time to stop is over and its node is gone or not
// ready, or the pod is said to be not ready, as it is of every pod on a node that does not answer.
// A pod that was deleted by force has no time to stop, and is kept by its finalizers alone.
//
// Contract: pure. Source: Kubernetes documentation, "Pod Lifecycle" (termination), "Node Status".
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>

#include "jobs/pod_group.h"
#include "reconcile/plan.h"
#include "state/slice_pods.h"
#include "state/world.h"

namespace sluice::reconcile {

// These pods of one group, those of a gang that are lost as failed. The plan is to look again when
// that may have become so without a change of a pod.
jobs::Pods WithLost(const state::World& world, jobs::Pods pods, absl::Time now, Plan& plan);
bool IsLost(const state::World& world, const state::SlicePod& pod, absl::Time now, Plan& plan);

}  // namespace sluice::reconcile
