// Writes of a part of a Workload that every kind of job makes alike.
//
// Each fails with Conflict when the Workload has changed since it was read, so that after a crash
// or a change of leader it is planned anew from what is there. Pure. Source: Kueue documentation,
// "Workload"; Kubernetes documentation, "Server-Side Apply" (list maps).
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"
#include "jobs/construct.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

// A part of the status that has a manager of its own.
state::Action OwnPartAction(const api::Workload& workload, api::Json status, std::string manager);

// The status to apply so that the Workload says which of its pods have ended, no pod set having
// more than it has pods; nullopt when it says so already. The API server keeps the order in which
// the pod sets came to be there, so the order means nothing.
std::optional<api::Json> ReclaimableStatus(const api::Workload& workload,
                                           std::vector<api::ReclaimablePod> pods);
// The same for the condition PodsReady. The first one that is False comes with the first write
// about the admission instead.
std::optional<api::Json> PodsReadyStatus(const api::Workload& workload, bool ready, absl::Time now);

// The gate is taken off a pod of this Workload, which is admitted.
GateRemoval RemovalOf(const api::Workload& workload, const char* gate);

// Adds the write that takes our finalizer off, where it is there. True when it is. First the credit
// accounts of its queue have to write down what it held: until then the object is all that a replay
// knows of it. The plan looks again then.
bool RemoveFinalizer(Plan& plan, const state::World& world, const api::Workload& workload,
                     absl::Time now);
// A prebuilt Workload gets the job as its controller; see jobs::ControllerReference.
state::Action AdoptAction(const api::Workload& workload, api::Json controller);

// Merge patches for what follows the job while its Workload stays the same. `gates`: the annotation
// of the job, "" for none; nullopt when the Workload has the same.
std::optional<api::Json> GatedByPatch(const api::Workload& workload, const std::string& gates);
api::Json PriorityPatch(const jobs::ResolvedPriority& priority);

// Adds the write that evicts the Workload, with its event. False when it is evicted already.
bool AddEviction(Plan& plan, const state::World& world, const api::Workload& workload,
                 const std::string& reason, const std::string& message, absl::Time now,
                 std::optional<api::RequeueState> requeue_state = std::nullopt);
// The Workload as it ends when its job can never be started as it was admitted; nullopt for a
// failure that may pass.
std::optional<api::Workload> FailedToStart(const api::Workload& workload,
                                           const absl::Status& status, absl::Time now);

}  // namespace sluice::reconcile
