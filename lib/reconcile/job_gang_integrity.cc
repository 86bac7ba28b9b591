// Gangs that stay whole: condition GangIntact, and what is done when pods are missing.
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
#include "reconcile/job_gang.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using api::Condition;
using api::ConditionStatus;
using api::Json;
using jobs::OnGangBroken;

constexpr char kWhole[] = "Whole";
constexpr char kShrunk[] = "Shrunk";
constexpr char kPodsMissing[] = "PodsMissing";
constexpr char kNotRunning[] = "NotRunning";
// Counts of pods that end and start are not written at one instant; what is gone after this time is
// missing.
constexpr absl::Duration kSettleTime = absl::Seconds(5);
// The pause before a gang that did not start whole is tried again, as where readiness is awaited.
constexpr admission::RequeueBackoff kPause = {60, 3600};

std::string Counts(int32_t running, int32_t live, int32_t needed) {
  return fmt::format("{} of {} pods run, {} are needed", running, live, needed);
}

absl::Time AdmittedAt(const api::Workload& workload, absl::Time now) {
  const Condition* admitted = api::FindCondition(workload.status.conditions, api::kAdmitted);
  return admitted == nullptr ? now : admitted->last_transition_time.value_or(now);
}

}  // namespace

bool JobGang::IsGang() const {
  if (!job_.metadata.Annotation(api::kOnGangBroken).empty()) return true;
  if (gang_.form == jobs::GangForm::kForeign) {
    return group_ != nullptr && group_->policy.gang.has_value();
  }
  return gang_.form != jobs::GangForm::kNone;
}

int32_t JobGang::Needed() const {
  const int32_t live = jobs::PodsToRun(job_);
  std::optional<int32_t> minimum;
  if (!gang_.ours) minimum = jobs::ExplicitMinCount(job_);
  if (gang_.form == jobs::GangForm::kForeign && group_ != nullptr && group_->policy.gang) {
    minimum = group_->policy.gang->min_count;
  }
  return std::min(live, minimum.value_or(live));
}

bool JobGang::Enough(const api::Workload& workload) const {
  if (jobs::OnGangBrokenOf(job_) != OnGangBroken::kShrink || !WasWhole(workload)) return false;
  const int32_t needed = Needed();
  return jobs::PodsRunning(job_) >= std::min(needed, jobs::DeclaredMinimum(job_).value_or(needed));
}

// It was whole at some time since the last admission.
bool JobGang::WasWhole(const api::Workload& workload) const {
  const Condition* intact = api::FindCondition(workload.status.conditions, api::kGangIntact);
  return intact != nullptr && intact->reason != kNotRunning &&
         intact->last_transition_time.value_or(absl::InfinitePast()) >= AdmittedAt(workload, now_);
}

// `anew`: the condition speaks of another run than before, so its time is now.
bool JobGang::Say(const api::Workload& workload, ConditionStatus status, const char* reason,
                  std::string message, bool anew, Plan& plan) const {
  const Condition* old = api::FindCondition(workload.status.conditions, api::kGangIntact);
  if (!anew && old != nullptr && old->status == status && old->reason == reason &&
      old->message == message) {
    return false;
  }
  Condition next;
  next.type = api::kGangIntact;
  next.status = status;
  next.reason = reason;
  next.message = std::move(message);
  next.observed_generation = workload.metadata.generation;
  const bool same = !anew && old != nullptr && old->status == status;
  next.last_transition_time = same ? old->last_transition_time.value_or(now_) : now_;
  plan.Add(OwnPartAction(workload,
                         Json::MakeObject({{"conditions", Json::MakeArray({api::Encode(next)})}}),
                         api::kGangManager));
  return true;
}

bool JobGang::Watch(const api::Workload& workload, Plan& plan) const {
  if (!IsGang()) return false;
  const int32_t live = jobs::PodsToRun(job_);
  if (live < 1) return false;
  const int32_t needed = Needed();
  const int32_t running = jobs::PodsRunning(job_);
  const bool was_whole = WasWhole(workload);
  if (running >= needed) {
    // While it is whole the counts may change without a write.
    const Condition* old = api::FindCondition(workload.status.conditions, api::kGangIntact);
    const bool said = was_whole && old->status == ConditionStatus::kTrue && old->reason == kWhole;
    return !said && Say(workload, ConditionStatus::kTrue, kWhole, Counts(running, live, needed),
                        !was_whole, plan);
  }
  return was_whole ? Broken(workload, plan) : NotYetWhole(workload, plan);
}

bool JobGang::Broken(const api::Workload& workload, Plan& plan) const {
  const int32_t live = jobs::PodsToRun(job_);
  const int32_t running = jobs::PodsRunning(job_);
  const OnGangBroken policy = jobs::OnGangBrokenOf(job_);
  int32_t needed = Needed();
  if (policy == OnGangBroken::kShrink) {
    needed = std::min(needed, jobs::DeclaredMinimum(job_).value_or(needed));
    if (running >= needed) {
      return Say(workload, ConditionStatus::kTrue, kShrunk, Counts(running, live, needed), false,
                 plan);
    }
  }
  if (Say(workload, ConditionStatus::kFalse, kPodsMissing, Counts(running, live, needed), false,
          plan)) {
    plan.writes.back().notes.push_back(MakeNote(true, "GangBroken", Counts(running, live, needed)));
    return true;
  }
  if (policy == OnGangBroken::kIgnore) return false;
  const absl::Duration patience =
      policy == OnGangBroken::kRequeue ? kSettleTime : jobs::RepairTimeoutOf(job_);
  const Condition* intact = api::FindCondition(workload.status.conditions, api::kGangIntact);
  const absl::Time due = intact->last_transition_time.value_or(now_) + patience;
  if (now_ < due) {
    plan.RecheckAt(due);
    return false;
  }
  return Evict(workload, admission::kEvictedGangBroken,
               fmt::format("{}, for longer than {}", Counts(running, live, needed),
                           sluice::FormatDuration(patience)),
               false, plan);
}

// Where readiness is awaited, that timer looks after it. What was said about an earlier run is
// over.
bool JobGang::NotYetWhole(const api::Workload& workload, Plan& plan) const {
  const Condition* intact = api::FindCondition(workload.status.conditions, api::kGangIntact);
  if (intact != nullptr && intact->reason != kNotRunning) {
    return Say(workload, ConditionStatus::kFalse, kNotRunning, "Not all pods have started", true,
               plan);
  }
  if (world_.settings().wait_for_pods_ready ||
      jobs::OnGangBrokenOf(job_) == OnGangBroken::kIgnore) {
    return false;
  }
  const absl::Duration patience = jobs::RepairTimeoutOf(job_);
  const absl::Time due = AdmittedAt(workload, now_) + patience;
  if (now_ < due) {
    plan.RecheckAt(due);
    return false;
  }
  return Evict(workload, admission::kEvictedGangIncomplete,
               fmt::format("{}, within {} of the admission",
                           Counts(jobs::PodsRunning(job_), jobs::PodsToRun(job_), Needed()),
                           sluice::FormatDuration(patience)),
               true, plan);
}

bool JobGang::Evict(const api::Workload& workload, const char* reason, const std::string& message,
                    bool pause, Plan& plan) const {
  api::Workload next = workload;
  if (!admission::SetEvicted(next, reason, "", message, now_)) return false;
  if (pause) next.status.requeue_state = admission::NextRequeueState(workload, kPause, now_);
  plan.Add(WorkloadStatusAction(world_, std::move(next), now_, true))
      .notes.push_back(WorkloadNote(workload, kWorkloadSource, false,
                                    fmt::format("EvictedDueTo{}", reason), message));
  return true;
}

bool JobGang::Rest(const api::Workload& workload, Plan& plan) const {
  const Condition* intact = api::FindCondition(workload.status.conditions, api::kGangIntact);
  if (intact == nullptr || intact->reason == kNotRunning ||
      api::IsTrue(workload.status.conditions, api::kQuotaReserved)) {
    return false;
  }
  return Say(workload, ConditionStatus::kFalse, kNotRunning, "The workload holds no quota", true,
             plan);
}

}  // namespace sluice::reconcile
