#include "preemption/diagnosis.h"

#include <absl/container/btree_map.h>

#include <algorithm>
#include <optional>

#include "preemption/search.h"

namespace sluice::preemption {
namespace {

class Diagnostician {
 public:
  Diagnostician(const Context& context, const Preemptor& preemptor)
      : context_(context),
        preemptor_(preemptor),
        cell_(preemptor.contested.front()),
        request_(preemptor.requests.front().amount),
        targets_(FindTargets(context, preemptor).size()),
        spare_(targets_ == 0 && FindsWithEvictors(context, preemptor)),
        search_(context, preemptor, Sparing{spare_, false}) {}

  Diagnosis Run() {
    Visit(search_.queue());
    if (const quota::Node& root = search_.queue().Root(); root.is_cohort()) VisitOthers(root);
    if (targets_ > 0) {
      diagnosis_.outcome = Diagnosis::Outcome::kFound;
      diagnosis_.targets = static_cast<int64_t>(targets_);
    } else if (diagnosis_.candidates > 0) {
      TakeAll();
    }
    for (const auto& [protection, group] : groups_) diagnosis_.protected_by.push_back(group);
    return std::move(diagnosis_);
  }

 private:
  using Outcome = Diagnosis::Outcome;

  // Whether it is only its evictors that a search would have to spare.
  static bool FindsWithEvictors(const Context& context, const Preemptor& preemptor) {
    if (preemptor.evictors.uids.empty()) return false;
    Preemptor forgetful = preemptor;
    forgetful.evictors = {};
    return !FindTargets(context, forgetful).empty();
  }

  int64_t AmountOf(const ReservedWorkload& workload) const {
    for (const quota::CellAmount& used : workload.usage) {
      if (used.cell == cell_) return used.amount;
    }
    return 0;
  }

  // Of the ClusterQueue as a whole.
  std::optional<Protection> ProtectionOf(const quota::Node& queue) const {
    const bool own = &queue == &search_.queue();
    if (search_.PolicyFor(queue) == Policy::kNever) {
      return own ? Protection::kWithinClusterQueueNever : Protection::kReclaimWithinCohortNever;
    }
    if (!search_.IsActive(queue)) return Protection::kInactiveClusterQueue;
    if (!own && WithinItsQuota(queue)) return Protection::kWithinQuota;
    if (search_.Protected(queue)) return Protection::kCredits;
    return std::nullopt;
  }

  // Of one workload that is no candidate.
  Protection ProtectionOf(const ReservedWorkload& workload) const {
    if (context_.removed.contains(&workload)) return Protection::kAbsent;
    if (spare_ && search_.IsSpared(workload)) return Protection::kEvictor;
    return search_.IsProtected(workload) ? Protection::kMinimumRuntime : Protection::kPriority;
  }

  // The classical search leaves whole subtrees within their quota alone, fair sharing looks at the
  // ClusterQueue only.
  bool WithinItsQuota(const quota::Node& queue) const {
    if (context_.fair_sharing.has_value()) return queue.Usage(cell_) <= queue.Nominal(cell_);
    const quota::Node* top = BelowCommonAncestor(search_.queue(), queue).theirs;
    for (const quota::Node* node = &queue;; node = node->parent()) {
      if (search_.WithinQuota(*node)) return true;
      if (node == top) return false;
    }
  }

  void Visit(quota::Node& queue) {
    const std::optional<Protection> whole = ProtectionOf(queue);
    bool any = false;
    for (const ReservedWorkload* workload : context_.reserved->Of(queue.name())) {
      const int64_t amount = AmountOf(*workload);
      if (amount == 0) continue;
      if (!whole.has_value() && search_.IsCandidate(*workload, search_.PolicyFor(queue))) {
        any = true;
        ++diagnosis_.candidates;
        diagnosis_.amount = SaturatingAdd(diagnosis_.amount, amount);
        continue;
      }
      Protect(whole.value_or(ProtectionOf(*workload)), amount);
    }
    if (any) queues_.push_back(&queue);
  }

  void Protect(Protection why, int64_t amount) {
    Diagnosis::Group& group = groups_[why];
    group.protection = why;
    ++group.workloads;
    group.amount = SaturatingAdd(group.amount, amount);
  }

  void VisitOthers(const quota::Node& cohort) {
    for (const quota::Node* child : cohort.cohorts()) VisitOthers(*child);
    for (quota::Node* child : cohort.queues()) {
      if (child != &search_.queue()) Visit(*child);
    }
  }

  // A lender may take back what it lent, and no more: from others only while they use more than
  // their quota.
  void TakeAll() {
    for (quota::Node* queue : queues_) {
      const bool own = queue == &search_.queue();
      if (!own) CompareShares(*queue);
      for (const ReservedWorkload* workload : search_.InOrder(*queue)) {
        if (!search_.IsCandidate(*workload, search_.PolicyFor(*queue))) continue;
        if (!own && (!search_.UsesBorrowed(*queue, *workload) || WithinItsQuota(*queue))) continue;
        // What is left may be within what its credits allow, though it was not with the others.
        if (search_.Protected(*queue)) {
          const int64_t amount = AmountOf(*workload);
          --diagnosis_.candidates;
          diagnosis_.amount = SaturatingSub(diagnosis_.amount, amount);
          Protect(Protection::kCredits, amount);
          continue;
        }
        search_.Take(*queue, {workload, Reason::kInClusterQueue});
      }
    }
    if (!search_.Fits(true)) {
      diagnosis_.outcome = Outcome::kNotEnough;
      const bool listed = search_.queue().Lists(cell_);
      const int64_t room = listed ? quota::Tree::Room(search_.queue(), cell_) : 0;
      diagnosis_.missing = SaturatingSub(request_, room);
    } else if (context_.fair_sharing.has_value()) {
      diagnosis_.outcome = Outcome::kShares;
    } else {
      diagnosis_.outcome = search_.Fits(false) ? Outcome::kRules : Outcome::kMustBorrow;
    }
  }

  void CompareShares(const quota::Node& queue) {
    if (!context_.fair_sharing.has_value()) return;
    const CommonAncestor sides = BelowCommonAncestor(search_.queue(), queue);
    const quota::Share theirs = context_.tree->ShareOf(*sides.theirs);
    if (!diagnosis_.their_side.empty() && theirs <= largest_) return;
    largest_ = theirs;
    quota::Tree::AddUsage(search_.queue(), preemptor_.requests);
    diagnosis_.own_share = context_.tree->ShareOf(*sides.mine).Rounded();
    quota::Tree::RemoveUsage(search_.queue(), preemptor_.requests);
    diagnosis_.their_share = theirs.Rounded();
    diagnosis_.their_side = sides.theirs->name();
  }

  const Context& context_;
  const Preemptor& preemptor_;
  const quota::CellId cell_;
  const int64_t request_;
  const size_t targets_;
  const bool spare_;
  Search search_;
  Diagnosis diagnosis_;
  absl::btree_map<Protection, Diagnosis::Group> groups_;
  std::vector<quota::Node*> queues_;  // that have candidates
  quota::Share largest_;
};

}  // namespace

Diagnosis Diagnose(const Context& context, const Preemptor& preemptor) {
  return Diagnostician(context, preemptor).Run();
}

}  // namespace sluice::preemption
