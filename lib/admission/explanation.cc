#include "admission/explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "admission/credits.h"
#include "admission/reservation.h"

namespace sluice::admission {
namespace {

std::string Amount(const ResourceName& resource, int64_t amount) {
  if (amount == quota::kUnlimited) return "<unlimited>";
  return QuantityOf(resource, amount).ToString();
}

std::vector<std::string> SortedTexts(const std::vector<flavor::Finding>& findings) {
  std::vector<std::string> texts;
  for (const flavor::Finding& finding : findings) texts.push_back(RenderFinding(finding));
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::string RenderPodSets(const std::vector<flavor::PodSetAssignment>& pod_sets) {
  std::vector<std::string> parts;
  for (const flavor::PodSetAssignment& pod_set : pod_sets) {
    if (!pod_set.error.empty()) {
      parts.push_back(
          fmt::format("failed to assign flavors to pod set {}: {}", pod_set.name, pod_set.error));
    } else if (!pod_set.findings.empty()) {
      parts.push_back(fmt::format("couldn't assign flavors to pod set {}: {}", pod_set.name,
                                  fmt::join(SortedTexts(pod_set.findings), ", ")));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

const char* ModeText(flavor::Rank rank) {
  switch (rank) {
    case flavor::Rank::kNoFit:
      return "NoFit";
    case flavor::Rank::kNoPreemptionCandidates:
      return "preemptionMode=NoCandidates";
    case flavor::Rank::kPreempt:
      return "preemptionMode=Preempt";
    case flavor::Rank::kReclaim:
      return "preemptionMode=Reclaim";
    case flavor::Rank::kFit:
      return "Fit";
  }
  return "";
}

std::string CauseText(flavor::Cause cause) {
  switch (cause) {
    case flavor::Cause::kNone:
    case flavor::Cause::kNoMatchingFlavor:
      return kNoMatchingFlavor;
    case flavor::Cause::kTopologyPlacementFailed:
      return kTopologyPlacementFailed;
    case flavor::Cause::kWaitingForQuota:
      return kWaitingForQuota;
    case flavor::Cause::kExceedsMaxQuota:
      return kExceedsMaxQuota;
  }
  return "";
}

std::string FirstProblem(const Explanation& explanation) {
  return explanation.problems.empty() ? std::string() : explanation.problems.front();
}

// ". With it ...", where others came first by their credits.
std::string AndBehind(const Explanation& explanation) {
  return explanation.problems.empty() ? "" : ". " + BehindText(explanation.problems.front());
}

}  // namespace

std::string RenderFinding(const flavor::Finding& finding) {
  using Kind = flavor::Finding::Kind;
  switch (finding.kind) {
    case Kind::kResourceNotCovered:
      return fmt::format("resource {} unavailable in ClusterQueue", finding.resource);
    case Kind::kFlavorNotFound:
      return fmt::format("flavor {} not found", finding.flavor);
    case Kind::kUntoleratedTaint:
      return fmt::format("untolerated taint {{{} {} {} <nil>}} in flavor {}", finding.taint->key,
                         finding.taint->value, finding.taint->effect, finding.flavor);
    case Kind::kAffinityMismatch:
      return fmt::format("flavor {} doesn't match node affinity", finding.flavor);
    case Kind::kTopologyMismatch:
      return fmt::format("Flavor \"{}\" {}", finding.flavor, finding.text);
    case Kind::kNoPlace:
      return finding.text;
    case Kind::kAboveMaximum:
      return fmt::format(
          "insufficient quota for {} in flavor {}, previously considered podsets requests ({}) + "
          "current podset request ({}) > maximum capacity ({})",
          finding.resource, finding.flavor, Amount(finding.resource, finding.previously),
          Amount(finding.resource, finding.requested), Amount(finding.resource, finding.maximum));
    case Kind::kNotEnoughUnused:
      return fmt::format("insufficient unused quota for {} in flavor {}, {} more needed",
                         finding.resource, finding.flavor,
                         Amount(finding.resource, finding.Missing()));
    case Kind::kNoneAllowed:
      return "the ClusterQueue has none of the flavors that the workload may use";
    case Kind::kOtherThanReplaced:
      return fmt::format("could not assign {} flavor since the original workload is assigned: {}",
                         finding.flavor, finding.replaced);
  }
  return "";
}

std::string RenderRivals(const Explanation& explanation, Naming naming) {
  constexpr size_t kMostNamedRivals = 3;
  std::string text;
  const size_t named = std::min(kMostNamedRivals, explanation.rivals.size());
  for (size_t i = 0; i < named; ++i) {
    const Explanation::Rival& rival = explanation.rivals[i];
    std::string amounts;
    for (const Explanation::Rival::Amount& one : rival.amounts) {
      amounts +=
          fmt::format("{}{} {} of flavor {}", amounts.empty() ? "" : ", ",
                      Amount(one.cell.resource, one.amount), one.cell.resource, one.cell.flavor);
    }
    const char* what = amounts.empty() ? "preempts the same workloads"
                       : rival.waits   ? "waits for"
                                       : "took";
    text += fmt::format("{}{} of ClusterQueue {} {}{}{}", text.empty() ? "" : "; ",
                        naming == Naming::kWorkloads ? rival.workload : "a workload",
                        rival.cluster_queue, what,
                        amounts.empty() ? ""
                        : rival.places  ? " places on nodes for "
                                        : " ",
                        amounts);
  }
  if (explanation.rivals.size() > named) {
    text += fmt::format("; and {} more", explanation.rivals.size() - named);
  }
  return text;
}

std::string RenderMessage(const Explanation& explanation) {
  using Verdict = Explanation::Verdict;
  switch (explanation.verdict) {
    case Verdict::kFits:
      return fmt::format("Quota reserved in ClusterQueue {}", explanation.cluster_queue);
    case Verdict::kNoFit:
    case Verdict::kNoCandidates:
      return RenderPodSets(explanation.pod_sets) + AndBehind(explanation);
    case Verdict::kProtected:
      return fmt::format("{}. {}", RenderPodSets(explanation.pod_sets),
                         ProtectionText(*explanation.protected_until));
    case Verdict::kPreempting:
      return fmt::format("{}. Pending the preemption of {} workload(s)",
                         RenderPodSets(explanation.pod_sets), explanation.preempting.size());
    case Verdict::kPreemptionFailed:
      return fmt::format("{}. Preempting {} workload(s) failed, will retry.{}{}",
                         RenderPodSets(explanation.pod_sets), explanation.preempting.size(),
                         explanation.problems.empty() ? "" : " ", FirstProblem(explanation));
    case Verdict::kDeferredFit:
      return "Workload has overlapping preemption targets with another workload, but will fit "
             "after these preemptions complete";
    case Verdict::kOverlappingTargets:
      return "Workload has overlapping preemption targets with another workload";
    case Verdict::kBetterVariant:
      return "A variant of the workload is admitted in a more favorable flavor";
    case Verdict::kNotAcceptable:
      return "Target flavor is below LastAcceptableFlavorName";
    case Verdict::kMigrating:
      return "Pending the migration from a less favorable resource flavor";
    case Verdict::kPreemptionGated:
      return kPreemptionGatedMessage;
    case Verdict::kOthersNotReady:
      return "waiting for all admitted workloads to be in PodsReady condition";
    case Verdict::kReserved:
      if (!explanation.problems.empty()) {
        return fmt::format("Starts only after workload {}, which comes before it: {}",
                           explanation.held_by, explanation.problems.front());
      }
      return fmt::format("Would delay workload {}, which comes before it and whose {}",
                         explanation.held_by,
                         explanation.held_until ? "start is reserved" : "start is not known");
    case Verdict::kNoLongerFits:
      return "Workload no longer fits after processing another workload" + AndBehind(explanation);
    case Verdict::kChecksFailed:
      return "The workload has failed admission checks";
    case Verdict::kQueueInactive:
      return fmt::format("ClusterQueue {} is inactive", explanation.cluster_queue);
    case Verdict::kQueueNotFound:
      return fmt::format("ClusterQueue {} not found", explanation.cluster_queue);
    case Verdict::kNamespaceMismatch:
      return "workload namespace doesn't match ClusterQueue selector";
    case Verdict::kNamespaceGone:
    case Verdict::kInvalidResources:
      return FirstProblem(explanation);
  }
  return "";
}

std::string ReasonOf(const Explanation& explanation) {
  using Verdict = Explanation::Verdict;
  switch (explanation.verdict) {
    case Verdict::kFits:
      return "QuotaReserved";
    case Verdict::kNoFit:
      return explanation.problems.empty() ? CauseText(explanation.cause) : kCreditsBehind;
    case Verdict::kNoCandidates:
    case Verdict::kNoLongerFits:
      return explanation.problems.empty() ? kWaitingForQuota : kCreditsBehind;
    case Verdict::kProtected:
      return kCreditsBehind;
    case Verdict::kOverlappingTargets:
      return kWaitingForQuota;
    case Verdict::kPreempting:
    case Verdict::kPreemptionFailed:
    case Verdict::kDeferredFit:
    case Verdict::kMigrating:
      return kWaitingForPreemptedWorkloads;
    case Verdict::kPreemptionGated:
      return kAdmissionGated;
    case Verdict::kOthersNotReady:
      return kWaitingForPodsReady;
    case Verdict::kReserved:
      return kWaitsForReservation;
    case Verdict::kChecksFailed:
    case Verdict::kBetterVariant:
    case Verdict::kNotAcceptable:
      return kPendingEvaluation;
    case Verdict::kQueueInactive:
      return kSuspended;
    case Verdict::kQueueNotFound:
    case Verdict::kNamespaceMismatch:
    case Verdict::kNamespaceGone:
    case Verdict::kInvalidResources:
      return kMisconfigured;
  }
  return "";
}

std::string RenderConsidered(const Explanation& explanation) {
  std::vector<std::string> pod_sets;
  for (const flavor::PodSetAssignment& pod_set : explanation.pod_sets) {
    std::vector<const flavor::FlavorAttempt*> attempts;
    for (const flavor::FlavorAttempt& attempt : pod_set.attempts) {
      const bool simple = attempt.rank == flavor::Rank::kFit && attempt.borrow_level == 0;
      if (!simple) attempts.push_back(&attempt);
    }
    std::stable_sort(attempts.begin(), attempts.end(),
                     [](const auto* a, const auto* b) { return a->flavor < b->flavor; });
    std::vector<std::string> flavors;
    for (const flavor::FlavorAttempt* attempt : attempts) {
      std::vector<std::string> details = {ModeText(attempt->rank)};
      if (attempt->borrow_level > 0) {
        details.push_back(fmt::format("borrow={}", attempt->borrow_level));
      }
      for (std::string& text : SortedTexts(attempt->findings)) details.push_back(std::move(text));
      flavors.push_back(fmt::format("{}({})", attempt->flavor, fmt::join(details, ";")));
    }
    if (flavors.empty()) continue;
    pod_sets.push_back(fmt::format("{}: {}", pod_set.name, fmt::join(flavors, ", ")));
  }
  return fmt::format("{}", fmt::join(pod_sets, " | "));
}

}  // namespace sluice::admission
