#include "reconcile/pod_pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod.h"
#include "jobs/pod_construct.h"
#include "reconcile/checkpoint.h"
#include "reconcile/lost_pods.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {

using api::ConditionStatus;
using api::Json;
using state::ManagedPod;
using state::ManagedPodPtr;

namespace {

// A large group is worked off in pieces, so that it does not keep everybody else waiting.
constexpr size_t kMaxWrites = 500;

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

std::string QueueName(const ManagedPod& pod) { return pod.metadata.Label(api::kQueueNameLabel); }

}  // namespace

PodPass::PodPass(const state::World& world, jobs::Pods pods, std::string group, absl::Time now)
    : world_(world),
      all_(group.empty() ? std::move(pods) : WithLost(world, std::move(pods), now, plan_)),
      pods_(all_),
      group_(std::move(group)),
      now_(now),
      options_(StatusOptionsOf(world.settings())),
      prebuilt_(jobs::PrebuiltName(world.settings(), First().metadata)),
      gang_(world, all_, group_, now) {}

Plan PodPass::Run() {
  const bool busy = IsGroup() ? FindGroup() : prebuilt_.empty() ? FindSingle() : FindPrebuilt();
  if (busy) return std::move(plan_);
  if (workload_ != nullptr && world_.IsAssumed(workload_->metadata.Key())) {
    return std::move(plan_);  // its reply comes soon
  }
  if (Replacements() || WorkloadEnded() || JobEnded() || NoWorkload() || SyncFromJob() || Held() ||
      Checkpoints() || Reclaimable() || PodsReady() || Evicted()) {
    return std::move(plan_);
  }
  StartOrStop();
  return std::move(plan_);
}

const ManagedPod& PodPass::Speaker() const {
  if (!QueueName(First()).empty() || !jobs::IsTerminated(First())) return First();
  for (const bool ended : {false, true}) {
    for (const ManagedPodPtr& pod : all_) {
      if (jobs::IsTerminated(*pod) == ended && !QueueName(*pod).empty()) return *pod;
    }
  }
  return First();
}

bool PodPass::Suspended() const { return jobs::GroupSuspended(pods_); }

bool PodPass::Active() const {
  return IsGroup() && jobs::GroupActive(pods_, Enabled("FastQuotaReleaseInPodIntegration"), now_);
}

std::optional<jobs::JobFinish> PodPass::Finished() const {
  return IsGroup() ? jobs::GroupFinished(pods_) : jobs::PodFinished(First());
}

bool PodPass::Room() const { return plan_.writes.size() < kMaxWrites; }

Note PodPass::PodNote(const ManagedPod& pod, bool warning, std::string reason,
                      std::string message) const {
  return {api::Kind::kPod, pod.metadata.Key(), pod.metadata.uid,  jobs::kPodEventSource,
          warning,         std::move(reason),  std::move(message)};
}

void PodPass::PatchPod(const ManagedPod& pod, Json body, const char* reason, std::string message) {
  body["metadata"].Set("uid", pod.metadata.uid);
  plan_
      .Add(MergePatchAction(api::Kind::kPod, pod.metadata.Key(), "", std::move(body),
                            pod.metadata.resource_version))
      .notes.push_back(PodNote(pod, false, reason, std::move(message)));
}

void PodPass::PatchWorkload(Json body) {
  plan_
      .Add(MergePatchAction(api::Kind::kWorkload, workload_->metadata.Key(), "", std::move(body),
                            workload_->metadata.resource_version))
      .notes.push_back(PodNote(First(), false, "UpdatedWorkload",
                               "Updated Workload: " + workload_->metadata.Key().ToString()));
}

Write& PodPass::WriteWorkload(api::Workload next) {
  return plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
}

bool PodPass::Finalize(const jobs::Pods& pods) {
  bool any = false;
  for (const ManagedPodPtr& pod : pods) {
    if (!pod->metadata.HasFinalizer(api::kManagedFinalizer)) continue;
    any = true;
    if (!Room()) break;
    plan_.Add(FinalizersAction(api::Kind::kPod, pod->metadata.Key(),
                               Without(pod->metadata.finalizers, api::kManagedFinalizer),
                               pod->metadata.resource_version));
  }
  return any;
}

bool PodPass::Stop(const std::string& reason, const std::string& message, bool all_of_them) {
  bool any = false;
  for (const ManagedPodPtr& pod : pods_) {
    if (pod->metadata.Deleting() || (!all_of_them && !jobs::IsReleased(*pod))) continue;
    any = true;
    if (!Room()) break;
    plan_.Add(ApplyStatusAction(api::Kind::kPod, pod->metadata.Key(),
                                jobs::TerminationTargetPatch(*pod, reason, message, now_),
                                api::kStopManager));
    plan_.Add(DeleteAction(api::Kind::kPod, pod->metadata.Key(), pod->metadata.uid))
        .notes.push_back(PodNote(*pod, false, "Stopped", message));
  }
  return any;
}

bool PodPass::WorkloadEnded() {
  if (workload_ == nullptr) return false;
  if (Has(*workload_, api::kFinished)) {
    if (!Finalize(all_)) RemoveFinalizer(plan_, world_, *workload_, now_);
    return true;
  }
  if (!workload_->metadata.Deleting()) return false;
  // The Workload stays, and its quota with it, until the pods are on their way out. Pods that have
  // come since it was given up are not those it was deleted for.
  const bool of_others = IsGroup() && jobs::MissingOwners(*workload_, all_).size() == all_.size();
  if (!of_others) {
    if (Stop("WorkloadDeleted", "Workload is deleted", true)) return true;
    if (IsGroup() && Finalize(all_)) return true;
  }
  RemoveFinalizer(plan_, world_, *workload_, now_);
  return true;
}

bool PodPass::JobEnded() {
  const std::optional<jobs::JobFinish> finish = Finished();
  if (!finish) return false;
  if (workload_ == nullptr) {
    Finalize(all_);
    return true;
  }
  api::Workload next = *workload_;
  if (!admission::SetFinished(next, finish->success ? "Succeeded" : "Failed", finish->message,
                              now_)) {
    return true;
  }
  WriteWorkload(std::move(next))
      .notes.push_back(PodNote(
          First(), false, "FinishedWorkload",
          fmt::format("Workload '{}' is declared finished", workload_->metadata.Key().ToString())));
  return true;
}

bool PodPass::SyncFromJob() {
  if (!prebuilt_.empty()) return false;
  auto gates = GatedByPatch(*workload_, Speaker().metadata.Annotation(api::kAdmissionGatedBy));
  if (gates.has_value() && Enabled("AdmissionGatedBy")) {
    PatchWorkload(*std::move(gates));
    return true;
  }
  return SyncPriority();
}

// What speaks against a gang is asked before there is quota for it.
bool PodPass::Held() {
  if (Has(*workload_, api::kQuotaReserved) || gang_.Unknown(plan_)) return false;
  const char* reason = nullptr;
  const std::string refusal = gang_.Refusal(reason);
  std::optional<api::Workload> next = HoldGang(*workload_, refusal, now_, options_);
  if (!next) return false;
  Write& write = WriteWorkload(*std::move(next));
  if (!refusal.empty()) write.notes.push_back(PodNote(First(), true, reason, refusal));
  return true;
}

bool PodPass::Checkpoints() {
  DeclaredCheckpoints declared;
  for (const ManagedPodPtr& pod : all_) {
    declared.Add(pod->metadata.annotations, "pod " + pod->metadata.name + ": annotation", now_);
  }
  plan_.RecheckAt(declared.look_again);
  if (Write* write = PlanCheckpoints(*workload_, declared, plan_)) {
    for (const IgnoredAnnotation& one : NewProblems(*workload_, declared)) {
      write->notes.push_back(PodNote(First(), true, one.reason, one.text));
    }
  }
  const std::string asked = CheckpointRequestTime(*workload_);
  for (const ManagedPodPtr& pod : pods_) {
    auto patch = CheckpointRequestPatch(pod->metadata.annotations, asked);
    if (pod->metadata.Deleting() || !patch) continue;
    (*patch)["metadata"].Set("uid", pod->metadata.uid);
    plan_.Add(MergePatchAction(api::Kind::kPod, pod->metadata.Key(), "", *std::move(patch), ""));
  }
  return !plan_.writes.empty();
}

bool PodPass::SyncPriority() {
  const auto& ref = workload_->spec.priority_class_ref;
  const std::string label = Speaker().metadata.Label(api::kPriorityClassLabel);
  // While quota is reserved a class can be exchanged, but neither added nor taken away.
  const bool fixed = Has(*workload_, api::kQuotaReserved) && (!ref || label.empty());
  if ((ref && ref->group != api::kKueueGroup) || (ref ? ref->name : "") == label || fixed) {
    return false;
  }
  const auto priority = jobs::ResolvePriority(world_, label, workload_->spec.pod_sets);
  if (!priority.ok()) return ComposeFailed(priority.status());
  if (priority->ref == ref && workload_->spec.priority == priority->value) return false;
  PatchWorkload(PriorityPatch(*priority));
  return true;
}

bool PodPass::Reclaimable() {
  if (!IsGroup() || !Enabled("ReclaimablePods")) return false;
  std::optional<Json> status = ReclaimableStatus(*workload_, jobs::GroupReclaimable(pods_));
  if (!status.has_value()) return false;
  plan_.Add(OwnPartAction(*workload_, *std::move(status), api::kReclaimablePodsManager));
  return true;
}

bool PodPass::PodsReady() {
  if (!world_.settings().wait_for_pods_ready) return false;
  const bool ready = IsGroup() ? jobs::GroupReady(pods_) : jobs::IsPodReady(First());
  std::optional<Json> status = PodsReadyStatus(*workload_, ready, now_);
  if (!status.has_value()) return false;
  plan_.Add(OwnPartAction(*workload_, *std::move(status), api::kPodsReadyManager));
  return true;
}

bool PodPass::Evicted() {
  const api::Condition* evicted = api::FindCondition(workload_->status.conditions, api::kEvicted);
  if (evicted == nullptr || evicted->status != ConditionStatus::kTrue) return false;
  const bool stopped = Stop("WorkloadEvictedDueTo" + evicted->reason, evicted->message);
  if (stopped && IsGroup()) return true;
  if (Has(*workload_, api::kQuotaReserved)) {
    if (Active()) {
      // A pod counts no longer when its time to stop is over, whether anybody saw it end or not.
      for (const ManagedPodPtr& pod : pods_) {
        if (!pod->metadata.Deleting() || pod->phase != "Running") continue;
        plan_.RecheckAt(*pod->metadata.deletion_timestamp +
                        absl::Seconds(pod->deletion_grace_period_seconds.value_or(0)));
      }
      return true;
    }
    // A pod that was stopped does not come back; one that still waits may be admitted again.
    const bool never_requeue = Enabled("SkipReassignmentForPodOwnedWorkloads") && !IsGroup() &&
                               !jobs::IsGated(First()) &&
                               workload_->metadata.owner_references.size() == 1;
    api::Workload next = *workload_;
    if (admission::ReleaseQuota(next, now_, options_, never_requeue)) {
      WriteWorkload(std::move(next));
      return true;
    }
  }
  if (stopped || gang_.Rest(*workload_, plan_) || Expired(*evicted)) return true;
  if (!Has(*workload_, api::kQuotaReserved)) SyncQueueName();
  return true;
}

// Retention of jobs that were deactivated by the controller.
bool PodPass::Expired(const api::Condition& evicted) {
  const auto& retention = world_.settings().object_retention.after_deactivated_by_kueue;
  if (!retention || workload_->spec.active.value_or(true) ||
      !evicted.reason.starts_with("DeactivatedDueTo")) {
    return false;
  }
  const absl::Time due = evicted.last_transition_time.value_or(now_) + *retention;
  if (now_ < due) {
    plan_.RecheckAt(due);
    return false;
  }
  for (const ManagedPodPtr& pod : all_) {
    if (pod->metadata.Deleting() || !Room()) continue;
    plan_.Add(DeleteAction(api::Kind::kPod, pod->metadata.Key(), pod->metadata.uid))
        .notes.push_back(
            PodNote(*pod, false, "Deleted", "Deleted job: deactivated and retention elapsed"));
  }
  if (plan_.writes.empty()) Finalize(all_);
  return !plan_.writes.empty();
}

void PodPass::SyncQueueName() {
  const std::string queue = QueueName(Speaker());
  if (workload_->spec.queue_name == queue || jobs::IsServing(First())) return;
  Json body = Json::MakeObject();
  body["spec"].Set("queueName", queue.empty() ? Json() : Json(queue));
  plan_.Add(MergePatchAction(api::Kind::kWorkload, workload_->metadata.Key(), "", std::move(body),
                             workload_->metadata.resource_version));
}

void PodPass::StartOrStop() {
  if (Has(*workload_, api::kAdmitted)) return Start();
  if (Stop("NotAdmitted", "Not admitted by cluster queue")) return;
  if (!Suspended()) return;
  // The API refuses a change of queue while quota is reserved; it follows when that is gone.
  if (Has(*workload_, api::kQuotaReserved)) return NotePendingChecks();
  SyncQueueName();
}

// The first pods of a gang do not go ahead of pods that are not there (yet, or any more). Once some
// were released the others follow, so that a release that was interrupted is completed.
bool PodPass::ReadyToRelease() {
  if (!IsGroup() || absent_ == 0 || jobs::IsFastAdmission(First())) return true;
  return std::any_of(pods_.begin(), pods_.end(),
                     [](const ManagedPodPtr& pod) { return !jobs::IsGated(*pod); });
}

void PodPass::Start() {
  // A pod whose Workload runs in another cluster waits here for ever.
  for (const api::AdmissionCheckState& check : workload_->status.admission_checks) {
    const auto known = world_.admission_checks().Find({"", check.name});
    if (known != nullptr && known->spec.controller_name == "kueue.x-k8s.io/multikueue") return;
  }
  // What has started in part already is completed, whatever is against it.
  const bool waits = std::all_of(pods_.begin(), pods_.end(), [](const ManagedPodPtr& pod) {
    return jobs::IsGated(*pod) || jobs::IsTerminated(*pod);
  });
  if (waits) {
    if (gang_.Unknown(plan_)) return;
    const char* reason = nullptr;
    if (const std::string refusal = gang_.Refusal(reason); !refusal.empty()) {
      EvictRefusedGang(plan_, world_, *workload_, refusal, now_);
      return;
    }
  }
  if (!ReadyToRelease()) {
    gang_.Watch(*workload_, pods_, plan_);
    return;
  }
  if (TakeBackPlaces(world_, *workload_, all_, now_, plan_)) return;
  auto infos = jobs::InfosOf(world_, *workload_);
  if (!infos.ok()) return FailStart(infos.status());
  if (IsGroup()) return ReleaseGroup(*infos);
  if (infos->size() != 1) {
    return FailStart(
        absl::FailedPreconditionError(fmt::format("expecting 1 podset, got {}", infos->size())));
  }
  // Its one pod set is "main" or what a prebuilt Workload calls it; a role it has none.
  if (!jobs::IsGated(First())) {
    gang_.Watch(*workload_, pods_, plan_);
    return;
  }
  absl::StatusOr<Json> patch = jobs::UngatePatch(First(), infos->front());
  if (!patch.ok()) return FailStart(patch.status());
  const std::string pod_set = infos->front().name;
  Release(First(), *std::move(patch),
          PlacesAtRelease(
              world_, *workload_, all_, [&](const ManagedPod&) { return pod_set; }, now_));
}

void PodPass::Release(const ManagedPod& pod, Json patch, const PodPlaces& places) {
  const auto place = places.find(pod.metadata.name);
  if (place != places.end()) AddPlace(place->second, patch);
  PatchPod(pod, std::move(patch), "Started",
           "Admitted by clusterQueue " + workload_->status.admission->cluster_queue);
  plan_.writes.back().gates = {RemovalOf(*workload_, api::kAdmissionGate)};
  if (place != places.end()) {
    plan_.writes.back().gates.push_back(RemovalOf(*workload_, api::kTopologyGate));
  }
}

void PodPass::FailStart(const absl::Status& status) {
  if (std::optional<api::Workload> failed = FailedToStart(*workload_, status, now_)) {
    WriteWorkload(*std::move(failed));
  } else {
    plan_.RecheckAt(now_ + absl::Seconds(1));
  }
}

void PodPass::ReleaseGroup(const std::vector<jobs::PodSetInfo>& infos) {
  absl::StatusOr<std::vector<jobs::Release>> releases = jobs::PlanRelease(pods_, infos);
  if (!releases.ok()) return FailStart(releases.status());
  std::erase_if(*releases,
                [](const jobs::Release& release) { return release.pod->metadata.Deleting(); });
  if (releases->empty()) {
    gang_.Watch(*workload_, pods_, plan_);
    return;
  }
  // The PodGroup is there before the first gate goes.
  if (gang_.Prepare(*workload_, pods_, plan_)) return;
  const std::string warning = gang_.StartWarning();
  if (!warning.empty()) plan_.notes.push_back(PodNote(First(), true, "GangFallback", warning));
  const PodPlaces places = PlacesAtRelease(world_, *workload_, all_, jobs::RoleOf, now_);
  for (jobs::Release& release : *releases) {
    if (!Room()) break;
    Release(*release.pod, std::move(release.patch), places);
  }
}

void PodPass::NotePendingChecks() {
  std::string message;
  for (const api::AdmissionCheckState& check : workload_->status.admission_checks) {
    if (check.state != "Pending" || check.message.empty()) continue;
    if (!message.empty()) message += "; ";
    message += check.name + ": " + check.message;
  }
  if (!message.empty()) {
    plan_.notes.push_back(PodNote(First(), false, "UpdatedAdmissionCheck", message));
  }
}

}  // namespace sluice::reconcile
