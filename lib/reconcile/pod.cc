// Plain pods: which of them are looked at, and what is left to do when they are gone.
#include <algorithm>

#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod.h"
#include "reconcile/lost_pods.h"
#include "reconcile/pod_pass.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using state::ManagedPod;

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

bool IsGroupWorkload(const api::Workload& workload) {
  return workload.metadata.Annotation(api::kIsGroupWorkload) == "true";
}

// The pod is gone or going: its Workload ends, then the pod may go.
Plan FinalizeSingle(const state::World& world, const ObjectKey& key, const ManagedPod* pod,
                    absl::Time now) {
  Plan plan;
  for (const ObjectKey& owned : world.WorkloadsOwnedBy(key.ns, jobs::kPodKind, key.name)) {
    const auto workload = world.AssumedOrStored(owned);
    if (workload == nullptr) continue;
    const api::OwnerReference* owner = workload->metadata.Controller();
    const bool single =
        owner != nullptr && owner->kind == jobs::kPodKind && owner->name == key.name;
    if (!single) continue;
    // The answer to an admission comes soon, and this is looked at again.
    if (world.IsAssumed(owned)) return {};
    const bool finish = world.settings().gates.Enabled("FinishOrphanedWorkloads") &&
                        !workload->metadata.Deleting() && !Has(*workload, api::kFinished);
    if (finish) {
      api::Workload next = *workload;
      admission::SetFinished(next, "OwnerNotFound", "The owner of the workload is gone", now);
      plan.Add(WorkloadStatusAction(world, std::move(next), now, true));
    } else {
      RemoveFinalizer(plan, world, *workload, now);
    }
  }
  if (plan.writes.empty() && pod != nullptr && pod->metadata.HasFinalizer(api::kManagedFinalizer)) {
    plan.Add(FinalizersAction(api::Kind::kPod, key,
                              Without(pod->metadata.finalizers, api::kManagedFinalizer),
                              pod->metadata.resource_version));
  }
  return plan;
}

// No pod of the group is left. The garbage collector takes its Workload away, and nothing must keep
// it from that.
Plan FinalizeGroup(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  const auto workload = world.AssumedOrStored(key);
  if (workload == nullptr || world.IsAssumed(key)) return plan;
  const bool stranger = world.settings().gates.Enabled("PodIntegrationValidateGroupOwner") &&
                        !IsGroupWorkload(*workload);
  if (!stranger) RemoveFinalizer(plan, world, *workload, now);
  return plan;
}

bool HasQueue(const ManagedPod& pod) { return !pod.metadata.Label(api::kQueueNameLabel).empty(); }

// A pod that has ended says nothing about the others of its group any more.
bool WantsQueue(const jobs::Pods& pods) {
  const bool any = std::any_of(pods.begin(), pods.end(),
                               [](const auto& pod) { return !jobs::IsTerminated(*pod); });
  return std::any_of(pods.begin(), pods.end(), [any](const auto& pod) {
    return HasQueue(*pod) && !(any && jobs::IsTerminated(*pod));
  });
}

bool Ignored(const state::World& world, const jobs::Pods& pods) {
  const state::Settings& settings = world.settings();
  const auto ns = world.namespaces().Find({"", pods.front()->metadata.ns});
  return ns == nullptr || !settings.managed_jobs_namespace_selector.Matches(ns->metadata.labels) ||
         (!settings.manage_jobs_without_queue_name && !WantsQueue(pods));
}

// Nobody looks after the group any more. What is deleted must be able to go all the same.
Plan LetGo(const state::World& world, const jobs::Pods& pods) {
  Plan plan;
  // Of a namespace that is not known nothing is known.
  if (world.namespaces().Find({"", pods.front()->metadata.ns}) == nullptr) return plan;
  for (const state::ManagedPodPtr& pod : pods) {
    if (!pod->metadata.Deleting() || !pod->metadata.HasFinalizer(api::kManagedFinalizer)) continue;
    plan.Add(FinalizersAction(api::Kind::kPod, pod->metadata.Key(),
                              Without(pod->metadata.finalizers, api::kManagedFinalizer),
                              pod->metadata.resource_version));
  }
  return plan;
}

}  // namespace

Plan ReconcilePod(const state::World& world, const ObjectKey& key, absl::Time now) {
  if (!world.Watches(api::Kind::kPod)) return {};
  if (const std::optional<std::string> chain = state::ChainOfKey(key)) {
    return ReconcilePlacement(world, {key.ns, *chain}, now);
  }
  if (const std::optional<std::string> group = state::GroupOfKey(key)) {
    jobs::Pods pods = world.pods().Group(key.ns, *group);
    if (pods.empty()) return FinalizeGroup(world, {key.ns, *group}, now);
    if (Ignored(world, pods)) return LetGo(world, pods);
    return PodPass(world, std::move(pods), *group, now).Run();
  }
  if (world.pods().Unreadable(key)) return {};
  const auto pod = world.pods().Find(key);
  if (pod != nullptr && !pod->group.empty()) return {};  // the group's key does it
  if (pod == nullptr || pod->metadata.Deleting()) return FinalizeSingle(world, key, pod.get(), now);
  if (Ignored(world, {pod})) return {};
  return PodPass(world, {pod}, "", now).Run();
}

bool PodsReadyInFact(const state::World& world, const api::Workload& workload, absl::Time now) {
  const api::ObjectMeta& metadata = workload.metadata;
  if (IsGroupWorkload(workload)) {
    Plan unused;
    const jobs::Pods pods =
        WithLost(world, world.pods().Group(metadata.ns, metadata.name), now, unused);
    if (pods.empty()) return false;
    const jobs::Pods kept = jobs::Assemble(pods, workload, absl::InfinitePast()).kept;
    return jobs::GroupFinished(kept).has_value() || jobs::GroupReady(kept);
  }
  const api::OwnerReference* owner = metadata.Controller();
  if (owner == nullptr || owner->kind != jobs::kPodKind) return false;
  const auto pod = world.pods().Find({metadata.ns, owner->name});
  if (pod == nullptr || pod->metadata.uid != owner->uid) return false;
  return jobs::PodFinished(*pod).has_value() || jobs::IsPodReady(*pod);
}

}  // namespace sluice::reconcile
