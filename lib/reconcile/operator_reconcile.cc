// The work of the Operator: reconciling what was touched.
#include <algorithm>

#include "api/names.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {
namespace {

// Objects whose status counts others.
bool IsQueue(const state::Ref& ref) {
  return ref.kind == api::Kind::kClusterQueue || ref.kind == api::Kind::kLocalQueue ||
         ref.kind == api::Kind::kCohort || ref.kind == api::Kind::kCreditAccount;
}

}  // namespace

Plan Operator::PlanFor(const state::Ref& ref, absl::Time now) const {
  switch (ref.kind) {
    case api::Kind::kClusterQueue:
      return ReconcileClusterQueue(world_, ref.key, now);
    case api::Kind::kLocalQueue:
      return ReconcileLocalQueue(world_, ref.key, now);
    case api::Kind::kCohort:
      return ReconcileCohort(world_, ref.key);
    case api::Kind::kCreditPolicy:
      return ReconcileCreditPolicy(world_, ref.key, now);
    case api::Kind::kCreditAccount:
      return ReconcileCreditAccount(world_, ref.key, now);
    case api::Kind::kResourceFlavor:
      return ReconcileResourceFlavor(world_, ref.key);
    case api::Kind::kAdmissionCheck:
      return ReconcileAdmissionCheck(world_, ref.key);
    case api::Kind::kTopology:
      return ReconcileTopology(world_, ref.key);
    case api::Kind::kWorkload:
      return ReconcileWorkload(world_, ref.key, now);
    case api::Kind::kJob:
      return ReconcileJob(world_, ref.key, now);
    case api::Kind::kPod:
      return ReconcilePod(world_, ref.key, now);
    default:
      return {};
  }
}

// Counts of a busy queue change all the time; one write a second is enough for whoever looks.
bool Operator::DeferQueueStatus(const state::Ref& ref, absl::Time now) {
  if (!IsQueue(ref) || now >= QueueStatusDue(ref)) return false;
  CountLater(ref, now);
  return true;
}

void Operator::ReconcileDirty(absl::Time now) {
  // Jobs and Workloads come before the counters of queues: they are what users wait for. The refs
  // are taken out first, so that what a reconciler touches is looked at in the next round.
  std::vector<state::Ref> batch;
  const auto take = [&](bool queues) {
    for (auto it = dirty_.begin(); it != dirty_.end() && batch.size() < options_.max_reconciles;) {
      if (IsQueue(*it) != queues) {
        ++it;
        continue;
      }
      const auto blocked = blocked_.find(*it);
      if (Busy(*it)) {
        held_.insert(*it);
      } else if (blocked != blocked_.end() && blocked->second > now) {
        WakeAt(*it, blocked->second);
      } else {
        batch.push_back(*it);
      }
      it = dirty_.erase(it);
    }
  };
  take(false);
  take(true);
  for (const state::Ref& ref : batch) {
    if (essential_in_flight_ >= options_.max_in_flight) {
      dirty_.insert(ref);
      continue;
    }
    if (Busy(ref)) {  // an earlier one of this batch wrote to it
      held_.insert(ref);
      continue;
    }
    blocked_.erase(ref);
    if (ref.kind == api::Kind::kWorkload) FollowReservation(ref.key);
    if (ref.kind == api::Kind::kLocalQueue) world_.SampleUsage(ref.key, now);
    const bool paced = paced_.erase(ref) > 0;
    const bool deferred = DeferQueueStatus(ref, now);
    Plan plan = deferred ? Plan() : PlanFor(ref, now);
    if (paced && plan.writes.empty()) queue_pace_.Give(100);  // nothing is to be written
    if (deferred || TidyLater(ref, plan, now)) continue;
    WakeAt(ref, plan.recheck);
    // A Workload that ended or whose pods became ready needs its timer no more.
    const bool idle = plan.writes.empty() && plan.recheck == absl::InfiniteFuture();
    if (idle && ref.kind == api::Kind::kWorkload && !settling_.contains(ref.key)) DropTimer(ref);
    if (plan.waiting && !waiting_.contains(ref.key)) {
      SetWaiting(ref.key, {plan.waiting->reason, plan.waiting->message, {}, false}, now);
    }
    Execute(ref, std::move(plan), now);
  }
}

// A plan with a target that has a write in flight is dropped: the reply to that write changes the
// state it was made from. The timer looks again in case the reply touches nothing of the owner.
void Operator::Execute(const state::Ref& owner, Plan plan, absl::Time now) {
  const bool held = std::any_of(plan.writes.begin(), plan.writes.end(), [&](const Write& write) {
    return Busy({write.action.kind, write.action.key});
  });
  if (held) {
    WakeAt(owner, now + absl::Milliseconds(100));
    return;
  }
  for (const Note& note : plan.notes) Record(note, now);
  for (Write& write : plan.writes) {
    const bool queue_status = write.action.subresource == "status" && IsQueue(owner);
    if (queue_status) queue_status_at_[owner] = now;
    Send(std::move(write.action), owner, std::move(write.notes), Purpose::kOther,
         std::move(write.gates));
  }
}

}  // namespace sluice::reconcile
