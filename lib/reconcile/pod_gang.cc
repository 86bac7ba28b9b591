#include "reconcile/pod_gang.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/kind.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/time.h"
#include "jobs/pod.h"
#include "reconcile/reconcilers.h"

namespace sluice::reconcile {

using api::Json;
using jobs::GangForm;
using state::ManagedPod;
using state::ManagedPodPtr;

namespace {

constexpr char kWorkloadKind[] = "Workload";

bool IsPending(const ManagedPod& pod) {
  return pod.spec().node_name.empty() && !pod.metadata.Deleting() && !jobs::IsTerminated(pod);
}

bool HasGates(const ManagedPod& pod) { return !pod.spec().scheduling_gates.empty(); }

// The pod that speaks for the others: the first that may still run.
const ManagedPod& Speaker(const jobs::Pods& pods) {
  const auto runs = std::find_if(pods.begin(), pods.end(), [](const ManagedPodPtr& pod) {
    return jobs::IsRunnableOrSucceeded(*pod) && !jobs::IsSucceeded(*pod);
  });
  return runs == pods.end() ? *pods.front() : **runs;
}

}  // namespace

PodGang::PodGang(const state::World& world, const jobs::Pods& all, const std::string& group,
                 absl::Time now)
    : world_(world),
      all_(all),
      group_name_(group),
      now_(now),
      gang_(jobs::PodGangOf(Speaker(all))) {
  if (Named()) group_ = world.pod_groups().Find(gang_.pod_group);
  const ManagedPod& first = *all.front();
  about_ = {api::Kind::kPod,
            first.metadata.Key(),
            first.metadata.uid,
            jobs::kPodEventSource,
            false,
            "",
            ""};
}

bool PodGang::Unknown(Plan& plan) const {
  if (!Named() || !world_.features().pod_groups) return false;
  if (world_.PodGroupsKnown() && !world_.Unreadable({api::Kind::kPodGroup, gang_.pod_group})) {
    return false;
  }
  plan.RecheckAt(now_ + absl::Seconds(1));
  return true;
}

std::string PodGang::Refusal(const char*& reason) const {
  reason = "GangRefused";
  if (!Named() || !world_.features().pod_groups) return "";
  const std::string& name = gang_.pod_group.name;
  if (std::string text = jobs::Disagreement(all_, group_.get()); !text.empty()) return text;
  GangUnit unit{{api::Kind::kPod, state::PodIndex::WorkKey(*all_.front())}, std::nullopt, ""};
  for (const ManagedPodPtr& pod : all_) {
    if (pod->metadata.Deleting() || jobs::IsTerminated(*pod)) continue;
    const auto next = std::make_pair(pod->metadata.creation_timestamp, pod->metadata.uid);
    if (unit.uid.empty() || next < std::make_pair(unit.since, unit.uid)) {
      unit.since = next.first;
      unit.uid = next.second;
    }
  }
  if (std::string text = SharedPodGroup(world_, gang_.pod_group, unit); !text.empty()) return text;
  if (group_ == nullptr) {
    if (gang_.form == GangForm::kOwn) return "";
    reason = "PodGroupMissing";
    return fmt::format("there is no PodGroup {}, without which kube-scheduler places no pod of it",
                       name);
  }
  if (gang_.form == GangForm::kOwn) {
    const api::OwnerReference* owner = group_->metadata.Controller();
    const bool mine =
        owner != nullptr && owner->kind == kWorkloadKind && owner->name == group_name_;
    return mine ? ""
                : fmt::format("PodGroup {}, which the pods name, belongs to somebody else", name);
  }
  if (std::string text = jobs::RefusalOfParent(*group_); !text.empty()) return text;
  const int64_t needed = group_->policy.gang ? group_->policy.gang->min_count.value_or(1) : 1;
  const int64_t total = group_name_.empty() ? 1 : jobs::TotalCount(*all_.front()).value_or(1);
  if (needed <= total) return "";
  return fmt::format("PodGroup {} needs {} pods, and {} {}: it would never be complete", name,
                     needed, group_name_.empty() ? "this is" : "the group has", total);
}

bool PodGang::Prepare(const api::Workload& workload, const jobs::Pods& kept, Plan& plan) const {
  if (gang_.form != GangForm::kOwn) return false;
  const bool first = std::none_of(kept.begin(), kept.end(), [](const ManagedPodPtr& pod) {
    return !jobs::IsGated(*pod) && !jobs::IsTerminated(*pod);
  });
  const int32_t live = jobs::GroupPodsToRun(workload, kept);
  return live >= 1 && KeepMinimum(workload, live, first, plan);
}

// Before the first gate goes the minimum is exactly what is to run. Later it is written only when
// it would be in the way: kube-scheduler looks at it only while it places pods.
bool PodGang::KeepMinimum(const api::Workload& workload, int32_t wanted, bool first,
                          Plan& plan) const {
  if (!first && group_ != nullptr) {
    const auto& gang = group_->policy.gang;
    if (!gang || gang->min_count.value_or(0) <= wanted) return false;
  }
  OwnPodGroup own;
  own.group.key = gang_.pod_group;
  own.group.min_count = wanted;
  own.group.priority_class_name = Speaker(all_).spec().priority_class_name;
  own.group.owner = {api::ApiVersionOf(api::Kind::kWorkload),
                     kWorkloadKind,
                     workload.metadata.name,
                     workload.metadata.uid,
                     true,
                     true};
  own.going_is_fine = true;
  own.about = about_;
  return KeepPodGroup(world_, own, first, now_, plan);
}

void PodGang::SayIncomplete(const std::string& what, Plan& plan) const {
  if (!IsGang()) return;
  absl::Time oldest = absl::InfiniteFuture();
  for (const ManagedPodPtr& pod : all_) {
    oldest = std::min(oldest, pod->metadata.creation_timestamp.value_or(now_));
  }
  const absl::Duration patience = jobs::RepairTimeoutOf(all_.front()->metadata);
  if (now_ < oldest + patience) return plan.RecheckAt(oldest + patience);
  Note note = about_;
  note.warning = true;
  note.reason = "GangIncomplete";
  note.message = fmt::format("{}, for longer than {}; it holds no quota meanwhile", what,
                             sluice::FormatDuration(patience));
  plan.notes.push_back(std::move(note));
}

std::string PodGang::StartWarning() const {
  const char* one_by_one = "kube-scheduler places the pods one by one";
  if (!gang_.lost.empty()) {
    return fmt::format("The API server dropped {}: {}", gang_.lost, one_by_one);
  }
  if (gang_.form == GangForm::kFallback ||
      (gang_.form == GangForm::kOwn && !world_.features().pod_groups)) {
    return fmt::format("The cluster does not serve PodGroups: {}", one_by_one);
  }
  return "";
}

bool PodGang::IsGang() const {
  if (!all_.front()->metadata.Annotation(api::kOnGangBroken).empty()) return true;
  if (gang_.form == GangForm::kForeign) return group_ != nullptr && group_->policy.gang;
  return gang_.form != GangForm::kNone;
}

GangState PodGang::State(const api::Workload& workload, const jobs::Pods& kept) const {
  GangState state;
  state.live = jobs::GroupPodsToRun(workload, kept);
  state.running =
      static_cast<int32_t>(std::count_if(kept.begin(), kept.end(), [](const ManagedPodPtr& pod) {
        return jobs::IsPodReady(*pod) && !pod->metadata.Deleting() && !jobs::IsTerminated(*pod);
      }));
  state.needed = state.live;
  if (gang_.form == GangForm::kForeign && group_ != nullptr && group_->policy.gang) {
    state.needed = std::min(state.live, group_->policy.gang->min_count.value_or(state.live));
  }
  state.least = state.needed;
  state.policy = jobs::OnGangBrokenOf(all_.front()->metadata);
  state.patience = jobs::RepairTimeoutOf(all_.front()->metadata);
  state.about = about_;
  return state;
}

bool PodGang::Watch(const api::Workload& workload, const jobs::Pods& kept, Plan& plan) const {
  if (gang_.form == GangForm::kOwn) {
    const auto pending = std::count_if(kept.begin(), kept.end(),
                                       [](const ManagedPodPtr& pod) { return IsPending(*pod); });
    const int32_t live = jobs::GroupPodsToRun(workload, kept);
    const bool in_the_way = pending > 0 && live >= 1;
    if (in_the_way && KeepMinimum(workload, live, false, plan)) return true;
  }
  return Wake(kept, plan) ||
         (IsGang() && WatchGang(world_, workload, State(workload, kept), now_, plan));
}

bool PodGang::Rest(const api::Workload& workload, Plan& plan) const {
  return RestGang(workload, now_, plan);
}

state::Action PodGang::Patch(const ManagedPod& pod, Json mark) const {
  Json body = Json::MakeObject();
  body["metadata"].Set("uid", pod.metadata.uid);
  body["metadata"]["annotations"].Set(api::kGangWaker, std::move(mark));
  return MergePatchAction(api::Kind::kPod, pod.metadata.Key(), "", std::move(body),
                          pod.metadata.resource_version);
}

bool PodGang::Mark(const jobs::Pods& leaving, const jobs::Pods& kept, Plan& plan) const {
  if (!Named()) return false;
  const auto blocks = std::find_if(leaving.begin(), leaving.end(), [&](const ManagedPodPtr& pod) {
    return HasGates(*pod) && jobs::IsMember(*pod, gang_.pod_group.name);
  });
  if (blocks == leaving.end()) return false;
  const auto waits = std::find_if(kept.begin(), kept.end(), [&](const ManagedPodPtr& pod) {
    return IsPending(*pod) && !HasGates(*pod) && jobs::IsMember(*pod, gang_.pod_group.name);
  });
  if (waits == kept.end() || !(*waits)->metadata.Annotation(api::kGangWaker).empty()) return false;
  plan.Add(Patch(**waits, (*blocks)->metadata.uid));
  return true;
}

bool PodGang::Wake(const jobs::Pods& kept, Plan& plan) const {
  const size_t before = plan.writes.size();
  for (const ManagedPodPtr& pod : kept) {
    const std::string& uid = pod->metadata.Annotation(api::kGangWaker);
    if (uid.empty() || pod->metadata.Deleting()) continue;
    const bool here = std::any_of(all_.begin(), all_.end(), [&](const ManagedPodPtr& other) {
      return other->metadata.uid == uid;
    });
    if (!here) plan.Add(Patch(*pod, Json()));
  }
  return plan.writes.size() > before;
}

}  // namespace sluice::reconcile
