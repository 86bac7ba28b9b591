// The work of the Operator that can wait: telling why Workloads wait, counts of queues, tidying up.
#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/explain.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {

void Operator::SetWaiting(const ObjectKey& key, WaitingText text, absl::Time now) {
  const auto found = waiting_.find(key);
  // Whoever waits longest for a text gets it first, also when it changed in between.
  text.due = found == waiting_.end() ? now : found->second.due;
  waiting_due_.insert({text.due, key});
  waiting_.insert_or_assign(key, std::move(text));
}

void Operator::ForgetWaiting(const ObjectKey& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  waiting_due_.erase({found->second.due, key});
  waiting_.erase(found);
}

// It went.
void Operator::ForgetWorkload(const ObjectKey& key) {
  ForgetWaiting(key);
  said_at_.erase(key);
  grace_until_.erase(key);
  KeepRefusedEvictions(key, {});
}

// While admissions go out, their writes are worth more than texts about those that wait.
void Operator::SayWhyWaiting(absl::Time now) {
  while (!waiting_due_.empty() && waiting_due_.begin()->first <= now &&
         waiting_pace_.Ready(now, WaitingRate(now))) {
    const ObjectKey key = waiting_due_.begin()->second;
    WaitingText& text = waiting_.at(key);
    const absl::Time again = SayWhyWaiting(key, text, now);
    if (again <= now) {
      ForgetWaiting(key);
      continue;
    }
    waiting_due_.erase({text.due, key});
    text.due = again;
    waiting_due_.insert({again, key});
  }
}

absl::Time Operator::SayWhyWaiting(const ObjectKey& key, const WaitingText& text, absl::Time now) {
  constexpr absl::Time kDone = absl::InfinitePast();
  const state::Ref ref{api::Kind::kWorkload, key};
  const auto workload = world_.workloads().Find(key);
  if (workload == nullptr || world_.IsAssumed(key) ||
      world_.queues().PlaceOf(key) == queueing::Place::kNone) {
    return kDone;
  }
  if (Busy(ref)) return now + absl::Milliseconds(50);
  if (const auto blocked = blocked_.find(ref); blocked != blocked_.end() && blocked->second > now) {
    return blocked->second;
  }
  // What an equivalent workload was told must not replace what was found about this one since.
  if (text.requests.empty() && !ReconcileWorkload(world_, key, now).waiting) return kDone;
  const admission::StatusOptions status_options = StatusOptionsOf(world_.settings());
  const std::string reason = admission::PendingReason(text.reason, true, status_options);
  const api::Condition* old = api::FindCondition(workload->status.conditions, api::kQuotaReserved);
  const bool same_reason =
      old != nullptr && old->status == api::ConditionStatus::kFalse && old->reason == reason;
  const bool unsaid =
      text.gated && !api::IsTrue(workload->status.conditions, api::kBlockedOnPreemptionGates);
  if (same_reason && !unsaid) {
    const auto said = said_at_.find(key);
    if (said != said_at_.end() && now - said->second < options_.waiting_text_interval) {
      return old->message == text.message ? kDone : said->second + options_.waiting_text_interval;
    }
  }
  api::Workload next = *workload;
  const bool blocked = text.gated && admission::SetBlockedOnPreemptionGates(next, now);
  if (!admission::SetPending(next, reason, text.message,
                             text.requests.empty() ? nullptr : &text.requests, now,
                             status_options) &&
      !blocked) {
    return kDone;
  }
  waiting_pace_.Take();
  std::vector<Note> notes;
  // An equivalent workload's event has said it already, and a text of its own need not wait.
  if (!text.requests.empty()) {
    said_at_[key] = now;
    const std::string detail =
        text.detail.empty() ? QuotaDetail(world_, key, text.message) : text.detail;
    notes.push_back(WorkloadNote(next, kAdmissionSource, true, reason,
                                 detail.empty() ? text.message : text.message + ". " + detail));
  }
  Send(WorkloadStatusAction(world_, std::move(next), now, true), ref, std::move(notes));
  in_flight_.rbegin()->second.waiting = std::make_shared<const WaitingText>(text);
  return kDone;
}

absl::Time Operator::QueueStatusDue(const state::Ref& queue) const {
  const auto last = queue_status_at_.find(queue);
  return last == queue_status_at_.end() ? absl::InfinitePast()
                                        : last->second + options_.queue_status_interval;
}

void Operator::CountLater(const state::Ref& queue, absl::Time now) {
  if (!leading_ || counts_.contains(queue)) return;
  const absl::Time due = std::max(now, QueueStatusDue(queue));
  counts_[queue] = due;
  counts_due_.insert({due, queue});
}

// While workloads come, start and end all the time, a count is wrong again as soon as it is
// written, and its write takes the API server's time from admissions. Once that is over every count
// is brought up to date at once.
void Operator::TakeCounts(absl::Time now) {
  const state::Refs counted = world_.TakeCounted();
  for (const state::Ref& ref : counted) CountLater(ref, now);
  counting_until_ = std::min(
      now + absl::Seconds(1),
      std::max(now, counting_until_) + options_.counting_time * static_cast<int>(counted.size()));
  const bool paced = counting_until_ > now;
  for (size_t taken = 0; !counts_due_.empty() && counts_due_.begin()->first <= now; ++taken) {
    if (paced && !queue_pace_.Ready(now, options_.queue_status_per_second)) break;
    if (!paced && counts_in_flight_ + taken >= options_.max_counts_in_flight) break;
    const state::Ref ref = counts_due_.begin()->second;
    counts_due_.erase(counts_due_.begin());
    counts_.erase(ref);
    dirty_.insert(ref);
    if (paced && paced_.insert(ref).second) queue_pace_.Take();
  }
}

// When the next count can be written if it is due.
absl::Time Operator::CountsDue(absl::Time now) const {
  if (counting_until_ > now) {
    return std::min(counting_until_, queue_pace_.Next(now, options_.queue_status_per_second));
  }
  // With enough of them on their way the next reply wakes the loop.
  return counts_in_flight_ < options_.max_counts_in_flight ? now : absl::InfiniteFuture();
}

// Whether the plan waits until what users wait for has been written.
bool Operator::TidyLater(const state::Ref& ref, const Plan& plan, absl::Time now) {
  const auto known = tidying_.find(ref);
  const absl::Time due = known == tidying_.end() ? now + options_.tidying_delay : known->second;
  const bool later =
      plan.OnlyTidiesUp() && due > now && essential_in_flight_ >= options_.tidying_in_flight;
  if (later) {
    tidying_[ref] = due;
    tidying_due_.insert({due, ref});
  } else if (known != tidying_.end()) {
    tidying_due_.erase({due, ref});
    tidying_.erase(known);
  }
  return later;
}

void Operator::TidyUp(absl::Time now) {
  for (size_t taken = essential_in_flight_; !tidying_due_.empty(); ++taken) {
    const auto first = tidying_due_.begin();
    if (first->first > now && taken >= options_.tidying_in_flight) return;
    dirty_.insert(first->second);
    tidying_due_.erase(first);
  }
}

}  // namespace sluice::reconcile
