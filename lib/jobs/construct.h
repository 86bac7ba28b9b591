// From a job to its Workload and back.
// Source: Kueue documentation, "Workload", "WorkloadPriorityClass", "Run A Kubernetes Job".
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "jobs/pod_set_info.h"
#include "state/world.h"

namespace sluice::jobs {

struct ResolvedPriority {
  std::optional<api::PriorityClassRef> ref;
  int32_t value = 0;
  bool operator==(const ResolvedPriority&) const = default;
};

// The priority of a job: its WorkloadPriorityClass label, else the PriorityClass of the first pod
// set that names one, else the global default, else 0. NotFound when a named class is missing.
absl::StatusOr<ResolvedPriority> ResolvePriority(const state::World& world,
                                                 const std::string& class_label,
                                                 const std::vector<api::PodSet>& pod_sets);

// spec.preemptionPolicy of pods of this PriorityClass, where it is not the usual one: "Never", else
// "". Without a name the global default counts, as for the API server.
std::string PreemptionPolicyOf(const state::World& world, const std::string& priority_class);

// metadata.labels[max-exec-time-seconds] as a positive 32-bit integer.
std::optional<int32_t> MaxExecutionTime(const api::ObjectMeta& job);

// The prebuilt Workload that the job names, "" for none.
std::string PrebuiltName(const state::Settings& settings, const api::ObjectMeta& job);

// An owner reference to what controls a Workload; it blocks the deletion of its owner.
api::Json ControllerReference(const std::string& api_version, const std::string& kind,
                              const api::ObjectMeta& owner);

struct NewWorkload {
  ObjectKey key;
  api::Json body;  // the object to create
};
// The Workload of a job. `slice`: it is elastic, and this is the next of its slices, which takes
// the place of `replaced` (may be null).
struct Slice {
  const api::Workload* replaced = nullptr;
};
absl::StatusOr<NewWorkload> ConstructWorkload(const state::World& world, const api::ObjectMeta& job,
                                              std::vector<api::PodSet> pod_sets,
                                              std::optional<Slice> slice = std::nullopt);
// The name of the first Workload in the chain of slices that this one belongs to.
std::string SliceName(const api::Workload& workload);
// spec.podSets of a Workload.
api::Json PodSetsJson(const state::World& world, const std::vector<api::PodSet>& pod_sets);
// spec of that Workload, for an update in place; `active` keeps the given value.
absl::StatusOr<api::Json> WorkloadSpec(const state::World& world, const api::ObjectMeta& job,
                                       const std::vector<api::PodSet>& pod_sets,
                                       std::optional<bool> active);

// What each pod set receives when the admitted Workload starts. NotFound when a flavor is missing
// (try again later); FailedPrecondition when the parts contradict each other (never).
absl::StatusOr<std::vector<PodSetInfo>> InfosOf(const state::World& world,
                                                const api::Workload& workload);

// Whether the Workload is the one of this job as the job is now.
bool Matches(const state::World& world, const api::Workload& workload, const api::ObjectMeta& job,
             const std::vector<api::PodSet>& pod_sets, bool suspended);

}  // namespace sluice::jobs
