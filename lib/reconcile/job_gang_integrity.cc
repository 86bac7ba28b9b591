// What is known of the gang of a Job that runs.
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

bool JobGang::Watch(const api::Workload& workload, Plan& plan) const {
  return KeepMinimum(workload, plan) ||
         (IsGang() && WatchGang(world_, workload, State(workload), now_, plan));
}

bool JobGang::Rest(const api::Workload& workload, Plan& plan) const {
  return RestGang(workload, now_, plan);
}

}  // namespace sluice::reconcile
