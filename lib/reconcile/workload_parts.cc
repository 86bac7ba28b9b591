#include "reconcile/workload_parts.h"

#include <absl/status/status.h>

#include <algorithm>
#include <utility>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "queueing/workload_info.h"
#include "reconcile/reconcilers.h"
#include "state/credit_history.h"

namespace sluice::reconcile {

using api::Json;

state::Action OwnPartAction(const api::Workload& workload, Json status, std::string manager) {
  const api::ObjectMeta& metadata = workload.metadata;
  Json body = Json::MakeObject(
      {{"apiVersion", api::ApiVersionOf(api::Kind::kWorkload)},
       {"kind", "Workload"},
       {"metadata", Json::MakeObject({{"name", metadata.name},
                                      {"namespace", metadata.ns},
                                      {"uid", metadata.uid},
                                      {"resourceVersion", metadata.resource_version}})},
       {"status", std::move(status)}});
  return ApplyStatusAction(api::Kind::kWorkload, metadata.Key(), std::move(body),
                           std::move(manager));
}

namespace {

// What was given back stays so while the quota is held: others may have it. A Job that ended some
// of its pods, was evicted and came back with fewer at a time has nothing to give back any more.
void KeepReclaimed(const api::Workload& workload, const std::vector<api::ReclaimablePod>& said,
                   std::vector<api::ReclaimablePod>& pods) {
  for (const api::ReclaimablePod& before : said) {
    const auto& pod_sets = workload.spec.pod_sets;
    const auto pod_set = std::find_if(pod_sets.begin(), pod_sets.end(),
                                      [&](const auto& each) { return each.name == before.name; });
    if (pod_set == pod_sets.end()) continue;
    const int32_t count = std::min(before.count, pod_set->count);
    const auto now = std::find_if(pods.begin(), pods.end(),
                                  [&](const auto& pod) { return pod.name == before.name; });
    if (now == pods.end()) {
      pods.push_back({before.name, count});
    } else {
      now->count = std::max(now->count, count);
    }
  }
}

}  // namespace

std::optional<Json> ReclaimableStatus(const api::Workload& workload,
                                      std::vector<api::ReclaimablePod> pods) {
  for (api::ReclaimablePod& pod : pods) {
    for (const api::PodSet& pod_set : workload.spec.pod_sets) {
      if (pod_set.name == pod.name) pod.count = std::min(pod.count, pod_set.count);
    }
  }
  const std::vector<api::ReclaimablePod>& said = workload.status.reclaimable_pods;
  if (queueing::HoldsQuota(workload)) KeepReclaimed(workload, said, pods);
  if (std::is_permutation(pods.begin(), pods.end(), said.begin(), said.end())) return std::nullopt;
  Json list = Json::MakeArray();
  for (const api::ReclaimablePod& pod : pods) list.Append(api::Encode(pod));
  return Json::MakeObject({{"reclaimablePods", std::move(list)}});
}

std::optional<Json> PodsReadyStatus(const api::Workload& workload, bool ready, absl::Time now) {
  const api::Condition* old = api::FindCondition(workload.status.conditions, api::kPodsReady);
  api::Condition next = admission::PodsReadyCondition(workload, ready);
  if (old == nullptr && next.status == api::ConditionStatus::kFalse) return std::nullopt;
  if (old != nullptr && old->status == next.status && old->reason == next.reason) {
    return std::nullopt;
  }
  next.observed_generation = workload.metadata.generation;
  const bool flipped = old == nullptr || old->status != next.status;
  next.last_transition_time = flipped ? now : old->last_transition_time.value_or(now);
  return Json::MakeObject({{"conditions", Json::MakeArray({api::Encode(next)})}});
}

GateRemoval RemovalOf(const api::Workload& workload, const char* gate) {
  GateRemoval removal;
  removal.gate = gate;
  if (workload.status.admission) removal.cluster_queue = workload.status.admission->cluster_queue;
  removal.of_group = workload.metadata.Annotation(api::kIsGroupWorkload) == "true";
  const api::Condition* admitted = api::FindCondition(workload.status.conditions, api::kAdmitted);
  if (admitted != nullptr) removal.admitted = admitted->last_transition_time;
  return removal;
}

bool RemoveFinalizer(Plan& plan, const state::World& world, const api::Workload& workload,
                     absl::Time now) {
  const api::ObjectMeta& metadata = workload.metadata;
  if (!metadata.HasFinalizer(api::kResourceInUse)) return false;
  switch (world.CreditsNeedOf(workload, now)) {
    case state::World::CreditsNeed::kNothing:
      break;
    case state::World::CreditsNeed::kEnd:
      // One that is not being deleted may go on: its end is not known yet.
      if (metadata.Deleting()) {
        api::Workload ended = workload;
        admission::SetFinished(ended, "Deleted", "The workload is deleted", now);
        plan.Add(WorkloadStatusAction(world, std::move(ended), now, true));
      }
      return true;
    case state::World::CreditsNeed::kCheckpoint: {
      // On a busy API server statuses of accounts take a while.
      const absl::Duration waited = now - state::ReleasedAt(workload).value_or(now);
      plan.RecheckAt(now + std::clamp(waited / 2, absl::Seconds(1), absl::Seconds(30)));
      return true;
    }
  }
  Write& write = plan.Add(FinalizersAction(api::Kind::kWorkload, metadata.Key(),
                                           Without(metadata.finalizers, api::kResourceInUse),
                                           metadata.resource_version));
  write.tidies_up = !metadata.Deleting();
  return true;
}

state::Action AdoptAction(const api::Workload& workload, Json controller) {
  const std::string uid = controller.GetString("uid");
  Json owners = Json::MakeArray();
  for (const api::OwnerReference& other : workload.metadata.owner_references) {
    owners.Append(api::Encode(other));
  }
  owners.Append(std::move(controller));
  Json body = Json::MakeObject();
  body["metadata"].Set("ownerReferences", std::move(owners));
  body["metadata"]["labels"].Set(api::kJobUidLabel, uid);
  return MergePatchAction(api::Kind::kWorkload, workload.metadata.Key(), "", std::move(body),
                          workload.metadata.resource_version);
}

std::optional<Json> GatedByPatch(const api::Workload& workload, const std::string& gates) {
  if (gates == workload.metadata.Annotation(api::kAdmissionGatedBy)) return std::nullopt;
  Json body = Json::MakeObject();
  body["metadata"]["annotations"].Set(api::kAdmissionGatedBy, gates.empty() ? Json() : Json(gates));
  return body;
}

Json PriorityPatch(const jobs::ResolvedPriority& priority) {
  Json body = Json::MakeObject();
  body["spec"].Set("priorityClassRef", priority.ref ? api::Encode(*priority.ref) : Json());
  body["spec"].Set("priority", static_cast<int64_t>(priority.value));
  return body;
}

bool AddEviction(Plan& plan, const state::World& world, const api::Workload& workload,
                 const std::string& reason, const std::string& message, absl::Time now,
                 std::optional<api::RequeueState> requeue_state) {
  api::Workload next = workload;
  if (!admission::SetEvicted(next, reason, "", message, now)) return false;
  if (requeue_state) next.status.requeue_state = std::move(requeue_state);
  plan.Add(WorkloadStatusAction(world, std::move(next), now, true))
      .notes.push_back(
          WorkloadNote(workload, kWorkloadSource, false, "EvictedDueTo" + reason, message));
  return true;
}

std::optional<api::Workload> FailedToStart(const api::Workload& workload,
                                           const absl::Status& status, absl::Time now) {
  if (!absl::IsFailedPrecondition(status)) return std::nullopt;
  api::Workload next = workload;
  admission::SetFinished(next, "FailedToStart", std::string(status.message()), now);
  return next;
}

}  // namespace sluice::reconcile
