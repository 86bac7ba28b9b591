// The work of the Operator: telling Workloads of their reservations.
#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {

namespace {

// Whether the Workload says so already; `reservation` without a value: that there is none.
bool Says(const api::Workload& workload, const std::optional<admission::Reservation>& reservation,
          absl::Time now) {
  if (!reservation) return !admission::ShowsReservation(workload);
  api::Workload conditions;
  conditions.status.conditions = workload.status.conditions;
  conditions.metadata.generation = workload.metadata.generation;
  return !admission::SetReserved(conditions, *reservation, now);
}

}  // namespace

// Of a Workload that an event touched. Which ones tell of a reservation follows from the objects
// alone, so a controller that has just started withdraws what does not hold any more: one may not
// wait in a ClusterQueue with backfill now.
void Operator::FollowReservation(const ObjectKey& key) {
  const auto workload = world_.workloads().Find(key);
  const bool shows = workload != nullptr && admission::ShowsReservation(*workload);
  if (shows) reserved_.insert({world_.ClusterQueueOf(*workload), key});
  if (!leading_ || world_.IsAssumed(key) || (!shows && !reservations_.contains(key))) return;
  const auto info = world_.queues().Find(key);
  if (info != nullptr && world_.queues().BackfillQueues().contains(info->cluster_queue)) return;
  if (shows) {
    reservations_.insert_or_assign(key, std::nullopt);
  } else {
    reservations_.erase(key);
  }
}

// Reservations are found for all workloads of a ClusterQueue together.
void Operator::NoteReservations(const admission::Reservations& found) {
  for (const auto& [key, reservation] : found.by_workload) {
    reservations_.insert_or_assign(key, reservation);
  }
  for (const auto& [queue, count] : found.queues) {
    for (auto it = reserved_.lower_bound({queue, {}});
         it != reserved_.end() && it->first == queue;) {
      const ObjectKey& key = it->second;
      const auto workload = world_.workloads().Find(key);
      const bool shows = workload != nullptr && admission::ShowsReservation(*workload) &&
                         world_.ClusterQueueOf(*workload) == queue;
      if (shows && !found.by_workload.contains(key)) {
        reservations_.insert_or_assign(key, std::nullopt);
      }
      it = shows ? std::next(it) : reserved_.erase(it);
    }
  }
}

void Operator::SayReservations(absl::Time now) {
  for (auto it = reservations_.begin(); it != reservations_.end();) {
    const ObjectKey& key = it->first;
    const state::Ref ref{api::Kind::kWorkload, key};
    const auto workload = world_.workloads().Find(key);
    if (workload == nullptr || world_.IsAssumed(key)) {
      it = reservations_.erase(it);
      continue;
    }
    const bool said = Says(*workload, it->second, now);
    const auto blocked = blocked_.find(ref);
    const bool waits = Busy(ref) || (blocked != blocked_.end() && blocked->second > now);
    if (said || waits) {
      it = said ? reservations_.erase(it) : std::next(it);
      continue;
    }
    if (!waiting_pace_.Ready(now, WaitingRate(now))) return;
    api::Workload next = *workload;
    if (it->second) {
      admission::SetReserved(next, *it->second, now);
    } else {
      admission::ClearReserved(next, admission::kWithdrawn,
                               "Others come before it, or it waits no more", now);
    }
    waiting_pace_.Take();
    Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, {});
    ++it;  // until the API says so
  }
}

}  // namespace sluice::reconcile
