// Slices: how an elastic Job changes its size while it runs.
//
// The size of a Workload that holds quota only shrinks. To grow, the Job gets another Workload (a
// slice) that replaces the one it has: until that is admitted the old one runs on, then the old one
// ends. Pods that belong to no admitted slice yet are held back by a scheduling gate.
//
// Contract: pure. What is done follows from the objects alone, so it is the same after a crash
// between any two writes. Private to this room. Source: KEP-77 (dynamically sized jobs); Kueue
// documentation, "Elastic Workloads (Workload Slices)".
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <utility>
#include <vector>

#include "api/core_types.h"
#include "api/kueue_types.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

using WorkloadPtr = std::shared_ptr<const api::Workload>;

// The annotation kueue.x-k8s.io/elastic-job is "true" and its gate is on.
bool IsElastic(const state::World& world, const api::ObjectMeta& metadata);

// The slices of a Job that have not ended, sorted out.
struct SliceChoice {
  WorkloadPtr selected;  // follows the size of the Job; nullptr: a new one is to be made
  WorkloadPtr running;   // holds quota for the pods that run; nullptr: none does
  std::vector<std::pair<WorkloadPtr, const char*>> surplus;  // must end, with the reason
};
// `live` in the order of creation (then UID).
SliceChoice SortSlices(const std::vector<WorkloadPtr>& live);

// How a slice compares to the size that the Job has now.
enum class SliceSize {
  kSame,
  kShrink,  // some pod set has more pods than the Job wants and none has fewer
  kGrow,
  kOther,  // the pod sets are not the same
};
SliceSize CompareSize(const api::Workload& slice, const std::vector<api::PodSet>& pod_sets);

struct SliceStep {
  enum class Next {
    kDone,      // the plan says what is to be done, or something is on its way
    kOrdinary,  // go on as with a Job that is not elastic
    kUse,       // `workload` is that of the Job
    kCreate,    // a new slice
    kStop,      // the Job must stop, because `workload` was evicted
  };
  Next next = Next::kDone;
  WorkloadPtr workload;
  WorkloadPtr running;
};

// The order in which slices were made.
bool SliceCreatedBefore(const WorkloadPtr& a, const WorkloadPtr& b);

// What comes next for the slices of an elastic Job with these pod sets.
SliceStep NextSliceStep(const state::World& world, const api::Job& job,
                        const std::vector<api::PodSet>& pod_sets, absl::Time now, Plan& plan);

// Takes the gate off as many pods as the admitted slice has room for, in the order of their names.
// A gang's minimum is raised first, so that what a slice adds is placed as a whole.
void UngatePods(const state::World& world, const api::Job& job, absl::Time now, Plan& plan);

// The pod sets of a new slice: those of the running one with the counts of the Job. The template of
// a Job that runs contains what its admission brought, which the new one must not inherit.
std::vector<api::PodSet> SlicePodSets(const WorkloadPtr& running,
                                      const std::vector<api::PodSet>& pod_sets);

}  // namespace sluice::reconcile
