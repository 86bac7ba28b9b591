// A group of plain pods: its Workload, the pods that count, those that are too many or were
// replaced, and the condition that says that some are missing.
#include <fmt/format.h>

#include <algorithm>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod_construct.h"
#include "reconcile/pod_pass.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {

using api::ConditionStatus;
using api::Json;
using state::ManagedPodPtr;

namespace {

constexpr char kReplacementsManager[] = "kueue-job-controller-WaitingForReplacementPods";

bool IsGroupWorkload(const api::Workload& workload) {
  return workload.metadata.Annotation(api::kIsGroupWorkload) == "true";
}

}  // namespace

bool PodPass::FindGroup() {
  const ObjectKey key{First().metadata.ns, group_};
  for (const ManagedPodPtr& pod : all_) {
    if (world_.pods().Unreadable(pod->metadata.Key())) return true;
  }
  const auto found = world_.AssumedOrStored(key);
  if (found == nullptr) return false;
  if (world_.Unreadable({api::Kind::kWorkload, key})) return true;
  if (prebuilt_.empty() && BlockedByStranger(*found)) return true;
  if (world_.IsAssumed(key)) return true;  // its reply comes soon
  // What ends is not put in order first.
  if (found->metadata.Deleting()) {
    workload_ = found;
    return false;
  }
  jobs::Assembly assembly = jobs::Assemble(all_, *found, now_);
  const bool same_time = found->spec.maximum_execution_time_seconds.value_or(-1) ==
                         jobs::MaxExecutionTime(First().metadata).value_or(-1);
  if (same_time && jobs::GroupMatches(*found, assembly.kept)) {
    return TakeAssembly(found, std::move(assembly));
  }
  if (prebuilt_.empty()) return DropSurplus({found});
  const api::Condition* finished = api::FindCondition(found->status.conditions, api::kFinished);
  if (finished != nullptr && finished->status == ConditionStatus::kTrue) {
    if (finished->reason != "OutOfSync") workload_ = found;
    return false;
  }
  api::Workload next = *found;
  admission::SetFinished(next, "OutOfSync",
                         "The prebuilt workload is out of sync with its user job", now_);
  WriteWorkload(std::move(next));
  return true;
}

// A Workload of somebody else that has the name of the group. It is left alone, and the pods wait
// until it goes.
bool PodPass::BlockedByStranger(const api::Workload& workload) {
  if (!Enabled("PodIntegrationValidateGroupOwner") || IsGroupWorkload(workload)) return false;
  plan_.notes.push_back(
      PodNote(First(), true, "WorkloadNameConflict",
              fmt::format("Workload {} exists and is not that of a pod group; the group waits "
                          "until it is gone",
                          workload.metadata.Key().ToString())));
  Finalize(jobs::SortOut(all_).inactive);
  return true;
}

bool PodPass::TakeAssembly(std::shared_ptr<const api::Workload> workload, jobs::Assembly assembly) {
  workload_ = std::move(workload);
  absent_ = assembly.absent;
  pods_ = std::move(assembly.kept);
  Json::Array missing = jobs::MissingOwners(*workload_, pods_);
  if (!missing.empty()) {
    Json owners = Json::MakeArray();
    for (const api::OwnerReference& owner : workload_->metadata.owner_references) {
      owners.Append(api::Encode(owner));
    }
    const size_t count = missing.size();
    for (Json& owner : missing) owners.Append(std::move(owner));
    Json body = Json::MakeObject();
    body["metadata"].Set("ownerReferences", std::move(owners));
    plan_
        .Add(MergePatchAction(api::Kind::kWorkload, workload_->metadata.Key(), "", std::move(body),
                              workload_->metadata.resource_version))
        .notes.push_back(WorkloadNote(*workload_, jobs::kPodEventSource, false,
                                      "OwnerReferencesAdded",
                                      fmt::format("Added {} owner references", count)));
  }
  jobs::Pods leaving = assembly.excess;
  leaving.insert(leaving.end(), assembly.replaced.begin(), assembly.replaced.end());
  if (gang_.Mark(leaving, pods_, plan_)) return true;
  DropExcess(assembly.excess);
  Finalize(assembly.replaced);
  return !plan_.writes.empty();
}

void PodPass::DropExcess(const jobs::Pods& excess) {
  for (const ManagedPodPtr& pod : excess) {
    if (!Room()) return;
    Finalize({pod});
    if (pod->metadata.Deleting()) continue;
    plan_.Add(DeleteAction(api::Kind::kPod, pod->metadata.Key(), pod->metadata.uid))
        .notes.push_back(PodNote(*pod, false, "ExcessPodDeleted", "Excess pod deleted"));
  }
}

bool PodPass::CreateGroup() {
  const jobs::NewGroup sorted = jobs::SortOut(all_);
  if (Finalize(sorted.inactive)) return true;
  if (sorted.kept.empty()) return true;  // nothing left that could run
  if (const absl::Status composable = jobs::CheckComposable(all_); !composable.ok()) {
    gang_.SayIncomplete(std::string(composable.message()), plan_);
    return ComposeFailed(composable);
  }
  DropExcess(sorted.excess);
  if (!plan_.writes.empty() || Refused()) return true;
  return Create(jobs::ConstructGroupWorkload(world_, sorted.kept));
}

// Says on the Workload that pods are missing, which keeps it from being admitted.
bool PodPass::Replacements() {
  if (!IsGroup() || workload_ == nullptr || workload_->metadata.Deleting() ||
      api::IsTrue(workload_->status.conditions, api::kFinished)) {
    return false;
  }
  const api::Condition* old =
      api::FindCondition(workload_->status.conditions, api::kWaitingForReplacementPods);
  const bool missing = absent_ > 0;
  if (old == nullptr && !missing) return false;
  api::Condition next;
  next.type = api::kWaitingForReplacementPods;
  next.status = missing ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  next.reason = missing ? "PodsFailed" : "PodsReady";
  next.message = missing ? "Some failed pods need replacement" : "No pods need replacement";
  const api::Condition* evicted = api::FindCondition(workload_->status.conditions, api::kEvicted);
  if (missing && evicted != nullptr && evicted->status == ConditionStatus::kTrue) {
    next.reason = evicted->reason;
    next.message = evicted->message;
  }
  if (old != nullptr && old->status == next.status && old->reason == next.reason &&
      old->message == next.message) {
    return false;
  }
  next.observed_generation = workload_->metadata.generation;
  const bool flipped = old == nullptr || old->status != next.status;
  next.last_transition_time = flipped ? now_ : old->last_transition_time.value_or(now_);
  plan_.Add(OwnPartAction(*workload_,
                          Json::MakeObject({{"conditions", Json::MakeArray({api::Encode(next)})}}),
                          kReplacementsManager));
  return true;
}

}  // namespace sluice::reconcile
