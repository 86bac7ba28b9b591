// Where plain pods go that are about to be released, so that one write does all: gates off, and the
// node selector of their place in. Private to this room.
//
// Contract: pure. Only where nobody else could give the same places away: pods that were released
// before and still wait for a place are looked after with the placements (topology_ungater.h), and
// then these are, too. Source: Kueue's concept page "Topology Aware Scheduling".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <functional>
#include <string>

#include "api/kueue_types.h"
#include "jobs/pod_group.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

// Node selectors by the name of the pod; a pod without one keeps its topology gate. `pods`: all of
// the workload. `pod_set_of`: the name of a pod's pod set.
using PodPlaces = absl::btree_map<std::string, api::StringMap>;
PodPlaces PlacesAtRelease(const state::World& world, const api::Workload& workload,
                          const jobs::Pods& pods,
                          const std::function<std::string(const state::ManagedPod&)>& pod_set_of,
                          absl::Time now);

// Takes the admission back when its places do not hold any more and no pod has been let go; true
// when that took a write.
bool TakeBackPlaces(const state::World& world, const api::Workload& workload,
                    const jobs::Pods& pods, absl::Time now, Plan& plan);

// Puts the place into the patch that releases the pod.
void AddPlace(const api::StringMap& node_selector, api::Json& patch);

}  // namespace sluice::reconcile
