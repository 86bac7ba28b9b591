// Everything about a Workload but the admission itself.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/reconcilers.h"

namespace sluice::reconcile {
namespace {

using api::ConditionStatus;
using api::Json;

bool IsStopped(const std::string& policy) { return !policy.empty() && policy != "None"; }
bool IsActive(const api::Workload& workload) { return workload.spec.active.value_or(true); }

// One pass over one Workload. The steps are tried in order; the first that plans a write ends it.
class WorkloadPass {
 public:
  WorkloadPass(const state::World& world, const api::Workload& workload, absl::Time now)
      : world_(world), workload_(workload), now_(now), options_(StatusOptionsOf(world.settings())) {
    local_queue_ = world.local_queues().Find(queueing::LocalQueueKey(workload));
    std::string name = local_queue_ == nullptr ? "" : local_queue_->spec.cluster_queue;
    if (workload.status.admission) name = workload.status.admission->cluster_queue;
    cluster_queue_name_ = name;
    cluster_queue_ = world.cluster_queues().Find({"", name});
  }

  Plan Run() {
    if (Orphan() || Finished() || workload_.metadata.Deleting() || Priority() || Checks() ||
        Backoff() || Requeue() || Deactivate() || CheckResults() || Admit() || StopPolicies() ||
        ExecutionTime() || Waiting()) {
      return std::move(plan_);
    }
    return std::move(plan_);
  }

 private:
  bool Reserved() const { return api::IsTrue(workload_.status.conditions, api::kQuotaReserved); }
  bool Admitted() const { return api::IsTrue(workload_.status.conditions, api::kAdmitted); }
  bool Evicted() const { return api::IsTrue(workload_.status.conditions, api::kEvicted); }

  Write& WriteStatus(api::Workload next) {
    return plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
  }
  bool PatchSpec(const char* field, Json value) {
    Json body = Json::MakeObject();
    body["spec"].Set(field, std::move(value));
    plan_.Add(MergePatchAction(api::Kind::kWorkload, workload_.metadata.Key(), "", std::move(body),
                               workload_.metadata.resource_version));
    return true;
  }
  bool Evict(const std::string& reason, const std::string& cause, const std::string& message,
             std::optional<absl::Time> requeue_at = std::nullopt) {
    api::Workload next = workload_;
    if (!admission::SetEvicted(next, reason, cause, message, now_)) return false;
    if (requeue_at) {
      if (!next.status.requeue_state) next.status.requeue_state = api::RequeueState{};
      next.status.requeue_state->requeue_at = requeue_at;
    }
    Write& write = WriteStatus(std::move(next));
    if (workload_.status.admission) {
      write.notes.push_back(WorkloadNote(workload_, kWorkloadSource, false,
                                         "EvictedDueTo" + admission::EvictedReason(reason, cause),
                                         message));
    }
    return true;
  }

  // A Workload whose job is gone for good ends, and may be deleted.
  bool Orphan() {
    if (!workload_.metadata.owner_references.empty()) return false;
    const bool deleting = workload_.metadata.Deleting();
    const bool of_job = !workload_.metadata.Label(api::kJobUidLabel).empty() &&
                        world_.settings().gates.Enabled("FinishOrphanedWorkloads");
    if (of_job && !deleting && !api::IsTrue(workload_.status.conditions, api::kFinished)) {
      api::Workload next = workload_;
      admission::SetFinished(next, "OwnerNotFound", "The owner of the workload is gone", now_);
      WriteStatus(std::move(next));
      return true;
    }
    if ((deleting || of_job) && workload_.metadata.HasFinalizer(api::kResourceInUse)) {
      plan_.Add(FinalizersAction(api::Kind::kWorkload, workload_.metadata.Key(),
                                 Without(workload_.metadata.finalizers, api::kResourceInUse),
                                 workload_.metadata.resource_version));
      return true;
    }
    return false;
  }

  bool Finished() {
    const api::Condition* finished =
        api::FindCondition(workload_.status.conditions, api::kFinished);
    if (finished == nullptr || finished->status != ConditionStatus::kTrue) return false;
    const auto& retention = world_.settings().object_retention.after_finished;
    if (!retention || workload_.metadata.Deleting()) return true;
    const absl::Time due = finished->last_transition_time.value_or(now_) + *retention;
    if (now_ < due) {
      plan_.RecheckAt(due);
      return true;
    }
    if (workload_.metadata.HasFinalizer(api::kResourceInUse)) {
      plan_.Add(FinalizersAction(api::Kind::kWorkload, workload_.metadata.Key(),
                                 Without(workload_.metadata.finalizers, api::kResourceInUse),
                                 workload_.metadata.resource_version));
      return true;
    }
    plan_.Add(DeleteAction(api::Kind::kWorkload, workload_.metadata.Key(), workload_.metadata.uid))
        .notes.push_back(WorkloadNote(workload_, kWorkloadSource, false, "Deleted",
                                      "Deleted finished workload due to elapsed retention"));
    return true;
  }

  // The value of a WorkloadPriorityClass governs all Workloads that name it.
  bool Priority() {
    const auto& ref = workload_.spec.priority_class_ref;
    if (!ref || ref->group != api::kKueueGroup) return false;
    const auto priority_class = world_.workload_priority_classes().Find({"", ref->name});
    if (priority_class == nullptr || priority_class->value == workload_.spec.priority) return false;
    return PatchSpec("priority", static_cast<int64_t>(priority_class->value));
  }

  bool QueueUsable() const {
    return local_queue_ != nullptr && !IsStopped(local_queue_->spec.stop_policy) &&
           cluster_queue_ != nullptr;
  }

  bool Checks() {
    if (!QueueUsable()) return false;
    const api::Admission* held =
        workload_.status.admission ? &*workload_.status.admission : nullptr;
    api::Workload next = workload_;
    if (!admission::SyncAdmissionChecks(next, admission::RequiredChecks(*cluster_queue_, held),
                                        now_)) {
      return false;
    }
    WriteStatus(std::move(next));
    return true;
  }

  bool Backoff() {
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
    api::Workload next = workload_;
    next.status.requeue_state->requeue_at.reset();
    if (!next.status.requeue_state->count) next.status.requeue_state.reset();
    const api::Condition* requeued =
        api::FindCondition(workload_.status.conditions, api::kRequeued);
    if (requeued != nullptr && requeued->status == ConditionStatus::kFalse) {
      admission::SetRequeued(next, true, "BackoffFinished", "The workload backoff was finished",
                             now_);
    }
    WriteStatus(std::move(next));
    return true;
  }

  // Lifts Requeued=False when its cause is over.
  bool Requeue() {
    const api::Condition* requeued =
        api::FindCondition(workload_.status.conditions, api::kRequeued);
    if (requeued == nullptr || requeued->status != ConditionStatus::kFalse ||
        !IsActive(workload_)) {
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
        reason == admission::kEvictedAdmissionCheck) {
      return lift("BackoffFinished", "The workload backoff was finished");
    }
    // Whoever sets active to true again wants it to run, whatever had deactivated it.
    if (reason.starts_with(admission::kDeactivated)) {
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

  bool Deactivate() {
    const api::Condition* target =
        api::FindCondition(workload_.status.conditions, api::kDeactivationTarget);
    const bool targeted = target != nullptr && target->status == ConditionStatus::kTrue;
    if (IsActive(workload_)) {
      // An evicted Workload that was deactivated once stays usable when a user activates it again.
      return targeted && !Evicted() && PatchSpec("active", false);
    }
    if (Evicted()) return false;
    return Evict(admission::kDeactivated, targeted ? target->reason : "",
                 admission::DeactivationMessage(workload_));
  }

  std::string ChecksText(const std::string& state) const {
    std::vector<std::string> names;
    for (const api::AdmissionCheckState& check : workload_.status.admission_checks) {
      if (check.state != state) continue;
      names.push_back(check.message.empty()
                          ? fmt::format("\"{}\"", check.name)
                          : fmt::format("\"{}\" ({})", check.name, check.message));
    }
    std::sort(names.begin(), names.end());
    return fmt::format("{} in {} state: {}",
                       names.size() == 1 ? "AdmissionCheck" : "AdmissionChecks", state,
                       fmt::join(names, "; "));
  }

  bool CheckResults() {
    if (!Reserved() || Evicted() || !IsActive(workload_)) return false;
    const auto& checks = workload_.status.admission_checks;
    const auto any = [&](const char* state) {
      return std::any_of(checks.begin(), checks.end(),
                         [&](const auto& check) { return check.state == state; });
    };
    if (any("Rejected")) {
      api::Workload next = workload_;
      if (!admission::SetDeactivationTarget(next, admission::kCauseAdmissionCheck,
                                            ChecksText("Rejected"), now_)) {
        return false;
      }
      WriteStatus(std::move(next))
          .notes.push_back(WorkloadNote(workload_, kWorkloadSource, true, "AdmissionCheckRejected",
                                        "Deactivated due to " + ChecksText("Rejected")));
      return true;
    }
    if (!any("Retry")) return false;
    const std::optional<absl::Time> retry_at = RetryTime();
    const auto& state = workload_.status.requeue_state;
    const bool later = retry_at && *retry_at > now_ &&
                       (!state || !state->requeue_at || *retry_at > *state->requeue_at);
    if (later) {
      api::Workload next = workload_;
      if (!next.status.requeue_state) next.status.requeue_state = api::RequeueState{};
      next.status.requeue_state->requeue_at = retry_at;
      WriteStatus(std::move(next));
      return true;
    }
    return Evict(admission::kEvictedAdmissionCheck, "", "Evicted due to " + ChecksText("Retry"));
  }

  std::optional<absl::Time> RetryTime() const {
    std::optional<absl::Time> latest;
    for (const api::AdmissionCheckState& check : workload_.status.admission_checks) {
      if (check.state != "Retry" || !check.requeue_after_seconds) continue;
      const absl::Time time =
          check.last_transition_time.value_or(now_) + absl::Seconds(*check.requeue_after_seconds);
      latest = latest ? std::max(*latest, time) : time;
    }
    return latest;
  }

  // Admission that had to wait for checks.
  bool Admit() {
    if (!Reserved() || !IsActive(workload_)) return false;
    api::Workload next = workload_;
    const bool was = Admitted();
    if (!admission::SyncAdmitted(next, now_, options_)) return false;
    const bool is = api::IsTrue(next.status.conditions, api::kAdmitted);
    const api::Condition* reserved =
        api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
    const absl::Duration waited = now_ - reserved->last_transition_time.value_or(now_);
    Write& write = WriteStatus(std::move(next));
    if (is && !was) {
      write.notes.push_back(WorkloadNote(
          workload_, kWorkloadSource, false, "Admitted",
          fmt::format("Admitted by ClusterQueue {}, wait time since reservation was {}s",
                      cluster_queue_name_, absl::ToInt64Seconds(waited))));
    }
    return true;
  }

  bool LoseReservation(const char* reason, const std::string& message) {
    api::Workload next = workload_;
    if (!admission::SetPending(next, admission::PendingReason(reason, false, options_), message,
                               nullptr, now_, options_)) {
      return false;
    }
    WriteStatus(std::move(next));
    return true;
  }

  bool StopPolicies() {
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
        return LoseReservation(admission::kSuspended,
                               fmt::format("LocalQueue {} is stopped", local));
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

  bool ExecutionTime() {
    if (!Admitted() || Evicted() || !IsActive(workload_) ||
        !workload_.spec.maximum_execution_time_seconds) {
      return false;
    }
    const int32_t limit = *workload_.spec.maximum_execution_time_seconds;
    const api::Condition* admitted =
        api::FindCondition(workload_.status.conditions, api::kAdmitted);
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

  // The reason why a Workload without reservation waits, where it is not the cycle that says it.
  bool Waiting() {
    if (Reserved()) return false;
    const api::Condition* current =
        api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
    const std::string reason = current == nullptr ? "" : current->reason;
    const auto say = [&](const char* granular, const std::string& message) {
      api::Workload next = workload_;
      if (!admission::SetPending(next, admission::PendingReason(granular, false, options_), message,
                                 nullptr, now_, options_)) {
        return false;
      }
      Write& write = WriteStatus(std::move(next));
      if (std::string_view(granular) == admission::kAdmissionGated) {
        write.notes.push_back(WorkloadNote(workload_, kWorkloadSource, false, granular, message));
      }
      return true;
    };
    if (!IsActive(workload_)) {
      return options_.granular_reasons &&
             say(admission::kDeactivated, admission::kDeactivatedMessage);
    }
    if (reason == admission::kOnHold) return false;
    const std::string& queue = workload_.spec.queue_name;
    if (local_queue_ == nullptr) {
      return say(admission::kMisconfigured, fmt::format("LocalQueue {} doesn't exist", queue));
    }
    if (IsStopped(local_queue_->spec.stop_policy)) {
      return say(admission::kSuspended, fmt::format("LocalQueue {} is inactive", queue));
    }
    if (cluster_queue_ == nullptr) {
      return say(admission::kMisconfigured,
                 fmt::format("ClusterQueue {} doesn't exist", cluster_queue_name_));
    }
    if (!world_.ActivityOf(cluster_queue_name_).active) {
      return say(admission::kSuspended,
                 fmt::format("ClusterQueue {} is inactive", cluster_queue_name_));
    }
    if (!options_.granular_reasons) return false;
    return WaitingInQueue(reason, say);
  }

  template <typename Say>
  bool WaitingInQueue(const std::string& reason, const Say& say) {
    const ObjectKey key = workload_.metadata.Key();
    const std::string gates = workload_.metadata.Annotation(api::kAdmissionGatedBy);
    if (!gates.empty() && world_.settings().gates.Enabled("AdmissionGatedBy")) {
      return say(admission::kAdmissionGated, "Admission is gated by: " + gates);
    }
    if (reason == admission::kAdmissionGated) {
      if (!say(admission::kPendingEvaluation,
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
      return say(bypass->c_str(),
                 "Bypassed scheduling evaluation because an equivalent workload recently failed");
    }
    const bool stale = reason == admission::kDeactivated || reason == admission::kSuspended ||
                       (reason == admission::kMisconfigured && !HasProblems());
    if (stale || (reason.empty() && options_.explicit_status)) {
      return say(admission::kPendingEvaluation, admission::kPendingEvaluationMessage);
    }
    return false;
  }

  // What the cycle found wrong with the Workload itself (namespace, requests) still holds.
  bool HasProblems() const {
    if (!world_.NamespaceAllowed(cluster_queue_name_, workload_.metadata.ns)) return true;
    const queueing::WorkloadInfoPtr info = world_.queues().Find(workload_.metadata.Key());
    return info != nullptr && !info->problems.empty();
  }

  const state::World& world_;
  const api::Workload& workload_;
  absl::Time now_;
  admission::StatusOptions options_;
  std::shared_ptr<const api::LocalQueue> local_queue_;
  std::string cluster_queue_name_;
  std::shared_ptr<const api::ClusterQueue> cluster_queue_;
  Plan plan_;
};

}  // namespace

Plan ReconcileWorkload(const state::World& world, const ObjectKey& key, absl::Time now) {
  const auto workload = world.workloads().Find(key);
  // While an admission is on its way the next state is not known yet.
  if (workload == nullptr || world.IsAssumed(key) ||
      world.Unreadable({api::Kind::kWorkload, key})) {
    return {};
  }
  return WorkloadPass(world, *workload, now).Run();
}

state::Action WorkloadStatusAction(const state::World& world, api::Workload workload,
                                   absl::Time now, bool strict) {
  const bool of_job = workload.metadata.Controller() != nullptr;
  if (world.settings().wait_for_pods_ready && of_job &&
      api::FindCondition(workload.status.conditions, api::kPodsReady) == nullptr) {
    admission::SetWorkloadCondition(workload, api::kPodsReady, ConditionStatus::kFalse,
                                    "WaitForStart", "Not all pods are ready or succeeded", now);
  }
  return ApplyStatusAction(api::Kind::kWorkload, workload.metadata.Key(),
                           admission::AdmissionPatch(workload, strict), api::kAdmissionManager);
}

Note WorkloadNote(const api::Workload& workload, const char* source, bool warning,
                  std::string reason, std::string message) {
  return {api::Kind::kWorkload, workload.metadata.Key(), workload.metadata.uid, source, warning,
          std::move(reason),    std::move(message)};
}

admission::StatusOptions StatusOptionsOf(const state::Settings& settings) {
  return {settings.gates.Enabled("UnadmittedWorkloadsObservability"),
          settings.gates.Enabled("UnadmittedWorkloadsExplicitStatus")};
}

}  // namespace sluice::reconcile
