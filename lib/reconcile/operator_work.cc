// The work of the Operator: admissions and preemptions.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "preemption/checkpoint.h"
#include "queueing/workload_info.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {

void Operator::Admit(absl::Time now) {
  if (essential_in_flight_ >= options_.max_in_flight) return;
  world_.RunReleases(now);
  if (!world_.queues().HasHeads(now)) return;
  const size_t room = options_.max_in_flight - essential_in_flight_;
  admission::Reservations reservations;
  const std::vector<admission::Decision> decisions = admission::Schedule(
      world_.snapshot(), world_.queues(), now, std::min(options_.max_admissions, room),
      &reservations, Turbulent(now) ? options_.recheck : absl::ZeroDuration());
  for (const admission::Decision& decision : decisions) {
    if (observer_ != nullptr) observer_->OnDecision(decision, now);
    const ObjectKey key = decision.info->Key();
    KeepRefusedEvictions(key, decision.victims);
    switch (decision.kind) {
      case admission::Decision::Kind::kAdmit:
        Reserve(decision, now);
        break;
      case admission::Decision::Kind::kWait:
      case admission::Decision::Kind::kPreempt:
        SetWaiting(key, WaitingTextOf(decision), now);
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
  Reserving reserving;
  reserving.from = decision.info->workload;
  reserving.notes = std::move(notes);
  if (world_.credits().Governs(decision.info->cluster_queue)) {
    reserving.annotations = world_.credits().AnnotationsFor(
        *decision.info->workload, decision.info->cluster_queue,
        queueing::AdmittedUsage(next, world_.settings().gates.Enabled("ReclaimablePods")), now);
    for (const auto& [name, value] : reserving.annotations) {
      next.metadata.annotations[name] = value;
    }
  }
  reserving.workload = std::make_shared<const api::Workload>(std::move(next));
  world_.Assume(reserving.workload);
  // The write names the version that the Workload has: that of a write of ours which is still on
  // its way is not known yet, and what others do meanwhile must not be passed over.
  if (Busy({api::Kind::kWorkload, key})) {
    reserving_.insert_or_assign(key, std::move(reserving));
  } else {
    SendReservation(std::move(reserving), now);
  }
}

void Operator::SendReserving(const state::Ref& ref, absl::Time now) {
  if (ref.kind != api::Kind::kWorkload || Busy(ref)) return;
  const auto found = reserving_.find(ref.key);
  if (found == reserving_.end()) return;
  Reserving reserving = std::move(found->second);
  reserving_.erase(found);
  SendReservation(std::move(reserving), now);
}

namespace {

// Whether what was decided about the Workload of before is still right for that of now: nothing has
// changed but what writes of ours say about it.
bool IsSame(const api::Workload& before, const api::Workload& now) {
  return now.metadata.uid == before.metadata.uid &&
         now.metadata.generation == before.metadata.generation && !now.metadata.Deleting() &&
         now.status.admission_checks == before.status.admission_checks &&
         now.status.reclaimable_pods == before.status.reclaimable_pods &&
         now.status.requeue_state == before.status.requeue_state;
}

}  // namespace

// The annotations that credits need go first: they cannot be part of the status.
void Operator::SendReservation(Reserving reserving, absl::Time now) {
  const ObjectKey key = reserving.workload->metadata.Key();
  const state::Ref ref{api::Kind::kWorkload, key};
  if (!world_.IsAssumed(key)) return;  // the Workload went meanwhile
  const auto stored = world_.workloads().Find(key);
  if (!leading_ || stored == nullptr || !IsSame(*reserving.from, *stored) ||
      world_.Unreadable(ref) || !queueing::IsAdmissible(*stored, world_.order_options())) {
    return world_.Forget(key, now, dirty_);
  }
  const std::string version = stored->metadata.resource_version;
  if (reserving.annotations.empty()) {
    api::Workload next = *reserving.workload;
    next.metadata.resource_version = version;
    Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(reserving.notes),
         Purpose::kAdmission);
    return;
  }
  api::Json body = api::Json::MakeObject();
  for (const auto& [name, value] : std::exchange(reserving.annotations, {})) {
    body["metadata"]["annotations"].Set(name, value);
  }
  Send(MergePatchAction(api::Kind::kWorkload, key, "", std::move(body), version), ref, {},
       Purpose::kAdmission);
  in_flight_.rbegin()->second.then_reserve = std::make_shared<Reserving>(std::move(reserving));
}

// Victims count as on their way out from the decision on; the writes follow when nothing of ours is
// on its way to them. Where short workloads end all the time many victims end before the write
// would arrive, or room comes from others: then the eviction, the release and the second admission
// were three writes for nothing, and what the victim has done is lost.
void Operator::Preempt(const admission::Decision& decision, absl::Time now) {
  SpareVictims(decision);
  for (const admission::Decision::Victim& victim : decision.victims) {
    const ObjectKey key = victim.workload->Key();
    if (victim.ongoing && !evictions_.contains(key)) continue;  // it is told already
    const auto [eviction, added] = evictions_.try_emplace(key);
    if (added) world_.AssumeEviction(key);
    std::vector<Claim>& claims = eviction->second.claims;
    const bool known = std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
      return claim.preemptor.key == decision.info->Key();
    });
    if (!known) claims.push_back(ClaimOf(decision, victim, now));
  }
}

Operator::Claim Operator::ClaimOf(const admission::Decision& decision,
                                  const admission::Decision::Victim& victim, absl::Time now) {
  Claim claim;
  claim.reason = preemption::ReasonName(victim.reason);
  claim.message = admission::PreemptionMessage(decision, victim, world_.tree());
  claim.preemptor = WorkloadNote(
      *decision.info->workload, kAdmissionSource, false, "PreemptedWorkload",
      fmt::format("Preempted workload {} (UID: {}) in ClusterQueue {} due to {}; "
                  "preemptor priority: {}, preemptee priority: {}",
                  victim.workload->Key().ToString(), victim.workload->Uid(),
                  victim.workload->cluster_queue, preemption::ReasonText(victim.reason),
                  decision.info->priority, victim.workload->priority));
  claim.migration = victim.reason == preemption::Reason::kFlavorMigration;
  if (!claim.migration) claim.due = GraceOf(decision.info->Key(), now);
  return claim;
}

// Victims of an earlier decision about the same workload that are not told yet, and that it can do
// without now: unless others wait for their room as well, they stay.
void Operator::SpareVictims(const admission::Decision& decision) {
  if (decision.kind != admission::Decision::Kind::kPreempt || evictions_.empty()) return;
  const ObjectKey preemptor = decision.info->Key();
  absl::btree_set<ObjectKey> wanted;
  for (const auto& victim : decision.victims) wanted.insert(victim.workload->Key());
  for (auto it = evictions_.begin(); it != evictions_.end();) {
    std::vector<Claim>& claims = it->second.claims;
    if (!wanted.contains(it->first)) {
      std::erase_if(claims, [&](const Claim& claim) {
        return !claim.migration && claim.preemptor.key == preemptor;
      });
    }
    if (claims.empty()) world_.ForgetEviction(it->first);
    it = claims.empty() ? evictions_.erase(it) : std::next(it);
  }
}

// The grace of all victims of one preemptor ends together, however often it is decided about.
absl::Time Operator::GraceOf(const ObjectKey& preemptor, absl::Time now) {
  const auto found = grace_until_.find(preemptor);
  if (found != grace_until_.end()) return found->second;
  if (!Turbulent(now)) return now;
  return grace_until_[preemptor] = now + options_.eviction_grace;
}

bool Operator::IsNeeded(const ObjectKey& victim, const Claim& claim) const {
  if (claim.migration) return true;
  const auto repair = second_passes_.find(claim.preemptor.key);
  if (repair != second_passes_.end() && repair->second.victims.contains(victim)) return true;
  return world_.queues().PlaceOf(claim.preemptor.key) != queueing::Place::kNone;
}

const Operator::Claim* Operator::Eviction::DueAt(absl::Time now) const {
  const auto found = std::find_if(claims.begin(), claims.end(),
                                  [&](const Claim& claim) { return claim.due <= now; });
  return found == claims.end() ? nullptr : &*found;
}

void Operator::SendEvictions(absl::Time now) {
  for (auto it = evictions_.begin();
       it != evictions_.end() && essential_in_flight_ < options_.max_in_flight;) {
    const auto& [victim, eviction] = *it;
    std::erase_if(it->second.claims,
                  [&](const Claim& claim) { return !IsNeeded(it->first, claim); });
    if (eviction.claims.empty()) {
      world_.ForgetEviction(victim);
      it = evictions_.erase(it);
      continue;
    }
    // It ended or was evicted by somebody else meanwhile.
    const bool over = !world_.IsEvictionAssumed(victim);
    const Claim* due = eviction.DueAt(now);
    const bool done = over || (due != nullptr && SendEviction(victim, *due, now));
    if (!over && done && world_.IsEvictionAssumed(victim)) {
      std::vector<ObjectKey>& preemptors = in_flight_.rbegin()->second.preemptors;
      for (const Claim& claim : eviction.claims) preemptors.push_back(claim.preemptor.key);
    }
    it = done ? evictions_.erase(it) : std::next(it);
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
bool Operator::SendEviction(const ObjectKey& key, const Claim& claim, absl::Time now) {
  const state::Ref ref{api::Kind::kWorkload, key};
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
  if (!claim.migration && MayAskForCheckpoint(world_, *workload)) {
    admission::SetWorkloadCondition(next, preemption::kCheckpointRequested,
                                    api::ConditionStatus::kTrue, claim.reason, claim.message,
                                    NextSecond(now));
    Note note = WorkloadNote(next, kAdmissionSource, false, preemption::kCheckpointRequested,
                             claim.message);
    Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, {std::move(note)},
         Purpose::kEviction);
    return true;
  }
  const char* cause =
      claim.migration ? admission::kEvictedFlavorMigration : admission::kEvictedPreempted;
  admission::SetEvicted(next, cause, "", claim.message, now);
  std::vector<Note> notes;
  notes.push_back(WorkloadNote(next, kAdmissionSource, false, fmt::format("EvictedDueTo{}", cause),
                               claim.message));
  if (!claim.migration) {
    admission::SetPreempted(next, claim.reason, claim.message, now);
    if (preemption::CheckpointsOf(next).has_value()) {
      const state::Preemption& settings = world_.settings().preemption;
      preemption::NotePreemption(next, {settings.max_per_workload, settings.window}, now);
    }
    notes.push_back(WorkloadNote(next, kAdmissionSource, false, api::kPreempted, claim.message));
    notes.push_back(claim.preemptor);
  }
  Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(notes),
       Purpose::kEviction);
  return true;
}

}  // namespace sluice::reconcile
