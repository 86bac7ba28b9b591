#include "reconcile/explain_reason.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "admission/reservation.h"
#include "api/names.h"
#include "preemption/checkpoint.h"
#include "topology/failure.h"

namespace sluice::reconcile {
namespace {

using admission::Explanation;
using admission::ExplanationTree;
using Verdict = Explanation::Verdict;
using FindingKind = flavor::Finding::Kind;

constexpr char kGangIntact[] = "GangIntact";

// Conditions of a Workload that are True while it waits for what they are named after.
constexpr const char* kWaitingConditions[] = {admission::kReservedCondition, "CreditsBehind",
                                              "BudgetExceeded", "WaitingForCheckpoint"};

std::string ReasonOfBlocker(const std::string& reason) {
  if (reason == "ChecksPending") return "CheckPending";
  for (const char* stopped : {"LocalQueueStopped", "ClusterQueueStopped", "ClusterQueueInactive",
                              "LocalQueueNotFound", "ClusterQueueNotFound", "CohortCycle"}) {
    if (reason == stopped) return "QueueStopped";
  }
  return reason;
}

bool Has(const ExplanationTree& tree, FindingKind kind) {
  for (const flavor::PodSetAssignment& pod_set : tree.verdict.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind == kind) return true;
    }
  }
  return false;
}

// The first that tells how much room there is.
const topology::Failure* PlaceFailure(const ExplanationTree& tree) {
  const topology::Failure* any = nullptr;
  for (const flavor::PodSetAssignment& pod_set : tree.verdict.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind != FindingKind::kNoPlace || finding.place == nullptr) continue;
      if (finding.place->kind == topology::Failure::Kind::kNoRoom) return finding.place.get();
      if (any == nullptr) any = finding.place.get();
    }
  }
  return any;
}

struct Excluded {
  int64_t full = 0;   // leaves that lack a resource
  int64_t other = 0;  // leaves that may not be used
};

Excluded ExcludedOf(const topology::Exclusions& exclusions) {
  Excluded excluded;
  for (const auto& [reason, leaves] : exclusions) {
    (reason.starts_with("resource ") ? excluded.full : excluded.other) += leaves;
  }
  return excluded;
}

// Capacity that is there but in no single domain; or else nodes that are kept out, when as many
// more as take part now would have been enough; or else too few nodes.
const char* ReasonOfFailure(const topology::Failure& failure) {
  if (failure.kind != topology::Failure::Kind::kNoRoom) {
    return failure.kind == topology::Failure::Kind::kNoDomains ? "InsufficientCapacity"
                                                               : "TopologyFragmented";
  }
  if (failure.total >= failure.needed) return "TopologyFragmented";
  const Excluded excluded = ExcludedOf(failure.excluded);
  const int64_t used = std::max<int64_t>(1, failure.leaves - excluded.full - excluded.other);
  const int64_t each = std::max<int64_t>(1, (failure.total + used - 1) / used);
  return excluded.other > 0 && excluded.other * each >= failure.needed - failure.total
             ? "NodesExcluded"
             : "InsufficientCapacity";
}

// A preemption waits until a victim has saved its work.
bool AsksForCheckpoint(const state::World& world, const ExplanationTree& tree) {
  return std::any_of(
      tree.verdict.preempting.begin(), tree.verdict.preempting.end(), [&](const auto& name) {
        const size_t slash = name.find('/');
        const auto victim = world.AssumedOrStored({name.substr(0, slash), name.substr(slash + 1)});
        return victim != nullptr &&
               api::IsTrue(victim->status.conditions, preemption::kCheckpointRequested);
      });
}

std::string ReasonOfVerdict(const state::World& world, const ExplanationTree& tree) {
  switch (tree.verdict.verdict) {
    case Verdict::kFits:
      return tree.position && tree.position->ahead > 0 ? "BehindOthers" : "WouldFit";
    case Verdict::kOthersNotReady:
      return "OthersNotReady";
    case Verdict::kChecksFailed:
      return "CheckPending";
    case Verdict::kQueueInactive:
    case Verdict::kQueueNotFound:
      return "QueueStopped";
    case Verdict::kProtected:
      return "CreditsBehind";
    case Verdict::kPreempting:
      if (AsksForCheckpoint(world, tree)) return "WaitingForCheckpoint";
      break;
    case Verdict::kNoFit:
    case Verdict::kNoCandidates:
      break;
    case Verdict::kNoLongerFits:
      return tree.verdict.problems.empty() ? "QuotaExceeded" : "CreditsBehind";
    case Verdict::kPreemptionFailed:
    case Verdict::kDeferredFit:
    case Verdict::kOverlappingTargets:
      return "QuotaExceeded";
    default:
      return admission::ReasonOf(tree.verdict);
  }
  if (const topology::Failure* failure = PlaceFailure(tree)) return ReasonOfFailure(*failure);
  if (tree.verdict.cause == flavor::Cause::kNoMatchingFlavor) {
    const bool excluded =
        Has(tree, FindingKind::kUntoleratedTaint) || Has(tree, FindingKind::kAffinityMismatch);
    return excluded ? "NodesExcluded" : "NoMatchingFlavor";
  }
  return "QuotaExceeded";
}

std::string QuotaHelp(const ExplanationTree& tree) {
  std::string best;
  int64_t smallest = 0;
  for (const admission::PodSetTrial& pod_set : tree.pod_sets) {
    for (const admission::FlavorTrial& flavor : pod_set.flavors) {
      // All cells of a flavor have to fit: more than one is no single change.
      if (flavor.cells.size() != 1 || flavor.cells.front().refusals.empty()) continue;
      const admission::CellTrial& cell = flavor.cells.front();
      const auto most =
          std::max_element(cell.refusals.begin(), cell.refusals.end(),
                           [](const auto& a, const auto& b) { return a.missing < b.missing; });
      if (most->missing <= 0 || (!best.empty() && most->missing >= smallest)) continue;
      smallest = most->missing;
      best = fmt::format(
          "{} more {} in flavor {} of {} {}",
          QuantityOf(cell.cell.resource, most->missing).ToString(), cell.cell.resource,
          cell.cell.flavor,
          most->node.kind == admission::Named::Kind::kCohort ? "Cohort" : "ClusterQueue",
          most->node.name);
    }
  }
  return best;
}

std::string PlaceHelp(const topology::Failure& failure) {
  if (failure.kind != topology::Failure::Kind::kNoRoom) return "";
  const char* unit = failure.slices ? "slice" : "pod";
  const auto counted = [&](int64_t count) {
    return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
  };
  if (failure.total >= failure.needed && failure.closest) {
    return fmt::format("room for {} more in {} {}, where {} would fit now",
                       counted(failure.needed - failure.closest->fit), failure.closest->level,
                       fmt::join(failure.closest->values, "/"), failure.closest->fit);
  }
  const Excluded excluded = ExcludedOf(failure.excluded);
  if (excluded.other > 0) {
    return fmt::format("nodes back: {} of {} may not be used", excluded.other, failure.leaves);
  }
  return fmt::format("nodes for {} more", counted(failure.needed - failure.total));
}

std::string HelpOf(const ExplanationTree& tree) {
  if (!tree.verdict.preempting.empty()) {
    return fmt::format("{} is preempted", fmt::join(tree.verdict.preempting, ", "));
  }
  if (const std::string quota = QuotaHelp(tree); !quota.empty()) return quota;
  if (const topology::Failure* failure = PlaceFailure(tree)) {
    if (std::string place = PlaceHelp(*failure); !place.empty()) return place;
  }
  for (const admission::WakeUp& wake_up : tree.wake_ups) {
    if (wake_up.kind == admission::WakeUp::Kind::kOther) return wake_up.object;
  }
  return "";
}

}  // namespace

bool Waits(const ExplanationTree& tree) {
  if (tree.judged) return true;
  if (tree.blockers.empty()) return false;
  const std::string& reason = tree.blockers.front().reason;
  return reason != "Finished" && reason != "Admitted" && reason != "Evicted";
}

Why WhyOf(const state::World& world, const ExplanationTree& tree, const api::Workload& workload) {
  Why why;
  if (Waits(tree)) why.help = HelpOf(tree);
  const api::Conditions& conditions = workload.status.conditions;
  const api::Condition* gang = api::FindCondition(conditions, kGangIntact);
  const bool admitted =
      !tree.judged && !tree.blockers.empty() && tree.blockers.front().reason == "Admitted";
  if (admitted && gang != nullptr && gang->status == api::ConditionStatus::kFalse) {
    return {"GangIncomplete", gang->message, why.help};
  }
  if (!tree.judged) {
    why.reason = tree.blockers.empty() ? "Unknown" : ReasonOfBlocker(tree.blockers.front().reason);
    return why;
  }
  for (const char* type : kWaitingConditions) {
    const api::Condition* condition = api::FindCondition(conditions, type);
    if (condition == nullptr || condition->status != api::ConditionStatus::kTrue) continue;
    return {type, condition->message, why.help};
  }
  // It would fit, but starting it would delay what a reservation is for.
  const api::Condition* quota = api::FindCondition(conditions, api::kQuotaReserved);
  if (tree.verdict.verdict == Verdict::kFits && quota != nullptr &&
      quota->status == api::ConditionStatus::kFalse &&
      quota->reason == admission::kWaitsForReservation) {
    return {admission::kReservedCondition, quota->message, why.help};
  }
  why.reason = ReasonOfVerdict(world, tree);
  return why;
}

}  // namespace sluice::reconcile
