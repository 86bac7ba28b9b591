// The work of the Operator: telling Workloads of their reservations.
#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {

// Which Workloads tell of a reservation follows from the objects alone, so a controller that has
// just started withdraws what does not hold any more.
void Operator::FollowReservation(const ObjectKey& key) {
  const auto workload = world_.workloads().Find(key);
  if (workload == nullptr || !admission::ShowsReservation(*workload)) {
    reserved_.erase(key);
    return;
  }
  reserved_[key] = world_.ClusterQueueOf(*workload);
}

// Reservations are found for all workloads of a ClusterQueue together.
void Operator::NoteReservations(const admission::Reservations& found) {
  for (const auto& [key, reservation] : found.by_workload) {
    reservations_.insert_or_assign(key, reservation);
  }
  if (found.queues.empty()) return;
  for (const auto& [key, queue] : reserved_) {
    if (found.queues.contains(queue) && !found.by_workload.contains(key)) {
      reservations_.insert_or_assign(key, std::nullopt);
    }
  }
}

// Those that do not wait in a ClusterQueue with backfill any more.
void Operator::WithdrawReservations() {
  absl::erase_if(reserved_,
                 [this](const auto& shown) { return !world_.workloads().Contains(shown.first); });
  for (const auto& [key, queue] : reserved_) {
    if (world_.IsAssumed(key) || reservations_.contains(key)) continue;
    const bool waits = world_.queues().PlaceOf(key) != queueing::Place::kNone;
    if (!waits || !world_.queues().BackfillQueues().contains(queue)) {
      reservations_.insert_or_assign(key, std::nullopt);
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
    const auto blocked = blocked_.find(ref);
    if (Busy(ref) || (blocked != blocked_.end() && blocked->second > now) ||
        !waiting_pace_.Ready(now, WaitingRate(now))) {
      ++it;
      continue;
    }
    api::Workload next = *workload;
    const bool changed =
        it->second ? admission::SetReserved(next, *it->second, now)
                   : admission::ClearReserved(next, admission::kWithdrawn,
                                              "Others come before it, or it waits no more", now);
    if (!changed) {
      it = reservations_.erase(it);
      continue;
    }
    waiting_pace_.Take();
    Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, {});
    ++it;  // until the API says so
  }
}

}  // namespace sluice::reconcile
