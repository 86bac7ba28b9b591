#include "admission/credits.h"

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "base/time.h"
#include "quota/credit_standing.h"

namespace sluice::admission {
namespace {

constexpr char kProtected[] = "Credits protect what it would reclaim until ";
constexpr char kBehind[] =
    "With it its ClusterQueue would use more than its standing entitlement; those within theirs "
    "come first (CreditPolicy";

std::optional<absl::Time> KnownUntil(const Snapshot& snapshot, const api::Workload& workload) {
  if (const auto until = snapshot.credits->LenderUntil(workload.metadata.uid)) return until;
  // Another process found out, and said so.
  const api::Condition* pending =
      api::FindCondition(workload.status.conditions, api::kQuotaReserved);
  if (pending == nullptr || pending->status != api::ConditionStatus::kFalse) return std::nullopt;
  return ProtectionIn(pending->message);
}

// With it a node whose account counts would use more than its standing entitlement: with fair
// sharing each side of the tournament has one that counts, else its ClusterQueue has.
bool GoesBeyond(const Snapshot& snapshot, const quota::Node& queue,
                const queueing::WorkloadInfo& info) {
  const bool all = snapshot.options.fair_sharing.has_value();
  for (const quota::Node* node = &queue; node != nullptr; node = all ? node->parent() : nullptr) {
    const auto* terms = snapshot.credits->Of(*node);
    if (terms == nullptr) continue;
    quota::CreditStanding::Picos wanted = 0;
    for (const queueing::PodSetRequests& pod_set : info.requests) {
      wanted += terms->policy->weights->Weigh(pod_set.total);
    }
    if (snapshot.credits->UsageOf(*node, *terms) + wanted > terms->standing) return true;
  }
  return false;
}

// A ClusterQueue below the node, other than `queue`, that the policy governs and that borrows what
// the policy counts: nobody else can have got room by credits.
bool OthersBorrow(const Snapshot& snapshot, const quota::Node& below, const quota::Node& queue,
                  const quota::CreditPolicyTerms& policy) {
  for (const quota::Node* child : below.queues()) {
    if (child == &queue) continue;
    const auto* terms = snapshot.credits->Of(*child);
    if (terms == nullptr || terms->policy != &policy) continue;
    if (snapshot.credits->UsageOf(*child, *terms) > terms->entitlement) return true;
  }
  return std::any_of(below.cohorts().begin(), below.cohorts().end(), [&](const quota::Node* child) {
    return OthersBorrow(snapshot, *child, queue, policy);
  });
}

// The policy that governs a workload which was told so before, as long as it is true; "" for
// others.
std::string SaysBehind(const Snapshot& snapshot, const queueing::WorkloadInfo& info) {
  const api::Condition* told =
      api::FindCondition(info.workload->status.conditions, api::kQuotaReserved);
  const quota::Node* queue = snapshot.tree.FindQueue(info.cluster_queue);
  if (told == nullptr || told->status != api::ConditionStatus::kFalse || queue == nullptr ||
      told->message.find(kBehind) == std::string::npos || !quota::Tree::Sound(*queue)) {
    return "";
  }
  const auto* terms = snapshot.credits->Of(*queue);
  const bool holds = terms != nullptr && GoesBeyond(snapshot, *queue, info) &&
                     OthersBorrow(snapshot, queue->Root(), *queue, *terms->policy);
  return holds ? terms->policy->name : "";
}

}  // namespace

void OrderByCredits(const Snapshot& snapshot, std::vector<Entry*>& sorted) {
  if (snapshot.credits == nullptr) return;
  struct Group {
    std::vector<size_t> places;
    std::vector<Entry*> within;
    std::vector<Entry*> beyond;
    std::vector<size_t> beyond_at;  // their places in the usual order
    size_t last_within = 0;
  };
  absl::btree_map<std::string, Group> groups;  // by policy
  for (size_t i = 0; i < sorted.size(); ++i) {
    Entry& entry = *sorted[i];
    const bool first =
        entry.claims_room || (entry.is_preemptor && snapshot.options.prioritize_preemptors);
    if (!entry.nominated || first || entry.decision.borrow_level == 0) continue;
    const auto* terms = snapshot.credits->Of(*entry.queue);
    if (terms == nullptr) continue;
    Group& group = groups[terms->policy->name];
    group.places.push_back(i);
    const bool within = snapshot.credits->Within(*entry.queue, *terms, entry.usage);
    (within ? group.within : group.beyond).push_back(&entry);
    if (within) group.last_within = i;
    if (!within) group.beyond_at.push_back(i);
  }
  for (auto& [policy, group] : groups) {
    // The usual order would have put those that come last in any case there as well.
    for (size_t i = 0; i < group.beyond.size() && !group.within.empty(); ++i) {
      if (group.beyond_at[i] < group.last_within) {
        group.beyond[i]->decision.explanation.problems = {policy};
      }
    }
    group.within.insert(group.within.end(), group.beyond.begin(), group.beyond.end());
    for (size_t i = 0; i < group.places.size(); ++i) sorted[group.places[i]] = group.within[i];
  }
}

std::string BehindText(const std::string& policy) { return fmt::format("{} {})", kBehind, policy); }

void TellOfCredits(const Snapshot& snapshot, absl::btree_map<ObjectKey, std::string>& behind,
                   Decision& decision) {
  using Verdict = Explanation::Verdict;
  if (snapshot.credits == nullptr) return;
  const Explanation& found = decision.explanation;
  const ObjectKey key = decision.info->Key();
  if (found.verdict == Verdict::kNoLongerFits && !found.problems.empty()) {
    behind[key] = found.problems.front();
    return;
  }
  const bool lacks_quota =
      found.verdict == Verdict::kNoCandidates ||
      (found.verdict == Verdict::kNoFit && found.cause == flavor::Cause::kWaitingForQuota);
  if (!lacks_quota) return;
  const auto by = behind.find(key);
  std::string policy = by == behind.end() ? SaysBehind(snapshot, *decision.info) : by->second;
  if (policy.empty()) return;
  decision.explanation.problems = {std::move(policy)};
  Wait(decision, found.verdict, decision.requeue.reason);
}

quota::Share CreditedShare(const Snapshot& snapshot, const quota::Node& node) {
  return snapshot.credits == nullptr ? snapshot.tree.ShareOf(node)
                                     : snapshot.credits->ShareOf(snapshot.tree, node);
}

bool BorrowsBeyondCredits(const Snapshot& snapshot, const quota::Node& node,
                          const quota::CellAmounts& wanted) {
  const auto* terms = snapshot.credits == nullptr ? nullptr : snapshot.credits->Of(node);
  const bool within = terms != nullptr && snapshot.credits->Within(node, *terms);
  return std::any_of(wanted.begin(), wanted.end(), [&](const quota::CellAmount& one) {
    if (!node.Borrowing(one.cell)) return false;
    return !within || terms->policy->weights->Weigh(quota::CellAmounts{one}) == 0;
  });
}

bool HeedsCredits(const Snapshot& snapshot, const api::Workload& workload) {
  if (snapshot.credits == nullptr) return false;
  const std::optional<absl::Time> until = KnownUntil(snapshot, workload);
  return !until.has_value() || *until > snapshot.credits->now();
}

absl::Time ProtectedUntil(const Snapshot& snapshot, const api::Workload& workload,
                          const std::vector<preemption::Target>& targets) {
  if (const auto known = KnownUntil(snapshot, workload)) return *known;
  absl::Duration delay;
  for (const preemption::Target& target : targets) {
    const auto* policy = snapshot.credits->PolicyOf(snapshot.tree, target.workload->cluster_queue);
    if (policy != nullptr && policy->protects) delay = std::max(delay, policy->max_lender_delay);
  }
  return quota::FloorMilli(snapshot.credits->now() + delay);
}

std::string ProtectionText(absl::Time until) {
  return kProtected + absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", until, absl::UTCTimeZone());
}

std::optional<absl::Time> ProtectionIn(const std::string& message) {
  const size_t mark = message.rfind(kProtected);
  if (mark == std::string::npos) return std::nullopt;
  const std::string rest = message.substr(mark + sizeof(kProtected) - 1);
  const absl::StatusOr<absl::Time> time = ParseTime(rest.substr(0, rest.find('Z') + 1));
  return time.ok() ? std::optional<absl::Time>(*time) : std::nullopt;
}

}  // namespace sluice::admission
