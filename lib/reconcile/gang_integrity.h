// Gangs that stay whole: condition GangIntact, and what is done when pods of a gang are missing,
// whatever kind of job they belong to. Private to this room.
//
// kube-scheduler looks at a gang's minimum only when it places pods. A gang that was whole and lost
// pods is repaired (its quota is kept until the timeout, then it is evicted as a whole and comes
// back in front of its priority), requeued at once, shrunk, or left alone. A gang that is not
// complete within the timeout of its admission is evicted, too, and waits before the next try.
//
// Contract: pure; one look at one Workload that holds quota. Every function answers true when it
// planned a write. Source: KEP-4671 "Gang Scheduling" (a group's minimum holds at its first
// placement only).
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>

#include "admission/conditions.h"
#include "jobs/gang.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

struct GangState {
  int32_t live = 0;     // pods that are to run at a time from now on
  int32_t running = 0;  // of these
  int32_t needed = 0;   // as many make it whole
  // As many are enough after a loss: below `needed` only where the gang may shrink.
  int32_t least = 0;
  jobs::OnGangBroken policy = jobs::OnGangBroken::kRepair;
  absl::Duration patience = jobs::kDefaultRepairTimeout;
  Note about;  // the object that events are about; the rest is filled in
};

// It was whole at some time since the last admission.
bool WasWhole(const api::Workload& workload, absl::Time now);
// Of a gang that may run.
bool WatchGang(const state::World& world, const api::Workload& workload, const GangState& gang,
               absl::Time now, Plan& plan);
// Of one that gave its quota back: what was said about its pods is over.
bool RestGang(const api::Workload& workload, absl::Time now, Plan& plan);

// The Workload that waits, held out of its queue with the reason why its gang is refused, or let
// back into it when `refusal` is ""; nullopt when there is nothing to write.
std::optional<api::Workload> HoldGang(const api::Workload& workload, const std::string& refusal,
                                      absl::Time now, const admission::StatusOptions& options);
// Of one that was admitted before that was found: the cause lies with others and may pass, so it
// comes back after a pause.
bool EvictRefusedGang(Plan& plan, const state::World& world, const api::Workload& workload,
                      const std::string& refusal, absl::Time now);

// The PodGroup of ours behind a gang: that it is there and asks for the pods that it should. While
// it is not known what the cluster has, and with `exact` while the old one of that name goes away,
// the answer is true, too: then wait.
struct OwnPodGroup {
  jobs::NewPodGroup group;
  bool going_is_fine = false;  // pods that exist keep one that is deleted from going away
  Note about;
};
bool KeepPodGroup(const state::World& world, const OwnPodGroup& own, bool exact, absl::Time now,
                  Plan& plan);

// The members of a PodGroup are placed together, so they have to be admitted together; parts that
// are admitted one by one would wait for each other and hold quota meanwhile. So one unit (a Job, a
// pod or a group of pods) has the PodGroup, the one that was there first, and the others are
// refused: the reason, "" for the one that has it.
struct GangUnit {
  state::Ref ref;
  std::optional<absl::Time> since;
  std::string uid;
};
std::string SharedPodGroup(const state::World& world, const ObjectKey& pod_group,
                           const GangUnit& unit);

}  // namespace sluice::reconcile
