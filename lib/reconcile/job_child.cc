#include "reconcile/job_child.h"

#include "api/names.h"
#include "jobs/job_kind.h"
#include "reconcile/job_slices.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using jobs::BatchJob;

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

}  // namespace

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
    if (world.settings().manage_jobs_without_queue_name ||
        !parent->metadata.Label(api::kQueueNameLabel).empty()) {
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
  body["metadata"].Set("uid", job.metadata.uid);
  plan.Add(MergePatchAction(api::Kind::kJob, job.metadata.Key(), "", std::move(body), ""))
      .notes.push_back({api::Kind::kJob, job.metadata.Key(), job.metadata.uid,
                        BatchJob::kEventSource, false, "Suspended",
                        "Kueue managed child job suspended"});
  return plan;
}

}  // namespace sluice::reconcile
