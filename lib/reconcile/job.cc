// A batch/v1 Job: exactly one Workload, start and stop, readiness and end.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/codec.h"
#include "api/names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "preemption/checkpoint.h"
#include "reconcile/checkpoint.h"
#include "reconcile/job_gang.h"
#include "reconcile/job_parts.h"
#include "reconcile/job_slices.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using api::ConditionStatus;
using api::Json;
using jobs::BatchJob;

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

// One pass over one top-level Job.
class JobPass {
 public:
  JobPass(const state::World& world, const api::Job& job, absl::Time now)
      : world_(world),
        job_(job),
        now_(now),
        options_(StatusOptionsOf(world.settings())),
        prebuilt_(jobs::PrebuiltName(world.settings(), job.metadata)),
        elastic_(IsElastic(world, job.metadata)),
        gang_(world, job, now) {}

  Plan Run() {
    auto pod_sets = BatchJob::PodSets(job_, jobs::PodTopologyOf(world_.settings().gates));
    if (!pod_sets.ok()) {
      ComposeFailed(pod_sets.status());
      return std::move(plan_);
    }
    pod_sets_ = *std::move(pod_sets);
    gang_.RaiseMinimum(pod_sets_);
    if (prebuilt_.empty() ? EnsureWorkload() : FindPrebuilt()) return std::move(plan_);
    if (workload_ != nullptr && world_.IsAssumed(workload_->metadata.Key())) {
      return std::move(plan_);  // its reply comes soon
    }
    if (WorkloadEnded() || JobEnded() || NoWorkload() || SyncFromJob() || Held() || Checkpoints() ||
        Reclaimable() || PodsReady() || Evicted()) {
      return std::move(plan_);
    }
    StartOrStop();
    return std::move(plan_);
  }

 private:
  bool Suspended() const { return BatchJob::Suspended(job_); }

  // The next step of a stop. True while one is under way, false when the Job is stopped.
  bool Stop(const api::Workload* workload, const std::string& message) {
    const bool running = !job_.spec.suspend.value_or(false);
    std::optional<jobs::JobPatch> patch = BatchJob::NextStop(job_, workload);
    if (!patch) return !Suspended();
    Write& write = plan_.Add(JobPatchAction(job_, std::move(*patch)));
    if (running) write.notes.push_back(JobNote(job_, false, "Stopped", message));
    return true;
  }

  Write& WriteWorkload(api::Workload next) {
    return plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
  }

  bool EnsureWorkload() {
    if (!elastic_) return EnsureOne();
    SliceStep step = NextSliceStep(world_, job_, pod_sets_, now_, plan_);
    workload_ = step.workload;
    running_ = step.running;
    switch (step.next) {
      case SliceStep::Next::kOrdinary:
        workload_ = running_ = nullptr;
        return EnsureOne();
      case SliceStep::Next::kStop:
        Stop(step.workload.get(), EvictionMessage(*step.workload));
        return true;
      case SliceStep::Next::kDone:
        return true;
      case SliceStep::Next::kUse:
      case SliceStep::Next::kCreate:
        return false;
    }
    return true;
  }

  static std::string EvictionMessage(const api::Workload& workload) {
    const auto* evicted = api::FindCondition(workload.status.conditions, api::kEvicted);
    return evicted == nullptr ? std::string() : evicted->message;
  }

  // Finds the Workload of this Job; others that it owns go. True when that took a write.
  bool EnsureOne() {
    std::vector<std::shared_ptr<const api::Workload>> surplus;
    for (const ObjectKey& key :
         world_.WorkloadsOwnedBy(job_.metadata.ns, BatchJob::kKind, job_.metadata.name)) {
      const auto candidate = world_.AssumedOrStored(key);
      if (candidate == nullptr) continue;
      // Whether it is the right one cannot be told, so nothing is done to it or to the Job.
      if (world_.Unreadable({api::Kind::kWorkload, key})) return true;
      const bool match = workload_ == nullptr && jobs::Matches(world_, *candidate, job_.metadata,
                                                               PodSetsFor(*candidate), Suspended());
      if (match) {
        workload_ = candidate;
      } else {
        surplus.push_back(candidate);
      }
    }
    if (workload_ == nullptr && !surplus.empty() && Suspended() &&
        UpdateInPlace(*surplus.front())) {
      return true;
    }
    if (workload_ == nullptr && !Suspended() && !BatchJob::Finished(job_)) {
      const api::Workload* known = surplus.size() == 1 ? surplus.front().get() : nullptr;
      if (known != nullptr || !surplus.empty()) {
        const char* text =
            known != nullptr
                ? "No matching Workload; restoring pod templates according to existent Workload"
                : "Missing Workload; unable to restore pod templates";
        if (Stop(known, text)) return true;
      }
    }
    for (const auto& extra : surplus) DeleteWorkload(*extra);
    const bool waits = workload_ == nullptr && plan_.recheck != absl::InfiniteFuture();
    return waits || !plan_.writes.empty();
  }

  // What its quota was given for stays when the PodGroup of somebody else asks for more.
  std::vector<api::PodSet> PodSetsFor(const api::Workload& workload) const {
    std::vector<api::PodSet> pod_sets = pod_sets_;
    const auto& given = workload.spec.pod_sets;
    if (workload.status.admission && gang_.Foreign() && given.size() == pod_sets.size()) {
      for (size_t i = 0; i < given.size(); ++i) {
        if (pod_sets[i].min_count) pod_sets[i].min_count = given[i].min_count;
      }
    }
    return pod_sets;
  }

  void DeleteWorkload(const api::Workload& workload) {
    if (workload.metadata.HasFinalizer(api::kResourceInUse)) {
      RemoveFinalizer(plan_, world_, workload, now_);
      if (workload.metadata.Deleting()) return;
    } else if (workload.metadata.Deleting()) {
      return;
    }
    plan_.Add(DeleteAction(api::Kind::kWorkload, workload.metadata.Key(), workload.metadata.uid))
        .notes.push_back(
            JobNote(job_, false, "DeletedWorkload",
                    "Deleted not matching Workload: " + workload.metadata.Key().ToString()));
  }

  // A waiting Workload follows the Job without losing its place.
  bool UpdateInPlace(const api::Workload& workload) {
    const api::OwnerReference* owner = workload.metadata.Controller();
    if (owner == nullptr || owner->uid != job_.metadata.uid || workload.metadata.Deleting() ||
        workload.status.admission || Has(workload, api::kQuotaReserved) ||
        Has(workload, api::kFinished)) {
      return false;
    }
    absl::StatusOr<Json> spec =
        jobs::WorkloadSpec(world_, job_.metadata, pod_sets_, workload.spec.active);
    if (!spec.ok()) return ComposeFailed(spec.status());
    for (const char* field : {"queueName", "priorityClassRef", "maximumExecutionTimeSeconds"}) {
      if (!spec->Has(field)) spec->Set(field, Json());
    }
    plan_
        .Add(MergePatchAction(api::Kind::kWorkload, workload.metadata.Key(), "",
                              Json::MakeObject({{"spec", *std::move(spec)}}),
                              workload.metadata.resource_version))
        .notes.push_back(JobNote(job_, false, "UpdatedWorkload",
                                 "Updated not matching Workload for suspended job: " +
                                     workload.metadata.Key().ToString()));
    return true;
  }

  bool FindPrebuilt() {
    const auto found = world_.AssumedOrStored({job_.metadata.ns, prebuilt_});
    if (found == nullptr || world_.IsAssumed(found->metadata.Key()) ||
        world_.Unreadable({api::Kind::kWorkload, found->metadata.Key()})) {
      return found != nullptr;
    }
    const api::OwnerReference* owner = found->metadata.Controller();
    if (owner != nullptr && owner->uid != job_.metadata.uid) return false;
    if (owner == nullptr) {
      plan_.Add(AdoptAction(*found, jobs::ControllerReference(BatchJob::kApiVersion,
                                                              BatchJob::kKind, job_.metadata)));
      return true;
    }
    if (!Has(*found, api::kFinished) &&
        !jobs::Matches(world_, *found, job_.metadata, PodSetsFor(*found), Suspended())) {
      api::Workload next = *found;
      admission::SetFinished(next, "OutOfSync",
                             "The prebuilt workload is out of sync with its user job", now_);
      WriteWorkload(std::move(next));
      return true;
    }
    const api::Condition* finished = api::FindCondition(found->status.conditions, api::kFinished);
    if (finished != nullptr && finished->reason == "OutOfSync") return false;
    workload_ = found;
    return false;
  }

  bool WorkloadEnded() {
    if (workload_ == nullptr) return false;
    if (Has(*workload_, api::kFinished)) {
      RemoveFinalizer(plan_, world_, *workload_, now_);
      return true;
    }
    if (!workload_->metadata.Deleting()) return false;
    // A slice that waits can go; the one that runs stays.
    if (running_ != nullptr && running_ != workload_) {
      RemoveFinalizer(plan_, world_, *workload_, now_);
      return true;
    }
    if (!Suspended() && !BatchJob::Finished(job_) && Stop(workload_.get(), "Workload is deleted")) {
      return true;
    }
    RemoveFinalizer(plan_, world_, *workload_, now_);
    return true;
  }

  bool JobEnded() {
    const std::optional<jobs::JobFinish> finish = BatchJob::Finished(job_);
    if (!finish || workload_ == nullptr) return finish.has_value();
    api::Workload next = *workload_;
    if (!admission::SetFinished(next, finish->success ? "Succeeded" : "Failed", finish->message,
                                now_)) {
      return true;
    }
    Write& write = WriteWorkload(std::move(next));
    write.notes.push_back(JobNote(
        job_, false, "FinishedWorkload",
        fmt::format("Workload '{}' is declared finished", workload_->metadata.Key().ToString())));
    return true;
  }

  bool ComposeFailed(const absl::Status& status) {
    const bool no_class =
        absl::IsNotFound(status) && !job_.metadata.Label(api::kPriorityClassLabel).empty();
    plan_.notes.push_back(JobNote(job_, true,
                                  no_class ? "WorkloadPriorityClassNotFound" : "ErrWorkloadCompose",
                                  std::string(status.message())));
    // A class that appears does not touch this Job; look again.
    plan_.RecheckAt(now_ + absl::Seconds(10));
    return true;
  }

  bool NoWorkload() {
    if (workload_ != nullptr) return false;
    if (!prebuilt_.empty()) {
      if (!Suspended()) Stop(nullptr, "missing workload");
      plan_.RecheckAt(now_ + absl::Seconds(5));
      return true;
    }
    if (running_ == nullptr) {
      if (!Suspended() && Stop(nullptr, "Missing Workload; unable to restore pod templates")) {
        return true;
      }
      if (BatchJob::Active(job_)) return true;
    }
    if (gang_.Unknown(plan_)) return true;
    const char* reason = nullptr;
    if (const std::string refusal = gang_.Refusal(reason); !refusal.empty()) {
      plan_.notes.push_back(JobNote(job_, true, reason, refusal));
      return true;
    }
    std::optional<jobs::Slice> slice;
    if (elastic_) slice = jobs::Slice{running_.get()};
    absl::StatusOr<jobs::NewWorkload> created =
        jobs::ConstructWorkload(world_, job_.metadata, SlicePodSets(running_, pod_sets_), slice);
    if (!created.ok()) return ComposeFailed(created.status());
    const ObjectKey key = created->key;
    SetCheckpoints(created->body, DeclaredByJob());
    plan_.Add(CreateAction(api::Kind::kWorkload, key, std::move(created->body)))
        .notes.push_back(
            JobNote(job_, false, "CreatedWorkload", "Created Workload: " + key.ToString()));
    return true;
  }

  // What follows the Job while its Workload stays the same: the gate annotation and the priority.
  bool SyncFromJob() {
    if (!prebuilt_.empty()) return false;
    auto gates = GatedByPatch(*workload_, job_.metadata.Annotation(api::kAdmissionGatedBy));
    if (gates.has_value() && world_.settings().gates.Enabled("AdmissionGatedBy")) {
      PatchWorkload(*workload_, *std::move(gates));
      return true;
    }
    const bool changed = SyncPriority(*workload_);
    const bool two = running_ != nullptr && running_ != workload_;
    return (two && SyncPriority(*running_)) || changed;
  }

  // What speaks against a gang is asked before there is quota for it.
  bool Held() {
    if (Has(*workload_, api::kQuotaReserved)) return false;
    if (gang_.Unknown(plan_)) return false;
    const char* reason = nullptr;
    const std::string refusal = gang_.Refusal(reason);
    std::optional<api::Workload> next = HoldGang(*workload_, refusal, now_, options_);
    if (!next) return false;
    Write& write = WriteWorkload(*std::move(next));
    if (!refusal.empty()) write.notes.push_back(JobNote(job_, true, reason, refusal));
    return true;
  }

  DeclaredCheckpoints DeclaredByJob() const {
    DeclaredCheckpoints declared;
    declared.Add(job_.metadata.annotations, "annotation", now_);
    declared.Add(job_.spec.pod_template.annotations, "pod template: annotation", now_);
    for (const state::SlicePodPtr& pod : world_.slice_pods().OfJob(job_.metadata.Key())) {
      const auto last = pod->annotations.find(preemption::kLastCheckpoint);
      if (last == pod->annotations.end()) continue;
      declared.Add({{last->first, last->second}}, "pod " + pod->key.name + ": annotation", now_);
    }
    return declared;
  }

  // What the Job and its pods say of their checkpoints, and the request for one.
  bool Checkpoints() {
    const DeclaredCheckpoints declared = DeclaredByJob();
    plan_.RecheckAt(declared.look_again);
    std::string asked;
    for (const auto& workload : {running_ == workload_ ? nullptr : running_, workload_}) {
      if (workload == nullptr) continue;
      Write* write = PlanCheckpoints(*workload, declared, plan_);
      if (write != nullptr && workload == workload_) {
        for (const IgnoredAnnotation& one : NewProblems(*workload, declared)) {
          write->notes.push_back(JobNote(job_, true, one.reason, one.text));
        }
      }
      if (asked.empty()) asked = CheckpointRequestTime(*workload);
    }
    if (auto patch = CheckpointRequestPatch(job_.metadata.annotations, asked)) {
      plan_.Add(JobPatchAction(job_, {"", *std::move(patch)}));
    }
    for (const state::SlicePodPtr& pod : world_.slice_pods().OfJob(job_.metadata.Key())) {
      auto patch = CheckpointRequestPatch(pod->annotations, asked);
      if (pod->ended || !patch) continue;
      (*patch)["metadata"].Set("uid", pod->uid);
      plan_.Add(MergePatchAction(api::Kind::kPod, pod->key, "", *std::move(patch), ""));
    }
    return !plan_.writes.empty();
  }

  bool SyncPriority(const api::Workload& workload) {
    const auto& ref = workload.spec.priority_class_ref;
    const std::string label = job_.metadata.Label(api::kPriorityClassLabel);
    if ((ref && ref->group != api::kKueueGroup) || (ref ? ref->name : "") == label ||
        (!ref && Has(workload, api::kQuotaReserved))) {
      return false;
    }
    const auto priority = jobs::ResolvePriority(world_, label, workload.spec.pod_sets);
    if (!priority.ok()) return ComposeFailed(priority.status());
    if (priority->ref == ref && workload.spec.priority == priority->value) return false;
    PatchWorkload(workload, PriorityPatch(*priority));
    return true;
  }

  void PatchWorkload(const api::Workload& workload, Json body) {
    plan_
        .Add(MergePatchAction(api::Kind::kWorkload, workload.metadata.Key(), "", std::move(body),
                              workload.metadata.resource_version))
        .notes.push_back(JobNote(job_, false, "UpdatedWorkload",
                                 "Updated Workload: " + workload.metadata.Key().ToString()));
  }

  bool Reclaimable() {
    if (!world_.settings().gates.Enabled("ReclaimablePods")) return false;
    std::optional<Json> status = ReclaimableStatus(*workload_, BatchJob::Reclaimable(job_));
    if (!status.has_value()) return false;
    plan_.Add(OwnPartAction(*workload_, *std::move(status), api::kReclaimablePodsManager));
    return true;
  }

  bool PodsReady() {
    if (!world_.settings().wait_for_pods_ready) return false;
    const bool ready = BatchJob::PodsReady(job_) || gang_.Enough(*workload_);
    std::optional<Json> status = PodsReadyStatus(*workload_, !Suspended() && ready, now_);
    if (!status.has_value()) return false;
    plan_.Add(OwnPartAction(*workload_, *std::move(status), api::kPodsReadyManager));
    return true;
  }

  bool Evicted() {
    const api::Condition* evicted = api::FindCondition(workload_->status.conditions, api::kEvicted);
    if (evicted == nullptr || evicted->status != ConditionStatus::kTrue) return false;
    if (Stop(workload_.get(), evicted->message)) return true;
    if (Has(*workload_, api::kQuotaReserved) && !BatchJob::Active(job_)) {
      api::Workload next = *workload_;
      if (admission::ReleaseQuota(next, now_, options_)) {
        WriteWorkload(std::move(next));
        return true;
      }
    }
    if (gang_.Rest(*workload_, plan_) || Expired(*evicted)) return true;
    // Released: it may start again below only after a new admission. A suspended Job whose queue
    // changed must follow even now.
    if (!Has(*workload_, api::kQuotaReserved)) SyncQueueName();
    return true;
  }

  // Retention of jobs that were deactivated by the controller.
  bool Expired(const api::Condition& evicted) {
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
    plan_.Add(DeleteAction(api::Kind::kJob, job_.metadata.Key(), job_.metadata.uid))
        .notes.push_back(
            JobNote(job_, false, "Deleted", "Deleted job: deactivated and retention elapsed"));
    return true;
  }

  void SyncQueueName() {
    if (workload_->spec.queue_name == QueueNameOf(job_)) return;
    Json body = Json::MakeObject();
    body["spec"].Set("queueName", QueueNameOf(job_).empty() ? Json() : Json(QueueNameOf(job_)));
    plan_.Add(MergePatchAction(api::Kind::kWorkload, workload_->metadata.Key(), "", std::move(body),
                               workload_->metadata.resource_version));
  }

  void StartOrStop() {
    const bool admitted = Has(*workload_, api::kAdmitted);
    if (!Suspended()) {
      // While a slice waits the one before it runs.
      const auto& runs = admitted ? workload_ : running_;
      if (runs == nullptr) {
        Stop(workload_.get(), "Not admitted by cluster queue");
      } else if (Has(*runs, api::kAdmitted)) {
        gang_.Watch(*runs, plan_);
      }
      return;
    }
    if (admitted) return Start();
    if (Has(*workload_, api::kQuotaReserved)) {
      // The API refuses a change of queue now; it follows when the reservation is gone.
      return NotePendingChecks();
    }
    SyncQueueName();
  }

  void Start() {
    const auto fail = [&](const absl::Status& status) {
      if (std::optional<api::Workload> failed = FailedToStart(*workload_, status, now_)) {
        WriteWorkload(*std::move(failed));
      } else {
        plan_.RecheckAt(now_ + absl::Seconds(1));
      }
    };
    const auto infos = jobs::InfosOf(world_, *workload_);
    if (!infos.ok()) return fail(infos.status());
    if (gang_.Unknown(plan_)) return;
    const char* reason = nullptr;
    if (const std::string refusal = gang_.Refusal(reason); !refusal.empty()) {
      EvictRefusedGang(plan_, world_, *workload_, refusal, now_);
      return;
    }
    absl::StatusOr<jobs::JobPatch> patch = BatchJob::Start(job_, *infos);
    if (!patch.ok()) return fail(patch.status());
    // The group is there before the first pod is.
    if (gang_.Prepare(infos->front().count, plan_)) return;
    gang_.AddToStart(infos->front().count, patch->body);
    // What the patch says was found out from the Job as it is, its parallelism for one.
    Write& write = plan_.Add(JobPatchAction(job_, *std::move(patch), true));
    write.notes.push_back(
        JobNote(job_, false, "Started",
                "Admitted by clusterQueue " + workload_->status.admission->cluster_queue));
    for (Note& note : gang_.StartNotes(*workload_)) write.notes.push_back(std::move(note));
  }

  void NotePendingChecks() {
    std::string message;
    for (const api::AdmissionCheckState& check : workload_->status.admission_checks) {
      if (check.state != "Pending" || check.message.empty()) continue;
      if (!message.empty()) message += "; ";
      message += check.name + ": " + check.message;
    }
    if (!message.empty()) {
      plan_.notes.push_back(JobNote(job_, false, "UpdatedAdmissionCheck", message));
    }
  }

  const state::World& world_;
  const api::Job& job_;
  absl::Time now_;
  admission::StatusOptions options_;
  std::vector<api::PodSet> pod_sets_;
  std::string prebuilt_;
  bool elastic_;
  JobGang gang_;
  std::shared_ptr<const api::Workload> workload_;
  // Of an elastic Job: the slice that holds quota for what runs.
  std::shared_ptr<const api::Workload> running_;
  Plan plan_;
};

}  // namespace

Plan ReconcileJob(const state::World& world, const ObjectKey& key, absl::Time now) {
  if (world.Unreadable({api::Kind::kJob, key})) return {};
  const auto job = world.jobs().Find(key);
  if (job == nullptr || job->metadata.Deleting()) return FinalizeJob(world, key, now);
  const auto ns = world.namespaces().Find({"", key.ns});
  const state::Settings& settings = world.settings();
  if (ns == nullptr || !settings.managed_jobs_namespace_selector.Matches(ns->metadata.labels) ||
      !settings.integrations.Enabled(BatchJob::kFramework)) {
    return {};
  }
  if (job->spec.managed_by && *job->spec.managed_by != "kubernetes.io/job-controller") return {};
  bool too_deep = false;
  const auto ancestor = ManagedAncestor(world, *job, too_deep);
  if (too_deep) {
    Plan plan;
    plan.notes.push_back(
        JobNote(*job, true, "JobNestingTooDeep",
                fmt::format("The chain of owners is longer than {}", kMaxOwnerDepth)));
    return plan;
  }
  if (ancestor != nullptr) return ReconcileChild(world, *job, *ancestor);
  if (QueueNameOf(*job).empty() && !settings.manage_jobs_without_queue_name) return {};
  Plan plan = JobPass(world, *job, now).Run();
  if (plan.writes.empty() && IsElastic(world, job->metadata)) {
    UngatePods(world, *job, now, plan);
    if (plan.writes.empty()) JobGang(world, *job, now).Wake(plan);
  }
  return plan;
}

}  // namespace sluice::reconcile
