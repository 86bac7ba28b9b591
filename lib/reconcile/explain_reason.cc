#include "reconcile/explain_reason.h"

#include <absl/container/btree_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "admission/conditions.h"
#include "admission/explain_text.h"
#include "admission/reservation.h"
#include "api/names.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "topology/failure.h"

namespace sluice::reconcile {
namespace {

using admission::Explanation;
using admission::ExplanationTree;
using Verdict = Explanation::Verdict;
using FindingKind = flavor::Finding::Kind;

constexpr char kGangIntact[] = "GangIntact";
constexpr char kCreditsBehind[] = "CreditsBehind";  // also a reason of QuotaReserved=False

// Conditions of a Workload that are True while it waits for what they are named after.
constexpr const char* kWaitingConditions[] = {admission::kReservedCondition, kCreditsBehind,
                                              "BudgetExceeded", "WaitingForCheckpoint"};

std::string ReasonOfBlocker(const std::string& reason) {
  if (reason == "ChecksPending") return "CheckPending";
  if (reason == "GangRefused") return "GangIncomplete";
  for (const char* stopped : {"LocalQueueStopped", "ClusterQueueStopped", "ClusterQueueInactive",
                              "LocalQueueNotFound", "ClusterQueueNotFound", "CohortCycle"}) {
    if (reason == stopped) return "QueueStopped";
  }
  return reason;
}

bool Has(const Explanation& explanation, FindingKind kind) {
  for (const flavor::PodSetAssignment& pod_set : explanation.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind == kind) return true;
    }
  }
  return false;
}

// Pods without a place, and which nodes they may not use.
struct Placeless {
  const topology::Failure* failure = nullptr;
  ExcludedNodes excluded;
};

struct NoPlace {
  const flavor::PodSetAssignment* pod_set = nullptr;
  const flavor::Finding* finding = nullptr;  // nullptr: there is none
};

// The first that tells how much room there is.
NoPlace FindNoPlace(const Explanation& explanation) {
  NoPlace found;
  for (const flavor::PodSetAssignment& pod_set : explanation.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind != FindingKind::kNoPlace || finding.place == nullptr) continue;
      const flavor::Finding* of = found.finding;
      const bool better = finding.place->kind == topology::Failure::Kind::kNoRoom &&
                          (of == nullptr || of->place->kind != finding.place->kind);
      if (of == nullptr || better) found = {&pod_set, &finding};
    }
  }
  return found;
}

std::optional<Placeless> FindPlaceless(state::World& world, const ExplanationTree& tree,
                                       const api::Workload& workload) {
  const NoPlace found = FindNoPlace(tree.verdict);
  if (found.finding == nullptr) return std::nullopt;
  const flavor::Finding& of = *found.finding;
  return Placeless{of.place.get(),
                   FindExcluded(world, workload, found.pod_set->name, of.flavor, *of.place)};
}

// Capacity that is there but in no single domain.
bool IsFragmented(const topology::Failure& failure) {
  const bool none = failure.kind == topology::Failure::Kind::kNoDomains;
  if (failure.kind != topology::Failure::Kind::kNoRoom && !none) return true;
  return !none && failure.total >= failure.needed;
}

// Or else nodes that are kept out, when they would have been enough; or else too few nodes.
const char* ReasonOfFailure(const Placeless& placeless) {
  if (IsFragmented(*placeless.failure)) return "TopologyFragmented";
  return placeless.excluded.Count() > 0 && placeless.excluded.room >= placeless.excluded.missing
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

// `placeless`: the word for pods that find no place; "" where they do.
std::string ReasonOfWait(const Explanation& verdict, const std::string& placeless) {
  switch (verdict.verdict) {
    case Verdict::kOthersNotReady:
      return "OthersNotReady";
    case Verdict::kChecksFailed:
      return "CheckPending";
    case Verdict::kQueueInactive:
    case Verdict::kQueueNotFound:
      return "QueueStopped";
    case Verdict::kProtected:
      return kCreditsBehind;
    case Verdict::kPreempting:
    case Verdict::kNoFit:
    case Verdict::kNoCandidates:
      break;
    case Verdict::kNoLongerFits:
      if (!verdict.problems.empty()) return kCreditsBehind;
      return !verdict.rivals.empty() && verdict.rivals.front().places ? "InsufficientCapacity"
                                                                      : "QuotaExceeded";
    case Verdict::kPreemptionFailed:
    case Verdict::kDeferredFit:
    case Verdict::kOverlappingTargets:
      return "QuotaExceeded";
    default:
      return admission::ReasonOf(verdict);
  }
  if (!placeless.empty()) return placeless;
  if (verdict.cause == flavor::Cause::kNoMatchingFlavor) {
    const bool excluded = Has(verdict, FindingKind::kUntoleratedTaint) ||
                          Has(verdict, FindingKind::kAffinityMismatch);
    return excluded ? "NodesExcluded" : "NoMatchingFlavor";
  }
  return "QuotaExceeded";
}

std::string ReasonOfVerdict(const state::World& world, const ExplanationTree& tree,
                            const std::optional<Placeless>& placeless) {
  if (tree.verdict.verdict == Verdict::kFits) {
    return tree.position && tree.position->ahead > 0 ? "BehindOthers" : "WouldFit";
  }
  if (tree.verdict.verdict == Verdict::kPreempting && AsksForCheckpoint(world, tree)) {
    return "WaitingForCheckpoint";
  }
  return ReasonOfWait(tree.verdict, placeless ? ReasonOfFailure(*placeless) : "");
}

// More of one cell, where that is refused: "4 more cpu in flavor f of Cohort org". With the end of
// what holds as much of it, where that is one workload or queue.
std::string CellHelp(const admission::CellTrial& cell, int64_t missing,
                     const admission::QuotaRefusal& refusal) {
  const ResourceName& resource = cell.cell.resource;
  const auto name = [](const admission::Named& named) {
    switch (named.kind) {
      case admission::Named::Kind::kCohort:
        return "Cohort " + named.name;
      case admission::Named::Kind::kClusterQueue:
        return "ClusterQueue " + named.name;
      case admission::Named::Kind::kWorkload:
        break;
    }
    return "Workload " + named.name;
  };
  std::string text =
      fmt::format("{} more {} in flavor {} of {}", QuantityOf(resource, missing).ToString(),
                  resource, cell.cell.flavor, name(refusal.node));
  // The smallest that is enough.
  const admission::QuotaHolder* enough = nullptr;
  for (const admission::QuotaHolder& holder : refusal.holders) {
    if (holder.amount < missing) continue;
    if (enough == nullptr || holder.amount < enough->amount) enough = &holder;
  }
  if (enough == nullptr) return text;
  return text + (enough->who.kind == admission::Named::Kind::kWorkload
                     ? fmt::format(", or the end of {}", name(enough->who))
                     : fmt::format(", or so much back from {}", name(enough->who)));
}

// The flavor that needs the fewest resources more, and of those with one the least of it.
std::string QuotaHelp(const ExplanationTree& tree) {
  std::string best;
  std::pair<size_t, int64_t> smallest;
  for (const admission::PodSetTrial& pod_set : tree.pod_sets) {
    for (const admission::FlavorTrial& flavor : pod_set.flavors) {
      std::vector<std::string> parts;
      int64_t last = 0;
      for (const admission::CellTrial& cell : flavor.cells) {
        if (cell.refusals.empty()) continue;
        const auto most =
            std::max_element(cell.refusals.begin(), cell.refusals.end(),
                             [](const auto& a, const auto& b) { return a.missing < b.missing; });
        if (most->missing <= 0) continue;
        last = most->missing;
        parts.push_back(CellHelp(cell, most->missing, *most));
      }
      if (parts.empty() || parts.size() != flavor.cells.size()) continue;
      const std::pair<size_t, int64_t> size{parts.size(), last};
      if (!best.empty() && size >= smallest) continue;
      smallest = size;
      best = fmt::format("{}", fmt::join(parts, " and "));
    }
  }
  return best;
}

// What a flavor would have to have, or the workload to accept.
std::string FlavorHelp(const ExplanationTree& tree) {
  for (const flavor::PodSetAssignment& pod_set : tree.verdict.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      switch (finding.kind) {
        case FindingKind::kUntoleratedTaint:
          if (!finding.taint) break;
          return fmt::format("a toleration of taint {}={}:{} of flavor {}", finding.taint->key,
                             finding.taint->value, finding.taint->effect, finding.flavor);
        case FindingKind::kAffinityMismatch:
          return fmt::format("a node selector and affinity that flavor {} matches", finding.flavor);
        case FindingKind::kFlavorNotFound:
          return fmt::format("ResourceFlavor {} is created", finding.flavor);
        case FindingKind::kResourceNotCovered:
          return fmt::format("quota for {} in the ClusterQueue", finding.resource);
        default:
          break;
      }
    }
  }
  return "";
}

std::string PlaceHelp(const Placeless& placeless) {
  const topology::Failure& failure = *placeless.failure;
  const bool none = failure.kind == topology::Failure::Kind::kNoDomains;
  if (failure.kind != topology::Failure::Kind::kNoRoom && !none) return "";
  const char* unit = failure.slices ? "slice" : "pod";
  const auto counted = [&](int64_t count) {
    return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
  };
  if (!none && failure.total >= failure.needed && failure.closest) {
    return fmt::format("room for {} more in {} {}, where {} would fit now",
                       counted(failure.needed - failure.closest->fit), failure.closest->level,
                       fmt::join(failure.closest->values, "/"), failure.closest->fit);
  }
  if (placeless.excluded.Count() > 0) return "nodes back: " + placeless.excluded.Text();
  if (none) return "nodes with the label " + failure.text;
  return fmt::format("nodes for {} more", counted(failure.needed - failure.total));
}

std::string HelpOf(const ExplanationTree& tree, const std::optional<Placeless>& placeless) {
  if (!tree.verdict.rivals.empty()) {
    const Explanation::Rival& rival = tree.verdict.rivals.front();
    return fmt::format("{} {}", rival.workload,
                       rival.waits ? "has started, or waits no longer" : "ends");
  }
  if (!tree.verdict.preempting.empty()) {
    return fmt::format("{} is preempted", fmt::join(tree.verdict.preempting, ", "));
  }
  if (const std::string quota = QuotaHelp(tree); !quota.empty()) return quota;
  if (placeless) {
    if (std::string place = PlaceHelp(*placeless); !place.empty()) return place;
  }
  if (const std::string flavor = FlavorHelp(tree); !flavor.empty()) return flavor;
  if (tree.verdict.protected_until) {
    return "the protection by credits ends at " + sluice::FormatTime(*tree.verdict.protected_until);
  }
  if (!tree.verdict.held_by.empty()) return tree.verdict.held_by + " has started";
  const bool fits = tree.judged && tree.verdict.verdict == Verdict::kFits;
  if (fits && tree.position && tree.position->ahead > 0) {
    return fmt::format("{} has left the queue", tree.position->head);
  }
  for (const admission::WakeUp& wake_up : tree.wake_ups) {
    if (wake_up.kind == admission::WakeUp::Kind::kOther) return wake_up.object;
  }
  return tree.wake_ups.empty() ? "" : admission::RenderWakeUp(tree.wake_ups.front());
}

}  // namespace

bool Waits(const ExplanationTree& tree) {
  if (tree.judged) return true;
  if (tree.blockers.empty()) return false;
  const std::string& reason = tree.blockers.front().reason;
  return reason != "Finished" && reason != "Admitted" && reason != "Evicted";
}

Why WhyOf(state::World& world, const ExplanationTree& tree, const api::Workload& workload) {
  Why why;
  const std::optional<Placeless> placeless = FindPlaceless(world, tree, workload);
  if (Waits(tree)) why.help = HelpOf(tree, placeless);
  const api::Conditions& conditions = workload.status.conditions;
  const api::Condition* gang = api::FindCondition(conditions, kGangIntact);
  const bool admitted =
      !tree.judged && !tree.blockers.empty() && tree.blockers.front().reason == "Admitted";
  if (admitted && gang != nullptr && gang->status == api::ConditionStatus::kFalse) {
    return {"GangIncomplete", gang->message, "its missing pods run again"};
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
  why.reason = ReasonOfVerdict(world, tree, placeless);
  // When it was judged last, others came first by their credits.
  if (why.reason == "QuotaExceeded" && quota != nullptr &&
      quota->status == api::ConditionStatus::kFalse && quota->reason == kCreditsBehind) {
    return {kCreditsBehind, quota->message, why.help};
  }
  if (placeless && placeless->excluded.Count() > 0) why.excluded = placeless->excluded;
  return why;
}

std::string ReasonOfDecision(const Explanation& explanation) {
  if (explanation.verdict == Verdict::kFits) return "";
  const NoPlace found = FindNoPlace(explanation);
  if (found.finding == nullptr) return ReasonOfWait(explanation, "");
  return ReasonOfWait(explanation, IsFragmented(*found.finding->place) ? "TopologyFragmented"
                                                                       : "InsufficientCapacity");
}

std::string ReasonOfConditions(const api::Workload& workload) {
  const api::Conditions& conditions = workload.status.conditions;
  for (const char* type : kWaitingConditions) {
    if (api::IsTrue(conditions, type)) return type;
  }
  const api::Condition* quota = api::FindCondition(conditions, api::kQuotaReserved);
  if (quota == nullptr) return admission::kPendingEvaluation;
  if (quota->status != api::ConditionStatus::kFalse) return "";
  static const absl::btree_map<std::string, const char*> kReasons = {
      {admission::kWaitingForQuota, "QuotaExceeded"},
      {admission::kExceedsMaxQuota, "QuotaExceeded"},
      {admission::kWaitingForPreemptedWorkloads, "QuotaExceeded"},
      {admission::kWaitingForPodsReady, "OthersNotReady"},
      {admission::kSuspended, "QueueStopped"},
      {admission::kGangRefused, "GangIncomplete"},
      {admission::kTopologyPlacementFailed, "TopologyFragmented"},
      // Where the gate UnadmittedWorkloadsObservability is off there are fewer words.
      {"Waiting", "OthersNotReady"},
      {"Inadmissible", "QueueStopped"},
      {"Pending", ""}};
  const auto found = kReasons.find(quota->reason);
  return found == kReasons.end() ? quota->reason : found->second;
}

bool IsOfDecision(const std::string& reason) {
  static constexpr std::string_view kJudged[] = {"", "QuotaExceeded", "TopologyFragmented",
                                                 "NoMatchingFlavor", admission::kPendingEvaluation};
  return std::find(std::begin(kJudged), std::end(kJudged), reason) != std::end(kJudged);
}

void AddWhy(const Why& why, api::Json& json) {
  if (!why.reason.empty()) json.Set("structuredReason", why.reason);
  if (!why.sentence.empty()) json.Set("sentence", why.sentence);
  if (!why.help.empty()) json.Set("whatWouldHelp", why.help);
  if (!why.excluded) return;
  api::Json by_cause = api::Json::MakeObject();
  for (const auto& [cause, nodes] : why.excluded->by_cause) by_cause.Set(cause, nodes);
  json.Set("excludedNodes",
           api::Json::MakeObject({{"nodes", why.excluded->nodes}, {"byCause", by_cause}}));
}

}  // namespace sluice::reconcile
