// The part of Operator that tells workloads why those they preempt do not go: the API server did
// not take the eviction. It is tried again, and what was said is taken back when it succeeds.
#include <fmt/format.h>

#include <algorithm>

#include "api/meta_types.h"
#include "reconcile/explain.h"
#include "reconcile/operator.h"

namespace sluice::reconcile {
namespace {

constexpr size_t kMaxText = 300;  // of an answer

std::string WhyRefused(const ObjectKey& victim, const state::Reply& reply) {
  std::string why = "no answer came";
  if (reply.code != 0) {
    why = fmt::format("{}{}{}", reply.code, reply.reason.empty() ? "" : " ", reply.reason);
    if (!reply.message.empty()) why += ": " + api::TruncateMessage(reply.message, kMaxText);
  }
  return fmt::format("{}{} could not be written: {}", kRefusedEviction, victim.ToString(), why);
}

}  // namespace

void Operator::NoteRefusedEviction(const InFlight& write, const state::Reply& reply) {
  if (write.preemptors.empty()) return;
  const ObjectKey& victim = write.target.key;
  RefusedEviction& refused = refused_evictions_[victim];
  refused.why = WhyRefused(victim, reply);
  for (const ObjectKey& preemptor : write.preemptors) refused.waiting.try_emplace(preemptor);
}

void Operator::EndRefusedEviction(const ObjectKey& victim, absl::Time now) {
  const auto found = refused_evictions_.find(victim);
  if (found == refused_evictions_.end()) return;
  const RefusedEviction over = std::move(found->second);
  refused_evictions_.erase(found);
  for (const auto& [preemptor, text] : over.waiting) {
    const bool another = std::any_of(
        refused_evictions_.begin(), refused_evictions_.end(),
        [&key = preemptor](const auto& entry) { return entry.second.waiting.contains(key); });
    if (!another && !text.reason.empty()) SetWaiting(preemptor, text, now);
  }
}

void Operator::KeepRefusedEvictions(const ObjectKey& preemptor,
                                    const std::vector<admission::Decision::Victim>& victims) {
  for (auto it = refused_evictions_.begin(); it != refused_evictions_.end();) {
    const bool kept = std::any_of(victims.begin(), victims.end(), [&](const auto& victim) {
      return victim.workload->Key() == it->first;
    });
    if (!kept) it->second.waiting.erase(preemptor);
    it = it->second.waiting.empty() ? refused_evictions_.erase(it) : std::next(it);
  }
}

Operator::WaitingText Operator::WaitingTextOf(const admission::Decision& decision) {
  WaitingText text{decision.reason, decision.message, decision.info->requests,
                   decision.requeue.reason == queueing::RequeueReason::kPreemptionGated,
                   admission::RenderRivals(decision.explanation, admission::Naming::kQueuesOnly)};
  std::vector<std::string> refused;
  for (const admission::Decision::Victim& victim : decision.victims) {
    const auto found = refused_evictions_.find(victim.workload->Key());
    if (found == refused_evictions_.end()) continue;
    const auto waiting = found->second.waiting.find(decision.info->Key());
    if (waiting == found->second.waiting.end()) continue;
    waiting->second = text;
    refused.push_back(found->second.why);
  }
  if (refused.empty()) return text;
  std::string why = refused.front();
  if (refused.size() > 1) why += fmt::format("; and {} more", refused.size() - 1);
  if (refused.size() < decision.victims.size()) {
    text.message += ". " + why;
    return text;
  }
  admission::Explanation failed = decision.explanation;
  failed.verdict = admission::Explanation::Verdict::kPreemptionFailed;
  failed.problems = {why};
  text.message = admission::RenderMessage(failed);
  return text;
}

}  // namespace sluice::reconcile
