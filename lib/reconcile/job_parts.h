// What is done to a Job outside of its own pass, and what every pass over a Job needs. Private to
// this room. All functions are pure.
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>

#include "api/core_types.h"
#include "jobs/job_kind.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

// Owners are followed at most this far up.
inline constexpr int kMaxOwnerDepth = 10;

// The UID instead of a resource version: the Job controller writes the status all the time, and
// what must never happen is only that the patch meets another Job of the same name. `exact`: with
// both, so that it fails with Conflict when the Job is not the one that was looked at.
state::Action JobPatchAction(const api::Job& job, jobs::JobPatch patch, bool exact = false);
Note JobNote(const api::Job& job, bool warning, std::string reason, std::string message);
std::string QueueNameOf(const api::Job& job);

// The Job is gone or going: its Workloads end at once, so that their quota is free even while the
// garbage collector takes its time.
Plan FinalizeJob(const state::World& world, const ObjectKey& key, absl::Time now);
// The topmost Job above this one that is managed; nullptr when this one is at the top.
std::shared_ptr<const api::Job> ManagedAncestor(const state::World& world, const api::Job& job,
                                                bool& too_deep);
// A child runs only while its ancestor's Workload is admitted; the parent's controller starts it.
Plan ReconcileChild(const state::World& world, const api::Job& job, const api::Job& ancestor);

}  // namespace sluice::reconcile
