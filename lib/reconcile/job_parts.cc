// Jobs that are gone, and Jobs below others.
#include "reconcile/job_parts.h"

#include <utility>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/job_slices.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {

using api::Json;
using jobs::BatchJob;

namespace {

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

}  // namespace

state::Action JobPatchAction(const api::Job& job, jobs::JobPatch patch, bool exact) {
  patch.body["metadata"].Set("uid", job.metadata.uid);
  return MergePatchAction(api::Kind::kJob, job.metadata.Key(), patch.subresource,
                          std::move(patch.body), exact ? job.metadata.resource_version : "");
}

Note JobNote(const api::Job& job, bool warning, std::string reason, std::string message) {
  return {api::Kind::kJob, job.metadata.Key(), job.metadata.uid,  BatchJob::kEventSource,
          warning,         std::move(reason),  std::move(message)};
}

std::string QueueNameOf(const api::Job& job) { return job.metadata.Label(api::kQueueNameLabel); }

Plan FinalizeJob(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  for (const ObjectKey& owned : world.WorkloadsOwnedBy(key.ns, BatchJob::kKind, key.name)) {
    const auto workload = world.workloads().Find(owned);
    if (workload == nullptr) continue;
    const bool finish = world.settings().gates.Enabled("FinishOrphanedWorkloads") &&
                        !workload->metadata.Deleting() &&
                        workload->metadata.Controller() != nullptr &&
                        !Has(*workload, api::kFinished);
    if (finish) {
      api::Workload next = *workload;
      admission::SetFinished(next, "OwnerNotFound", "The owner of the workload is gone", now);
      plan.Add(WorkloadStatusAction(world, std::move(next), now, true));
    } else {
      RemoveFinalizer(plan, world, *workload, now);
    }
  }
  return plan;
}

std::shared_ptr<const api::Job> ManagedAncestor(const state::World& world, const api::Job& job,
                                                bool& too_deep) {
  std::shared_ptr<const api::Job> ancestor;
  const api::OwnerReference* owner = job.metadata.Controller();
  for (int depth = 0; owner != nullptr && owner->kind == BatchJob::kKind; ++depth) {
    if (depth > kMaxOwnerDepth) {
      too_deep = true;
      return nullptr;
    }
    const auto parent = world.jobs().Find({job.metadata.ns, owner->name});
    if (parent == nullptr || parent->metadata.uid != owner->uid) break;
    if (world.settings().manage_jobs_without_queue_name || !QueueNameOf(*parent).empty()) {
      ancestor = parent;
    }
    owner = parent->metadata.Controller();
  }
  return ancestor;
}

Plan ReconcileChild(const state::World& world, const api::Job& job, const api::Job& ancestor) {
  Plan plan;
  if (BatchJob::Finished(job) || job.spec.suspend.value_or(false)) return plan;
  std::shared_ptr<const api::Workload> newest;
  for (const ObjectKey& key :
       world.WorkloadsOwnedBy(job.metadata.ns, BatchJob::kKind, ancestor.metadata.name)) {
    const auto workload = world.workloads().Find(key);
    if (workload == nullptr || Has(*workload, api::kFinished)) continue;
    if (newest == nullptr ||
        workload->metadata.creation_timestamp > newest->metadata.creation_timestamp) {
      newest = workload;
    }
  }
  const bool may_run =
      newest != nullptr && (Has(*newest, api::kAdmitted) ||
                            (IsElastic(world, ancestor.metadata) && !Has(*newest, api::kEvicted)));
  if (may_run) return plan;
  Json body = Json::MakeObject();
  body["spec"].Set("suspend", true);
  plan.Add(JobPatchAction(job, {"", std::move(body)}))
      .notes.push_back(JobNote(job, false, "Suspended", "Kueue managed child job suspended"));
  return plan;
}

}  // namespace sluice::reconcile
