// The work of the Operator: admissions, reconciliation, and telling why Workloads wait.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {
namespace {

// Objects whose status counts others.
bool IsQueue(const state::Ref& ref) {
  return ref.kind == api::Kind::kClusterQueue || ref.kind == api::Kind::kLocalQueue ||
         ref.kind == api::Kind::kCohort;
}

}  // namespace

void Operator::Admit(absl::Time now) {
  if (essential_in_flight_ >= options_.max_in_flight) return;
  world_.RunReleases(now);
  if (!world_.queues().HasHeads(now)) return;
  const size_t room = options_.max_in_flight - essential_in_flight_;
  const std::vector<admission::Decision> decisions = admission::Schedule(
      world_.snapshot(), world_.queues(), now, std::min(options_.max_admissions, room));
  for (const admission::Decision& decision : decisions) {
    if (observer_ != nullptr) observer_->OnDecision(decision, now);
    const ObjectKey key = decision.info->Key();
    switch (decision.kind) {
      case admission::Decision::Kind::kAdmit:
        Reserve(decision, now);
        break;
      case admission::Decision::Kind::kWait:
      case admission::Decision::Kind::kPreempt:
        waiting_[key] = {decision.reason, decision.message, decision.info->requests};
        break;
      case admission::Decision::Kind::kDrop:
        break;
    }
    Preempt(decision);
    // Counts of the queue changed, and equivalent workloads may have been passed over.
    dirty_.insert({api::Kind::kClusterQueue, {"", decision.info->cluster_queue}});
    dirty_.insert({api::Kind::kLocalQueue, decision.info->local_queue});
  }
}

void Operator::Reserve(const admission::Decision& decision, absl::Time now) {
  const ObjectKey key = decision.info->Key();
  waiting_.erase(key);
  api::Workload next = *decision.info->workload;
  const auto cluster_queue = world_.cluster_queues().Find({"", decision.info->cluster_queue});
  admission::SetQuotaReservation(next, decision.admission,
                                 admission::RequiredChecks(*cluster_queue, &decision.admission),
                                 now, StatusOptionsOf(world_.settings()));
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kQuotaReserved,
                               admission::QuotaReservedEventText(decision, now)));
  if (api::IsTrue(next.status.conditions, api::kAdmitted)) {
    notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kAdmitted,
                                 "Admitted by ClusterQueue " + decision.info->cluster_queue +
                                     ", wait time since reservation was 0s"));
  }
  world_.Assume(std::make_shared<const api::Workload>(next));
  const state::Ref ref{api::Kind::kWorkload, key};
  // A write of ours that is still on its way makes the version stale without any conflict of
  // content: writes to one object are sent in order.
  state::Action action = WorkloadStatusAction(world_, std::move(next), now, !Busy(ref));
  Send(std::move(action), ref, std::move(notes), Purpose::kAdmission);
}

// Victims count as on their way out from the decision on; the writes follow when nothing of ours is
// on its way to them.
void Operator::Preempt(const admission::Decision& decision) {
  for (const admission::Decision::Victim& victim : decision.victims) {
    if (victim.ongoing) continue;
    const ObjectKey key = victim.workload->Key();
    Eviction eviction;
    eviction.reason = preemption::ReasonName(victim.reason);
    eviction.message = admission::PreemptionMessage(decision, victim, world_.tree());
    eviction.preemptor = WorkloadNote(
        *decision.info->workload, kAdmissionSource, false, "PreemptedWorkload",
        fmt::format("Preempted workload {} (UID: {}) in ClusterQueue {} due to {}; "
                    "preemptor priority: {}, preemptee priority: {}",
                    key.ToString(), victim.workload->Uid(), victim.workload->cluster_queue,
                    preemption::ReasonText(victim.reason), decision.info->priority,
                    victim.workload->priority));
    world_.AssumeEviction(key);
    evictions_.insert_or_assign(key, std::move(eviction));
  }
}

void Operator::SendEvictions(absl::Time now) {
  for (auto it = evictions_.begin();
       it != evictions_.end() && essential_in_flight_ < options_.max_in_flight;) {
    it = SendEviction(it->first, it->second, now) ? evictions_.erase(it) : std::next(it);
  }
}

// True when the eviction was sent or is not needed any more.
bool Operator::SendEviction(const ObjectKey& key, const Eviction& eviction, absl::Time now) {
  const state::Ref ref{api::Kind::kWorkload, key};
  // It ended or was evicted by somebody else meanwhile.
  if (!world_.IsEvictionAssumed(key)) return true;
  if (Busy(ref) || world_.IsAssumed(key)) return false;
  if (const auto blocked = blocked_.find(ref); blocked != blocked_.end() && blocked->second > now) {
    return false;
  }
  const auto workload = world_.workloads().Find(key);
  if (workload == nullptr) return true;
  api::Workload next = *workload;
  admission::SetEvicted(next, admission::kEvictedPreempted, "", eviction.message, now);
  admission::SetPreempted(next, eviction.reason, eviction.message, now);
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, false,
                               fmt::format("EvictedDueTo{}", admission::kEvictedPreempted),
                               eviction.message));
  notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kPreempted, eviction.message));
  notes.push_back(eviction.preemptor);
  Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(notes),
       Purpose::kEviction);
  return true;
}

void Operator::SayWhyWaiting(absl::Time now) {
  if (waiting_filled_ == absl::InfinitePast()) {
    waiting_tokens_ = options_.waiting_burst;
  } else {
    waiting_tokens_ = std::min<double>(
        options_.waiting_burst, waiting_tokens_ + absl::ToDoubleSeconds(now - waiting_filled_) *
                                                      options_.waiting_per_second);
  }
  waiting_filled_ = now;
  for (auto it = waiting_.begin(); it != waiting_.end() && waiting_tokens_ >= 1;) {
    it = SayWhyWaiting(it->first, it->second, now) ? waiting_.erase(it) : std::next(it);
  }
}

// True when there is nothing (more) to say about the Workload.
bool Operator::SayWhyWaiting(const ObjectKey& key, const WaitingText& text, absl::Time now) {
  const state::Ref ref{api::Kind::kWorkload, key};
  const auto workload = world_.workloads().Find(key);
  if (workload == nullptr || world_.IsAssumed(key) ||
      world_.queues().PlaceOf(key) == queueing::Place::kNone) {
    return true;
  }
  if (Busy(ref)) return false;
  if (const auto blocked = blocked_.find(ref); blocked != blocked_.end() && blocked->second > now) {
    return false;
  }
  const admission::StatusOptions status_options = StatusOptionsOf(world_.settings());
  const std::string reason = admission::PendingReason(text.reason, true, status_options);
  const api::Condition* old = api::FindCondition(workload->status.conditions, api::kQuotaReserved);
  const bool same_reason =
      old != nullptr && old->status == api::ConditionStatus::kFalse && old->reason == reason;
  if (same_reason) {
    const auto said = said_at_.find(key);
    if (said != said_at_.end() && now - said->second < options_.waiting_text_interval) {
      return old->message == text.message;
    }
  }
  api::Workload next = *workload;
  if (!admission::SetPending(next, reason, text.message, &text.requests, now, status_options)) {
    return true;
  }
  said_at_[key] = now;
  waiting_tokens_ -= 1;
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, true, reason, text.message));
  Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(notes));
  return true;
}

Plan Operator::PlanFor(const state::Ref& ref, absl::Time now) const {
  switch (ref.kind) {
    case api::Kind::kClusterQueue:
      return ReconcileClusterQueue(world_, ref.key, now);
    case api::Kind::kLocalQueue:
      return ReconcileLocalQueue(world_, ref.key, now);
    case api::Kind::kCohort:
      return ReconcileCohort(world_, ref.key);
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
    default:
      return {};
  }
}

// Counts of a busy queue change all the time; one write a second is enough for whoever looks.
bool Operator::DeferQueueStatus(const state::Ref& ref, absl::Time now) {
  if (!IsQueue(ref)) return false;
  const auto last = queue_status_at_.find(ref);
  if (last == queue_status_at_.end()) return false;
  const absl::Time due = last->second + options_.queue_status_interval;
  if (now >= due) return false;
  WakeAt(ref, due);
  return true;
}

void Operator::ReconcileDirty(absl::Time now) {
  // Jobs and Workloads come before the counters of queues: they are what users wait for. The refs
  // are taken out first, so that what a reconciler touches is looked at in the next round.
  std::vector<state::Ref> batch;
  const auto take = [&](bool queues) {
    for (auto it = dirty_.begin(); it != dirty_.end() && batch.size() < options_.max_reconciles;) {
      const bool is_queue = IsQueue(*it);
      const auto blocked = blocked_.find(*it);
      const bool held = Busy(*it) || (blocked != blocked_.end() && blocked->second > now);
      if (is_queue != queues || held) {
        ++it;
        continue;
      }
      batch.push_back(*it);
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
      dirty_.insert(ref);
      continue;
    }
    blocked_.erase(ref);
    if (DeferQueueStatus(ref, now)) continue;
    Plan plan = PlanFor(ref, now);
    WakeAt(ref, plan.recheck);
    // A Workload that ended or whose pods became ready needs its timer no more.
    const bool idle = plan.writes.empty() && plan.recheck == absl::InfiniteFuture();
    if (idle && ref.kind == api::Kind::kWorkload && !settling_.contains(ref.key)) DropTimer(ref);
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
    Send(std::move(write.action), owner, std::move(write.notes));
  }
}

}  // namespace sluice::reconcile
