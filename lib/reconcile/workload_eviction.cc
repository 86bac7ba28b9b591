// How a Workload loses its quota, how it is deactivated, and how it comes back to its queue.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {

using api::ConditionStatus;
using api::Json;

bool WorkloadPass::Evict(const std::string& reason, const std::string& cause,
                         const std::string& message,
                         std::optional<api::RequeueState> requeue_state) {
  api::Workload next = workload_;
  if (!admission::SetEvicted(next, reason, cause, message, now_)) return false;
  if (requeue_state) next.status.requeue_state = std::move(requeue_state);
  Write& write = WriteStatus(std::move(next));
  if (workload_.status.admission) {
    write.notes.push_back(WorkloadNote(workload_, kWorkloadSource, false,
                                       "EvictedDueTo" + admission::EvictedReason(reason, cause),
                                       message));
  }
  return true;
}

bool WorkloadPass::Backoff() {
  if (!IsActive(workload_) || !workload_.status.requeue_state ||
      !workload_.status.requeue_state->requeue_at) {
    return false;
  }
  const absl::Time due = *workload_.status.requeue_state->requeue_at;
  if (now_ < due) {
    plan_.RecheckAt(due);
    return true;
  }
  if (Reserved()) return false;  // the eviction that follows looks at it
  // Requeued=True follows in the next pass.
  const bool keep_count = workload_.status.requeue_state->count.has_value();
  return ClearRequeueState(keep_count);
}

// A merge patch, because an apply leaves standing what another manager wrote too.
bool WorkloadPass::ClearRequeueState(bool keep_count) {
  Json body = Json::MakeObject();
  if (keep_count) {
    body["status"]["requeueState"].Set("requeueAt", Json());
  } else {
    body["status"].Set("requeueState", Json());
  }
  plan_.Add(MergePatchAction(api::Kind::kWorkload, workload_.metadata.Key(), "status",
                             std::move(body), workload_.metadata.resource_version));
  return true;
}

// Lifts Requeued=False when its cause is over.
bool WorkloadPass::Requeue() {
  const api::Condition* requeued = api::FindCondition(workload_.status.conditions, api::kRequeued);
  if (requeued == nullptr || requeued->status != ConditionStatus::kFalse || !IsActive(workload_)) {
    return false;
  }
  const std::string& reason = requeued->reason;
  const auto lift = [&](const char* new_reason, const char* message) {
    api::Workload next = workload_;
    admission::SetRequeued(next, true, new_reason, message, now_);
    WriteStatus(std::move(next));
    return true;
  };
  if (reason == admission::kEvictedPodsReadyTimeout ||
      reason == admission::kEvictedGangIncomplete || reason == admission::kEvictedGangRefused ||
      reason == admission::kEvictedAdmissionCheck) {
    return lift("BackoffFinished", "The workload backoff was finished");
  }
  // Not DeactivatedDueTo...: what the controller has given up on stays parked even when a user sets
  // active to true, until the condition is changed or the Workload is made anew.
  if (reason == admission::kDeactivated) {
    return lift("Reactivated", "The workload was reactivated");
  }
  if (reason == admission::kEvictedLocalQueueStopped && local_queue_ != nullptr &&
      !IsStopped(local_queue_->spec.stop_policy)) {
    return lift("LocalQueueRestarted", "The LocalQueue was restarted after being stopped");
  }
  if (reason == admission::kEvictedClusterQueueStopped && cluster_queue_ != nullptr &&
      !IsStopped(cluster_queue_->spec.stop_policy)) {
    return lift("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped");
  }
  return false;
}

bool WorkloadPass::Deactivate() {
  const api::Condition* target =
      api::FindCondition(workload_.status.conditions, api::kDeactivationTarget);
  const bool targeted = target != nullptr && target->status == ConditionStatus::kTrue;
  if (IsActive(workload_)) return targeted && PatchSpec("active", false);
  if (!Evicted()) {
    return Evict(admission::kDeactivated, targeted ? target->reason : "",
                 admission::DeactivationMessage(workload_));
  }
  // It was evicted for another reason before: only what would outlast the deactivation goes.
  if (targeted) {
    api::Workload next = workload_;
    admission::SetWorkloadCondition(next, api::kDeactivationTarget, ConditionStatus::kFalse,
                                    target->reason, target->message, now_);
    WriteStatus(std::move(next));
    return true;
  }
  return workload_.status.requeue_state && ClearRequeueState(false);
}

bool WorkloadPass::TargetDeactivation(const char* cause, const std::string& message) {
  api::Workload next = workload_;
  if (!admission::SetDeactivationTarget(next, cause, message, now_)) return false;
  WriteStatus(std::move(next));
  return true;
}

bool WorkloadPass::LoseReservation(const char* reason, const std::string& message) {
  api::Workload next = workload_;
  if (!admission::SetPending(next, admission::PendingReason(reason, false, options_), message,
                             nullptr, now_, options_)) {
    return false;
  }
  WriteStatus(std::move(next));
  return true;
}

bool WorkloadPass::StopPolicies() {
  if (!Reserved() || Evicted() || !IsActive(workload_)) return false;
  const bool no_local = local_queue_ == nullptr || local_queue_->metadata.Deleting();
  const bool no_cluster = cluster_queue_ == nullptr || cluster_queue_->metadata.Deleting();
  const std::string local = workload_.spec.queue_name;
  if (!Admitted()) {
    if (no_local) {
      return LoseReservation(admission::kMisconfigured,
                             fmt::format("LocalQueue {} is terminating or missing", local));
    }
    if (IsStopped(local_queue_->spec.stop_policy)) {
      return LoseReservation(admission::kSuspended, fmt::format("LocalQueue {} is stopped", local));
    }
    if (no_cluster) {
      return LoseReservation(
          admission::kMisconfigured,
          fmt::format("ClusterQueue {} is terminating or missing", cluster_queue_name_));
    }
    return IsStopped(cluster_queue_->spec.stop_policy) &&
           LoseReservation(admission::kSuspended,
                           fmt::format("ClusterQueue {} is stopped", cluster_queue_name_));
  }
  if (local_queue_ != nullptr && local_queue_->spec.stop_policy == "HoldAndDrain") {
    return Evict(admission::kEvictedLocalQueueStopped, "", admission::kLocalQueueStoppedMessage);
  }
  if (cluster_queue_ != nullptr && cluster_queue_->spec.stop_policy == "HoldAndDrain") {
    return Evict(admission::kEvictedClusterQueueStopped, "",
                 admission::kClusterQueueStoppedMessage);
  }
  return false;
}

bool WorkloadPass::ExecutionTime() {
  if (IsVariant()) return false;  // its parent has the same limit
  if (!Admitted() || Evicted() || !IsActive(workload_) ||
      !workload_.spec.maximum_execution_time_seconds) {
    return false;
  }
  const int32_t limit = *workload_.spec.maximum_execution_time_seconds;
  const api::Condition* admitted = api::FindCondition(workload_.status.conditions, api::kAdmitted);
  const int32_t past = workload_.status.accumulated_past_execution_time_seconds.value_or(0);
  const absl::Time due =
      admitted->last_transition_time.value_or(now_) + absl::Seconds(limit - past);
  if (now_ < due) {
    plan_.RecheckAt(due);
    return false;
  }
  api::Workload next = workload_;
  if (!admission::SetDeactivationTarget(next, admission::kCauseMaximumExecutionTimeExceeded,
                                        admission::kMaximumExecutionTimeExceededMessage, now_)) {
    return false;
  }
  next.status.accumulated_past_execution_time_seconds.reset();
  WriteStatus(std::move(next))
      .notes.push_back(
          WorkloadNote(workload_, kWorkloadSource, true, "MaximumExecutionTimeExceeded",
                       fmt::format("The maximum execution time ({}s) exceeded", limit)));
  return true;
}

}  // namespace sluice::reconcile
