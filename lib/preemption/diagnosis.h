// Diagnosis: why a search for workloads to preempt found none, for one cell of quota.
//
// Counts every workload of the cohort tree that holds the cell: those that could be preempted, and
// the others by what protects them. Then takes all that could be preempted at once and says what is
// still missing, or which rule forbids it where they would be enough.
//
// Contract: pure; the quota tree is what it was on return. For questions, not for decisions: it
// looks at every workload that holds quota in the tree. Sources: as preemption.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "preemption/preemption.h"

namespace sluice::preemption {

// What keeps a workload from being a candidate, in the order in which it is asked.
enum class Protection {
  kWithinClusterQueueNever,   // its own ClusterQueue preempts nothing inside
  kReclaimWithinCohortNever,  // the preemptor's ClusterQueue reclaims nothing
  kInactiveClusterQueue,
  kWithinQuota,     // its ClusterQueue, or a cohort above that, uses no more than its quota
  kCredits,         // fair-share credits let its ClusterQueue keep what it borrowed for a while
  kPriority,        // not low enough for the policy
  kEvictor,         // the preemptor had to go for it before, and would borrow; see History
  kMinimumRuntime,  // it has not run for its declared minimum yet
  kAbsent,          // it was counted as gone already
};

struct Diagnosis {
  enum class Outcome {
    kFound,         // a search finds targets
    kNoCandidates,  // nothing may be preempted
    kNotEnough,     // all candidates together leave `missing`
    kMustBorrow,    // they would be enough, but not while the preemptor borrows
    kShares,        // they would be enough, but the comparison of shares forbids it
    kRules,         // they would be enough, but not in an order in which each may be taken
  };
  struct Group {
    Protection protection = Protection::kPriority;
    int64_t workloads = 0;
    int64_t amount = 0;  // of the cell
  };

  Outcome outcome = Outcome::kNoCandidates;
  int64_t targets = 0;     // kFound: how many would go
  int64_t candidates = 0;  // how many may go at all
  int64_t amount = 0;      // of the cell, that the candidates hold
  int64_t missing = 0;     // kNotEnough
  // kShares: in thousandths, of the preemptor's side with its request, and of the side with the
  // largest share among those that would have to give.
  int64_t own_share = 0;
  int64_t their_share = 0;
  std::string their_side;
  std::vector<Group> protected_by;  // in the order of Protection; only what is there
};

// The preemptor asks for one cell, which is contested.
Diagnosis Diagnose(const Context& context, const Preemptor& preemptor);

}  // namespace sluice::preemption
