// The one Workload of a plain pod: found, made, kept in step, or replaced.
#include <fmt/format.h>

#include <algorithm>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod_construct.h"
#include "reconcile/pod_pass.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {

using api::Json;
using state::ManagedPod;

namespace {

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

bool Owns(const ManagedPod& pod, const api::Workload& workload) {
  const api::OwnerReference* owner = workload.metadata.Controller();
  return owner != nullptr && owner->kind == jobs::kPodKind && owner->name == pod.metadata.name;
}

}  // namespace

bool PodPass::PodSetsMatch(const api::Workload& workload) const {
  // What the pod asks of topology is no part of the comparison.
  const auto pod_set = jobs::PodSetOf(First(), "main", 1, jobs::TopologyOptions{});
  return pod_set.ok() && jobs::Matches(world_, workload, First().metadata, {*pod_set}, Suspended());
}

bool PodPass::FindSingle() {
  std::vector<std::shared_ptr<const api::Workload>> surplus;
  const api::ObjectMeta& metadata = First().metadata;
  for (const ObjectKey& key : world_.WorkloadsOwnedBy(metadata.ns, jobs::kPodKind, metadata.name)) {
    const auto candidate = world_.AssumedOrStored(key);
    // Groups have plain owners; what belongs to them is not ours.
    if (candidate == nullptr || !Owns(First(), *candidate)) continue;
    if (world_.Unreadable({api::Kind::kWorkload, key})) return true;
    if (workload_ == nullptr && PodSetsMatch(*candidate)) {
      workload_ = candidate;
    } else {
      surplus.push_back(candidate);
    }
  }
  return DropSurplus(surplus);
}

bool PodPass::DropSurplus(const std::vector<std::shared_ptr<const api::Workload>>& surplus) {
  if (workload_ == nullptr && !surplus.empty()) {
    if (Suspended() && UpdateInPlace(*surplus.front())) return true;
    if (!Finished() &&
        Stop("NoMatchingWorkload", surplus.size() == 1
                                       ? "No matching Workload"
                                       : "Missing Workload; more than one does not match")) {
      return true;
    }
  }
  for (const auto& extra : surplus) DeleteWorkload(*extra);
  const bool waits = workload_ == nullptr && plan_.recheck != absl::InfiniteFuture();
  return waits || !plan_.writes.empty();
}

void PodPass::DeleteWorkload(const api::Workload& workload) {
  if (workload.metadata.HasFinalizer(api::kResourceInUse)) {
    RemoveFinalizer(plan_, world_, workload, now_);
    if (workload.metadata.Deleting()) return;
  } else if (workload.metadata.Deleting()) {
    return;
  }
  plan_.Add(DeleteAction(api::Kind::kWorkload, workload.metadata.Key(), workload.metadata.uid))
      .notes.push_back(
          PodNote(First(), false, "DeletedWorkload",
                  "Deleted not matching Workload: " + workload.metadata.Key().ToString()));
}

// A waiting Workload follows its pods without losing its place.
bool PodPass::UpdateInPlace(const api::Workload& workload) {
  const api::OwnerReference* owner = workload.metadata.Controller();
  const bool ours = IsGroup() || (owner != nullptr && owner->uid == First().metadata.uid);
  if (!ours || workload.metadata.Deleting() || workload.status.admission ||
      Has(workload, api::kQuotaReserved) || Has(workload, api::kFinished)) {
    return false;
  }
  const jobs::TopologyOptions topology = jobs::PodTopologyOf(world_.settings().gates);
  std::vector<api::PodSet> pod_sets;
  if (!IsGroup()) {
    absl::StatusOr<api::PodSet> pod_set = jobs::PodSetOf(First(), "main", 1, topology);
    if (!pod_set.ok()) return ComposeFailed(pod_set.status());
    pod_sets.push_back(*std::move(pod_set));
  } else {
    // Pods that make up nothing (yet) have no use for it, and it must not be admitted for them.
    if (!jobs::CheckComposable(all_).ok()) return false;
    absl::StatusOr<std::vector<api::PodSet>> grouped =
        jobs::GroupPodSets(jobs::SortOut(all_).kept, topology);
    if (!grouped.ok()) return ComposeFailed(grouped.status());
    pod_sets = *std::move(grouped);
  }
  absl::StatusOr<Json> spec =
      jobs::WorkloadSpec(world_, First().metadata, pod_sets, workload.spec.active);
  if (!spec.ok()) return ComposeFailed(spec.status());
  for (const char* field : {"queueName", "priorityClassRef", "maximumExecutionTimeSeconds"}) {
    if (!spec->Has(field)) spec->Set(field, Json());
  }
  plan_
      .Add(MergePatchAction(api::Kind::kWorkload, workload.metadata.Key(), "",
                            Json::MakeObject({{"spec", *std::move(spec)}}),
                            workload.metadata.resource_version))
      .notes.push_back(PodNote(First(), false, "UpdatedWorkload",
                               "Updated not matching Workload for suspended job: " +
                                   workload.metadata.Key().ToString()));
  return true;
}

// A Workload that exists already and waits for this pod.
bool PodPass::FindPrebuilt() {
  const auto found = world_.AssumedOrStored({First().metadata.ns, prebuilt_});
  if (found == nullptr || world_.IsAssumed(found->metadata.Key()) ||
      world_.Unreadable({api::Kind::kWorkload, found->metadata.Key()})) {
    return found != nullptr;
  }
  const api::OwnerReference* owner = found->metadata.Controller();
  if (owner != nullptr && owner->uid != First().metadata.uid) return false;
  if (owner == nullptr) {
    plan_.Add(AdoptAction(
        *found, jobs::ControllerReference(jobs::kPodApiVersion, jobs::kPodKind, First().metadata)));
    return true;
  }
  if (!Has(*found, api::kFinished) && !PodSetsMatch(*found)) {
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

bool PodPass::ComposeFailed(const absl::Status& status) {
  const bool no_class =
      absl::IsNotFound(status) && !First().metadata.Label(api::kPriorityClassLabel).empty();
  plan_.notes.push_back(PodNote(First(), true,
                                no_class ? "WorkloadPriorityClassNotFound" : "ErrWorkloadCompose",
                                std::string(status.message())));
  // A class that appears does not touch the pods; look again. Everything else shows in them.
  if (absl::IsNotFound(status)) plan_.RecheckAt(now_ + absl::Seconds(10));
  return true;
}

bool PodPass::Create(absl::StatusOr<jobs::NewWorkload> created) {
  if (!created.ok()) return ComposeFailed(created.status());
  const ObjectKey key = created->key;
  plan_.Add(CreateAction(api::Kind::kWorkload, key, std::move(created->body)))
      .notes.push_back(
          PodNote(First(), false, "CreatedWorkload", "Created Workload: " + key.ToString()));
  return true;
}

bool PodPass::NoWorkload() {
  if (workload_ != nullptr) return false;
  if (!prebuilt_.empty()) {
    Stop("NoMatchingWorkload", "missing workload");
    plan_.RecheckAt(now_ + absl::Seconds(5));
    return true;
  }
  if (Stop("NoMatchingWorkload", "Missing Workload")) return true;
  if (Active()) return true;
  if (IsGroup()) return CreateGroup();
  return Refused() || Create(jobs::ConstructPodWorkload(world_, First()));
}

bool PodPass::Refused() {
  if (gang_.Unknown(plan_)) return true;
  const char* reason = nullptr;
  const std::string refusal = gang_.Refusal(reason);
  if (refusal.empty()) return false;
  plan_.notes.push_back(PodNote(First(), true, reason, refusal));
  return true;
}

}  // namespace sluice::reconcile
