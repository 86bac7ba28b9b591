// Preemption: which workloads must give their quota back so that another one fits.
//
// Two algorithms share one entry. The classical one (KEP-83, KEP-1337) takes workloads of the
// preemptor's own ClusterQueue and of ClusterQueues of its cohort tree that use more than their
// quota, by the policies of the preemptor's ClusterQueue. Fair sharing (KEP-1714) takes from the
// ClusterQueue with the largest dominant resource share, and only while the preemptor's share stays
// below the other's.
//
// Of candidates that are equal but for the time at which they got their quota, the one whose
// eviction loses the least work goes first where any of them says when it wrote its last
// checkpoint (checkpoint.h); where none does, the newest. What turns out not to be needed is given
// back by priority, then the dearest first. A workload within its declared minimum runtime is no
// candidate for an equal or lower priority of its own ClusterQueue, nor for another ClusterQueue
// that would borrow; what was preempted often lately is taken only when nothing else will do.
//
// Contract: pure and deterministic. The quota tree is changed during a search and is what it was
// when it returns. What is found is minimal: without any of the targets the preemptor would not
// fit, or a target's share test would not hold. Cost: O(ClusterQueues of the tree) plus the
// candidates that are looked at, each O(depth * cells).
#pragma once

#include <absl/container/btree_set.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "preemption/history.h"
#include "preemption/reserved_workloads.h"
#include "quota/credit_standing.h"
#include "quota/tree.h"

namespace sluice::preemption {

// Who may be preempted for whom, by priority.
enum class Policy {
  kNever,
  kLowerPriority,
  kLowerOrNewerEqualPriority,  // or equal priority and later in the queue order
  kAny,
};

// spec.preemption of a ClusterQueue.
struct Policies {
  Policy within_cluster_queue = Policy::kNever;
  Policy reclaim_within_cohort = Policy::kNever;
  bool borrow_within_cohort = false;                // borrowWithinCohort.policy is not Never
  std::optional<int64_t> max_priority_threshold{};  // inclusive
};
Policies PoliciesOf(const api::ClusterQueueSpec& spec);

enum class Reason {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortFairSharing,
  kInCohortReclaimWhileBorrowing,
  kFlavorMigration,  // a variant of the same workload gets a better flavor; no preemption
};
// The reason of the Preempted condition, and the words that messages use for it.
const char* ReasonName(Reason reason);
const char* ReasonText(Reason reason);

struct Target {
  const ReservedWorkload* workload = nullptr;
  Reason reason = Reason::kInClusterQueue;
};

enum class Strategy { kLessThanOrEqualToFinalShare, kLessThanInitialShare };

struct FairSharingRules {
  std::vector<Strategy> strategies;    // one or two, in this order
  bool preempt_within_nominal = true;  // gate FairSharingPreemptWithinNominal
};

// What the preemptor needs beside quota: places on nodes. A search tells it of every workload that
// it takes out or puts back (each at most once out at a time, all back in the end), and asks
// whether the preemptor would fit then.
class Room {
 public:
  virtual ~Room() = default;
  virtual void Take(const ReservedWorkload& workload) = 0;
  virtual void Return(const ReservedWorkload& workload) = 0;
  virtual bool Fits() = 0;
};

// The workload that needs room. Everything pointed to must outlive the search.
struct Preemptor {
  quota::Node* queue = nullptr;  // of its ClusterQueue, in a sound tree
  ObjectKey local_queue;
  int64_t priority = 0;
  absl::Time queue_order_time;
  Policies policies;
  quota::CellAmounts requests;           // of all it asks for
  std::vector<quota::CellId> contested;  // the cells that need preemption
  Evictors evictors;                     // spared as History says
  Room* room = nullptr;                  // nullptr: quota is all that it needs
  bool heeds_credits = false;            // what credits protect is no candidate
};

// What a search looks at beside the preemptor.
struct Context {
  const quota::Tree* tree = nullptr;
  const ReservedWorkloads* reserved = nullptr;
  std::optional<FairSharingRules> fair_sharing;  // nullopt: the classical algorithm
  // What evictions cost at this instant; InfinitePast: costs are not looked at.
  absl::Time now = absl::InfinitePast();
  CheckpointRules checkpoints;
  // Fair-share credits, nullptr without any: shares count use above the standing entitlement only,
  // and between ClusterQueues those furthest above theirs lose first.
  const quota::CreditStanding* credits = nullptr;
  // Already gone in this what-if; no candidates. Sorted by address.
  absl::btree_set<const ReservedWorkload*> removed;
  // Workloads of an inactive ClusterQueue cannot be preempted. Empty: all are active.
  std::function<bool(const std::string& cluster_queue)> active;
  // Usage-based admission fair sharing, for a ClusterQueue that has it: whether `a` used more than
  // `b`, so that workloads of `a` are preempted first. Empty: it is off.
  std::function<bool(const std::string& cluster_queue)> usage_based;
  std::function<bool(const ObjectKey& a, const ObjectKey& b)> used_more;
};

// The workloads to preempt, in the order in which they were chosen; empty when none will do.
// `spared` (may be null) becomes true where some were left out for what the preemptor went through
// itself (see History): the answer is not that for another one that asks for the same.
std::vector<Target> FindTargets(const Context& context, const Preemptor& preemptor,
                                bool* spared = nullptr);

// Whether the preemptor fits without the targets, as FindTargets promises (for tests and checks).
bool FitsWithout(const Context& context, const Preemptor& preemptor,
                 const std::vector<Target>& targets);

}  // namespace sluice::preemption
