// Groups of plain pods: how pods become pod sets, which of them count, and how they are released.
//
// The pods of a group name it and its size. Pods of one role (jobs/role_hash.h) form one pod set.
// Once the group has a Workload, that says how many pods of which role there are to be; a pod
// beyond that is excess and goes, a pod that ended badly makes room for a replacement.
//
// All functions are pure. Pods come in the order of their names, and every choice among them ends
// in the name, so two calls choose the same. Cost: n log n in the number of pods. Source: Kueue
// documentation, "Run Plain Pods", "Run a Group of Pods"; KEP 976.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/kueue_types.h"
#include "jobs/job_kind.h"
#include "jobs/pod.h"
#include "jobs/pod_set_info.h"
#include "state/managed_pod.h"

namespace sluice::jobs {

using Pods = std::vector<state::ManagedPodPtr>;

// Roles of one group.
inline constexpr size_t kMaxRoles = 18;

// The pod sets that these pods make up: a role each with its number of runnable or succeeded pods,
// by name; with fast admission one pod set of the total count that looks like the first runnable
// pod. InvalidArgument when there are too many roles, or nothing to look at.
absl::StatusOr<std::vector<api::PodSet>> GroupPodSets(const Pods& pods,
                                                      const TopologyOptions& topology);

// What stands in the way of a Workload for the group, OK when nothing does. FailedPrecondition:
// wait for a change of the pods.
absl::Status CheckComposable(const Pods& pods);

// Pods of a group without a Workload, sorted out.
struct NewGroup {
  Pods kept;      // what the Workload is made from
  Pods excess;    // too many; they go
  Pods inactive;  // ended badly or never came; they need no finalizer
};
NewGroup SortOut(const Pods& pods);

// Pods of a group with a Workload.
struct Assembly {
  Pods kept;      // these are the group
  Pods excess;    // too many of their role; they go
  Pods replaced;  // made room for another pod; they need no finalizer
  int64_t absent = 0;
};
Assembly Assemble(const Pods& pods, const api::Workload& workload, absl::Time now);

// Whether the Workload is the one for the kept pods.
bool GroupMatches(const api::Workload& workload, const Pods& kept);

// The group will not be run again when a pod of it fails for good.
bool IsUnretriable(const Pods& pods);
// Waits or has ended, at least in part.
bool GroupSuspended(const Pods& pods);
bool GroupActive(const Pods& pods, bool fast_release, absl::Time now);
std::optional<JobFinish> GroupFinished(const Pods& pods);
bool GroupReady(const Pods& pods);
std::vector<api::ReclaimablePod> GroupReclaimable(const Pods& pods);

// The release of a group: a patch for each pod that still waits, in the order of names. All are
// made before any is sent, so a contradiction in one of them (FailedPrecondition) releases none.
// The order among them does not matter: quota for all is held before the first goes out, and
// whoever finds some released and others not releases the rest.
struct Release {
  state::ManagedPodPtr pod;
  api::Json patch;
};
absl::StatusOr<std::vector<Release>> PlanRelease(const Pods& pods,
                                                 const std::vector<PodSetInfo>& infos);

}  // namespace sluice::jobs
