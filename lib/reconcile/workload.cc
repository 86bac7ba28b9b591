// A Workload as such: its end, its priority, its admission checks and the admission they allow.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/names.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {

using api::ConditionStatus;
using api::Json;

WorkloadPass::WorkloadPass(const state::World& world, const api::Workload& workload, absl::Time now)
    : world_(world), workload_(workload), now_(now), options_(StatusOptionsOf(world.settings())) {
  local_queue_ = world.local_queues().Find(queueing::LocalQueueKey(workload));
  std::string name = local_queue_ == nullptr ? "" : local_queue_->spec.cluster_queue;
  if (workload.status.admission) name = workload.status.admission->cluster_queue;
  cluster_queue_name_ = name;
  cluster_queue_ = world.cluster_queues().Find({"", name});
}

Plan WorkloadPass::Run() {
  if (Orphan() || Finished() || Replaced() || workload_.metadata.Deleting() || Priority() ||
      Checks() || PreemptionGates() || Backoff() || Requeue() || Deactivate() || CheckResults() ||
      Admit() || Checkpoint() || StopPolicies() || ExecutionTime() || PodsNotReady() || Waiting()) {
    return std::move(plan_);
  }
  return std::move(plan_);
}

Write& WorkloadPass::WriteStatus(api::Workload next) {
  return plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
}

bool WorkloadPass::PatchSpec(const char* field, Json value) {
  Json body = Json::MakeObject();
  body["spec"].Set(field, std::move(value));
  plan_.Add(MergePatchAction(api::Kind::kWorkload, workload_.metadata.Key(), "", std::move(body),
                             workload_.metadata.resource_version));
  return true;
}

// A Workload whose job is gone for good ends, and may be deleted.
bool WorkloadPass::Orphan() {
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
  return (deleting || of_job) && RemoveFinalizer(plan_, world_, workload_, now_);
}

bool WorkloadPass::Finished() {
  const api::Condition* finished = api::FindCondition(workload_.status.conditions, api::kFinished);
  if (finished == nullptr || finished->status != ConditionStatus::kTrue) return false;
  const auto& retention = world_.settings().object_retention.after_finished;
  if (!retention || workload_.metadata.Deleting()) return true;
  const absl::Time due = finished->last_transition_time.value_or(now_) + *retention;
  if (now_ < due) {
    plan_.RecheckAt(due);
    return true;
  }
  if (RemoveFinalizer(plan_, world_, workload_, now_)) return true;
  plan_.Add(DeleteAction(api::Kind::kWorkload, workload_.metadata.Key(), workload_.metadata.uid))
      .notes.push_back(WorkloadNote(workload_, kWorkloadSource, false, "Deleted",
                                    "Deleted finished workload due to elapsed retention"));
  return true;
}

// A later slice of the same elastic job holds the quota now. Nothing else is done about this one.
bool WorkloadPass::Replaced() {
  const auto next = world_.TakenOverBy(workload_.metadata.Key());
  if (next == nullptr) return false;
  if (world_.IsAssumed(next->metadata.Key())) return true;  // its reply comes soon
  const auto known = [](const std::string& text) { return text.empty() ? "UNKNOWN" : text; };
  const std::string message = fmt::format(
      "Replaced to accommodate a workload (UID: {}, JobUID: {}) due to workload slice aggregation",
      known(next->metadata.uid), known(next->metadata.Label(api::kJobUidLabel)));
  api::Workload ended = workload_;
  admission::SetFinished(ended, admission::kWorkloadSliceReplaced, message, now_);
  WriteStatus(std::move(ended))
      .notes.push_back(WorkloadNote(workload_, kWorkloadSource, false,
                                    admission::kWorkloadSliceReplaced, message));
  return true;
}

// The value of a WorkloadPriorityClass governs all Workloads that name it.
bool WorkloadPass::Priority() {
  const auto& ref = workload_.spec.priority_class_ref;
  if (!ref || ref->group != api::kKueueGroup) return false;
  const auto priority_class = world_.workload_priority_classes().Find({"", ref->name});
  if (priority_class == nullptr || priority_class->value == workload_.spec.priority) return false;
  return PatchSpec("priority", static_cast<int64_t>(priority_class->value));
}

bool WorkloadPass::QueueUsable() const {
  return local_queue_ != nullptr && !IsStopped(local_queue_->spec.stop_policy) &&
         cluster_queue_ != nullptr;
}

bool WorkloadPass::Checks() {
  if (!QueueUsable()) return false;
  const api::Admission* held = workload_.status.admission ? &*workload_.status.admission : nullptr;
  api::Workload next = workload_;
  std::vector<std::string> required;
  if (!world_.IsParent(workload_)) required = admission::RequiredChecks(*cluster_queue_, held);
  if (!admission::SyncAdmissionChecks(next, required, now_)) {
    return false;
  }
  WriteStatus(std::move(next));
  return true;
}

// Whoever opens the gates finds an entry for each of them.
bool WorkloadPass::PreemptionGates() {
  if (!world_.settings().gates.Enabled("MultiKueueOrchestratedPreemption")) return false;
  api::Workload next = workload_;
  if (!admission::SyncPreemptionGates(next, now_)) return false;
  WriteStatus(std::move(next));
  return true;
}

std::string WorkloadPass::ChecksText(const std::string& state) const {
  std::vector<std::string> names;
  for (const api::AdmissionCheckState& check : workload_.status.admission_checks) {
    if (check.state != state) continue;
    names.push_back(check.message.empty() ? fmt::format("\"{}\"", check.name)
                                          : fmt::format("\"{}\" ({})", check.name, check.message));
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{} in {} state: {}", names.size() == 1 ? "AdmissionCheck" : "AdmissionChecks",
                     state, fmt::join(names, "; "));
}

bool WorkloadPass::CheckResults() {
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

std::optional<absl::Time> WorkloadPass::RetryTime() const {
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
bool WorkloadPass::Admit() {
  // An admitted one stays admitted, whatever checks say later, until an eviction has ended.
  if (!Reserved() || Admitted() || Evicted() || !IsActive(workload_)) return false;
  api::Workload next = workload_;
  if (!admission::SyncAdmitted(next, now_, options_)) return false;
  const api::Condition* reserved =
      api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
  const absl::Duration waited = now_ - reserved->last_transition_time.value_or(now_);
  const bool admitted = api::IsTrue(next.status.conditions, api::kAdmitted);
  Write& write = WriteStatus(std::move(next));
  if (admitted) {
    write.notes.push_back(
        WorkloadNote(workload_, kWorkloadSource, false, "Admitted",
                     fmt::format("Admitted by ClusterQueue {}, wait time since reservation was {}s",
                                 cluster_queue_name_, absl::ToInt64Seconds(waited))));
  }
  return true;
}

Plan ReconcileWorkload(const state::World& world, const ObjectKey& key, absl::Time now) {
  const auto workload = world.workloads().Find(key);
  // While an admission is on its way the next state is not known yet.
  if (workload == nullptr || world.IsAssumed(key) ||
      world.Unreadable({api::Kind::kWorkload, key})) {
    return {};
  }
  if (world.IsParent(*workload)) {
    Plan plan = ReconcileParent(world, *workload, now);
    if (!plan.writes.empty()) return plan;
    Plan own = WorkloadPass(world, *workload, now).Run();
    own.RecheckAt(plan.recheck);
    return own;
  }
  return WorkloadPass(world, *workload, now).Run();
}

state::Action WorkloadStatusAction(const state::World& world, api::Workload workload,
                                   absl::Time now, bool strict) {
  const bool of_job = workload.metadata.Controller() != nullptr ||
                      workload.metadata.Annotation(api::kIsGroupWorkload) == "true";
  if (world.settings().wait_for_pods_ready && of_job &&
      api::FindCondition(workload.status.conditions, api::kPodsReady) == nullptr) {
    admission::SetWorkloadCondition(workload, api::kPodsReady, ConditionStatus::kFalse,
                                    admission::kWaitForStart, admission::kWaitForStartMessage, now);
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
