// Jobs that are made by other Jobs: they run while the topmost managed one is admitted. Private to
// this room. Pure.
#pragma once

#include <memory>

#include "api/core_types.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

// Owners are followed at most this far up.
inline constexpr int kMaxOwnerDepth = 10;

// The topmost Job above this one that is managed; nullptr when this one is at the top.
std::shared_ptr<const api::Job> ManagedAncestor(const state::World& world, const api::Job& job,
                                                bool& too_deep);
// A child runs only while its ancestor's Workload is admitted; the parent's controller starts it.
Plan ReconcileChild(const state::World& world, const api::Job& job, const api::Job& ancestor);

}  // namespace sluice::reconcile
