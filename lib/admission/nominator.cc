#include "admission/nominator.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "admission/credits.h"
#include "api/names.h"
#include "queueing/topology_inputs.h"
#include "queueing/variants.h"
#include "quota/overlay.h"
#include "resource/times_pods.h"

namespace sluice::admission {
namespace {

using queueing::RequeueReason;
using queueing::WorkloadInfo;
using queueing::WorkloadInfoPtr;
using Verdict = Explanation::Verdict;

bool HasFailedCheck(const api::Workload& workload) {
  const auto& checks = workload.status.admission_checks;
  return std::any_of(checks.begin(), checks.end(), [](const api::AdmissionCheckState& check) {
    return check.state == "Retry" || check.state == "Rejected";
  });
}

// Takes the workloads out of the tree.
void Remove(const quota::Tree& tree, quota::Overlay& overlay,
            const std::vector<preemption::Target>& gone) {
  for (const preemption::Target& target : gone) {
    overlay.Remove(*tree.FindQueue(target.workload->cluster_queue), target.workload->usage);
  }
}

// The requests of a pod set with another number of pods: one pod's share, rounded down, times that.
Requests Scaled(const queueing::PodSetRequests& requests, int32_t count) {
  Requests scaled;
  for (const auto& [resource, total] : requests.total) {
    const int64_t single = requests.count == 0 ? 0 : total / requests.count;
    scaled[resource] = TimesPods(single, count);
  }
  return scaled;
}

}  // namespace

void Wait(Decision& decision, Verdict verdict, RequeueReason requeue) {
  decision.kind = Decision::Kind::kWait;
  decision.explanation.verdict = verdict;
  decision.reason = ReasonOf(decision.explanation);
  decision.message = RenderMessage(decision.explanation);
  decision.requeue.reason = requeue;
  decision.requeue.condition_reason = decision.reason;
}

bool IsAmong(const preemption::Target& target, const std::vector<preemption::Target>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const auto& other) { return other.workload == target.workload; });
}

std::string PreemptorText(const api::Workload& preemptor) {
  const auto known = [](const std::string& text) { return text.empty() ? "UNKNOWN" : text; };
  return fmt::format("Preempted to accommodate a workload (UID: {}, JobUID: {})",
                     known(preemptor.metadata.uid),
                     known(preemptor.metadata.Label(api::kJobUidLabel)));
}

preemption::Preemptor PreemptorOf(const Snapshot& snapshot, const Entry& entry) {
  preemption::Preemptor preemptor;
  preemptor.queue = entry.queue;
  preemptor.local_queue = entry.info().local_queue;
  preemptor.priority = entry.info().priority;
  preemptor.queue_order_time = entry.info().queue_order_time;
  preemptor.policies = snapshot.FindClusterQueue(entry.info().cluster_queue)->policies;
  preemptor.heeds_credits = HeedsCredits(snapshot, *entry.info().workload);
  preemptor.evictors = snapshot.history.EvictorsOf(entry.info().workload->metadata.uid);
  return preemptor;
}

preemption::Context PreemptionContext(const Snapshot& snapshot) {
  preemption::Context context;
  context.tree = &snapshot.tree;
  context.reserved = &snapshot.reserved;
  context.fair_sharing = snapshot.options.fair_sharing;
  context.credits = snapshot.credits;
  context.now = snapshot.history.now();
  context.checkpoints = snapshot.options.checkpoints;
  context.active = [&snapshot](const std::string& name) {
    const ClusterQueueSnapshot* queue = snapshot.FindClusterQueue(name);
    return queue != nullptr && queue->active;
  };
  if (!snapshot.used_more) return context;
  context.used_more = snapshot.used_more;
  context.usage_based = [&snapshot](const std::string& name) {
    const ClusterQueueSnapshot* queue = snapshot.FindClusterQueue(name);
    return queue != nullptr && queue->usage_based;
  };
  return context;
}

Nominator::Nominator(const Snapshot& snapshot, const queueing::QueueManager* queues, Places& places)
    : snapshot_(snapshot),
      queues_(queues),
      places_(places),
      context_(PreemptionContext(snapshot)) {}

// What keeps the head from being assigned at all; false when nothing does.
bool Nominator::Inadmissible(const WorkloadInfo& info, Decision& decision) const {
  const auto refuse = [&](Verdict verdict, RequeueReason requeue = RequeueReason::kGeneric) {
    Wait(decision, verdict, requeue);
    return true;
  };
  if (HasFailedCheck(*info.workload)) return refuse(Verdict::kChecksFailed);
  const ClusterQueueSnapshot* queue = snapshot_.FindClusterQueue(info.cluster_queue);
  if (queue == nullptr) return refuse(Verdict::kQueueNotFound);
  if (!queue->active || snapshot_.tree.InCycle(info.cluster_queue)) {
    return refuse(Verdict::kQueueInactive);
  }
  const std::string& ns = info.workload->metadata.ns;
  const api::Namespace* found = snapshot_.FindNamespace(ns);
  if (found == nullptr) {
    decision.explanation.problems = {fmt::format("namespace {} not found", ns)};
    return refuse(Verdict::kNamespaceGone);
  }
  if (!NamespaceMatches(*queue->cluster_queue, *found)) {
    return refuse(Verdict::kNamespaceMismatch, RequeueReason::kNamespaceMismatch);
  }
  if (!info.problems.empty()) {
    decision.explanation.problems = info.problems;
    return refuse(Verdict::kInvalidResources);
  }
  return false;
}

// A slice may not preempt the one whose place it takes, and it must be there to be replaced.
const preemption::Context& Nominator::ContextFor(const Entry& entry,
                                                 preemption::Context& own) const {
  if (entry.replaced == nullptr && replaced_.empty()) return context_;
  own = context_;
  own.removed.insert(replaced_.begin(), replaced_.end());
  if (entry.replaced != nullptr) own.removed.insert(entry.replaced);
  return own;
}

const preemption::ReservedWorkload* Nominator::FindReplaced(const WorkloadInfo& info) const {
  if (!snapshot_.options.elastic_jobs) return nullptr;
  const std::optional<ObjectKey> key = queueing::ReplacedSlice(*info.workload);
  if (!key.has_value()) return nullptr;
  const preemption::ReservedWorkload* replaced = snapshot_.reserved.Find(*key);
  // One that is on its way out takes its pods with it.
  if (replaced == nullptr || replaced->evicted || !replaced->workload->status.admission ||
      replaced->cluster_queue != info.cluster_queue || context_.removed.contains(replaced) ||
      replaced_.contains(replaced)) {
    return nullptr;
  }
  return replaced;
}

std::vector<flavor::PodSetHolding> Nominator::HoldingsOf(const Entry& entry) const {
  std::vector<flavor::PodSetHolding> holdings;
  if (entry.replaced == nullptr) return holdings;
  const api::Workload& old = *entry.replaced->workload;
  for (const api::PodSet& pod_set : entry.info().workload->spec.pod_sets) {
    flavor::PodSetHolding& holding = holdings.emplace_back();
    for (const api::PodSetAssignment& assignment : old.status.admission->pod_set_assignments) {
      if (assignment.name != pod_set.name) continue;
      holding.amounts =
          queueing::AdmittedAmounts(old, assignment, snapshot_.options.reclaimable_pods);
      for (const auto& [resource, amount] : holding.amounts) {
        holding.flavors[resource] = assignment.flavors.at(resource);
      }
    }
  }
  return holdings;
}

const std::vector<preemption::Target>& Nominator::Search::Find(
    const quota::CellAmounts& requests, const std::vector<quota::CellId>& contested) {
  if (!found_ || preemptor.requests != requests || preemptor.contested != contested) {
    preemptor.requests = requests;
    preemptor.contested = contested;
    targets_ = preemption::FindTargets(context_, preemptor, &spared_);
    found_ = true;
  }
  return targets_;
}

flavor::PreemptionOutcome Nominator::Simulate(Search& search, const FlavorResource& cell,
                                              int64_t request) const {
  const quota::CellId id = snapshot_.tree.IdOf(cell);
  const auto& targets = search.Find({{id, request}}, {id});
  flavor::PreemptionOutcome outcome;
  if (targets.empty()) return outcome;
  const bool own = std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
    return target.workload->cluster_queue == search.preemptor.queue->name();
  });
  outcome.rank = own ? flavor::Rank::kPreempt : flavor::Rank::kReclaim;
  quota::Overlay overlay;
  Remove(snapshot_.tree, overlay, targets);
  outcome.borrow_level = quota::Tree::LevelFor(*search.preemptor.queue, id, request).level;
  return outcome;
}

// The scan goes on where it stopped, unless something changed that the stop depended on.
void Nominator::ResumeScan(const Entry& entry, flavor::AssignContext& context) const {
  if (queues_ == nullptr || !snapshot_.options.flavor_fungibility) return;
  const auto progress = queues_->ProgressOf(entry.info().Key());
  if (!progress.has_value()) return;
  const bool preserve = snapshot_.options.preserve_scan_progress;
  if (preserve && progress->shape != entry.info().equivalence) return;
  const bool recent = preserve && progress->cycle + 1 >= queues_->cycle();
  if (!recent && progress->quota_generation != entry.queue->generation()) return;
  // The flavors before may have been left for want of places.
  for (const queueing::ScanProgress::Positions& positions : progress->pod_sets) {
    for (const auto& [resource, position] : positions) {
      if (position >= 0) places_matter_ = true;
    }
  }
  context.start_at = [progress](size_t pod_set, const ResourceName& resource) {
    return static_cast<size_t>(progress->PositionOf(pod_set, resource) + 1);
  };
}

std::vector<flavor::TopologyAsk> Nominator::TopologyAsks(const WorkloadInfo& info) const {
  std::vector<flavor::TopologyAsk> asks;
  if (!places_.on()) return asks;
  const ClusterQueueSnapshot& queue = *snapshot_.FindClusterQueue(info.cluster_queue);
  const auto& pod_sets = info.workload->spec.pod_sets;
  if (!queue.has_topology &&
      std::none_of(pod_sets.begin(), pod_sets.end(), queueing::AsksForTopology)) {
    return asks;
  }
  const queueing::RequestContext context = snapshot_.request_context(info.workload->metadata.ns);
  for (const api::PodSet& pod_set : pod_sets) {
    flavor::TopologyAsk& ask = asks.emplace_back();
    const bool asked = queueing::AsksForTopology(pod_set);
    if (!asked && !queue.only_topology) continue;
    ask.wish = asked ? flavor::TopologyWish::kAsked : flavor::TopologyWish::kImplied;
    ask.request = queueing::TopologyRequestOf(pod_set, !asked);
    for (const auto& [resource, amount] : queueing::PodSetPerPod(pod_set, context)) {
      ask.pod_resources.push_back(resource);
    }
  }
  return asks;
}

flavor::AssignContext Nominator::ContextOf(const WorkloadInfo& info) const {
  flavor::AssignContext context;
  context.cluster_queue = snapshot_.FindClusterQueue(info.cluster_queue)->cluster_queue.get();
  context.flavor = [this](const FlavorName& name) { return snapshot_.FindFlavor(name); };
  context.tree = &snapshot_.tree;
  context.options.ignore_undeclared = snapshot_.options.ignore_undeclared;
  context.options.fungibility = snapshot_.options.flavor_fungibility;
  context.options.fair_sharing = snapshot_.options.fair_sharing.has_value();
  return context;
}

// To those of `only_`, else to those of the assignment. False: all may be tried.
bool Nominator::LimitFlavors(const flavor::Assignment* first,
                             flavor::AssignContext& context) const {
  if (only_ != nullptr) {
    context.only_flavor = [this](size_t, const ResourceName& resource) {
      const auto found = only_->find(resource);
      return found == only_->end() ? FlavorName() : found->second;
    };
  } else if (first != nullptr) {
    context.only_flavor = [first](size_t pod_set, const ResourceName& resource) {
      const auto& flavors = first->pod_sets[pod_set].flavors;
      const auto found = flavors.find(resource);
      return found == flavors.end() ? FlavorName() : found->second.flavor;
    };
  }
  return context.only_flavor != nullptr;
}

Nominator::Attempt Nominator::Try(const Entry& entry, const std::vector<int32_t>& counts,
                                  const flavor::Assignment* first) const {
  const WorkloadInfo& info = entry.info();
  flavor::AssignContext context = ContextOf(info);
  preemption::Context own;
  Search search(PreemptorOf(snapshot_, entry), ContextFor(entry, own));
  if (ignore_protection_) search.preemptor.heeds_credits = false;
  if (!spare_all_) {
    context.preemption = [this, &search](const FlavorResource& cell, int64_t request) {
      return Simulate(search, cell, request);
    };
  }
  std::optional<std::vector<FlavorName>> allowed;
  if (snapshot_.admitted_sibling) allowed = queueing::AllowedFlavors(*info.workload);
  if (allowed.has_value()) context.allowed = &*allowed;
  if (!LimitFlavors(first, context) && counts.empty()) ResumeScan(entry, context);
  const std::vector<flavor::TopologyAsk> asks = TopologyAsks(info);
  if (!asks.empty()) {
    context.topology = [this](const FlavorName& name) {
      return snapshot_.topology->FindTree(name);
    };
  }
  std::vector<Requests> scaled(counts.size());
  const std::vector<flavor::PodSetHolding> holdings = HoldingsOf(entry);
  std::vector<flavor::PodSetInput> inputs;
  for (size_t i = 0; i < info.requests.size(); ++i) {
    flavor::PodSetInput input;
    input.pod_set = &info.workload->spec.pod_sets[i];
    input.count = counts.empty() ? info.requests[i].count : counts[i];
    input.requests = &info.requests[i].total;
    if (!counts.empty()) {
      scaled[i] = Scaled(info.requests[i], counts[i]);
      input.requests = &scaled[i];
    }
    if (!holdings.empty()) input.holding = &holdings[i];
    if (!asks.empty()) input.topology = &asks[i];
    inputs.push_back(input);
  }
  Attempt attempt;
  attempt.assignment = flavor::Assign(context, inputs);
  attempt.usage = snapshot_.tree.IdsOf(attempt.assignment.usage);
  if (only_ != nullptr) return attempt;
  const flavor::Mode by_quota = attempt.assignment.mode;
  attempt.place = places_.Decide(info, entry.replaced, attempt.assignment);
  if (attempt.assignment.mode != by_quota) places_matter_ = true;
  if (!spare_all_) FindTargets(search, attempt);
  if (search.spared()) spared_others_ = true;
  return attempt;
}

void Nominator::FindTargets(Search& search, Attempt& attempt) const {
  if (attempt.assignment.mode != flavor::Mode::kPreempt) return;
  quota::CellAmounts requests;
  std::vector<quota::CellId> contested;
  for (const quota::CellAmount& wanted : attempt.usage) {
    if (snapshot_.tree.CellOf(wanted.cell).resource != kPods) requests.push_back(wanted);
  }
  for (const flavor::PodSetAssignment& pod_set : attempt.assignment.pod_sets) {
    for (const auto& [resource, choice] : pod_set.flavors) {
      if (choice.mode != flavor::Mode::kPreempt) continue;
      const quota::CellId id = snapshot_.tree.IdOf({choice.flavor, resource});
      if (std::find(contested.begin(), contested.end(), id) == contested.end()) {
        contested.push_back(id);
      }
    }
  }
  if (!attempt.place.wanted()) {
    attempt.targets = search.Find(requests, contested);
    return;
  }
  const std::unique_ptr<preemption::TopologyRoom> room = places_.RoomFor(attempt.place);
  search.SetRoom(room.get());
  attempt.targets = search.Find(requests, contested);
  search.SetRoom(nullptr);
  if (room->refused()) places_matter_ = true;
  if (!attempt.targets.empty()) places_.PlaceWithout(attempt.targets, attempt.place);
}

// The largest number of pods that works, by a binary search between all of them and the minimum.
bool Nominator::TryPartly(const Entry& entry, Attempt& attempt) const {
  const auto& pod_sets = entry.info().workload->spec.pod_sets;
  int64_t all = 0;
  std::vector<int64_t> deltas;
  for (const api::PodSet& pod_set : pod_sets) {
    deltas.push_back(pod_set.min_count.has_value()
                         ? std::max<int64_t>(0, int64_t{pod_set.count} - *pod_set.min_count)
                         : 0);
    all += deltas.back();
  }
  if (all == 0) return false;
  const auto at = [&](int64_t step) {
    std::vector<int32_t> counts;
    for (size_t i = 0; i < pod_sets.size(); ++i) {
      counts.push_back(pod_sets[i].count - static_cast<int32_t>(deltas[i] * step / all));
    }
    return Try(entry, counts, nullptr);
  };
  bool found = false;
  for (int64_t low = 0, high = all + 1; low < high;) {
    const int64_t middle = low + (high - low) / 2;
    Attempt next = at(middle);
    if (next.Works()) {
      attempt = std::move(next);
      found = true;
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return found;
}

// The Preempted condition of a victim names its preemptor, and so does CheckpointRequested of one
// that may write a checkpoint first, so that a controller that has just started knows it too.
bool Nominator::ClaimsRoom(const Entry& entry) {
  if (entry.is_preemptor && entry.assignment.mode == flavor::Mode::kFit) return true;
  const std::string me = PreemptorText(*entry.info().workload);
  return std::any_of(entry.targets.begin(), entry.targets.end(), [&](const auto& target) {
    if (!target.workload->evicted) return false;
    if (entry.is_preemptor) return true;
    const auto& conditions = target.workload->workload->status.conditions;
    const auto names_me = [&](const char* type) {
      const api::Condition* condition = api::FindCondition(conditions, type);
      return condition != nullptr && condition->status == api::ConditionStatus::kTrue &&
             condition->message.starts_with(me);
    };
    return names_me(api::kPreempted) || names_me(preemption::kCheckpointRequested);
  });
}

void Nominator::Adopt(Entry& entry, Attempt attempt) const {
  entry.assignment = std::move(attempt.assignment);
  entry.usage = std::move(attempt.usage);
  entry.place = std::move(attempt.place);
  entry.targets = std::move(attempt.targets);
  Decision& decision = entry.decision;
  decision.explanation.cause = entry.assignment.cause;
  decision.explanation.pod_sets = entry.assignment.pod_sets;
  decision.borrow_level = entry.assignment.borrow_level;
  decision.requeue.untried_flavors = entry.assignment.HasUntriedFlavors();
  if (queues_ == nullptr) return;
  queueing::ScanProgress progress;
  for (const flavor::PodSetAssignment& pod_set : entry.assignment.pod_sets) {
    queueing::ScanProgress::Positions positions;
    for (const auto& [resource, choice] : pod_set.flavors) {
      positions.emplace_back(resource, choice.tried_index);
    }
    progress.pod_sets.push_back(std::move(positions));
  }
  progress.quota_generation = entry.queue->generation();
  progress.cycle = queues_->cycle();
  progress.shape = entry.info().equivalence;
  decision.requeue.scan_progress = std::move(progress);
}

bool Nominator::LookAtSiblings(Entry& entry) const {
  const WorkloadInfo& info = entry.info();
  if (!snapshot_.admitted_sibling || !queueing::IsVariant(*info.workload)) return true;
  const auto migration =
      queueing::MigrationOf(snapshot_.FindClusterQueue(info.cluster_queue)->cluster_queue->spec);
  const auto sibling = snapshot_.admitted_sibling(*info.workload);
  if (!migration.has_value() || sibling == nullptr) return true;
  const FlavorName mine = queueing::VariantFlavor(*info.workload);
  if (!migration->Better(mine, queueing::VariantFlavor(*sibling))) {
    Wait(entry.decision, Verdict::kBetterVariant, RequeueReason::kGeneric);
    return false;
  }
  if (!migration->Acceptable(mine)) {
    Wait(entry.decision, Verdict::kNotAcceptable, RequeueReason::kGeneric);
    return false;
  }
  entry.migrates = snapshot_.reserved.Find(sibling->metadata.Key());
  return true;
}

void Nominator::LookAtProtection(Entry& entry, const Attempt& attempt) const {
  const api::Workload& workload = *entry.info().workload;
  if (attempt.assignment.mode != flavor::Mode::kPreempt || !HeedsCredits(snapshot_, workload)) {
    return;
  }
  ignore_protection_ = true;
  const Attempt other = Try(entry, {}, nullptr);
  ignore_protection_ = false;
  if (other.assignment.mode != flavor::Mode::kPreempt || other.targets.empty()) return;
  entry.decision.explanation.protected_until = ProtectedUntil(snapshot_, workload, other.targets);
}

Entry Nominator::Nominate(const WorkloadInfoPtr& info) const {
  Entry entry;
  Decision& decision = entry.decision;
  decision.info = info;
  decision.explanation.cluster_queue = info->cluster_queue;
  if (api::IsTrue(info->workload->status.conditions, api::kQuotaReserved)) {
    decision.kind = Decision::Kind::kDrop;
    return entry;
  }
  if (Inadmissible(*info, decision) || !LookAtSiblings(entry)) return entry;
  entry.nominated = true;
  entry.queue = snapshot_.tree.FindQueue(info->cluster_queue);
  entry.is_preemptor = queues_ != nullptr && queues_->IsPreemptor(info->Key());
  entry.replaced = FindReplaced(*info);
  places_matter_ = false;
  spared_others_ = false;
  Attempt attempt = Try(entry, {}, nullptr);
  const bool partly = snapshot_.options.partial_admission && entry.replaced == nullptr;
  if (!attempt.Works() && partly) TryPartly(entry, attempt);
  if (snapshot_.credits != nullptr && !attempt.Works()) LookAtProtection(entry, attempt);
  decision.requeue.places_matter = places_matter_;
  decision.requeue.own_answer = spared_others_;
  Adopt(entry, std::move(attempt));
  entry.claims_room = ClaimsRoom(entry);
  return entry;
}

void Nominator::Recompute(Entry& entry, const std::vector<preemption::Target>& gone) {
  quota::Overlay overlay;
  Remove(snapshot_.tree, overlay, gone);
  const auto places = places_.Without(gone);
  for (const preemption::Target& target : gone) context_.removed.insert(target.workload);
  entry.replaced = FindReplaced(entry.info());
  places_matter_ = false;
  spared_others_ = false;
  std::vector<int32_t> counts;
  for (size_t i = 0; i < entry.assignment.pod_sets.size(); ++i) {
    if (entry.assignment.pod_sets[i].count != entry.info().requests[i].count) {
      for (const auto& pod_set : entry.assignment.pod_sets) counts.push_back(pod_set.count);
      break;
    }
  }
  Attempt attempt = Try(entry, counts, &entry.assignment);
  context_.removed.clear();
  overlay.Rollback(0);
  if (places_matter_) entry.decision.requeue.places_matter = true;
  if (spared_others_) entry.decision.requeue.own_answer = true;
  Adopt(entry, std::move(attempt));
}

bool Nominator::FitsWithout(const Entry& entry, const std::vector<preemption::Target>& gone) const {
  quota::Overlay overlay;
  Remove(snapshot_.tree, overlay, gone);
  for (const preemption::Target& target : entry.targets) {
    if (!IsAmong(target, gone)) Remove(snapshot_.tree, overlay, {target});
  }
  return quota::Tree::Fits(*entry.queue, entry.usage);
}

bool Nominator::PlaceHoldsWithout(const Entry& entry,
                                  const std::vector<preemption::Target>& gone) const {
  std::vector<preemption::Target> all = gone;
  for (const preemption::Target& target : entry.targets) {
    if (!IsAmong(target, gone)) all.push_back(target);
  }
  return places_.HoldsWithout(all, entry.place);
}

}  // namespace sluice::admission
