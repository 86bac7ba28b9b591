// Pods of an elastic Job: as many as the admitted slice has may be scheduled.
#include <algorithm>
#include <map>

#include "api/names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "reconcile/job_gang.h"
#include "reconcile/job_slices.h"
#include "reconcile/lost_pods.h"
#include "reconcile/plan.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using api::Json;

// What an admission check may put on a pod beside node selectors.
constexpr const char* kProvisioning[] = {"autoscaling.x-k8s.io/consume-provisioning-request",
                                         "autoscaling.x-k8s.io/provisioning-class-name"};

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

// The newest slice that holds quota; nullptr when its admission is on its way.
WorkloadPtr ActiveSlice(const state::World& world, const api::Job& job) {
  WorkloadPtr active;
  for (const ObjectKey& key :
       world.WorkloadsOwnedBy(job.metadata.ns, jobs::BatchJob::kKind, job.metadata.name)) {
    if (world.IsAssumed(key)) return nullptr;
    WorkloadPtr slice = world.workloads().Find(key);
    const api::OwnerReference* owner = slice == nullptr ? nullptr : slice->metadata.Controller();
    if (owner == nullptr || owner->uid != job.metadata.uid || Has(*slice, api::kFinished) ||
        Has(*slice, api::kEvicted) || !Has(*slice, api::kQuotaReserved)) {
      continue;
    }
    if (active == nullptr || SliceCreatedBefore(active, slice)) active = std::move(slice);
  }
  return active;
}

// The patch that lets the pod go; nullopt when it contradicts what admission checks demand.
std::optional<Json> UngatePatch(const state::SlicePod& pod, const api::Workload& slice) {
  Json body = Json::MakeObject();
  body["metadata"].Set("uid", pod.uid);
  for (const api::AdmissionCheckState& check : slice.status.admission_checks) {
    for (const api::PodSetUpdate& update : check.pod_set_updates) {
      if (update.name != pod.pod_set) continue;
      for (const auto& [key, value] : update.node_selector) {
        const auto own = pod.node_selector.find(key);
        if (own != pod.node_selector.end() && own->second != value) return std::nullopt;
        if (own == pod.node_selector.end()) body["spec"]["nodeSelector"].Set(key, value);
      }
      for (const char* key : kProvisioning) {
        const auto wanted = update.annotations.find(key);
        if (wanted == update.annotations.end()) continue;
        const auto own = pod.annotations.find(key);
        if (own != pod.annotations.end() && own->second != wanted->second) return std::nullopt;
        if (own == pod.annotations.end()) body["metadata"]["annotations"].Set(key, wanted->second);
      }
    }
  }
  Json gates = Json::MakeArray();
  for (const std::string& gate : pod.gates) {
    if (gate != api::kElasticJob) gates.Append(Json::MakeObject({{"name", gate}}));
  }
  body["spec"].Set("schedulingGates", std::move(gates));
  return body;
}

}  // namespace

void UngatePods(const state::World& world, const api::Job& job, absl::Time now, Plan& plan) {
  if (!world.slice_pods().synced()) return;
  const WorkloadPtr slice = ActiveSlice(world, job);
  if (slice == nullptr || !Has(*slice, api::kAdmitted)) return;
  std::map<std::string, int64_t> room;
  for (const api::PodSet& pod_set : slice->spec.pod_sets) room[pod_set.name] = pod_set.count;
  const std::vector<state::SlicePodPtr> pods =
      world.slice_pods().Of(job.metadata.ns, jobs::SliceName(*slice));
  for (const state::SlicePodPtr& pod : pods) {
    if (!pod->ended && !pod->Gated() && !IsLost(world, *pod, now, plan)) --room[pod->pod_set];
  }
  const bool any = std::any_of(pods.begin(), pods.end(), [&](const state::SlicePodPtr& pod) {
    return !pod->ended && pod->Gated() && room[pod->pod_set] > 0;
  });
  if (!any || JobGang(world, job, now).Grow(*slice, plan)) return;
  for (const state::SlicePodPtr& pod : pods) {
    if (pod->ended || !pod->Gated() || room[pod->pod_set] <= 0) continue;
    std::optional<Json> body = UngatePatch(*pod, *slice);
    if (!body) continue;
    --room[pod->pod_set];
    plan.Add(MergePatchAction(api::Kind::kPod, pod->key, "", *std::move(body),
                              pod->resource_version))
        .gates = {RemovalOf(*slice, api::kElasticJob)};
  }
}

}  // namespace sluice::reconcile
