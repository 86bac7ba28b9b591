#include "preemption/preemption.h"

#include <algorithm>

#include "preemption/search.h"

namespace sluice::preemption {
namespace {

Policy PolicyOf(const std::string& name) {
  if (name == "LowerPriority") return Policy::kLowerPriority;
  if (name == "LowerOrNewerEqualPriority") return Policy::kLowerOrNewerEqualPriority;
  return name == "Any" ? Policy::kAny : Policy::kNever;
}

// Whether one that borrows would evict one of its evictors; see History.
bool ClosesCircle(const Context& context, const Preemptor& preemptor,
                  const std::vector<Target>& targets) {
  Search search(context, preemptor);
  if (std::none_of(targets.begin(), targets.end(),
                   [&](const Target& target) { return search.IsSpared(*target.workload); })) {
    return false;
  }
  for (const Target& target : targets) {
    search.Take(*context.tree->FindQueue(target.workload->cluster_queue), target);
  }
  return !search.Fits(false);
}

// Whether any workload was preempted so often lately that others should go before it.
bool AnyOften(const Context& context) {
  if (context.now == absl::InfinitePast()) return false;
  const auto& all = context.reserved->WithCheckpoints();
  return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
    return PreemptedOften(*entry.second->checkpoints, context.checkpoints, context.now);
  });
}

}  // namespace

Policies PoliciesOf(const api::ClusterQueueSpec& spec) {
  Policies policies;
  if (!spec.preemption.has_value()) return policies;
  policies.within_cluster_queue = PolicyOf(spec.preemption->within_cluster_queue);
  policies.reclaim_within_cohort = PolicyOf(spec.preemption->reclaim_within_cohort);
  const auto& borrow = spec.preemption->borrow_within_cohort;
  if (borrow.has_value()) {
    policies.borrow_within_cohort = !borrow->policy.empty() && borrow->policy != "Never";
    policies.max_priority_threshold = borrow->max_priority_threshold;
  }
  return policies;
}

const char* ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kInClusterQueue:
      return "InClusterQueue";
    case Reason::kInCohortReclamation:
      return "InCohortReclamation";
    case Reason::kInCohortFairSharing:
      return "InCohortFairSharing";
    case Reason::kInCohortReclaimWhileBorrowing:
      return "InCohortReclaimWhileBorrowing";
    case Reason::kFlavorMigration:
      return "FlavorMigration";
  }
  return "";
}

const char* ReasonText(Reason reason) {
  switch (reason) {
    case Reason::kInClusterQueue:
      return "prioritization in the ClusterQueue";
    case Reason::kInCohortReclamation:
      return "reclamation within the cohort";
    case Reason::kInCohortFairSharing:
      return "Fair Sharing within the cohort";
    case Reason::kInCohortReclaimWhileBorrowing:
      return "reclamation within the cohort while borrowing";
    case Reason::kFlavorMigration:
      return "migration to more favorable resource flavor";
  }
  return "";
}

std::vector<Target> FindTargets(const Context& context, const Preemptor& preemptor, bool* spared) {
  const auto search = [&](Sparing spare) {
    return context.fair_sharing.has_value() ? FindFairTargets(context, preemptor, spare)
                                            : FindClassicalTargets(context, preemptor, spare);
  };
  const bool repeated = AnyOften(context);
  const auto find = [&](bool evictors) {
    std::vector<Target> others;
    if (repeated) others = search({evictors, true});
    return others.empty() ? search({evictors, false}) : others;
  };
  std::vector<Target> targets = find(preemptor.evictors.tired);
  const bool circle = ClosesCircle(context, preemptor, targets);
  if (spared != nullptr && (preemptor.evictors.tired || circle)) *spared = true;
  return circle ? find(true) : targets;
}

bool FitsWithout(const Context& context, const Preemptor& preemptor,
                 const std::vector<Target>& targets) {
  Search search(context, preemptor);
  for (const Target& target : targets) {
    search.Take(*context.tree->FindQueue(target.workload->cluster_queue), target);
  }
  return search.Fits(true);
}

}  // namespace sluice::preemption
