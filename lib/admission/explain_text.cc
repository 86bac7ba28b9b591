#include "admission/explain_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/time.h"
#include "topology/failure.h"

namespace sluice::admission {
namespace {

using Limit = quota::Refusal::Limit;
using Outcome = preemption::Diagnosis::Outcome;
using preemption::Protection;
using Verdict = Explanation::Verdict;

std::string Amount(const ResourceName& resource, int64_t amount) {
  if (amount == quota::kUnlimited) return "no limit";
  return QuantityOf(resource, amount).ToString();
}

const char* KindName(Named::Kind kind) {
  switch (kind) {
    case Named::Kind::kClusterQueue:
      return "ClusterQueue";
    case Named::Kind::kCohort:
      return "Cohort";
    case Named::Kind::kWorkload:
      return "Workload";
  }
  return "";
}
std::string Name(const Named& named) {
  return fmt::format("{} {}", KindName(named.kind), named.name);
}

std::string Plural(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Lender(const QuotaRefusal& refusal) {
  return fmt::format("{} {}", refusal.lender_is_cohort ? "Cohort" : "ClusterQueue", refusal.lender);
}

std::string LimitText(const QuotaRefusal& refusal, const ResourceName& resource) {
  switch (refusal.limit) {
    case Limit::kNominalQuota:
      return fmt::format("its nominalQuota is {}", Amount(resource, refusal.quota));
    case Limit::kBorrowingLimit:
      return fmt::format("its borrowingLimit is {} above a quota of {}",
                         Amount(resource, refusal.limit_value.value_or(0)),
                         Amount(resource, refusal.quota));
    case Limit::kLendingLimit:
    case Limit::kCapacity:
      return fmt::format("all that it has is {}", Amount(resource, refusal.quota));
  }
  return "";
}

const char* LimitName(Limit limit) {
  switch (limit) {
    case Limit::kNominalQuota:
      return "NominalQuota";
    case Limit::kBorrowingLimit:
      return "BorrowingLimit";
    case Limit::kLendingLimit:
      return "LendingLimit";
    case Limit::kCapacity:
      return "Capacity";
  }
  return "";
}

std::string HoldersText(const QuotaRefusal& refusal, const ResourceName& resource) {
  std::string text;
  for (const QuotaHolder& holder : refusal.holders) {
    text += text.empty() ? "" : ", ";
    text += fmt::format("{} {}", Name(holder.who), Amount(resource, holder.amount));
    if (holder.usage != holder.amount) {
      text += fmt::format(" of its {}", Amount(resource, holder.usage));
    }
    if (holder.workloads > 0) text += fmt::format(" in {}", Plural(holder.workloads, "workload"));
  }
  return text;
}

// "Cohort org is 2 short: all that it has is 8, 7 in use, most by ClusterQueue b 7 in 1 workload".
// `workloads`: those of a ClusterQueue are named too.
std::string RefusalText(const QuotaRefusal& refusal, const CellTrial& cell, bool workloads) {
  const ResourceName& resource = cell.cell.resource;
  std::string text = fmt::format("{} is {} short: {}", Name(refusal.node),
                                 Amount(resource, refusal.missing), LimitText(refusal, resource));
  if (!cell.never) {
    text += fmt::format(", {} in use", Amount(resource, refusal.used));
    const bool named = workloads || refusal.node.kind == Named::Kind::kCohort;
    if (named && !refusal.holders.empty()) text += ", most by " + HoldersText(refusal, resource);
  }
  if (refusal.limit == Limit::kLendingLimit) {
    text += fmt::format("; {} keeps enough unused behind its lendingLimit {}", Lender(refusal),
                        Amount(resource, refusal.limit_value.value_or(0)));
  }
  return text;
}

const char* ProtectionName(Protection protection) {
  switch (protection) {
    case Protection::kWithinClusterQueueNever:
      return "WithinClusterQueueNever";
    case Protection::kReclaimWithinCohortNever:
      return "ReclaimWithinCohortNever";
    case Protection::kInactiveClusterQueue:
      return "InactiveClusterQueue";
    case Protection::kWithinQuota:
      return "WithinQuota";
    case Protection::kCredits:
      return "Credits";
    case Protection::kPriority:
      return "Priority";
    case Protection::kEvictor:
      return "Evictor";
    case Protection::kMinimumRuntime:
      return "MinRuntime";
    case Protection::kAbsent:
      return "Absent";
  }
  return "";
}

const char* ProtectionText(Protection protection) {
  switch (protection) {
    case Protection::kWithinClusterQueueNever:
      return "in the same ClusterQueue, whose withinClusterQueue is Never";
    case Protection::kReclaimWithinCohortNever:
      return "in other ClusterQueues, and reclaimWithinCohort is Never";
    case Protection::kInactiveClusterQueue:
      return "in ClusterQueues that are not active";
    case Protection::kWithinQuota:
      return "in ClusterQueues or Cohorts that use no more than their quota";
    case Protection::kCredits:
      return "in ClusterQueues that borrow within their standing entitlement, which credits "
             "protect for a while";
    case Protection::kPriority:
      return "with a priority or age that the policy does not let go";
    case Protection::kEvictor:
      return "for which this one had to go before, and it would borrow";
    case Protection::kMinimumRuntime:
      return "that have not run for their declared minimum yet";
    case Protection::kAbsent:
      return "gone already";
  }
  return "";
}

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFound:
      return "Found";
    case Outcome::kNoCandidates:
      return "NoCandidates";
    case Outcome::kNotEnough:
      return "NotEnough";
    case Outcome::kMustBorrow:
      return "MustBorrow";
    case Outcome::kShares:
      return "Shares";
    case Outcome::kRules:
      return "Rules";
  }
  return "";
}

std::string OutcomeText(const preemption::Diagnosis& found, const ResourceName& resource) {
  const std::string candidates = fmt::format("{} with {}", Plural(found.candidates, "candidate"),
                                             Amount(resource, found.amount));
  switch (found.outcome) {
    case Outcome::kFound:
      return fmt::format("of {}, {} would have to go", candidates, found.targets);
    case Outcome::kNoCandidates:
      return "nothing may be preempted";
    case Outcome::kNotEnough:
      return fmt::format("{}; with all of that gone it is still {} short", candidates,
                         Amount(resource, found.missing));
    case Outcome::kMustBorrow:
      return fmt::format(
          "{} would be enough, but it would borrow then, and borrowWithinCohort does not allow "
          "both",
          candidates);
    case Outcome::kShares:
      return fmt::format("{} would be enough, but {} has a share of {} only, and this side {} then",
                         candidates, found.their_side, found.their_share, found.own_share);
    case Outcome::kRules:
      return fmt::format("{} would be enough, but not without taking more than was borrowed",
                         candidates);
  }
  return "";
}

std::string PreemptionText(const preemption::Diagnosis& found, const ResourceName& resource) {
  std::string text = "preemption: " + OutcomeText(found, resource);
  const char* separator = "; protected: ";
  for (const preemption::Diagnosis::Group& group : found.protected_by) {
    text += fmt::format("{}{} with {} {}", separator, Plural(group.workloads, "workload"),
                        Amount(resource, group.amount), ProtectionText(group.protection));
    separator = ", ";
  }
  return text;
}

std::string RankText(const flavor::FlavorAttempt& attempt) {
  std::string text;
  switch (attempt.rank) {
    case flavor::Rank::kNoFit:
      return "does not fit";
    case flavor::Rank::kNoPreemptionCandidates:
      return "does not fit, and preempting makes no room";
    case flavor::Rank::kPreempt:
      text = "fits after preempting";
      break;
    case flavor::Rank::kReclaim:
      text = "fits after reclaiming from others";
      break;
    case flavor::Rank::kFit:
      text = "fits";
      break;
  }
  if (attempt.borrow_level > 0)
    text += fmt::format(", borrowing at level {}", attempt.borrow_level);
  return text;
}

const char* RankName(flavor::Rank rank) {
  switch (rank) {
    case flavor::Rank::kNoFit:
      return "NoFit";
    case flavor::Rank::kNoPreemptionCandidates:
      return "NoCandidates";
    case flavor::Rank::kPreempt:
      return "Preempt";
    case flavor::Rank::kReclaim:
      return "Reclaim";
    case flavor::Rank::kFit:
      return "Fit";
  }
  return "";
}

// Which domain comes closest to what is asked for, and what is in its way; "" where that says
// nothing.
std::string ClosestText(const flavor::Finding& finding) {
  if (finding.place == nullptr || !finding.place->closest.has_value()) return "";
  const topology::ClosestDomain& domain = *finding.place->closest;
  std::string text =
      fmt::format("closest: {} {} takes {} of {} {}", domain.level, fmt::join(domain.values, "/"),
                  domain.fit, finding.place->needed, finding.place->slices ? "slices" : "pods");
  if (finding.place->total >= finding.place->needed) {
    text += fmt::format("; {} would fit in all domains together", finding.place->total);
  }
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : domain.excluded) {
    reasons.push_back(fmt::format("{}: {}", reason, count));
  }
  if (reasons.empty()) return text;
  return text + fmt::format("; of its {} nodes cannot be used: {}", domain.leaves,
                            fmt::join(reasons, ", "));
}

bool IsQuota(const flavor::Finding& finding) {
  return finding.kind == flavor::Finding::Kind::kAboveMaximum ||
         finding.kind == flavor::Finding::Kind::kNotEnoughUnused;
}

class Lines {
 public:
  template <typename... Args>
  void Add(size_t depth, fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(2 * depth, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddCell(Lines& lines, const CellTrial& cell) {
  const ResourceName& resource = cell.cell.resource;
  const std::string before = cell.previously == 0 ? ""
                                                  : fmt::format(" after {} of pod sets before it",
                                                                Amount(resource, cell.previously));
  lines.Add(3, "{}: {} requested{}{}", resource, Amount(resource, cell.requested), before,
            cell.never ? ", more than there could ever be" : "");
  for (const QuotaRefusal& refusal : cell.refusals) {
    lines.Add(4, "{}", RefusalText(refusal, cell, true));
  }
  if (cell.borrows_too_far) {
    lines.Add(4,
              "preemption: not looked for: it needs more than the nominalQuota {} and "
              "borrowWithinCohort is Never",
              Amount(resource, cell.nominal));
  } else if (cell.preemption.has_value()) {
    lines.Add(4, "{}", PreemptionText(*cell.preemption, resource));
  }
}

void AddPodSet(Lines& lines, const PodSetTrial& pod_set) {
  lines.Add(1, "pod set {} ({})", pod_set.name, Plural(pod_set.count, "pod"));
  if (!pod_set.error.empty()) lines.Add(2, "error: {}", pod_set.error);
  for (const flavor::Finding& finding : pod_set.not_covered) {
    lines.Add(2, "{}", RenderFinding(finding));
  }
  for (const FlavorTrial& trial : pod_set.flavors) {
    lines.Add(2, "flavor {}: {}", trial.attempt.flavor, RankText(trial.attempt));
    for (const flavor::Finding& finding : trial.attempt.findings) {
      if (!IsQuota(finding)) lines.Add(3, "{}", RenderFinding(finding));
      const std::string closest = ClosestText(finding);
      if (!closest.empty()) lines.Add(4, "{}", closest);
    }
    for (const CellTrial& cell : trial.cells) AddCell(lines, cell);
  }
}

std::string PositionText(const QueuePosition& position) {
  if (position.ahead == 0) return "first in its queue";
  std::string text = fmt::format("{} before it in its queue, the first is {}",
                                 Plural(position.ahead, "workload"), position.head);
  return position.strict ? text + "; StrictFIFO lets nothing pass it" : text;
}

std::string Headline(const ExplanationTree& tree) {
  if (!tree.blockers.empty()) return tree.blockers.front().reason;
  if (tree.verdict.verdict != Verdict::kFits) return ReasonOf(tree.verdict);
  const bool waits = tree.position.has_value() && tree.position->ahead > 0;
  return waits ? "fits when its turn comes" : "fits now";
}

api::Json ObjectOf(const Named& named) {
  return api::Json::MakeObject({{"kind", KindName(named.kind)}, {"name", named.name}});
}

api::Json RefusalJson(const QuotaRefusal& refusal, const CellTrial& cell) {
  const ResourceName& resource = cell.cell.resource;
  api::Json json = api::Json::MakeObject({{"node", ObjectOf(refusal.node)},
                                          {"limit", LimitName(refusal.limit)},
                                          {"quota", Amount(resource, refusal.quota)},
                                          {"room", Amount(resource, refusal.room)},
                                          {"missing", Amount(resource, refusal.missing)}});
  if (!cell.never) json.Set("used", Amount(resource, refusal.used));
  if (refusal.limit_value.has_value()) {
    json.Set("limitValue", Amount(resource, *refusal.limit_value));
  }
  if (refusal.limit == Limit::kLendingLimit) {
    json.Set("lender",
             ObjectOf({refusal.lender_is_cohort ? Named::Kind::kCohort : Named::Kind::kClusterQueue,
                       refusal.lender}));
  }
  for (const QuotaHolder& holder : refusal.holders) {
    api::Json item = ObjectOf(holder.who);
    item.Set("amount", Amount(resource, holder.amount));
    item.Set("usage", Amount(resource, holder.usage));
    if (holder.workloads > 0) item.Set("workloads", holder.workloads);
    json["holders"].Append(std::move(item));
  }
  return json;
}

api::Json PreemptionJson(const preemption::Diagnosis& found, const ResourceName& resource) {
  api::Json json = api::Json::MakeObject({{"outcome", OutcomeName(found.outcome)},
                                          {"candidates", found.candidates},
                                          {"amount", Amount(resource, found.amount)}});
  if (found.outcome == Outcome::kFound) json.Set("targets", found.targets);
  if (found.outcome == Outcome::kNotEnough) json.Set("missing", Amount(resource, found.missing));
  if (found.outcome == Outcome::kShares) {
    json.Set("ownShare", found.own_share);
    json.Set("theirShare", found.their_share);
    json.Set("theirSide", found.their_side);
  }
  for (const preemption::Diagnosis::Group& group : found.protected_by) {
    json["protected"].Append(api::Json::MakeObject({{"reason", ProtectionName(group.protection)},
                                                    {"workloads", group.workloads},
                                                    {"amount", Amount(resource, group.amount)}}));
  }
  return json;
}

api::Json CellJson(const CellTrial& cell) {
  const ResourceName& resource = cell.cell.resource;
  api::Json json = api::Json::MakeObject(
      {{"resource", resource}, {"requested", Amount(resource, cell.requested)}});
  if (cell.previously > 0) json.Set("previously", Amount(resource, cell.previously));
  if (cell.never) json.Set("never", true);
  for (const QuotaRefusal& refusal : cell.refusals) {
    json["refusedBy"].Append(RefusalJson(refusal, cell));
  }
  if (cell.borrows_too_far) {
    json["preemption"].Set("outcome", "BorrowsTooFar");
  } else if (cell.preemption.has_value()) {
    json.Set("preemption", PreemptionJson(*cell.preemption, resource));
  }
  return json;
}

api::Json RivalJson(const Explanation::Rival& rival) {
  api::Json json = api::Json::MakeObject({{"workload", rival.workload},
                                          {"clusterQueue", rival.cluster_queue},
                                          {"waits", rival.waits},
                                          {"places", rival.places}});
  for (const Explanation::Rival::Amount& one : rival.amounts) {
    json["amounts"].Append(
        api::Json::MakeObject({{"flavor", one.cell.flavor},
                               {"resource", one.cell.resource},
                               {"amount", Amount(one.cell.resource, one.amount)}}));
  }
  return json;
}

api::Json PodSetJson(const PodSetTrial& pod_set) {
  api::Json json = api::Json::MakeObject(
      {{"name", pod_set.name}, {"count", static_cast<int64_t>(pod_set.count)}});
  if (!pod_set.error.empty()) json.Set("error", pod_set.error);
  for (const flavor::Finding& finding : pod_set.not_covered) {
    json["notCovered"].Append(finding.resource);
  }
  for (const FlavorTrial& trial : pod_set.flavors) {
    api::Json flavor = api::Json::MakeObject(
        {{"name", trial.attempt.flavor}, {"verdict", RankName(trial.attempt.rank)}});
    if (trial.attempt.borrow_level > 0) {
      flavor.Set("borrowLevel", static_cast<int64_t>(trial.attempt.borrow_level));
    }
    for (const flavor::Finding& finding : trial.attempt.findings) {
      if (!IsQuota(finding)) flavor["obstacles"].Append(RenderFinding(finding));
    }
    for (const CellTrial& cell : trial.cells) flavor["resources"].Append(CellJson(cell));
    json["flavors"].Append(std::move(flavor));
  }
  return json;
}

}  // namespace

std::string RenderWakeUp(const WakeUp& wake_up) {
  using Kind = WakeUp::Kind;
  switch (wake_up.kind) {
    case Kind::kQuotaReleased:
      return fmt::format("a workload in {} gives quota back", wake_up.object);
    case Kind::kQuotaGrows:
      return fmt::format("a quota or limit in {} changes", wake_up.object);
    case Kind::kFlavorChanges:
      return fmt::format("ResourceFlavor {} changes", wake_up.object);
    case Kind::kQueueChanges:
      return fmt::format("ClusterQueue {} changes", wake_up.object);
    case Kind::kHeadLeaves:
      return fmt::format("Workload {} has left the queue", wake_up.object);
    case Kind::kVictimsGone:
      return "the preempted workloads have ended";
    case Kind::kPodsReady:
      return "the pods of all admitted workloads are ready";
    case Kind::kNamespaceChanges:
      return fmt::format("Namespace {} changes", wake_up.object);
    case Kind::kWorkloadChanges:
      return "the workload itself changes";
    case Kind::kCheckChanges:
      return "its admission checks change";
    case Kind::kTime:
      return "it is " + sluice::FormatTime(wake_up.at);
    case Kind::kOther:
      return wake_up.object;
  }
  return "";
}

std::string RenderLines(const ExplanationTree& tree) {
  Lines lines;
  const Explanation& verdict = tree.verdict;
  const bool fits = tree.judged && verdict.verdict == Verdict::kFits;
  const std::string where =
      tree.cluster_queue.empty() ? "" : fmt::format(" in ClusterQueue {}", tree.cluster_queue);
  const std::string path =
      tree.path.empty() || tree.path == "/" + tree.cluster_queue ? "" : " (" + tree.path + ")";
  lines.Add(0, "Workload {}{}{}: {}", tree.workload.ToString(), where, path, Headline(tree));
  for (const Blocker& blocker : tree.blockers) lines.Add(1, "{}", blocker.text);
  const bool bare = tree.pod_sets.empty() || !verdict.rivals.empty();
  if (tree.judged && !fits && bare) lines.Add(1, "{}", RenderMessage(verdict));
  if (!verdict.rivals.empty()) lines.Add(1, "came first: {}", RenderRivals(verdict));
  for (const PodSetTrial& pod_set : tree.pod_sets) AddPodSet(lines, pod_set);
  if (tree.not_together) {
    lines.Add(1, "room could be made for each resource alone, not for all of them together");
  }
  if (!verdict.preempting.empty()) {
    const size_t shown = std::min(kMostNamed, verdict.preempting.size());
    lines.Add(1, "to be preempted: {}{}",
              fmt::join(verdict.preempting.begin(),
                        verdict.preempting.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
              shown == verdict.preempting.size()
                  ? ""
                  : fmt::format(" and {} more", verdict.preempting.size() - shown));
    for (const std::string& why : verdict.problems) lines.Add(1, "{}; it is tried again", why);
  }
  if (tree.not_ready_count > 0) {
    lines.Add(1, "{} without ready pods, such as {}",
              Plural(tree.not_ready_count, "admitted workload"), fmt::join(tree.not_ready, ", "));
  }
  if (tree.position.has_value()) lines.Add(1, "{}", PositionText(*tree.position));
  if (!tree.wake_ups.empty()) {
    lines.Add(1, "looked at again when:");
    for (const WakeUp& wake_up : tree.wake_ups) lines.Add(2, "{}", RenderWakeUp(wake_up));
  }
  return lines.Take();
}

std::string RenderSentence(const ExplanationTree& tree) {
  std::string sentence;
  for (const PodSetTrial& pod_set : tree.pod_sets) {
    for (const FlavorTrial& trial : pod_set.flavors) {
      for (const CellTrial& cell : trial.cells) {
        if (cell.refusals.empty()) continue;
        const std::string part = fmt::format("{} in {}: {}", cell.cell.resource, cell.cell.flavor,
                                             RefusalText(cell.refusals.front(), cell, false));
        if (sentence.find(part) != std::string::npos) continue;
        const size_t length = sentence.size() + part.size() + 2;
        if (length > kMaxSentence)
          return sentence.empty() ? part.substr(0, kMaxSentence) : sentence;
        sentence += (sentence.empty() ? "" : "; ") + part;
      }
    }
  }
  return sentence;
}

api::Json RenderJson(const ExplanationTree& tree) {
  const Explanation& verdict = tree.verdict;
  api::Json json = api::Json::MakeObject({{"namespace", tree.workload.ns},
                                          {"workload", tree.workload.name},
                                          {"clusterQueue", tree.cluster_queue},
                                          {"path", tree.path}});
  if (tree.judged) {
    json.Set("fits", verdict.verdict == Verdict::kFits);
    if (verdict.verdict != Verdict::kFits) {
      json.Set("reason", ReasonOf(verdict));
      json.Set("message", RenderMessage(verdict));
    }
  }
  for (const Blocker& blocker : tree.blockers) {
    json["blockers"].Append(
        api::Json::MakeObject({{"reason", blocker.reason}, {"message", blocker.text}}));
  }
  for (const PodSetTrial& pod_set : tree.pod_sets) json["podSets"].Append(PodSetJson(pod_set));
  if (tree.not_together) json.Set("notTogether", true);
  for (const Explanation::Rival& rival : verdict.rivals) {
    if (json["rivals"].AsArray().size() == kMostNamed) break;
    json["rivals"].Append(RivalJson(rival));
  }
  if (!verdict.preempting.empty()) {
    json.Set("preemptingCount", static_cast<int64_t>(verdict.preempting.size()));
    for (const std::string& name : verdict.preempting) {
      if (json["preempting"].AsArray().size() < kMostNamed) json["preempting"].Append(name);
    }
  }
  if (tree.not_ready_count > 0) json.Set("notReady", tree.not_ready_count);
  if (tree.position.has_value()) {
    json.Set("position", api::Json::MakeObject({{"ahead", tree.position->ahead},
                                                {"head", tree.position->head},
                                                {"strict", tree.position->strict}}));
  }
  for (const WakeUp& wake_up : tree.wake_ups) json["wakeUps"].Append(RenderWakeUp(wake_up));
  return json;
}

}  // namespace sluice::admission
