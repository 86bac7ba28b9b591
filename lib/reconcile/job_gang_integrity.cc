// What is known of the gang of a Job that runs.
#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "reconcile/gang_integrity.h"
#include "reconcile/job_gang.h"

namespace sluice::reconcile {

using jobs::OnGangBroken;

bool JobGang::IsGang() const {
  if (!job_.metadata.Annotation(api::kOnGangBroken).empty()) return true;
  if (gang_.form == jobs::GangForm::kForeign) {
    return group_ != nullptr && group_->policy.gang.has_value();
  }
  return gang_.form != jobs::GangForm::kNone && !gang_.basic;
}

GangState JobGang::State(const api::Workload& workload) const {
  GangState state;
  state.live = Live(workload);
  state.running = jobs::PodsRunning(job_);
  std::optional<int32_t> minimum = gang_.minimum;
  if (gang_.form == jobs::GangForm::kForeign && group_ != nullptr && group_->policy.gang) {
    minimum = group_->policy.gang->min_count;
  }
  state.needed = state.least = std::min(state.live, minimum.value_or(state.live));
  state.policy = jobs::OnGangBrokenOf(job_.metadata);
  if (state.policy == OnGangBroken::kShrink) {
    state.least = std::min(state.needed, jobs::DeclaredMinimum(job_).value_or(state.needed));
  }
  state.patience = jobs::RepairTimeoutOf(job_.metadata);
  state.about = MakeNote(false, "", "");
  return state;
}

bool JobGang::Enough(const api::Workload& workload) const {
  const GangState state = State(workload);
  return state.policy == OnGangBroken::kShrink && WasWhole(workload, now_) &&
         state.running >= state.least;
}

bool JobGang::MissesPods(const api::Workload& workload, Plan& plan) const {
  if (gang_.form != jobs::GangForm::kOwn || !IsGang() ||
      !api::IsTrue(workload.status.conditions, api::kAdmitted)) {
    return false;
  }
  const GangState state = State(workload);
  if (state.policy == OnGangBroken::kRequeue || state.live < 1 || state.running >= state.live) {
    return false;
  }
  const absl::Time due = NotWholeSince(workload, now_) + kSettleTime;
  if (now_ < due) plan.RecheckAt(due);
  return now_ >= due;
}

bool JobGang::PutOffGrowth(const api::Workload* running, const api::Workload* waiting,
                           Plan& plan) const {
  const auto put_off = jobs::GrowthPutOffOf(job_);
  const bool needed = running != nullptr && waiting != nullptr &&
                      !job_.spec.suspend.value_or(false) && MissesPods(*running, plan);
  if (needed && put_off) return false;
  jobs::GrowthPutOff next;
  api::Json annotation;
  std::optional<int32_t> parallelism;
  Note note = MakeNote(false, "", "");
  if (needed) {
    for (const api::PodSet& pod_set : running->spec.pod_sets) next.runs += pod_set.count;
    next.wanted = job_.spec.parallelism.value_or(1);
    if (next.runs < 1 || next.wanted <= next.runs) return false;
    annotation = jobs::GrowthPutOffText(next);
    parallelism = next.runs;
    note.reason = "GrowthPutOff";
    note.message = fmt::format(
        "Pods of the gang are missing: it runs {} pods until it is whole again, and then {}",
        next.runs, next.wanted);
  } else if (put_off) {
    parallelism = put_off->wanted;
    note.reason = "GrowthResumed";
    note.message = fmt::format("It runs {} pods as soon as there is quota", put_off->wanted);
  } else if (job_.metadata.Annotation(jobs::kGrowthPutOff).empty()) {
    return false;
  }
  api::Json body = api::Json::MakeObject();
  body["metadata"].Set("uid", job_.metadata.uid);
  // Another size that the user asks for meanwhile is not overwritten.
  body["metadata"].Set("resourceVersion", job_.metadata.resource_version);
  body["metadata"]["annotations"].Set(jobs::kGrowthPutOff, std::move(annotation));
  if (parallelism) body["spec"].Set("parallelism", static_cast<int64_t>(*parallelism));
  Write& write =
      plan.Add(MergePatchAction(api::Kind::kJob, job_.metadata.Key(), "", std::move(body), ""));
  if (!note.reason.empty()) write.notes.push_back(std::move(note));
  return true;
}

bool JobGang::Watch(const api::Workload& workload, Plan& plan) const {
  return KeepMinimum(workload, plan) ||
         (IsGang() && WatchGang(world_, workload, State(workload), now_, plan));
}

bool JobGang::Rest(const api::Workload& workload, Plan& plan) const {
  return RestGang(workload, now_, plan);
}

}  // namespace sluice::reconcile
