// One word for why a workload does not run, and the smallest thing that would help it.
//
// The conditions of a Workload keep the reasons that users of Kueue know. These words go further:
// they tell quota that is used up (QuotaExceeded) from capacity that lies in no single domain
// (TopologyFragmented), from nodes that are too small together (InsufficientCapacity) and from
// nodes that may not be used (NodesExcluded). Conditions that say more than a cycle knows
// (Reserved, CreditsBehind, BudgetExceeded, GangIntact) win over what the cycle says.
//
// Contract: pure; the World is not changed. O(size of the tree), and O(nodes) where pods find no
// place.
//
//   const Why why = WhyOf(world, ExplainWorkload(world, key, now), *workload);
#pragma once

#include <optional>
#include <string>

#include "admission/explain.h"
#include "api/kueue_types.h"
#include "reconcile/excluded_nodes.h"
#include "state/world.h"

namespace sluice::reconcile {

struct Why {
  std::string reason;    // "QuotaExceeded"; "WouldFit" and "Admitted" for those that do not wait
  std::string sentence;  // of the condition that gave the reason; "" where the tree gave it
  std::string help;      // "4 more cpu in flavor f of Cohort org"; "" where nothing is known
  // Where nodes decide: those of the flavor that may not be used, by why.
  std::optional<ExcludedNodes> excluded{};
};

Why WhyOf(state::World& world, const admission::ExplanationTree& tree,
          const api::Workload& workload);

// The same word for who lists many of them, without a look at the World: of the decision about it
// ("" where that lets it start), and as far as its conditions tell ("" where they do not). A
// decision tells more: it knows whether pods that find no place would find one in several domains.
// Which nodes are excluded it does not know; these count as InsufficientCapacity. O(findings).
std::string ReasonOfDecision(const admission::Explanation& explanation);
std::string ReasonOfConditions(const api::Workload& workload);
// Whether the decision knows better than the conditions, which say no more than that it was judged.
bool IsOfDecision(const std::string& reason);

// Adds what an answer as data says of it: structuredReason, sentence, whatWouldHelp, excludedNodes.
void AddWhy(const Why& why, api::Json& json);

// Whether it waits for anything: neither admitted, finished nor on its way out.
bool Waits(const admission::ExplanationTree& tree);

}  // namespace sluice::reconcile
