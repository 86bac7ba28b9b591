// A workload that is to be preempted and was asked for a checkpoint: it goes when the checkpoint is
// there, at the latest when the grace is over; or it stays, when nobody needs its room any more.
//
// The request is the condition CheckpointRequested=True, which names the preemptor as the condition
// Preempted will, so whoever comes next goes on where a crash has left it.
#include <fmt/format.h>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "admission/second_pass.h"
#include "api/names.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {

using api::ConditionStatus;

bool WorkloadPass::Checkpoint() {
  const api::Condition* asked =
      api::FindCondition(workload_.status.conditions, preemption::kCheckpointRequested);
  if (asked == nullptr || asked->status != ConditionStatus::kTrue) return false;
  if (!Reserved() || Evicted() || !IsActive(workload_)) return false;
  const std::string uid = admission::PreemptorUid(asked->message);
  const auto preemptor = world_.FindByUid(uid);
  if (preemptor != nullptr && world_.IsAssumed(preemptor->metadata.Key())) {
    plan_.RecheckAt(now_ + absl::Seconds(1));  // its admission is on its way
    return false;
  }
  // One that is admitted may need the room for a place that it lost.
  if (preemptor == nullptr ||
      (world_.queues().PlaceOf(preemptor->metadata.Key()) == queueing::Place::kNone &&
       !admission::NeedsSecondPass(*preemptor))) {
    return WithdrawRequest(
        fmt::format("The workload that needed the room (UID: {}) waits no more", uid));
  }
  const absl::Time since = asked->last_transition_time.value_or(now_);
  const auto checkpoints = preemption::CheckpointsOf(workload_);
  if (checkpoints && checkpoints->last && *checkpoints->last >= since) {
    if (*checkpoints->last <= now_) {
      return PreemptNow(
          *preemptor, preemption::kAnswered,
          fmt::format("Checkpoint written at {}", sluice::FormatTime(*checkpoints->last)));
    }
    plan_.RecheckAt(*checkpoints->last);
  }
  const absl::Duration grace = world_.settings().preemption.checkpoint_grace_period;
  if (now_ >= since + grace) {
    return PreemptNow(
        *preemptor, preemption::kTimedOut,
        fmt::format("No checkpoint was written within {}", sluice::FormatDuration(grace)));
  }
  plan_.RecheckAt(since + grace);
  return false;
}

bool WorkloadPass::WithdrawRequest(const std::string& message) {
  api::Workload next = workload_;
  admission::SetWorkloadCondition(next, preemption::kCheckpointRequested, ConditionStatus::kFalse,
                                  preemption::kWithdrawn, message, now_);
  WriteStatus(std::move(next))
      .notes.push_back(
          WorkloadNote(workload_, kAdmissionSource, false, "CheckpointRequestWithdrawn", message));
  return true;
}

bool WorkloadPass::PreemptNow(const api::Workload& preemptor, const char* reason,
                              const std::string& message) {
  const api::Condition asked =
      *api::FindCondition(workload_.status.conditions, preemption::kCheckpointRequested);
  const state::Preemption& settings = world_.settings().preemption;
  api::Workload next = workload_;
  admission::SetWorkloadCondition(next, preemption::kCheckpointRequested, ConditionStatus::kFalse,
                                  reason, message, now_);
  admission::SetEvicted(next, admission::kEvictedPreempted, "", asked.message, now_);
  admission::SetPreempted(next, asked.reason, asked.message, now_);
  preemption::NotePreemption(next, {settings.max_per_workload, settings.window}, now_);
  const auto note = [&](const api::Workload& about, std::string what, const std::string& text) {
    return WorkloadNote(about, kAdmissionSource, false, std::move(what), text);
  };
  Write& write = WriteStatus(std::move(next));
  write.notes = {note(workload_, fmt::format("Checkpoint{}", reason), message),
                 note(workload_, "EvictedDueToPreempted", asked.message),
                 note(workload_, api::kPreempted, asked.message),
                 note(preemptor, "PreemptedWorkload",
                      fmt::format("Preempted workload {} (UID: {}) in ClusterQueue {} after a "
                                  "request for a checkpoint: {}",
                                  workload_.metadata.Key().ToString(), workload_.metadata.uid,
                                  cluster_queue_name_, message))};
  return true;
}

}  // namespace sluice::reconcile
