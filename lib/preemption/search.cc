#include "preemption/search.h"

#include <algorithm>

namespace sluice::preemption {

Search::Search(const Context& context, const Preemptor& preemptor, Sparing spare)
    : context_(context), preemptor_(preemptor), spare_(spare) {
  if (context.now == absl::InfinitePast() || context.reserved->WithCheckpoints().empty()) return;
  borrows_ = std::any_of(
      preemptor.requests.begin(), preemptor.requests.end(),
      [&](const auto& wanted) { return queue().BorrowingWith(wanted.cell, wanted.amount); });
  by_cost_ = AnyCandidateWithCheckpoints();
}

Search::~Search() {
  TakeNone();
  if (booked_) quota::Tree::RemoveUsage(queue(), preemptor_.requests);
}

void Search::TakeNone() {
  for (size_t i = taken_.size(); i-- > 0;) {
    if (!returned_[i]) PutBack(i);
  }
  taken_.clear();
  queues_.clear();
  returned_.clear();
}

void Search::PutBack(size_t index) {
  quota::Tree::AddUsage(*queues_[index], taken_[index].workload->usage);
  if (preemptor_.room != nullptr) preemptor_.room->Return(*taken_[index].workload);
}

void Search::TakeOut(size_t index) {
  quota::Tree::RemoveUsage(*queues_[index], taken_[index].workload->usage);
  if (preemptor_.room != nullptr) preemptor_.room->Take(*taken_[index].workload);
}

void Search::BookPreemptor() {
  quota::Tree::AddUsage(queue(), preemptor_.requests);
  booked_ = true;
}

// The order of a ClusterQueue without annotations must not depend on whether others have them, so
// it is the candidates of this search that count, as far as that is known before it begins.
bool Search::AnyCandidateWithCheckpoints() const {
  const auto& all = context_.reserved->WithCheckpoints();
  return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
    const ReservedWorkload& workload = *entry.second;
    const quota::Node* node = context_.tree->FindQueue(workload.cluster_queue);
    if (node == nullptr || !IsActive(*node)) return false;
    const bool own = node == &queue();
    if (!own && (!quota::Tree::Sound(*node) || &node->Root() != &queue().Root())) return false;
    return IsCandidate(workload, PolicyFor(*node)) && (own || UsesBorrowed(*node, workload));
  });
}

const quota::CreditWeights* Search::WeightsFor(const ReservedWorkload& workload) const {
  if (context_.credits == nullptr) return nullptr;
  const auto* policy = context_.credits->PolicyOf(*context_.tree, workload.cluster_queue);
  return policy == nullptr ? nullptr : policy->weights.get();
}

LostWork Search::CostOf(const ReservedWorkload& workload) const {
  const auto [entry, added] = costs_.try_emplace(&workload, 0);
  if (added) {
    entry->second =
        LostWorkOf(LostTime(workload.checkpoints.get(), workload.started_at, context_.now),
                   WeightedMillis(*context_.tree, workload.usage, WeightsFor(workload)));
  }
  return entry->second;
}

bool Search::TakenBefore(const ReservedWorkload& a, const ReservedWorkload& b) const {
  if (by_cost_ && a.evicted == b.evicted && a.priority == b.priority) {
    const LostWork first = CostOf(a);
    const LostWork second = CostOf(b);
    if (first != second) return first < second;
  }
  return PreemptedBefore(a, b);
}

const ReservedWorkloads::List& Search::InOrder(const quota::Node& queue) {
  const ReservedWorkloads::List& list = context_.reserved->Of(queue.name());
  if (!UsageBased(queue) && !by_cost_) return list;
  sorted_.push_back(list);
  if (by_cost_) {
    std::sort(sorted_.back().begin(), sorted_.back().end(),
              [this](const auto* a, const auto* b) { return TakenBefore(*a, *b); });
  }
  if (!UsageBased(queue)) return sorted_.back();
  std::stable_sort(sorted_.back().begin(), sorted_.back().end(),
                   [&](const ReservedWorkload* a, const ReservedWorkload* b) {
                     if (a->evicted != b->evicted) return a->evicted;
                     return a->local_queue != b->local_queue &&
                            context_.used_more(a->local_queue, b->local_queue);
                   });
  return sorted_.back();
}

bool Search::IsCandidate(const ReservedWorkload& workload, Policy policy) const {
  switch (policy) {
    case Policy::kNever:
      return false;
    case Policy::kLowerPriority:
      if (workload.priority >= preemptor_.priority) return false;
      break;
    case Policy::kLowerOrNewerEqualPriority:
      if (workload.priority > preemptor_.priority) return false;
      if (workload.priority == preemptor_.priority &&
          workload.queue_order_time <= preemptor_.queue_order_time) {
        return false;
      }
      break;
    case Policy::kAny:
      break;
  }
  if (context_.removed.contains(&workload)) return false;
  if (spare_.evictors && IsSpared(workload)) return false;
  if (workload.checkpoints != nullptr &&
      (IsProtected(workload) || (spare_.repeated && IsOften(workload)))) {
    return false;
  }
  return std::any_of(workload.usage.begin(), workload.usage.end(), [&](const auto& used) {
    return std::find(preemptor_.contested.begin(), preemptor_.contested.end(), used.cell) !=
           preemptor_.contested.end();
  });
}

bool Search::IsSpared(const ReservedWorkload& workload) const {
  const Evictors& evictors = preemptor_.evictors;
  if (evictors.uids.empty() || !evictors.uids.contains(workload.Uid())) return false;
  return evictors.tired || evictors.resting || !context_.fair_sharing.has_value() ||
         workload.cluster_queue == queue().name();
}

// What is on its way out already costs nothing more.
bool Search::IsOften(const ReservedWorkload& workload) const {
  return workload.checkpoints != nullptr && !workload.evicted &&
         context_.now != absl::InfinitePast() &&
         PreemptedOften(*workload.checkpoints, context_.checkpoints, context_.now);
}

bool Search::IsProtected(const ReservedWorkload& workload) const {
  if (workload.checkpoints == nullptr || workload.evicted || context_.now == absl::InfinitePast()) {
    return false;
  }
  if (workload.started_at == absl::InfiniteFuture() ||
      context_.now >= workload.started_at + workload.checkpoints->min_runtime) {
    return false;
  }
  return workload.cluster_queue == queue().name() ? workload.priority >= preemptor_.priority
                                                  : borrows_;
}

bool Search::EndsRun(const ReservedWorkload& workload, Policy policy) const {
  if (workload.evicted) return false;
  if (policy == Policy::kLowerPriority) return workload.priority >= preemptor_.priority;
  return policy == Policy::kLowerOrNewerEqualPriority && workload.priority > preemptor_.priority;
}

bool Search::WithinQuota(const quota::Node& node) const {
  return std::none_of(preemptor_.contested.begin(), preemptor_.contested.end(),
                      [&](quota::CellId cell) { return node.Borrowing(cell); });
}

bool Search::UsesBorrowed(const quota::Node& queue, const ReservedWorkload& workload) const {
  return std::any_of(workload.usage.begin(), workload.usage.end(), [&](const auto& used) {
    return queue.Borrowing(used.cell) &&
           std::find(preemptor_.contested.begin(), preemptor_.contested.end(), used.cell) !=
               preemptor_.contested.end();
  });
}

void Search::Take(quota::Node& queue, const Target& target) {
  taken_.push_back(target);
  queues_.push_back(&queue);
  returned_.push_back(false);
  TakeOut(taken_.size() - 1);
}

bool Search::Fits(bool borrowing) const {
  if (booked_) quota::Tree::RemoveUsage(queue(), preemptor_.requests);
  bool fits = quota::Tree::Fits(queue(), preemptor_.requests);
  if (fits && !borrowing) {
    fits = std::none_of(
        preemptor_.requests.begin(), preemptor_.requests.end(),
        [&](const auto& wanted) { return queue().BorrowingWith(wanted.cell, wanted.amount); });
  }
  if (booked_) quota::Tree::AddUsage(queue(), preemptor_.requests);
  // Quota is asked first: it answers in no time, a placement looks at every node.
  return fits && (preemptor_.room == nullptr || preemptor_.room->Fits());
}

// The last taken is what made the preemptor fit: it is not tried.
std::vector<size_t> Search::ReturnOrder() const {
  std::vector<size_t> order;
  for (size_t i = taken_.empty() ? 0 : taken_.size() - 1; i-- > 0;) order.push_back(i);
  if (!by_cost_) return order;
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    const ReservedWorkload& first = *taken_[a].workload;
    const ReservedWorkload& second = *taken_[b].workload;
    if (first.evicted != second.evicted) return second.evicted;
    if (first.priority != second.priority) return first.priority > second.priority;
    return CostOf(first) > CostOf(second);
  });
  return order;
}

std::vector<Target> Search::Minimised(bool borrowing,
                                      const std::function<bool(size_t)>& may_return) {
  // One that could not return because of another's test can when that other has returned.
  const std::vector<size_t> order = ReturnOrder();
  for (bool again = true; again;) {
    again = false;
    for (const size_t i : order) {
      if (returned_[i]) continue;
      PutBack(i);
      returned_[i] = true;
      if (Fits(borrowing) && (!may_return || may_return(i))) {
        again = may_return != nullptr;
        continue;
      }
      TakeOut(i);
      returned_[i] = false;
    }
  }
  std::vector<Target> targets;
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (!returned_[i]) targets.push_back(taken_[i]);
  }
  return targets;
}

CommonAncestor BelowCommonAncestor(const quota::Node& a, const quota::Node& b) {
  for (const quota::Node* mine = &a; mine->parent() != nullptr; mine = mine->parent()) {
    for (const quota::Node* theirs = &b; theirs->parent() != nullptr; theirs = theirs->parent()) {
      if (mine->parent() == theirs->parent()) return {mine, theirs};
    }
  }
  return {&a, &b};
}

}  // namespace sluice::preemption
