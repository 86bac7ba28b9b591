#include "flavor/assigner.h"

#include <algorithm>
#include <utility>

#include "flavor/resource_group.h"
#include "flavor/topology_match.h"

namespace sluice::flavor {
namespace {

Mode ModeOf(Rank rank) {
  if (rank == Rank::kFit) return Mode::kFit;
  return rank == Rank::kNoFit ? Mode::kNoFit : Mode::kPreempt;
}

// Keeps the less severe of two causes; kNone means that there was none yet.
Cause LessSevere(Cause a, Cause b) {
  if (a == Cause::kNone) return b;
  return std::min(a, b);
}

const char* MismatchText(TopologyMatch match) {
  switch (match) {
    case TopologyMatch::kMatches:
      break;
    case TopologyMatch::kNotSupported:
      return "does not support TopologyAwareScheduling";
    case TopologyMatch::kUnknown:
      return "information missing in TAS cache";
    case TopologyMatch::kLevelMissing:
      return "does not contain the requested level";
    case TopologyMatch::kOnlyTopology:
      return "supports only TopologyAwareScheduling";
  }
  return "";
}

struct Fungibility {
  bool stop_when_borrowing = true;
  bool stop_when_preempting = false;
  bool prefer_preemption = false;  // preference: PreemptionOverBorrowing
};

Fungibility FungibilityOf(const api::ClusterQueueSpec& spec) {
  Fungibility result;
  if (!spec.flavor_fungibility.has_value()) return result;
  result.stop_when_borrowing = spec.flavor_fungibility->when_can_borrow != "TryNextFlavor";
  result.stop_when_preempting = spec.flavor_fungibility->when_can_preempt == "MayStopSearch";
  result.prefer_preemption = spec.flavor_fungibility->preference == "PreemptionOverBorrowing";
  return result;
}

struct RankLevel {
  Rank rank = Rank::kFit;
  int level = 0;
};

bool Preferred(const RankLevel& a, const RankLevel& b, bool prefer_preemption) {
  // What cannot work comes last, whatever is preferred among the rest.
  if (std::min(a.rank, b.rank) <= Rank::kNoPreemptionCandidates && a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (prefer_preemption && a.level != b.level) return a.level < b.level;
  if (a.rank != b.rank) return a.rank > b.rank;
  return a.level < b.level;
}

// One flavor as the scan sees it.
struct Candidate {
  FlavorAttempt attempt;
  absl::btree_map<ResourceName, RankLevel> resources;
  RankLevel result;  // the least preferred of `resources`
};

// The pod sets that must get the same flavors.
using Group = std::vector<size_t>;

class Assigner {
 public:
  Assigner(const AssignContext& context, const std::vector<PodSetInput>& inputs)
      : context_(context),
        queue_(*context.cluster_queue),
        node_(*context.tree->FindQueue(queue_.metadata.name)),
        fungibility_(FungibilityOf(queue_.spec)),
        inputs_(inputs) {}

  Assignment Run() {
    const bool covers_pods = GroupOf(kPods) != nullptr;
    for (const PodSetInput& input : inputs_) {
      PodSetAssignment pod_set;
      pod_set.name = input.pod_set->name;
      pod_set.count = input.count;
      pod_set.requests = *input.requests;
      if (covers_pods) pod_set.requests[kPods] = input.count;
      if (input.holding != nullptr) pod_set.held = input.holding->amounts;
      assignment_.pod_sets.push_back(std::move(pod_set));
    }
    ShareHoldings();
    for (const Group& group : Groups()) {
      if (!AssignGroup(group)) break;
    }
    Summarize();
    return std::move(assignment_);
  }

 private:
  std::vector<Group> Groups() const {
    std::vector<Group> groups;
    absl::btree_map<std::string, size_t> by_name;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto& request = inputs_[i].pod_set->topology_request;
      if (request.has_value() && request->pod_set_group_name.has_value()) {
        auto [entry, added] = by_name.try_emplace(*request->pod_set_group_name, groups.size());
        if (!added) {
          groups[entry->second].push_back(i);
          continue;
        }
      }
      groups.push_back({i});
    }
    return groups;
  }

  // What a pod set has and needs no more goes to the others of the workload that need more of the
  // same resource in the same flavor; nobody holds more than it asks for.
  void ShareHoldings() {
    FlavorResourceAmounts spare;
    const auto visit = [&](const auto& each) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].holding == nullptr) continue;
        for (const auto& [resource, flavor] : inputs_[i].holding->flavors) {
          PodSetAssignment& pod_set = assignment_.pod_sets[i];
          const auto wanted = pod_set.requests.find(resource);
          each(spare[{flavor, resource}], pod_set.held[resource],
               wanted == pod_set.requests.end() ? 0 : wanted->second);
        }
      }
    };
    visit([](int64_t& left, int64_t& held, int64_t wanted) {
      left = SaturatingAdd(left, std::max<int64_t>(0, SaturatingSub(held, wanted)));
      held = std::min(held, wanted);
    });
    visit([](int64_t& left, int64_t& held, int64_t wanted) {
      const int64_t more = std::min(left, wanted - held);
      left -= more;
      held += more;
    });
  }

  // What the pod set needs beyond what it has.
  static int64_t Needed(const PodSetAssignment& pod_set, const ResourceName& resource,
                        int64_t amount) {
    const auto held = pod_set.held.find(resource);
    return held == pod_set.held.end() ? amount : SaturatingSub(amount, held->second);
  }

  const api::ResourceGroup* GroupOf(const ResourceName& resource) const {
    return flavor::GroupOf(queue_.spec.resource_groups, resource);
  }

  Requests Sum(const Group& group) const {
    Requests sum;
    for (const size_t index : group) {
      const PodSetAssignment& pod_set = assignment_.pod_sets[index];
      for (const auto& [resource, amount] : pod_set.requests) {
        sum[resource] = SaturatingAdd(sum[resource], Needed(pod_set, resource, amount));
      }
    }
    return sum;
  }

  // Whether every member got flavors for all it requests.
  bool AssignGroup(const Group& group) {
    const Requests requests = Sum(group);
    for (const auto& [resource, amount] : requests) {
      if (amount == 0 || context_.options.ignore_undeclared || GroupOf(resource) != nullptr) {
        continue;
      }
      Finding finding;
      finding.kind = Finding::Kind::kResourceNotCovered;
      finding.resource = resource;
      finding.requested = amount;
      for (const size_t index : group) {
        assignment_.pod_sets[index].findings.push_back(finding);
        Worsen(assignment_.pod_sets[index], Cause::kNoMatchingFlavor);
      }
      return Fail(group);
    }
    for (const api::ResourceGroup& resources : queue_.spec.resource_groups) {
      Requests wanted;
      for (const ResourceName& resource : resources.covered_resources) {
        auto found = requests.find(resource);
        if (found != requests.end()) wanted[resource] = found->second;
      }
      if (!wanted.empty() && !AssignResources(group, resources, wanted)) return Fail(group);
    }
    for (const size_t index : group) {
      PodSetAssignment& pod_set = assignment_.pod_sets[index];
      pod_set.fits = true;
      for (const auto& [resource, choice] : pod_set.flavors) {
        int64_t& used = assignment_.usage[{choice.flavor, resource}];
        used = SaturatingAdd(used, Needed(pod_set, resource, pod_set.requests.at(resource)));
      }
    }
    return true;
  }

  bool Fail(const Group& group) {
    for (const size_t index : group) assignment_.pod_sets[index].flavors.clear();
    return false;
  }

  static void Worsen(PodSetAssignment& pod_set, Cause cause) {
    pod_set.cause = std::max(pod_set.cause, cause);
  }

  // One scan of the flavors of a resource group.
  bool AssignResources(const Group& group, const api::ResourceGroup& resources,
                       const Requests& wanted) {
    std::vector<Candidate> seen;
    int best = -1;
    int stopped_at = -1;
    for (size_t i = StartOf(group, resources, wanted); i < resources.flavors.size(); ++i) {
      const FlavorName& name = resources.flavors[i].name;
      if (!Allowed(group, name, wanted)) continue;
      seen.push_back(Try(group, resources, name, wanted));
      if (!error_.empty()) break;
      const RankLevel& result = seen.back().result;
      const int position = static_cast<int>(seen.size()) - 1;
      if (result.rank != Rank::kNoFit &&
          (best < 0 || Better(result, seen[static_cast<size_t>(best)].result))) {
        best = position;
      }
      if (Stops(result)) {
        best = position;
        if (i + 1 < resources.flavors.size()) stopped_at = static_cast<int>(i);
        break;
      }
    }
    if (seen.empty() && context_.allowed != nullptr) {
      Finding finding;
      finding.kind = Finding::Kind::kNoneAllowed;
      seen.emplace_back().attempt.findings.push_back(finding);
    }
    const bool failed = best < 0 || !error_.empty();
    const bool fits = !failed && seen[static_cast<size_t>(best)].result.rank == Rank::kFit;
    Cause cause = Cause::kNone;
    for (const Candidate& candidate : seen) cause = LessSevere(cause, candidate.attempt.cause);
    if (cause == Cause::kNone) cause = Cause::kNoMatchingFlavor;
    for (const size_t index : group) {
      PodSetAssignment& pod_set = assignment_.pod_sets[index];
      // The texts of a group that fails are those of the scan that failed.
      if (failed) pod_set.findings.clear();
      for (const Candidate& candidate : seen) {
        pod_set.attempts.push_back(candidate.attempt);
        if (fits) continue;
        const auto& findings = candidate.attempt.findings;
        pod_set.findings.insert(pod_set.findings.end(), findings.begin(), findings.end());
      }
      if (failed) {
        pod_set.error = error_;
        Worsen(pod_set, cause);
      } else {
        Choose(pod_set, seen[static_cast<size_t>(best)], stopped_at);
      }
    }
    return !failed;
  }

  // Where the last scan for the first searched resource stopped, the next one begins.
  size_t StartOf(const Group& group, const api::ResourceGroup& resources,
                 const Requests& wanted) const {
    if (!context_.start_at) return 0;
    const size_t start = context_.start_at(group.front(), wanted.begin()->first);
    return start < resources.flavors.size() ? start : 0;
  }

  bool Allowed(const Group& group, const FlavorName& name, const Requests& wanted) const {
    if (context_.allowed != nullptr && std::find(context_.allowed->begin(), context_.allowed->end(),
                                                 name) == context_.allowed->end()) {
      return false;
    }
    if (!context_.only_flavor) return true;
    for (const size_t index : group) {
      for (const auto& [resource, amount] : wanted) {
        const FlavorName only = context_.only_flavor(index, resource);
        if (!only.empty() && only != name) return false;
      }
    }
    return true;
  }

  static void Choose(PodSetAssignment& pod_set, const Candidate& candidate, int stopped_at) {
    for (const auto& [resource, result] : candidate.resources) {
      if (!pod_set.requests.contains(resource)) continue;
      FlavorChoice choice;
      choice.flavor = candidate.attempt.flavor;
      choice.mode = ModeOf(result.rank);
      choice.borrow_level = result.level;
      choice.tried_index = stopped_at;
      pod_set.flavors[resource] = choice;
    }
  }

  bool Better(const RankLevel& a, const RankLevel& b) const {
    if (!context_.options.fungibility) return a.rank > b.rank;
    return Preferred(a, b, fungibility_.prefer_preemption);
  }

  bool Stops(const RankLevel& result) const {
    if (!context_.options.fungibility) return result.rank == Rank::kFit;
    if (result.rank <= Rank::kNoPreemptionCandidates) return false;
    if (result.rank != Rank::kFit && !fungibility_.stop_when_preempting) return false;
    return result.level == 0 || fungibility_.stop_when_borrowing;
  }

  Candidate Try(const Group& group, const api::ResourceGroup& resources, const FlavorName& name,
                const Requests& wanted) {
    Candidate candidate;
    candidate.attempt.flavor = name;
    std::optional<Finding> obstacle = OtherThanReplaced(group, name, wanted);
    if (!obstacle.has_value()) obstacle = Ineligible(group, resources, name);
    if (obstacle.has_value()) {
      candidate.result.rank = Rank::kNoFit;
      candidate.attempt.cause = Cause::kNoMatchingFlavor;
      candidate.attempt.findings.push_back(*std::move(obstacle));
      return candidate;
    }
    bool first = true;
    for (const auto& [resource, amount] : wanted) {
      const RankLevel result = CheckQuota({name, resource}, amount, candidate.attempt);
      candidate.resources[resource] = result;
      // The flavor is as good as what it can do worst.
      if (std::exchange(first, false) || Better(candidate.result, result)) {
        candidate.result = result;
      }
    }
    candidate.attempt.rank = candidate.result.rank;
    candidate.attempt.borrow_level = candidate.result.level;
    if (candidate.result.rank != Rank::kNoFit) candidate.attempt.cause = Cause::kNone;
    return candidate;
  }

  std::optional<Finding> OtherThanReplaced(const Group& group, const FlavorName& name,
                                           const Requests& wanted) const {
    for (const size_t index : group) {
      if (inputs_[index].holding == nullptr) continue;
      for (const auto& [resource, flavor] : inputs_[index].holding->flavors) {
        if (flavor == name || !wanted.contains(resource)) continue;
        Finding finding;
        finding.kind = Finding::Kind::kOtherThanReplaced;
        finding.flavor = name;
        finding.replaced = flavor;
        return finding;
      }
    }
    return std::nullopt;
  }

  // "" when the flavor can serve the pod set as topology goes.
  std::string TopologyObstacle(const PodSetInput& input, const api::ResourceGroup& resources,
                               const api::ResourceFlavor& flavor) const {
    if (!context_.topology) return "";
    static const TopologyAsk kNothing;
    const TopologyAsk& ask = input.topology == nullptr ? kNothing : *input.topology;
    const bool has_topology = !flavor.spec.topology_name.empty();
    const auto& covered = resources.covered_resources;
    const bool covers_pods = std::any_of(
        ask.pod_resources.begin(), ask.pod_resources.end(), [&](const ResourceName& resource) {
          return std::find(covered.begin(), covered.end(), resource) != covered.end();
        });
    return MismatchText(MatchTopology(
        ask.wish, ask.request, has_topology,
        has_topology ? context_.topology(flavor.metadata.name) : nullptr, covers_pods));
  }

  std::optional<Finding> Ineligible(const Group& group, const api::ResourceGroup& resources,
                                    const FlavorName& name) {
    Finding finding;
    finding.flavor = name;
    const api::ResourceFlavor* flavor = context_.flavor ? context_.flavor(name) : nullptr;
    if (flavor == nullptr) {
      finding.kind = Finding::Kind::kFlavorNotFound;
      return finding;
    }
    for (const size_t index : group) {
      const api::PodSet& pod_set = *inputs_[index].pod_set;
      finding.text = TopologyObstacle(inputs_[index], resources, *flavor);
      if (!finding.text.empty()) {
        finding.kind = Finding::Kind::kTopologyMismatch;
        return finding;
      }
      const api::PodSpec& pod = *pod_set.pod_template.spec;
      finding.taint = FirstUntoleratedTaint(*flavor, pod);
      if (finding.taint.has_value()) {
        finding.kind = Finding::Kind::kUntoleratedTaint;
        return finding;
      }
      const AffinityMatch match = MatchesAffinity(*flavor, pod);
      if (match == AffinityMatch::kMatches) continue;
      if (match == AffinityMatch::kInvalid) error_ = "the required node affinity is invalid";
      finding.kind = Finding::Kind::kAffinityMismatch;
      return finding;
    }
    return std::nullopt;
  }

  RankLevel CheckQuota(const FlavorResource& cell, int64_t amount, FlavorAttempt& attempt) {
    const quota::CellId id = context_.tree->IdOf(cell);
    const bool sound = quota::Tree::Sound(node_);
    Finding finding;
    finding.flavor = cell.flavor;
    finding.resource = cell.resource;
    finding.requested = amount;
    auto before = assignment_.usage.find(cell);
    if (before != assignment_.usage.end()) finding.previously = before->second;
    finding.available = sound ? quota::Tree::Available(node_, id) : 0;
    finding.maximum = sound ? quota::Tree::PotentialAvailable(node_, id) : 0;
    finding.nominal = node_.Nominal(id);
    const int64_t needed = SaturatingAdd(amount, finding.previously);
    if (needed > finding.maximum) {
      finding.kind = Finding::Kind::kAboveMaximum;
      attempt.findings.push_back(finding);
      attempt.cause = std::max(attempt.cause, Cause::kExceedsMaxQuota);
      return {Rank::kNoFit, 0};
    }
    const quota::BorrowLevel level =
        sound ? quota::Tree::LevelFor(node_, id, needed) : quota::BorrowLevel();
    if (needed <= finding.available) return {Rank::kFit, level.level};
    finding.kind = Finding::Kind::kNotEnoughUnused;
    attempt.findings.push_back(finding);
    if (finding.nominal < needed && !level.may_reclaim && !MayPreemptWhileBorrowing()) {
      attempt.cause = std::max(attempt.cause, Cause::kWaitingForQuota);
      return {Rank::kNoFit, level.level};
    }
    if (!context_.preemption) return {Rank::kNoPreemptionCandidates, level.level};
    const PreemptionOutcome outcome = context_.preemption(cell, needed);
    if (outcome.rank <= Rank::kNoPreemptionCandidates) {
      return {Rank::kNoPreemptionCandidates, level.level};
    }
    return {outcome.rank, outcome.borrow_level};
  }

  bool MayPreemptWhileBorrowing() const {
    const auto& preemption = queue_.spec.preemption;
    if (!preemption.has_value()) return false;
    const auto allows = [](const std::string& policy) {
      return !policy.empty() && policy != "Never";
    };
    if (context_.options.fair_sharing && allows(preemption->reclaim_within_cohort)) return true;
    return preemption->borrow_within_cohort.has_value() &&
           allows(preemption->borrow_within_cohort->policy);
  }

  void Summarize() {
    assignment_.mode = Mode::kFit;
    for (const PodSetAssignment& pod_set : assignment_.pod_sets) {
      assignment_.cause = std::max(assignment_.cause, pod_set.cause);
      if (!pod_set.fits) assignment_.mode = Mode::kNoFit;
      for (const auto& [resource, choice] : pod_set.flavors) {
        assignment_.mode = std::min(assignment_.mode, choice.mode);
        assignment_.borrow_level = std::max(assignment_.borrow_level, choice.borrow_level);
      }
    }
  }

  const AssignContext& context_;
  const api::ClusterQueue& queue_;
  const quota::Node& node_;
  const Fungibility fungibility_;
  const std::vector<PodSetInput>& inputs_;
  Assignment assignment_;
  std::string error_;
};

}  // namespace

bool Assignment::HasUntriedFlavors() const {
  for (const PodSetAssignment& pod_set : pod_sets) {
    for (const auto& [resource, choice] : pod_set.flavors) {
      if (choice.tried_index >= 0) return true;
    }
  }
  return false;
}

Assignment Assign(const AssignContext& context, const std::vector<PodSetInput>& pod_sets) {
  return Assigner(context, pod_sets).Run();
}

FlavorResourceAmounts WholeUsage(const std::vector<PodSetAssignment>& pod_sets) {
  FlavorResourceAmounts usage;
  for (const PodSetAssignment& pod_set : pod_sets) {
    for (const auto& [resource, choice] : pod_set.flavors) {
      int64_t& used = usage[{choice.flavor, resource}];
      used = SaturatingAdd(used, pod_set.requests.at(resource));
    }
  }
  return usage;
}

api::Admission MakeAdmission(const std::string& cluster_queue, const Assignment& assignment) {
  api::Admission admission;
  admission.cluster_queue = cluster_queue;
  for (const PodSetAssignment& pod_set : assignment.pod_sets) {
    api::PodSetAssignment entry;
    entry.name = pod_set.name;
    entry.count = pod_set.count;
    for (const auto& [resource, choice] : pod_set.flavors) {
      entry.flavors[resource] = choice.flavor;
      entry.resource_usage[resource] = QuantityOf(resource, pod_set.requests.at(resource));
    }
    admission.pod_set_assignments.push_back(std::move(entry));
  }
  return admission;
}

}  // namespace sluice::flavor
