// The gang of a Job: its PodGroup and the minimum of it.
#include "reconcile/job_gang.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "reconcile/job_slices.h"
#include "reconcile/reconcilers.h"

namespace sluice::reconcile {

using api::Json;
using jobs::BatchJob;
using jobs::GangForm;

JobGang::JobGang(const state::World& world, const api::Job& job, absl::Time now)
    : world_(world), job_(job), now_(now), gang_(jobs::GangOf(job)) {
  if (!gang_.pod_group.name.empty()) group_ = world.pod_groups().Find(gang_.pod_group);
}

Note JobGang::MakeNote(bool warning, std::string reason, std::string message) const {
  return {api::Kind::kJob, job_.metadata.Key(), job_.metadata.uid, BatchJob::kEventSource,
          warning,         std::move(reason),   std::move(message)};
}

bool JobGang::Unknown(Plan& plan) const {
  if (gang_.pod_group.name.empty() || !world_.features().pod_groups) return false;
  if (world_.PodGroupsKnown() && !world_.Unreadable({api::Kind::kPodGroup, gang_.pod_group})) {
    return false;
  }
  plan.RecheckAt(now_ + absl::Seconds(1));
  return true;
}

std::string JobGang::Refusal(const char*& reason) const {
  reason = "GangRefused";
  if (group_ == nullptr) {
    // Quota for a gang that kube-scheduler does not look at would be of use to nobody.
    if (!Foreign() || !world_.features().pod_groups) return "";
    reason = "PodGroupMissing";
    return fmt::format("there is no PodGroup {}, without which kube-scheduler places no pod of it",
                       gang_.pod_group.name);
  }
  if (gang_.form == GangForm::kOwn) {
    const api::OwnerReference* owner = group_->metadata.Controller();
    if (owner != nullptr && owner->uid == job_.metadata.uid) return "";
    return fmt::format("PodGroup {}, which the Job's pods name, belongs to somebody else",
                       gang_.pod_group.name);
  }
  return gang_.form == GangForm::kForeign ? RefusalOfForeign(group_.get()) : "";
}

std::string JobGang::RefusalOfForeign(const api::PodGroup* group) const {
  if (std::string parts = jobs::RefusalOfParent(*group); !parts.empty()) return parts;
  const int32_t needed = group->policy.gang ? group->policy.gang->min_count.value_or(1) : 1;
  const int32_t parallelism = job_.spec.parallelism.value_or(1);
  if (needed > parallelism) {
    return fmt::format(
        "PodGroup {} needs {} pods, and the Job runs {} at a time: it would never be complete",
        group->metadata.name, needed, parallelism);
  }
  return SharedPodGroup(world_, gang_.pod_group,
                        {{api::Kind::kJob, job_.metadata.Key()},
                         job_.metadata.creation_timestamp,
                         job_.metadata.uid});
}

void JobGang::RaiseMinimum(std::vector<api::PodSet>& pod_sets) const {
  if (!Foreign() || group_ == nullptr || !group_->policy.gang) return;
  const int32_t needed = group_->policy.gang->min_count.value_or(1);
  for (api::PodSet& pod_set : pod_sets) {
    if (!pod_set.min_count) continue;
    pod_set.min_count = std::max(*pod_set.min_count, std::min(needed, pod_set.count));
  }
}

bool JobGang::KeepOwnGroup(int32_t wanted, bool exact, Plan& plan) const {
  OwnPodGroup own;
  own.group.key = gang_.pod_group;
  own.group.min_count = wanted;
  if (gang_.basic) own.group.min_count.reset();
  // The user's own wish goes from the Job into the PodGroup as the Job controller would take it.
  if (job_.spec.scheduling) {
    own.group.topology = job_.spec.scheduling->topology;
    own.group.disruption_mode = job_.spec.scheduling->disruption_mode;
  }
  own.group.priority_class_name = job_.spec.pod_template.spec->priority_class_name;
  own.group.owner = {
      BatchJob::kApiVersion, BatchJob::kKind, job_.metadata.name, job_.metadata.uid, true, true};
  own.about = MakeNote(false, "", "");
  return KeepPodGroup(world_, own, exact, now_, plan);
}

// Of so many pods the gang asks for all, or for as many as the user says.
int32_t JobGang::Minimum(int32_t live) const {
  return std::max(1, std::min(live, gang_.minimum.value_or(live)));
}

bool JobGang::Prepare(int32_t count, Plan& plan) const {
  if (gang_.form != GangForm::kOwn) return false;
  return KeepOwnGroup(Minimum(std::min(count, jobs::PodsToRun(job_))), true, plan);
}

// Pods of an elastic Job for which there is no quota yet are not missed.
int32_t JobGang::Live(const api::Workload& workload) const {
  const int32_t wanted = jobs::PodsToRun(job_);
  if (!IsElastic(world_, job_.metadata)) return wanted;
  int64_t admitted = 0;
  for (const api::PodSet& pod_set : workload.spec.pod_sets) admitted += pod_set.count;
  return static_cast<int32_t>(std::min<int64_t>(wanted, admitted));
}

// A slice that was whole lost pods: their replacements may come back one by one.
bool JobGang::Grow(const api::Workload& slice, Plan& plan) const {
  const int32_t live = Live(slice);
  if (gang_.form != GangForm::kOwn || live < 1 || WasWhole(slice, now_)) return false;
  return KeepOwnGroup(Minimum(live), true, plan);
}

// The API server refuses a minimum above the parallelism, so both go into one write. Without a
// minimum of its own the gang asks for as many pods as run at a time, and those that have ended
// count no more. What the user asks for only comes down, to what is left to run.
void JobGang::AddToStart(int32_t count, Json& body) const {
  if (gang_.form != GangForm::kJobController) return;
  const int32_t left = std::max(1, std::min(count, jobs::PodsToRun(job_)));
  const Json* given = body.Find("spec", "parallelism");
  const int32_t parallelism =
      given == nullptr ? job_.spec.parallelism.value_or(1) : static_cast<int32_t>(given->AsInt());
  const int32_t have = jobs::ExplicitMinCount(job_).value_or(parallelism);
  const int32_t wanted = gang_.ours ? left : std::min(have, left);
  if (have == wanted) return;
  body["spec"]["scheduling"]["schedulingPolicy"]["gang"].Set("minCount",
                                                             static_cast<int64_t>(wanted));
}

// With the feature gate WorkloadWithJob the Job controller makes a PodGroup for every Job that has
// no owner, and cannot for pods that never preempt; see the webhook, which helps where it can.
bool JobGang::JobControllerIsRefused() const {
  const api::PodSpec& pod = *job_.spec.pod_template.spec;
  return world_.features().job_scheduling && pod.scheduling_group.empty() &&
         job_.metadata.Controller() == nullptr &&
         !jobs::PreemptionPolicyOf(world_, pod.priority_class_name).empty();
}

std::vector<Note> JobGang::StartNotes(const api::Workload& workload) const {
  const char* one_by_one = "kube-scheduler places its pods one by one";
  if (!gang_.lost.empty()) {
    return {MakeNote(true, "GangFieldDropped",
                     fmt::format("The API server dropped {}: {}", gang_.lost, one_by_one))};
  }
  if (JobControllerIsRefused()) {
    const std::string text = fmt::format(
        "The Job controller's PodGroup for the pods is refused where the API server has the "
        "feature "
        "gate PodGroupPreemptionPolicy, since it does not say that PriorityClass {} never "
        "preempts; "
        "then there are no pods",
        job_.spec.pod_template.spec->priority_class_name);
    return {MakeNote(true, "PodGroupForbidden", text),
            WorkloadNote(workload, BatchJob::kEventSource, true, "PodGroupForbidden", text)};
  }
  if (gang_.form == GangForm::kFallback ||
      (gang_.form == GangForm::kOwn && !gang_.basic && !world_.features().pod_groups)) {
    return {MakeNote(true, "GangFallback",
                     fmt::format("The cluster does not serve PodGroups: {}", one_by_one))};
  }
  return {};
}

// A minimum is written only when it would be in the way: kube-scheduler looks at it only while it
// places pods. So it comes down when a pod has to be replaced and others have ended or are given up
// for the time being, and goes up when all are there.
bool JobGang::KeepMinimum(const api::Workload& workload, Plan& plan) const {
  const bool own = gang_.form == GangForm::kOwn;
  if (!own && gang_.form != GangForm::kJobController) return false;
  const int32_t live = Live(workload);
  if (live < 1) return false;
  int32_t wanted = Minimum(live);
  if (own && group_ == nullptr) return KeepOwnGroup(wanted, false, plan);
  if (gang_.basic) return false;
  const int32_t parallelism = job_.spec.parallelism.value_or(1);
  const int32_t have = own ? (group_->policy.gang ? group_->policy.gang->min_count.value_or(0) : 0)
                           : jobs::ExplicitMinCount(job_).value_or(parallelism);
  const int32_t running = jobs::PodsRunning(job_);
  if (running >= live) {
    if (have >= wanted) return false;
  } else {
    // What the user wrote into the Job could not be told from what was written here.
    if ((own || gang_.ours) && jobs::OnGangBrokenOf(job_.metadata) == jobs::OnGangBroken::kShrink &&
        WasWhole(workload, now_)) {
      const int32_t floor = std::min(wanted, jobs::DeclaredMinimum(job_).value_or(wanted));
      wanted = std::max(1, std::clamp(running, floor, wanted));
    }
    if (have <= wanted) return false;
  }
  return own ? KeepOwnGroup(wanted, false, plan) : KeepExplicit(wanted, plan);
}

bool JobGang::Wake(Plan& plan) const {
  const std::string& group = gang_.pod_group.name;
  if (group.empty() || !world_.slice_pods().synced()) return false;
  const std::vector<state::SlicePodPtr> pods = world_.slice_pods().OfJob(job_.metadata.Key());
  const state::SlicePod* blocks = nullptr;
  const state::SlicePod* waits = nullptr;
  const state::SlicePod* marked = nullptr;
  for (const state::SlicePodPtr& pod : pods) {
    if (!pod->Pending() || pod->pod_group != group) continue;
    const bool gated = !pod->gates.empty();
    if (gated && blocks == nullptr) blocks = pod.get();
    if (gated) continue;
    if (waits == nullptr) waits = pod.get();
    if (pod->annotations.contains(api::kGangWaker)) marked = pod.get();
  }
  const auto mark = [&](const state::SlicePod& pod, Json uid) {
    Json body = Json::MakeObject();
    body["metadata"].Set("uid", pod.uid);
    body["metadata"]["annotations"].Set(api::kGangWaker, std::move(uid));
    plan.Add(MergePatchAction(api::Kind::kPod, pod.key, "", std::move(body), pod.resource_version));
    return true;
  };
  if (marked == nullptr) {
    return blocks != nullptr && waits != nullptr && mark(*waits, blocks->uid);
  }
  const std::string& uid = marked->annotations.at(api::kGangWaker);
  const bool here = std::any_of(pods.begin(), pods.end(), [&](const state::SlicePodPtr& pod) {
    return pod->uid == uid && !pod->gates.empty();
  });
  if (here) return false;
  // The mark goes over to the next without a gap in which that could be gone unseen.
  return mark(*marked, blocks == nullptr ? Json() : Json(blocks->uid));
}

// The Job controller copies it into the PodGroup.
bool JobGang::KeepExplicit(int32_t wanted, Plan& plan) const {
  Json body = Json::MakeObject();
  body["spec"]["scheduling"]["schedulingPolicy"]["gang"].Set("minCount",
                                                             static_cast<int64_t>(wanted));
  body["metadata"].Set("uid", job_.metadata.uid);
  plan.Add(MergePatchAction(api::Kind::kJob, job_.metadata.Key(), "", std::move(body), ""));
  return true;
}

}  // namespace sluice::reconcile
