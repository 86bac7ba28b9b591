#include "admission/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "admission/nominator.h"
#include "api/names.h"
#include "base/time.h"
#include "queueing/backfill.h"

namespace sluice::admission {
namespace {

using queueing::WorkloadInfo;
using Verdict = Explanation::Verdict;
using FindingKind = flavor::Finding::Kind;

Named NameOf(const quota::Node& node) {
  return {node.is_cohort() ? Named::Kind::kCohort : Named::Kind::kClusterQueue, node.name()};
}

std::optional<int64_t> LendingLimitIn(const std::vector<api::ResourceGroup>& groups,
                                      const FlavorResource& cell) {
  for (const api::ResourceGroup& group : groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      if (flavor.name != cell.flavor) continue;
      for (const api::ResourceQuota& quota : flavor.resources) {
        if (quota.name != cell.resource || !quota.lending_limit.has_value()) continue;
        return AmountOf(quota.name, *quota.lending_limit);
      }
    }
  }
  return std::nullopt;
}

// One workload in one snapshot.
class Explainer {
 public:
  Explainer(const ExplainInput& input, const queueing::WorkloadInfoPtr& info, Depth depth)
      : input_(input), snapshot_(input.snapshot), info_(info), depth_(depth) {}

  ExplanationTree Run() {
    tree_.workload = info_->Key();
    tree_.cluster_queue = info_->cluster_queue;
    tree_.path = snapshot_.tree.PathOf(info_->cluster_queue);
    Entry entry = Judge();
    tree_.verdict = std::move(entry.decision.explanation);
    tree_.judged = true;
    if (entry.nominated) {
      for (const flavor::PodSetAssignment& pod_set : tree_.verdict.pod_sets) {
        tree_.pod_sets.push_back(TrialOf(entry, pod_set));
      }
      Conclude(entry);
      if (entry.Works()) KeepPlaces(entry.place.placement);
    }
    if (depth_ == Depth::kAll) FindPosition();
    AddWakeUps();
    return std::move(tree_);
  }

 private:
  // What a cycle with this workload alone would find. Without searches for preemption where only
  // the quota is asked for.
  Entry Judge() {
    if (depth_ == Depth::kAll) {
      Places places(snapshot_, snapshot_.history.now());
      return Nominator(snapshot_, nullptr, places).Nominate(info_);
    }
    Entry entry;
    entry.decision.info = info_;
    entry.decision.explanation.cluster_queue = info_->cluster_queue;
    const ClusterQueueSnapshot* queue = snapshot_.FindClusterQueue(info_->cluster_queue);
    entry.queue = snapshot_.tree.FindQueue(info_->cluster_queue);
    if (queue == nullptr || entry.queue == nullptr || !quota::Tree::Sound(*entry.queue) ||
        info_->requests.size() != info_->workload->spec.pod_sets.size()) {
      entry.decision.explanation.verdict = Verdict::kQueueInactive;
      return entry;
    }
    flavor::AssignContext context;
    context.cluster_queue = queue->cluster_queue.get();
    context.flavor = [this](const FlavorName& name) { return snapshot_.FindFlavor(name); };
    context.tree = &snapshot_.tree;
    context.options.ignore_undeclared = snapshot_.options.ignore_undeclared;
    context.options.fungibility = snapshot_.options.flavor_fungibility;
    context.options.fair_sharing = snapshot_.options.fair_sharing.has_value();
    std::vector<flavor::PodSetInput> inputs;
    for (size_t i = 0; i < info_->requests.size(); ++i) {
      flavor::PodSetInput pod_set;
      pod_set.pod_set = &info_->workload->spec.pod_sets[i];
      pod_set.count = info_->requests[i].count;
      pod_set.requests = &info_->requests[i].total;
      inputs.push_back(pod_set);
    }
    entry.assignment = flavor::Assign(context, inputs);
    entry.decision.explanation.cause = entry.assignment.cause;
    entry.decision.explanation.pod_sets = entry.assignment.pod_sets;
    entry.nominated = true;
    return entry;
  }

  void Conclude(const Entry& entry) {
    Explanation& verdict = tree_.verdict;
    switch (entry.assignment.mode) {
      case flavor::Mode::kNoFit:
        verdict.verdict = Verdict::kNoFit;
        return;
      case flavor::Mode::kPreempt:
      case flavor::Mode::kDeferredFit:
        verdict.verdict = verdict.protected_until   ? Verdict::kProtected
                          : entry.targets.empty()   ? Verdict::kNoCandidates
                          : info_->preemption_gated ? Verdict::kPreemptionGated
                                                    : Verdict::kPreempting;
        for (const preemption::Target& target : entry.targets) {
          verdict.preempting.push_back(target.workload->Key().ToString());
        }
        tree_.not_together = depth_ == Depth::kAll && entry.targets.empty() && EachHasTargets();
        return;
      case flavor::Mode::kFit:
        verdict.verdict = Verdict::kFits;
        if (entry.migrates != nullptr) {
          verdict.verdict = Verdict::kMigrating;
          verdict.preempting = {entry.migrates->Key().ToString()};
          return;
        }
        if (snapshot_.options.block_admission && snapshot_.not_ready > 0) FindNotReady();
        return;
    }
  }

  void KeepPlaces(const topology::WorkloadPlacement& placement) {
    for (const topology::PodSetPlacement& pod_set : placement.pod_sets) {
      if (pod_set.assignment) tree_.places.push_back({pod_set.name, *pod_set.assignment});
    }
  }

  bool EachHasTargets() const {
    bool any = false;
    for (const PodSetTrial& pod_set : tree_.pod_sets) {
      for (const FlavorTrial& flavor : pod_set.flavors) {
        for (const CellTrial& cell : flavor.cells) {
          if (!cell.preemption.has_value()) return false;
          if (cell.preemption->outcome != preemption::Diagnosis::Outcome::kFound) return false;
          any = true;
        }
      }
    }
    return any;
  }

  void FindNotReady() {
    tree_.verdict.verdict = Verdict::kOthersNotReady;
    tree_.not_ready_count = snapshot_.not_ready;
    for (const auto& [name, queue] : snapshot_.cluster_queues) {
      for (const preemption::ReservedWorkload* workload : snapshot_.reserved.Of(name)) {
        if (tree_.not_ready.size() == kMostNamed) return;
        if (api::IsTrue(workload->workload->status.conditions, api::kPodsReady)) continue;
        tree_.not_ready.push_back(workload->Key().ToString());
      }
    }
  }

  PodSetTrial TrialOf(const Entry& entry, const flavor::PodSetAssignment& pod_set) const {
    PodSetTrial trial;
    trial.name = pod_set.name;
    trial.count = pod_set.count;
    trial.error = pod_set.error;
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind == FindingKind::kResourceNotCovered) trial.not_covered.push_back(finding);
    }
    for (const flavor::FlavorAttempt& attempt : pod_set.attempts) {
      FlavorTrial flavor;
      flavor.attempt = attempt;
      for (const flavor::Finding& finding : attempt.findings) {
        const bool never = finding.kind == FindingKind::kAboveMaximum;
        if (!never && finding.kind != FindingKind::kNotEnoughUnused) continue;
        flavor.cells.push_back(CellOf(entry, finding, never));
      }
      trial.flavors.push_back(std::move(flavor));
    }
    return trial;
  }

  CellTrial CellOf(const Entry& entry, const flavor::Finding& finding, bool never) const {
    CellTrial cell;
    cell.cell = {finding.flavor, finding.resource};
    cell.requested = finding.requested;
    cell.previously = finding.previously;
    cell.never = never;
    cell.nominal = finding.nominal;
    const int64_t needed = SaturatingAdd(finding.requested, finding.previously);
    const quota::CellId id = snapshot_.tree.IdOf(cell.cell);
    const quota::RefusalFinder finder(
        id, [&](const quota::Node& node) { return LendingLimitOf(node, cell.cell); });
    const quota::Horizon horizon = never ? quota::Horizon::kEver : quota::Horizon::kNow;
    for (const quota::Refusal& refusal : finder.Refusals(*entry.queue, needed, horizon)) {
      if (cell.refusals.size() == kMostNamed) break;
      cell.refusals.push_back(RefusalOf(finder, refusal, id, cell));
    }
    if (never) return cell;
    const quota::BorrowLevel level = quota::Tree::LevelFor(*entry.queue, id, needed);
    cell.borrows_too_far =
        finding.nominal < needed && !level.may_reclaim && !MayPreemptWhileBorrowing();
    if (depth_ != Depth::kAll || cell.borrows_too_far) return cell;
    const preemption::Context context = PreemptionContext(snapshot_);
    preemption::Preemptor preemptor = PreemptorOf(snapshot_, entry);
    preemptor.requests = {{id, needed}};
    preemptor.contested = {id};
    cell.preemption = preemption::Diagnose(context, preemptor);
    return cell;
  }

  bool MayPreemptWhileBorrowing() const {
    const preemption::Policies& policies =
        snapshot_.FindClusterQueue(info_->cluster_queue)->policies;
    return policies.borrow_within_cohort ||
           (snapshot_.options.fair_sharing.has_value() &&
            policies.reclaim_within_cohort != preemption::Policy::kNever);
  }

  std::optional<int64_t> LendingLimitOf(const quota::Node& node, const FlavorResource& cell) const {
    if (!node.is_cohort()) {
      const ClusterQueueSnapshot* queue = snapshot_.FindClusterQueue(node.name());
      return queue == nullptr ? std::nullopt
                              : LendingLimitIn(queue->cluster_queue->spec.resource_groups, cell);
    }
    const api::Cohort* cohort = input_.cohort ? input_.cohort(node.name()) : nullptr;
    return cohort == nullptr ? std::nullopt : LendingLimitIn(cohort->spec.resource_groups, cell);
  }

  QuotaRefusal RefusalOf(const quota::RefusalFinder& finder, const quota::Refusal& refusal,
                         quota::CellId id, const CellTrial& cell) const {
    QuotaRefusal result;
    const quota::Node& node = *refusal.node;
    result.node = NameOf(node);
    result.limit = refusal.limit;
    if (refusal.lender != nullptr) {
      result.lender = refusal.lender->name();
      result.lender_is_cohort = refusal.lender->is_cohort();
      result.limit_value = LendingLimitOf(*refusal.lender, cell.cell);
    } else if (refusal.limit == quota::Refusal::Limit::kBorrowingLimit) {
      result.limit_value = node.BorrowingLimit(id);
    }
    result.quota = node.SubtreeQuota(id);
    result.used = node.Usage(id);
    result.room = refusal.room;
    result.missing = refusal.missing;
    if (cell.never) return result;
    if (!node.is_cohort()) {
      result.holders = WorkloadsIn(node, id);
      return result;
    }
    for (const quota::Holder& holder : finder.Holders(node, kMostNamed)) {
      QuotaHolder named{NameOf(*holder.node), holder.counted, holder.usage, 0};
      if (!holder.node->is_cohort()) named.workloads = CountIn(*holder.node, id);
      result.holders.push_back(std::move(named));
    }
    return result;
  }

  static int64_t AmountIn(const preemption::ReservedWorkload& workload, quota::CellId id) {
    for (const quota::CellAmount& used : workload.usage) {
      if (used.cell == id) return used.amount;
    }
    return 0;
  }

  int64_t CountIn(const quota::Node& queue, quota::CellId id) const {
    const auto& list = snapshot_.reserved.Of(queue.name());
    return std::count_if(list.begin(), list.end(),
                         [&](const auto* workload) { return AmountIn(*workload, id) > 0; });
  }

  // The largest of a ClusterQueue.
  std::vector<QuotaHolder> WorkloadsIn(const quota::Node& queue, quota::CellId id) const {
    std::vector<std::pair<int64_t, const preemption::ReservedWorkload*>> all;
    for (const preemption::ReservedWorkload* workload : snapshot_.reserved.Of(queue.name())) {
      if (const int64_t amount = AmountIn(*workload, id); amount > 0) {
        all.emplace_back(amount, workload);
      }
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNamed, all.size()));
    std::partial_sort(all.begin(), middle, all.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second->Key() < b.second->Key();
    });
    std::vector<QuotaHolder> holders;
    for (auto it = all.begin(); it != middle; ++it) {
      holders.push_back(
          {{Named::Kind::kWorkload, it->second->Key().ToString()}, it->first, it->first, 0});
    }
    return holders;
  }

  // Whether the other one comes first in the order of the ClusterQueue.
  bool ComesBefore(const queueing::WorkloadInfo& other, bool usage_based, bool fifo) const {
    const queueing::QueueManager& queues = *input_.queues;
    if (usage_based) {
      const auto order =
          queues.LocalQueueUsage(other.local_queue) <=> queues.LocalQueueUsage(info_->local_queue);
      if (order != 0) return order < 0;
    }
    // Victims are on their way out for it.
    const bool mine = !fifo && queues.IsPreemptor(info_->Key());
    const bool theirs = !fifo && queues.IsPreemptor(other.Key());
    return mine != theirs ? theirs : queueing::OrderedBefore(other, *info_);
  }

  void FindPosition() {
    // A queue is not gone through for one that is not in it.
    if (input_.queues == nullptr || input_.queues->Find(info_->Key()) == nullptr) return;
    QueuePosition position;
    const ClusterQueueSnapshot* queue = snapshot_.FindClusterQueue(info_->cluster_queue);
    const bool fifo = queue != nullptr && queueing::StrategyOf(*queue->cluster_queue) ==
                                              queueing::QueueingStrategy::kStrictFifo;
    position.strict = fifo && !queueing::BackfillOf(*queue->cluster_queue).on();
    const bool usage_based = queue != nullptr && queue->usage_based;
    const auto look = [&](const queueing::WorkloadInfo& other) {
      const ObjectKey key = other.Key();
      if (key == info_->Key() || !ComesBefore(other, usage_based, fifo)) return;
      if (position.ahead++ == 0) position.head = key.ToString();
    };
    if (position.strict) {
      for (const auto& other : input_.queues->Snapshot(info_->cluster_queue)) look(*other.info);
    } else {
      // What is parked stands in nobody's way; often that is nearly all.
      constexpr size_t kAll = std::numeric_limits<size_t>::max();
      for (const auto& other : input_.queues->First(info_->cluster_queue, kAll)) look(*other);
    }
    tree_.position = std::move(position);
  }

  void Wake(WakeUp::Kind kind, std::string object = "") {
    const bool known = std::any_of(
        tree_.wake_ups.begin(), tree_.wake_ups.end(),
        [&](const WakeUp& other) { return other.kind == kind && other.object == object; });
    if (!known) tree_.wake_ups.push_back({kind, std::move(object)});
  }

  // How sentences name the quota tree.
  std::string Root() const {
    const quota::Node* node = snapshot_.tree.FindQueue(info_->cluster_queue);
    if (node == nullptr || node->parent() == nullptr || !quota::Tree::Sound(*node)) {
      return "ClusterQueue " + info_->cluster_queue;
    }
    return "the tree of Cohort " + node->Root().name();
  }

  void AddWakeUps() {
    switch (tree_.verdict.verdict) {
      case Verdict::kNoFit:
      case Verdict::kNoCandidates:
        AddTrialWakeUps();
        break;
      case Verdict::kProtected:
        Wake(WakeUp::Kind::kOther,
             "credits no longer protect what it would reclaim, at the latest at " +
                 sluice::FormatTime(*tree_.verdict.protected_until));
        AddTrialWakeUps();
        break;
      case Verdict::kPreempting:
      case Verdict::kMigrating:
        Wake(WakeUp::Kind::kVictimsGone);
        break;
      case Verdict::kPreemptionGated:
        Wake(WakeUp::Kind::kOther, "its preemption gates are open");
        AddTrialWakeUps();
        break;
      case Verdict::kOthersNotReady:
        Wake(WakeUp::Kind::kPodsReady);
        break;
      case Verdict::kChecksFailed:
        Wake(WakeUp::Kind::kCheckChanges);
        break;
      case Verdict::kQueueInactive:
      case Verdict::kQueueNotFound:
        Wake(WakeUp::Kind::kQueueChanges, info_->cluster_queue);
        break;
      case Verdict::kNamespaceMismatch:
        Wake(WakeUp::Kind::kQueueChanges, info_->cluster_queue);
        Wake(WakeUp::Kind::kNamespaceChanges, info_->workload->metadata.ns);
        break;
      case Verdict::kNamespaceGone:
        Wake(WakeUp::Kind::kNamespaceChanges, info_->workload->metadata.ns);
        break;
      case Verdict::kInvalidResources:
        Wake(WakeUp::Kind::kWorkloadChanges);
        break;
      default:
        break;
    }
    if (const auto at = ReservedTime(*info_->workload)) {
      Wake(WakeUp::Kind::kOther,
           "what holds its room ends; its start is reserved for " + sluice::FormatTime(*at));
    }
    if (tree_.position.has_value() && tree_.position->strict && tree_.position->ahead > 0) {
      Wake(WakeUp::Kind::kHeadLeaves, tree_.position->head);
    }
  }

  static bool LacksPlace(const flavor::FlavorAttempt& attempt) {
    return std::any_of(
        attempt.findings.begin(), attempt.findings.end(),
        [](const flavor::Finding& finding) { return finding.kind == FindingKind::kNoPlace; });
  }

  void AddTrialWakeUps() {
    for (const PodSetTrial& pod_set : tree_.pod_sets) {
      if (!pod_set.error.empty()) Wake(WakeUp::Kind::kWorkloadChanges);
      if (!pod_set.not_covered.empty()) Wake(WakeUp::Kind::kQueueChanges, info_->cluster_queue);
      for (const FlavorTrial& flavor : pod_set.flavors) {
        if (LacksPlace(flavor.attempt)) {
          Wake(WakeUp::Kind::kOther,
               "a node of flavor " + flavor.attempt.flavor + " comes, changes or gets room back");
          continue;
        }
        for (const CellTrial& cell : flavor.cells) {
          if (!cell.never) Wake(WakeUp::Kind::kQuotaReleased, Root());
          Wake(WakeUp::Kind::kQuotaGrows, Root());
        }
        if (!flavor.cells.empty() || flavor.attempt.rank != flavor::Rank::kNoFit) continue;
        Wake(WakeUp::Kind::kFlavorChanges, flavor.attempt.flavor);
      }
    }
  }

  const ExplainInput& input_;
  const Snapshot& snapshot_;
  const queueing::WorkloadInfoPtr& info_;
  const Depth depth_;
  ExplanationTree tree_;
};

}  // namespace

ExplanationTree Explain(const ExplainInput& input, const queueing::WorkloadInfoPtr& info,
                        Depth depth) {
  return Explainer(input, info, depth).Run();
}

}  // namespace sluice::admission
