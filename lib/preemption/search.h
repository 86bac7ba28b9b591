// Search: the what-if state that both preemption algorithms work on (private to this room).
//
// Take removes a workload from the quota tree; when the search goes out of scope the tree is what
// it was. A Run is the candidates of one ClusterQueue in the order in which they would be taken.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <vector>

#include "preemption/preemption.h"

namespace sluice::preemption {

// What is no candidate although policies would allow it.
struct Sparing {
  bool evictors = false;  // of the preemptor, where History says so
  bool repeated = false;  // what was preempted often lately
};

class Search {
 public:
  Search(const Context& context, const Preemptor& preemptor, Sparing spare = {});
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  const Context& context() const { return context_; }
  const Preemptor& preemptor() const { return preemptor_; }
  quota::Node& queue() const { return *preemptor_.queue; }

  // Workloads of the ClusterQueue in the order in which they would be preempted.
  const ReservedWorkloads::List& InOrder(const quota::Node& queue);
  // It uses a contested cell, the policy allows it, and it is not gone already.
  bool IsCandidate(const ReservedWorkload& workload, Policy policy) const;
  // No workload after this one (not on its way out) can satisfy the policy either.
  bool EndsRun(const ReservedWorkload& workload, Policy policy) const;
  bool IsSpared(const ReservedWorkload& workload) const;
  bool IsOften(const ReservedWorkload& workload) const;
  // It started less than its minimum runtime ago, and the preemptor has no better claim.
  bool IsProtected(const ReservedWorkload& workload) const;
  // "a is preempted before b": PreemptedBefore, or by lost work where a candidate has annotations.
  bool TakenBefore(const ReservedWorkload& a, const ReservedWorkload& b) const;
  Policy PolicyFor(const quota::Node& queue) const {
    return &queue == preemptor_.queue ? preemptor_.policies.within_cluster_queue
                                      : preemptor_.policies.reclaim_within_cohort;
  }
  bool UsageBased(const quota::Node& queue) const {
    return context_.usage_based && context_.usage_based(queue.name());
  }
  bool IsActive(const quota::Node& queue) const {
    return !context_.active || context_.active(queue.name());
  }
  // Another ClusterQueue is within what it may use over time, and its credits protect that.
  bool Protected(const quota::Node& queue) const {
    return preemptor_.heeds_credits && context_.credits != nullptr && &queue != preemptor_.queue &&
           context_.credits->Protected(queue);
  }
  // Usage is within the quota of the subtree in every contested cell.
  bool WithinQuota(const quota::Node& node) const;

  // It uses a contested cell of which its ClusterQueue uses more than its quota. What others use of
  // their own quota is theirs, also where they borrow something else.
  bool UsesBorrowed(const quota::Node& queue, const ReservedWorkload& workload) const;

  void Take(quota::Node& queue, const Target& target);
  // All that are taken, in the order in which they were.
  const std::vector<Target>& taken() const { return taken_; }
  quota::Node& QueueOfTaken(size_t index) const { return *queues_[index]; }
  void TakeNone();

  // The preemptor's whole request fits; `borrowing`: it may use more than its own quota.
  bool Fits(bool borrowing) const;
  // Gives back whatever is not needed, the last taken excepted, and returns what stays taken.
  // `may_return(i)` is asked with the i-th already given back.
  std::vector<Target> Minimised(bool borrowing,
                                const std::function<bool(size_t)>& may_return = nullptr);
  // Whether the i-th of taken() was given back again.
  bool Returned(size_t index) const { return returned_[index]; }

  // For a caller that books the preemptor's own request: Fits leaves it out.
  void BookPreemptor();

 private:
  // The i-th of taken() out of quota and room, and back.
  void TakeOut(size_t index);
  void PutBack(size_t index);
  bool AnyCandidateWithCheckpoints() const;
  // Of the policy that governs its ClusterQueue; nullptr where none does.
  const quota::CreditWeights* WeightsFor(const ReservedWorkload& workload) const;
  LostWork CostOf(const ReservedWorkload& workload) const;
  // Positions in taken(), in the order in which giving back is tried.
  std::vector<size_t> ReturnOrder() const;

  const Context& context_;
  const Preemptor& preemptor_;
  const Sparing spare_;
  bool borrows_ = false;  // the preemptor's request is more than what its queue has left of its own
  bool by_cost_ = false;
  mutable absl::flat_hash_map<const ReservedWorkload*, LostWork> costs_;
  std::vector<Target> taken_;
  std::vector<quota::Node*> queues_;
  std::vector<bool> returned_;
  bool booked_ = false;
  std::deque<ReservedWorkloads::List> sorted_;
};

// The lowest cohort above both, with the two nodes just below it.
struct CommonAncestor {
  const quota::Node* mine = nullptr;    // on the way from `a`
  const quota::Node* theirs = nullptr;  // on the way from `b`
};
CommonAncestor BelowCommonAncestor(const quota::Node& a, const quota::Node& b);

std::vector<Target> FindClassicalTargets(const Context& context, const Preemptor& preemptor,
                                         Sparing spare);
std::vector<Target> FindFairTargets(const Context& context, const Preemptor& preemptor,
                                    Sparing spare);

}  // namespace sluice::preemption
