// The work of the Operator: admissions and preemptions.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "preemption/checkpoint.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {

void Operator::Admit(absl::Time now) {
  if (essential_in_flight_ >= options_.max_in_flight) return;
  world_.RunReleases(now);
  if (!world_.queues().HasHeads(now)) return;
  const size_t room = options_.max_in_flight - essential_in_flight_;
  admission::Reservations reservations;
  const std::vector<admission::Decision> decisions =
      admission::Schedule(world_.snapshot(), world_.queues(), now,
                          std::min(options_.max_admissions, room), &reservations);
  for (const admission::Decision& decision : decisions) {
    if (observer_ != nullptr) observer_->OnDecision(decision, now);
    const ObjectKey key = decision.info->Key();
    switch (decision.kind) {
      case admission::Decision::Kind::kAdmit:
        Reserve(decision, now);
        break;
      case admission::Decision::Kind::kWait:
      case admission::Decision::Kind::kPreempt:
        SetWaiting(key,
                   {decision.reason, decision.message, decision.info->requests,
                    decision.requeue.reason == queueing::RequeueReason::kPreemptionGated},
                   now);
        break;
      case admission::Decision::Kind::kDrop:
        break;
    }
    Preempt(decision, now);
    if (const auto until = decision.explanation.protected_until) world_.NoteLender(key, *until);
    // Counts of the queue changed, and equivalent workloads may have been passed over.
    CountLater({api::Kind::kClusterQueue, {"", decision.info->cluster_queue}}, now);
    CountLater({api::Kind::kLocalQueue, decision.info->local_queue}, now);
  }
  NoteReservations(reservations);
}

void Operator::Reserve(const admission::Decision& decision, absl::Time now) {
  const ObjectKey key = decision.info->Key();
  ForgetWaiting(key);
  grace_until_.erase(key);
  admitted_at_ = now;
  api::Workload next = *decision.info->workload;
  const auto cluster_queue = world_.cluster_queues().Find({"", decision.info->cluster_queue});
  if (decision.replaces != nullptr) {
    next.status.cluster_name = decision.replaces->status.cluster_name;
  }
  admission::SetQuotaReservation(next, decision.admission,
                                 admission::RequiredChecks(*cluster_queue, &decision.admission),
                                 now, StatusOptionsOf(world_.settings()));
  reservations_.erase(key);
  admission::ClearReserved(next, api::kQuotaReserved, "It has its quota", now);
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kQuotaReserved,
                               admission::QuotaReservedEventText(decision, now)));
  if (decision.backfill) {
    notes.push_back(WorkloadNote(next, kAdmissionSource, false, admission::kBackfilled,
                                 admission::BackfilledEventText(*decision.backfill)));
  }
  if (api::IsTrue(next.status.conditions, api::kAdmitted)) {
    notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kAdmitted,
                                 "Admitted by ClusterQueue " + decision.info->cluster_queue +
                                     ", wait time since reservation was 0s"));
  }
  const state::Ref ref{api::Kind::kWorkload, key};
  if (world_.credits().Governs(decision.info->cluster_queue)) {
    const api::StringMap annotations = world_.credits().AnnotationsFor(
        *decision.info->workload, decision.info->cluster_queue,
        queueing::AdmittedUsage(next, world_.settings().gates.Enabled("ReclaimablePods")), now);
    api::Json body = api::Json::MakeObject();
    for (const auto& [name, value] : annotations) {
      next.metadata.annotations[name] = value;
      body["metadata"]["annotations"].Set(name, value);
    }
    state::Action action =
        MergePatchAction(api::Kind::kWorkload, key, "", std::move(body),
                         Busy(ref) ? std::string() : next.metadata.resource_version);
    auto assumed = std::make_shared<const api::Workload>(std::move(next));
    world_.Assume(assumed);
    Send(std::move(action), ref, std::move(notes), Purpose::kAdmission);
    in_flight_.rbegin()->second.then_reserve = std::move(assumed);
    return;
  }
  world_.Assume(std::make_shared<const api::Workload>(next));
  // A write of ours that is still on its way makes the version stale without any conflict of
  // content: writes to one object are sent in order.
  state::Action action = WorkloadStatusAction(world_, std::move(next), now, !Busy(ref));
  Send(std::move(action), ref, std::move(notes), Purpose::kAdmission);
}

// The annotations that credits need are there: the reservation itself follows, in the version that
// they made.
void Operator::ReserveAfter(const InFlight& write, const api::Json& object, absl::Time now) {
  const ObjectKey& key = write.target.key;
  if (!world_.IsAssumed(key)) return;  // the Workload went meanwhile
  if (!leading_) return world_.Forget(key, now, dirty_);
  api::Workload next = *write.then_reserve;
  next.metadata.resource_version = object.GetString("metadata", "resourceVersion");
  Send(WorkloadStatusAction(world_, std::move(next), now, true), write.target, write.notes,
       Purpose::kAdmission);
}

// Victims count as on their way out from the decision on; the writes follow when nothing of ours is
// on its way to them. Where short workloads end all the time many victims end before the write
// would arrive, or room comes from others: then the eviction, the release and the second admission
// were three writes for nothing, and what the victim has done is lost.
void Operator::Preempt(const admission::Decision& decision, absl::Time now) {
  SpareVictims(decision);
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
    eviction.migration = victim.reason == preemption::Reason::kFlavorMigration;
    if (!eviction.migration) eviction.due = GraceOf(decision.info->Key(), now);
    world_.AssumeEviction(key);
    evictions_.insert_or_assign(key, std::move(eviction));
  }
}

// Victims of an earlier decision about the same workload that are not told yet, and that it can do
// without now.
void Operator::SpareVictims(const admission::Decision& decision) {
  if (decision.kind != admission::Decision::Kind::kPreempt) return;
  const auto& victims = decision.victims;
  for (auto it = evictions_.begin(); it != evictions_.end();) {
    const bool kept = it->second.migration || !(it->second.preemptor.key == decision.info->Key()) ||
                      std::any_of(victims.begin(), victims.end(), [&](const auto& victim) {
                        return victim.workload->Key() == it->first;
                      });
    if (!kept) world_.ForgetEviction(it->first);
    it = kept ? std::next(it) : evictions_.erase(it);
  }
}

// The grace of all victims of one preemptor ends together, however often it is decided about.
absl::Time Operator::GraceOf(const ObjectKey& preemptor, absl::Time now) {
  const auto found = grace_until_.find(preemptor);
  if (found != grace_until_.end()) return found->second;
  if (!Turbulent(now)) return now;
  return grace_until_[preemptor] = now + options_.eviction_grace;
}

bool Operator::IsNeeded(const ObjectKey& victim, const Eviction& eviction) const {
  if (eviction.migration) return true;
  const auto repair = second_passes_.find(eviction.preemptor.key);
  if (repair != second_passes_.end() && repair->second.victims.contains(victim)) return true;
  return world_.queues().PlaceOf(eviction.preemptor.key) != queueing::Place::kNone;
}

void Operator::SendEvictions(absl::Time now) {
  for (auto it = evictions_.begin();
       it != evictions_.end() && essential_in_flight_ < options_.max_in_flight;) {
    if (!IsNeeded(it->first, it->second)) {
      world_.ForgetEviction(it->first);
      it = evictions_.erase(it);
    } else if (it->second.due > now && world_.IsEvictionAssumed(it->first)) {
      ++it;
    } else {
      it = SendEviction(it->first, it->second, now) ? evictions_.erase(it) : std::next(it);
    }
  }
}

namespace {

// Whether the workload writes a checkpoint when it is asked for one, and is given time for it.
bool MayAskForCheckpoint(const state::World& world, const api::Workload& workload) {
  if (world.settings().preemption.checkpoint_grace_period <= absl::ZeroDuration()) return false;
  const auto checkpoints = preemption::CheckpointsOf(workload);
  return checkpoints && checkpoints->on_request &&
         api::IsTrue(workload.status.conditions, api::kAdmitted) &&
         !api::IsTrue(workload.status.conditions, api::kEvicted);
}

// The time of the request is a whole second, as the API keeps it. One that begins after now: a
// checkpoint of the second that runs may have been complete before.
absl::Time NextSecond(absl::Time now) {
  const absl::Time second = absl::FromUnixSeconds(absl::ToUnixSeconds(now));
  return second == now ? now : second + absl::Seconds(1);
}

}  // namespace

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
  if (workload == nullptr || !queueing::HoldsQuota(*workload)) {
    world_.ForgetEviction(key);  // its admission came to nothing: there is nothing to take
    return true;
  }
  api::Workload next = *workload;
  if (!eviction.migration && MayAskForCheckpoint(world_, *workload)) {
    admission::SetWorkloadCondition(next, preemption::kCheckpointRequested,
                                    api::ConditionStatus::kTrue, eviction.reason, eviction.message,
                                    NextSecond(now));
    Note note = WorkloadNote(next, kAdmissionSource, false, preemption::kCheckpointRequested,
                             eviction.message);
    Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, {std::move(note)},
         Purpose::kEviction);
    return true;
  }
  const char* cause =
      eviction.migration ? admission::kEvictedFlavorMigration : admission::kEvictedPreempted;
  admission::SetEvicted(next, cause, "", eviction.message, now);
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, false, fmt::format("EvictedDueTo{}", cause),
                               eviction.message));
  if (!eviction.migration) {
    admission::SetPreempted(next, eviction.reason, eviction.message, now);
    if (preemption::CheckpointsOf(next).has_value()) {
      const state::Preemption& settings = world_.settings().preemption;
      preemption::NotePreemption(next, {settings.max_per_workload, settings.window}, now);
    }
    notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kPreempted, eviction.message));
    notes.push_back(eviction.preemptor);
  }
  Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(notes),
       Purpose::kEviction);
  return true;
}

}  // namespace sluice::reconcile
