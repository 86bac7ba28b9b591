// PodGroups of ours: made before the first pod may run, and kept in step with the pods.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "api/names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "jobs/pod.h"
#include "reconcile/gang_integrity.h"

namespace sluice::reconcile {
namespace {

bool Before(const GangUnit& a, const GangUnit& b) {
  return std::make_pair(a.since, a.uid) < std::make_pair(b.since, b.uid);
}

// A pod, or the oldest one of a group; nullopt when none of them wants to run.
std::optional<GangUnit> PodUnit(const state::World& world, const ObjectKey& key) {
  std::vector<state::ManagedPodPtr> pods;
  if (const auto group = state::GroupOfKey(key)) {
    pods = world.pods().Group(key.ns, *group);
  } else if (state::ManagedPodPtr pod = world.pods().Find(key)) {
    pods.push_back(std::move(pod));
  }
  std::optional<GangUnit> first;
  for (const state::ManagedPodPtr& pod : pods) {
    if (pod->metadata.Deleting() || jobs::IsTerminated(*pod)) continue;
    GangUnit unit{{api::Kind::kPod, key}, pod->metadata.creation_timestamp, pod->metadata.uid};
    if (!first || Before(unit, *first)) first = std::move(unit);
  }
  return first;
}

std::string NameOf(const state::Ref& ref) {
  if (ref.kind == api::Kind::kJob) return "Job " + ref.key.name;
  const auto group = state::GroupOfKey(ref.key);
  return group ? "pod group " + *group : "pod " + ref.key.name;
}

}  // namespace

std::string SharedPodGroup(const state::World& world, const ObjectKey& pod_group,
                           const GangUnit& unit) {
  std::optional<GangUnit> owner;
  const auto consider = [&](GangUnit other) {
    if (other.ref == unit.ref || !Before(other, unit)) return;
    if (!owner || Before(other, *owner)) owner = std::move(other);
  };
  for (const ObjectKey& key : world.JobsOfPodGroup(pod_group)) {
    const auto job = world.jobs().Find(key);
    if (job == nullptr || job->metadata.Deleting() || jobs::BatchJob::Finished(*job) ||
        job->metadata.Label(api::kQueueNameLabel).empty()) {
      continue;
    }
    consider({{api::Kind::kJob, key}, job->metadata.creation_timestamp, job->metadata.uid});
  }
  const auto pods = world.pods().pod_groups().find(pod_group);
  if (pods != world.pods().pod_groups().end()) {
    for (const auto& [key, count] : pods->second) {
      if (auto other = PodUnit(world, key)) consider(*std::move(other));
    }
  }
  if (!owner) return "";
  return fmt::format(
      "PodGroup {} is used by {} already: a PodGroup is admitted as a whole, so its pods must come "
      "from one Job or one group of pods",
      pod_group.name, NameOf(owner->ref));
}

bool KeepPodGroup(const state::World& world, const OwnPodGroup& own, bool exact, absl::Time now,
                  Plan& plan) {
  if (!world.features().pod_groups) return false;
  const ObjectKey& key = own.group.key;
  if (!world.PodGroupsKnown() || world.Unreadable({api::Kind::kPodGroup, key})) {
    plan.RecheckAt(now + absl::Seconds(1));
    return exact;
  }
  const std::optional<int32_t> wanted = own.group.min_count;
  const auto group = world.pod_groups().Find(key);
  if (group == nullptr) {
    Note note = own.about;
    note.reason = "CreatedPodGroup";
    note.message = "Created PodGroup " + key.name;
    if (wanted) note.message += fmt::format(" for {} pods", *wanted);
    jobs::NewPodGroup made = own.group;
    made.preemption_policy = jobs::PreemptionPolicyOf(world, made.priority_class_name);
    plan.Add(CreateAction(api::Kind::kPodGroup, key, jobs::PodGroupBody(made)))
        .notes.push_back(std::move(note));
    return true;
  }
  // Its name is free again when the last pod of its former life is gone.
  if (group->metadata.Deleting() && !own.going_is_fine) return exact;
  if (!group->policy.gang || !wanted || group->policy.gang->min_count.value_or(0) == *wanted) {
    return false;
  }
  api::Json body = jobs::MinCountPatch(*wanted);
  body["metadata"].Set("uid", group->metadata.uid);
  plan.Add(MergePatchAction(api::Kind::kPodGroup, key, "", std::move(body), ""));
  return true;
}

}  // namespace sluice::reconcile
