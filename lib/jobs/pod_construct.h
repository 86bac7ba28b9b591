// Workloads of plain pods and of pod groups.
// Source: Kueue documentation, "Run Plain Pods", "Workload".
#pragma once

#include <absl/status/statusor.h>

#include "jobs/construct.h"
#include "jobs/pod_group.h"

namespace sluice::jobs {

// The Workload of a single pod: named after it, owned by it.
absl::StatusOr<NewWorkload> ConstructPodWorkload(const state::World& world,
                                                 const state::ManagedPod& pod);

// The Workload of a group: named like the group, owned by each of its pods. `kept` is not empty.
absl::StatusOr<NewWorkload> ConstructGroupWorkload(const state::World& world, const Pods& kept);

// One owner reference for each pod that is not among the Workload's owners yet.
api::Json::Array MissingOwners(const api::Workload& workload, const Pods& kept);

}  // namespace sluice::jobs
