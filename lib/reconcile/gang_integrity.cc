#include "reconcile/gang_integrity.h"

#include <fmt/format.h>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
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

std::string Counts(const GangState& gang, int32_t needed) {
  return fmt::format("{} of {} pods run, {} are needed", gang.running, gang.live, needed);
}

const Condition* Intact(const api::Workload& workload) {
  return api::FindCondition(workload.status.conditions, api::kGangIntact);
}

absl::Time AdmittedAt(const api::Workload& workload, absl::Time now) {
  const Condition* admitted = api::FindCondition(workload.status.conditions, api::kAdmitted);
  return admitted == nullptr ? now : admitted->last_transition_time.value_or(now);
}

// One look at one gang.
class Pass {
 public:
  Pass(const api::Workload& workload, absl::Time now, Plan& plan)
      : workload_(workload), now_(now), plan_(plan) {}

  // `anew`: the condition speaks of another run than before, so its time is now.
  bool Say(ConditionStatus status, const char* reason, std::string message, bool anew) {
    const Condition* old = Intact(workload_);
    if (!anew && old != nullptr && old->status == status && old->reason == reason &&
        old->message == message) {
      return false;
    }
    Condition next;
    next.type = api::kGangIntact;
    next.status = status;
    next.reason = reason;
    next.message = std::move(message);
    next.observed_generation = workload_.metadata.generation;
    const bool same = !anew && old != nullptr && old->status == status;
    next.last_transition_time = same ? old->last_transition_time.value_or(now_) : now_;
    plan_.Add(OwnPartAction(
        workload_, Json::MakeObject({{"conditions", Json::MakeArray({api::Encode(next)})}}),
        api::kGangManager));
    return true;
  }

  bool Broken(const state::World& world, const GangState& gang) {
    if (gang.policy == OnGangBroken::kShrink && gang.running >= gang.least) {
      return Say(ConditionStatus::kTrue, kShrunk, Counts(gang, gang.least), false);
    }
    const std::string counts = Counts(gang, gang.least);
    if (Say(ConditionStatus::kFalse, kPodsMissing, counts, false)) {
      Note note = gang.about;
      note.warning = true;
      note.reason = "GangBroken";
      note.message = counts;
      plan_.writes.back().notes.push_back(std::move(note));
      return true;
    }
    if (gang.policy == OnGangBroken::kIgnore) return false;
    const absl::Duration patience =
        gang.policy == OnGangBroken::kRequeue ? kSettleTime : gang.patience;
    const absl::Time since = Intact(workload_)->last_transition_time.value_or(now_);
    if (!Over(since + patience)) return false;
    return Evict(world, admission::kEvictedGangBroken,
                 fmt::format("{}, for longer than {}", counts, sluice::FormatDuration(patience)),
                 false);
  }

  // Where readiness is awaited, that timer looks after it. What was said about an earlier run is
  // over.
  bool NotYetWhole(const state::World& world, const GangState& gang) {
    const Condition* intact = Intact(workload_);
    if (intact != nullptr && intact->reason != kNotRunning) {
      return Say(ConditionStatus::kFalse, kNotRunning, "Not all pods have started", true);
    }
    if (world.settings().wait_for_pods_ready || gang.policy == OnGangBroken::kIgnore) return false;
    if (!Over(AdmittedAt(workload_, now_) + gang.patience)) return false;
    return Evict(world, admission::kEvictedGangIncomplete,
                 fmt::format("{}, within {} of the admission", Counts(gang, gang.needed),
                             sluice::FormatDuration(gang.patience)),
                 true);
  }

 private:
  bool Over(absl::Time due) {
    if (now_ < due) plan_.RecheckAt(due);
    return now_ >= due;
  }

  bool Evict(const state::World& world, const char* reason, const std::string& message,
             bool pause) {
    std::optional<api::RequeueState> requeue_state;
    if (pause) requeue_state = admission::NextRequeueState(workload_, kPause, now_);
    return AddEviction(plan_, world, workload_, reason, message, now_, std::move(requeue_state));
  }

  const api::Workload& workload_;
  absl::Time now_;
  Plan& plan_;
};

}  // namespace

bool WasWhole(const api::Workload& workload, absl::Time now) {
  const Condition* intact = Intact(workload);
  return intact != nullptr && intact->reason != kNotRunning &&
         intact->last_transition_time.value_or(absl::InfinitePast()) >= AdmittedAt(workload, now);
}

bool WatchGang(const state::World& world, const api::Workload& workload, const GangState& gang,
               absl::Time now, Plan& plan) {
  if (gang.live < 1) return false;
  Pass pass(workload, now, plan);
  const bool was_whole = WasWhole(workload, now);
  if (gang.running < gang.needed) {
    return was_whole ? pass.Broken(world, gang) : pass.NotYetWhole(world, gang);
  }
  // While it is whole the counts may change without a write.
  const Condition* old = Intact(workload);
  const bool said = was_whole && old->status == ConditionStatus::kTrue && old->reason == kWhole;
  return !said && pass.Say(ConditionStatus::kTrue, kWhole, Counts(gang, gang.needed), !was_whole);
}

bool RestGang(const api::Workload& workload, absl::Time now, Plan& plan) {
  const Condition* intact = Intact(workload);
  if (intact == nullptr || intact->reason == kNotRunning ||
      api::IsTrue(workload.status.conditions, api::kQuotaReserved)) {
    return false;
  }
  return Pass(workload, now, plan)
      .Say(ConditionStatus::kFalse, kNotRunning, "The workload holds no quota", true);
}

std::optional<api::Workload> HoldGang(const api::Workload& workload, const std::string& refusal,
                                      absl::Time now, const admission::StatusOptions& options) {
  const api::Conditions& conditions = workload.status.conditions;
  if (workload.metadata.Deleting() || !workload.spec.active.value_or(true) ||
      api::IsTrue(conditions, api::kFinished) || api::IsTrue(conditions, api::kQuotaReserved)) {
    return std::nullopt;
  }
  const Condition* reserved = api::FindCondition(conditions, api::kQuotaReserved);
  const std::string reason = reserved == nullptr ? "" : reserved->reason;
  if (reason == admission::kOnHold) return std::nullopt;
  if (refusal.empty() && reason != admission::kGangRefused) return std::nullopt;
  api::Workload next = workload;
  const bool changed =
      refusal.empty()
          ? admission::SetPending(
                next, admission::PendingReason(admission::kPendingEvaluation, false, options),
                admission::kPendingEvaluationMessage, nullptr, now, options)
          : admission::SetPending(next, admission::kGangRefused, refusal, nullptr, now, options);
  if (!changed) return std::nullopt;
  return next;
}

bool EvictRefusedGang(Plan& plan, const state::World& world, const api::Workload& workload,
                      const std::string& refusal, absl::Time now) {
  return AddEviction(plan, world, workload, admission::kEvictedGangRefused, refusal, now,
                     admission::NextRequeueState(workload, kPause, now));
}

}  // namespace sluice::reconcile
