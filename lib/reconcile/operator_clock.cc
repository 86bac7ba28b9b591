// The part of Operator that follows a clock that is set back.
//
// Its instants are those of the clock by which objects say when something happened. When that is
// set back by minutes, what was to be done in a second must not wait for minutes.
#include "reconcile/operator.h"

namespace sluice::reconcile {
namespace {

// Less is made up for by waiting.
constexpr absl::Duration kSmallStep = absl::Seconds(1);

}  // namespace

void Operator::FollowClock(absl::Time now) {
  const absl::Duration back = last_run_ - now;
  last_run_ = now;
  if (back > kSmallStep) StepBack(back);
}

void Operator::StepBack(absl::Duration by) {
  // Who asked for these says anew when to look again.
  for (const auto& [ref, time] : timers_) dirty_.insert(ref);
  timers_.clear();
  due_.clear();
  for (auto& [owner, time] : blocked_) WakeAt(owner, time -= by);
  for (auto& [key, admission] : settling_) {
    admission.read_at -= by;
    admission.asked_at -= by;
    admission.certain_from -= by;
    WakeAt({api::Kind::kWorkload, key}, admission.read_at);
  }
  waiting_due_.clear();
  for (auto& [key, text] : waiting_) waiting_due_.insert({text.due -= by, key});
  counts_due_.clear();
  for (auto& [queue, time] : counts_) counts_due_.insert({time -= by, queue});
  tidying_due_.clear();
  for (auto& [ref, time] : tidying_) tidying_due_.insert({time -= by, ref});
  second_passes_due_.clear();
  for (auto& [key, entry] : second_passes_) second_passes_due_.insert({entry.due -= by, key});
  for (auto& [key, eviction] : evictions_) {
    for (Claim& claim : eviction.claims) claim.due -= by;
  }
  for (auto& [key, time] : grace_until_) time -= by;
  for (auto& [key, time] : said_at_) time -= by;
  for (auto& [queue, time] : queue_status_at_) time -= by;
  admitted_at_ -= by;
  counting_until_ -= by;
  for (Pace* pace : {&event_pace_, &waiting_pace_, &queue_pace_}) pace->StepBack(by);
  world_.StepBack(by);
}

}  // namespace sluice::reconcile
