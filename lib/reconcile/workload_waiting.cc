// The reason why a Workload without reservation waits, where it is not the cycle that says it.
#include <fmt/format.h>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {

bool WorkloadPass::SayWaiting(const std::string& granular, const std::string& message) {
  api::Workload next = workload_;
  if (!admission::SetPending(next, admission::PendingReason(granular, false, options_), message,
                             nullptr, now_, options_)) {
    return false;
  }
  Write& write = WriteStatus(std::move(next));
  if (granular == admission::kAdmissionGated) {
    write.notes.push_back(WorkloadNote(workload_, kWorkloadSource, false, granular, message));
  }
  return true;
}

bool WorkloadPass::Waiting() {
  if (Reserved()) return false;
  const api::Condition* current =
      api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
  const std::string reason = current == nullptr ? "" : current->reason;
  if (!IsActive(workload_)) {
    return options_.granular_reasons &&
           SayWaiting(admission::kDeactivated, admission::kDeactivatedMessage);
  }
  // What is said of its gang is said by who looks after its job.
  if (reason == admission::kOnHold || reason == admission::kGangRefused) return false;
  const std::string& queue = workload_.spec.queue_name;
  if (local_queue_ == nullptr) {
    return SayWaiting(admission::kMisconfigured, fmt::format("LocalQueue {} doesn't exist", queue));
  }
  if (IsStopped(local_queue_->spec.stop_policy)) {
    return SayWaiting(admission::kSuspended, fmt::format("LocalQueue {} is inactive", queue));
  }
  if (cluster_queue_ == nullptr) {
    return SayWaiting(admission::kMisconfigured,
                      fmt::format("ClusterQueue {} doesn't exist", cluster_queue_name_));
  }
  // A circle of cohorts stops the queues below it, though their Active condition does not say so.
  if (!world_.ActivityOf(cluster_queue_name_).active ||
      world_.tree().InCycle(cluster_queue_name_)) {
    return SayWaiting(admission::kSuspended,
                      fmt::format("ClusterQueue {} is inactive", cluster_queue_name_));
  }
  if (!options_.granular_reasons) return false;
  return WaitingInQueue(current);
}

bool WorkloadPass::WaitingInQueue(const api::Condition* current) {
  const std::string reason = current == nullptr ? "" : current->reason;
  const ObjectKey key = workload_.metadata.Key();
  const std::string gates = workload_.metadata.Annotation(api::kAdmissionGatedBy);
  if (!gates.empty() && world_.settings().gates.Enabled("AdmissionGatedBy")) {
    return SayWaiting(admission::kAdmissionGated, "Admission is gated by: " + gates);
  }
  // What the cycle said about a preemption gate stays until it says something else.
  if (reason == admission::kAdmissionGated &&
      api::IsTrue(workload_.status.conditions, api::kBlockedOnPreemptionGates)) {
    return false;
  }
  if (reason == admission::kAdmissionGated) {
    if (!SayWaiting(admission::kPendingEvaluation,
                    "AdmissionGatedBy cleared, waiting for quota reservation")) {
      return false;
    }
    plan_.writes.back().notes.push_back(
        WorkloadNote(workload_, kWorkloadSource, false, "AdmissionGateCleared",
                     "AdmissionGatedBy cleared, waiting for quota reservation"));
    return true;
  }
  const bool replaceable = reason.empty() || reason == admission::kDeactivated ||
                           reason == admission::kPendingEvaluation ||
                           reason == admission::kSuspended || reason == "Pending";
  const std::optional<std::string> bypass = world_.queues().BypassReason(key);
  if (bypass && replaceable) {
    plan_.waiting = WaitingReason{
        *bypass, "Bypassed scheduling evaluation because an equivalent workload recently failed"};
    return true;
  }
  const bool stale = reason == admission::kDeactivated || reason == admission::kSuspended ||
                     (reason == admission::kMisconfigured && !HasProblems());
  if (reason.empty() && options_.explicit_status) {
    return SayWaiting(admission::kPendingEvaluation, admission::kPendingEvaluationMessage);
  }
  // Where thousands wait in a queue that was stopped, many start before there is time to say this.
  if (stale) {
    plan_.waiting =
        WaitingReason{admission::kPendingEvaluation, admission::kPendingEvaluationMessage};
    return true;
  }
  if (replaceable) LookAgain(current);
  return false;
}

// Nobody has said why it waits. When another one of its kind is judged that will be its reason too,
// but tells nobody: it is looked at again after pauses that grow with the time it has waited.
void WorkloadPass::LookAgain(const api::Condition* current) {
  if (world_.queues().PlaceOf(workload_.metadata.Key()) != queueing::Place::kActive) return;
  const std::optional<absl::Time> since =
      current == nullptr ? workload_.metadata.creation_timestamp : current->last_transition_time;
  if (!since.has_value()) return;
  absl::Duration pause = absl::Seconds(1);
  while (*since + pause <= now_) pause *= 2;
  plan_.RecheckAt(*since + pause);
}

// What the cycle found wrong with the Workload itself (namespace, requests) still holds.
bool WorkloadPass::HasProblems() const {
  if (!world_.NamespaceAllowed(cluster_queue_name_, workload_.metadata.ns)) return true;
  const queueing::WorkloadInfoPtr info = world_.queues().Find(workload_.metadata.Key());
  return info != nullptr && !info->problems.empty();
}

}  // namespace sluice::reconcile
