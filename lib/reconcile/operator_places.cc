// The part of Operator that looks for places of workloads that hold quota already; see
// admission/second_pass.h.
#include <fmt/format.h>

#include "admission/conditions.h"
#include "admission/second_pass.h"
#include "api/names.h"
#include "queueing/workload_info.h"
#include "reconcile/operator.h"
#include "reconcile/reconcilers.h"

namespace sluice::reconcile {

// Who waits for the victim's places to be free looks at once, before others of the queue do.
void Operator::NoteVictimGone(const ObjectKey& victim, absl::Time now) {
  for (auto& [key, entry] : second_passes_) {
    if (entry.victims.erase(victim) == 0 || !entry.victims.empty() || entry.due <= now) continue;
    second_passes_due_.erase({entry.due, key});
    entry.due = now;
    second_passes_due_.insert({now, key});
  }
}

void Operator::FollowPlaces(const ObjectKey& key, absl::Time now) {
  if (world_.topology() == nullptr) return;
  const std::shared_ptr<const api::Workload> workload = world_.workloads().Find(key);
  if (workload == nullptr || !queueing::HoldsQuota(*workload)) NoteVictimGone(key, now);
  const bool needs = workload != nullptr && admission::NeedsSecondPass(*workload);
  const auto known = second_passes_.find(key);
  if (known == second_passes_.end()) {
    if (needs) ScheduleSecondPass(key, {workload->metadata.uid, 1, {}, {}}, now);
    return;
  }
  // One that needs nothing any more is found out when its time comes: what shows that may be older
  // than what made it wait.
  const bool over = workload == nullptr || workload->metadata.uid != known->second.uid ||
                    api::IsTrue(workload->status.conditions, api::kEvicted);
  if (over) DropSecondPass(key);
}

void Operator::ScheduleSecondPass(const ObjectKey& key, SecondPassEntry entry, absl::Time now) {
  entry.due = now + admission::SecondPassDelay(entry.attempt);
  DropSecondPass(key);
  second_passes_due_.insert({entry.due, key});
  second_passes_.insert_or_assign(key, std::move(entry));
}

void Operator::DropSecondPass(const ObjectKey& key) {
  const auto known = second_passes_.find(key);
  if (known == second_passes_.end()) return;
  second_passes_due_.erase({known->second.due, key});
  second_passes_.erase(known);
}

void Operator::RunSecondPasses(absl::Time now) {
  while (!second_passes_due_.empty() && second_passes_due_.begin()->first <= now &&
         essential_in_flight_ < options_.max_in_flight) {
    const ObjectKey key = second_passes_due_.begin()->second;
    SecondPassEntry entry = second_passes_.at(key);
    DropSecondPass(key);
    const std::shared_ptr<const api::Workload> workload = world_.workloads().Find(key);
    if (workload == nullptr || !admission::NeedsSecondPass(*workload)) continue;
    // What is on its way to the API server comes first, and nodes must be known.
    if (!world_.NodesKnown() || world_.IsAssumed(key) || world_.IsEvictionAssumed(key) ||
        Busy({api::Kind::kWorkload, key})) {
      ScheduleSecondPass(key, std::move(entry), now);
      continue;
    }
    TakeSecondPass(*workload, std::move(entry), now);
  }
}

// As in a cycle, but for a workload that is in no queue.
void Operator::PreemptForRepair(const api::Workload& workload, const admission::SecondPass& pass,
                                SecondPassEntry& entry, absl::Time now) {
  if (pass.victims.empty()) return;
  const preemption::ReservedWorkload& self =
      *world_.snapshot().reserved.Find(workload.metadata.Key());
  auto info = std::make_shared<queueing::WorkloadInfo>();
  info->workload = self.workload;
  info->cluster_queue = self.cluster_queue;
  info->local_queue = self.local_queue;
  info->priority = self.priority;
  info->queue_order_time = self.queue_order_time;
  admission::Decision decision;
  decision.kind = admission::Decision::Kind::kPreempt;
  decision.info = std::move(info);
  decision.victims = pass.victims;
  for (const admission::Decision::Victim& victim : pass.victims) {
    entry.victims.insert(victim.workload->Key());
  }
  Preempt(decision, now);
}

void Operator::TakeSecondPass(const api::Workload& workload, SecondPassEntry entry,
                              absl::Time now) {
  using Outcome = admission::SecondPass::Outcome;
  const ObjectKey key = workload.metadata.Key();
  const state::Ref ref{api::Kind::kWorkload, key};
  // No cycle may have run for long: what may be preempted depends on the time.
  world_.snapshot().history.SetNow(now);
  admission::SecondPass pass = admission::PlaceAgain(world_.snapshot(), workload, now);
  std::vector<Note> notes;
  if (pass.outcome == Outcome::kEvict) {
    admission::SetEvicted(pass.workload, admission::kEvictedNodeFailures, "", pass.message, now);
    notes.push_back(WorkloadNote(workload, kAdmissionSource, false,
                                 fmt::format("EvictedDueTo{}", admission::kEvictedNodeFailures),
                                 pass.message));
    world_.AssumeEviction(key);
    Send(WorkloadStatusAction(world_, std::move(pass.workload), now, true), ref, std::move(notes),
         Purpose::kEviction);
    ScheduleSecondPass(key, std::move(entry), now);
    return;
  }
  entry.victims.clear();
  if (pass.outcome == Outcome::kTryAgain) {
    Record(WorkloadNote(workload, kAdmissionSource, true, "SecondPassFailed", pass.message), now);
    PreemptForRepair(workload, pass, entry, now);
    ++entry.attempt;
    ScheduleSecondPass(key, std::move(entry), now);
    return;
  }
  const bool admitted =
      !pass.repaired &&
      admission::SyncAdmitted(pass.workload, now, StatusOptionsOf(world_.settings()));
  if (admitted && api::IsTrue(pass.workload.status.conditions, api::kAdmitted)) {
    const api::Condition* reserved =
        api::FindCondition(workload.status.conditions, api::kQuotaReserved);
    notes.push_back(WorkloadNote(
        pass.workload, kAdmissionSource, false, api::kAdmitted,
        fmt::format("Admitted by ClusterQueue {}, wait time since reservation was {:.0f}s",
                    workload.status.admission->cluster_queue,
                    absl::ToDoubleSeconds(now - reserved->last_transition_time.value_or(now)))));
  }
  world_.Assume(std::make_shared<const api::Workload>(pass.workload));
  Send(WorkloadStatusAction(world_, std::move(pass.workload), now, true), ref, std::move(notes),
       Purpose::kAdmission);
  // Until the write is seen to have landed: if it does not, the need is still there.
  ScheduleSecondPass(key, std::move(entry), now);
}

}  // namespace sluice::reconcile
