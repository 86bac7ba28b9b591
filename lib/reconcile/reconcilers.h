// The reconcilers: per kind, what should be done for one object as the World stands.
//
// Pure functions, level-based: called twice without a change in between they return the same plan,
// and once the plan's writes are in the World they return an empty one. A key without an object
// gives an empty plan (except where owned objects must be cleaned up).
// Source of the behaviour: the public Kueue documentation (concepts and API reference).
#pragma once

#include "admission/conditions.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

// Finalizer, Active condition, counts and usage. The status is patched as a whole.
Plan ReconcileClusterQueue(const state::World& world, const ObjectKey& key, absl::Time now);
Plan ReconcileLocalQueue(const state::World& world, const ObjectKey& key, absl::Time now);

// The weighted share in its status, and a warning when the chain of parents is a cycle.
Plan ReconcileCohort(const state::World& world, const ObjectKey& key);

// Finalizers: an object in use stays until nothing refers to it.
Plan ReconcileResourceFlavor(const state::World& world, const ObjectKey& key);
Plan ReconcileAdmissionCheck(const state::World& world, const ObjectKey& key);
Plan ReconcileTopology(const state::World& world, const ObjectKey& key);

// Fair-share credits. An account is made for every governed queue, settled, and deleted when no
// policy governs it; its status is the checkpoint from which another process goes on.
Plan ReconcileCreditPolicy(const state::World& world, const ObjectKey& key, absl::Time now);
Plan ReconcileCreditAccount(const state::World& world, const ObjectKey& key, absl::Time now);

// Everything about a Workload but the admission itself: conditions while it waits, checks, stop
// policies, deactivation, execution time, retention, orphans.
Plan ReconcileWorkload(const state::World& world, const ObjectKey& key, absl::Time now);

// A Workload that tries several flavors at once: its variants, and what it shows of them.
Plan ReconcileParent(const state::World& world, const api::Workload& parent, absl::Time now);

// A batch/v1 Job: its Workload, start, stop, readiness and end.
Plan ReconcileJob(const state::World& world, const ObjectKey& key, absl::Time now);

// A plain pod, or (under state::GroupKey) a group of pods: the same. Under state::PlacementKey:
// ReconcilePlacement.
Plan ReconcilePod(const state::World& world, const ObjectKey& key, absl::Time now);
// Workloads of a chain of slices that run in given places: gated pods get their nodes, failed nodes
// are noticed, and pods that can never start on theirs are ended. `chain`: namespace and name.
Plan ReconcilePlacement(const state::World& world, const ObjectKey& chain, absl::Time now);
// The pods of a Workload that belongs to plain pods are ready, or have ended, whatever its
// condition says so far. False for Workloads of anybody else.
bool PodsReadyInFact(const state::World& world, const api::Workload& workload, absl::Time now);

// The write of a Workload's status by the manager of admissions. `strict`: fails with Conflict when
// the Workload changed since `workload` was read. Adds the first PodsReady condition where
// readiness is watched, which saves a write of its own.
state::Action WorkloadStatusAction(const state::World& world, api::Workload workload,
                                   absl::Time now, bool strict);

// Reporting controllers of events.
inline constexpr char kAdmissionSource[] = "kueue-admission";
inline constexpr char kCohortSource[] = "kueue-cohort-controller";
inline constexpr char kWorkloadSource[] = "kueue-workload-controller";

// Note about a Workload.
Note WorkloadNote(const api::Workload& workload, const char* source, bool warning,
                  std::string reason, std::string message);

// How settings choose the forms of reasons.
admission::StatusOptions StatusOptionsOf(const state::Settings& settings);

}  // namespace sluice::reconcile
