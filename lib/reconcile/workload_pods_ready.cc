// Pods that do not become ready in time: the Workload is evicted and waits before the next try, and
// is deactivated when it has used up its tries.
#include <fmt/format.h>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/names.h"
#include "jobs/job_kind.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {

// The Job may be further than the condition tells: nobody writes it while no controller runs, and
// the first one that runs again must not evict what has become ready, or has ended, meanwhile. The
// Job's own pass writes what is true.
bool WorkloadPass::ReadyInFact() const {
  using jobs::BatchJob;
  const api::OwnerReference* owner = workload_.metadata.Controller();
  if (owner == nullptr || owner->kind != BatchJob::kKind ||
      owner->api_version != BatchJob::kApiVersion) {
    return PodsReadyInFact(world_, workload_, now_);
  }
  const auto job = world_.jobs().Find({workload_.metadata.ns, owner->name});
  if (job == nullptr || job->metadata.uid != owner->uid) return false;
  return BatchJob::Finished(*job).has_value() ||
         (!BatchJob::Suspended(*job) && BatchJob::PodsReady(*job));
}

bool WorkloadPass::PodsNotReady() {
  const std::optional<state::WaitForPodsReady>& wait = world_.settings().wait_for_pods_ready;
  // The pods are those of the parent, which gives up for both.
  if (!wait || IsVariant()) return false;
  const std::optional<admission::PodsReadyDeadline> deadline =
      admission::PodsReadyDeadlineOf(workload_, {wait->timeout, wait->recovery_timeout});
  if (!deadline) return false;
  if (now_ < deadline->due) {
    plan_.RecheckAt(deadline->due);
    return false;
  }
  if (ReadyInFact()) return false;
  const state::RequeuingStrategy& strategy = wait->requeuing_strategy;
  api::RequeueState next = admission::NextRequeueState(
      workload_, {strategy.backoff_base_seconds, strategy.backoff_max_seconds}, now_);
  if (strategy.backoff_limit_count && *next.count > *strategy.backoff_limit_count) {
    return TargetDeactivation(admission::kCauseRequeuingLimitExceeded,
                              admission::kRequeuingLimitExceededMessage);
  }
  return Evict(admission::kEvictedPodsReadyTimeout, deadline->cause,
               "Exceeded the PodsReady timeout " + workload_.metadata.Key().ToString(),
               std::move(next));
}

}  // namespace sluice::reconcile
