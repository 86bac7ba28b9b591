// The part of World that follows Workloads: owners, totals, quota and pending queues.
#include <algorithm>
#include <limits>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "api/names.h"
#include "base/check.h"
#include "queueing/backfill.h"
#include "queueing/variants.h"
#include "state/spec_defaults.h"
#include "state/world.h"

namespace sluice::state {
namespace {

void AddAmounts(FlavorResourceAmounts& target, const FlavorResourceAmounts& amounts, int32_t sign) {
  for (const auto& [cell, amount] : amounts) {
    int64_t& value = target[cell];
    value = sign > 0 ? SaturatingAdd(value, amount) : value - amount;
    if (value == 0) target.erase(cell);
  }
}

// A sum that reached the end of the numbers does not say any more what it was made of.
bool Saturated(const QueueTotals& totals) {
  return std::any_of(totals.reservation.begin(), totals.reservation.end(), [](const auto& sum) {
    return sum.second == std::numeric_limits<int64_t>::max();
  });
}

void AddToTotals(QueueTotals& totals, const FlavorResourceAmounts& usage, bool admitted,
                 int32_t sign) {
  totals.reserving += sign;
  AddAmounts(totals.reservation, usage, sign);
  if (!admitted) return;
  totals.admitted += sign;
  AddAmounts(totals.usage, usage, sign);
}

bool TakesPart(const api::Workload& workload) {
  return !api::IsTrue(workload.status.conditions, api::kFinished);
}

bool EvictedOtherwise(const api::Workload& workload) {
  const api::Condition* evicted = api::FindCondition(workload.status.conditions, api::kEvicted);
  return evicted != nullptr && evicted->status == api::ConditionStatus::kTrue &&
         evicted->reason != admission::kEvictedPreempted;
}

// What is reserved for others depends on when a workload that holds quota ends. `before` may be
// null.
bool MovesReservations(const preemption::ReservedWorkload* before,
                       const preemption::ReservedWorkload& after) {
  if (before == nullptr || before->usage != after.usage) return true;
  const auto deadline = [](const preemption::ReservedWorkload& one) {
    return queueing::DeadlineOf(*one.workload, one.started_at, one.evicted);
  };
  return deadline(*before) != deadline(after);
}

// ClusterQueues with backfill that share quota, or nodes, with that one look at their heads again.
void RetryBackfill(const admission::Snapshot& snapshot, queueing::QueueManager& queues,
                   const std::string& cluster_queue) {
  const auto on_nodes = [&](const std::string& name) {
    const auto* found = snapshot.FindClusterQueue(name);
    return found != nullptr && found->has_topology;
  };
  for (const std::string& name : snapshot.tree.TreeOf(cluster_queue)) {
    if (queues.BackfillQueues().contains(name)) queues.Retry(name);
  }
  if (!on_nodes(cluster_queue)) return;
  for (const std::string& name : queues.BackfillQueues()) {
    if (on_nodes(name)) queues.Retry(name);
  }
}

// Places that were chosen after the reservation are confirmed by those, not by the reservation.
bool SamePlaces(const api::Workload& assumed, const api::Workload& seen) {
  if (!assumed.status.admission || !seen.status.admission) return true;
  const auto& mine = assumed.status.admission->pod_set_assignments;
  const auto& theirs = seen.status.admission->pod_set_assignments;
  return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                    [](const api::PodSetAssignment& a, const api::PodSetAssignment& b) {
                      return a.topology_assignment == b.topology_assignment;
                    });
}

}  // namespace

void World::WorkloadChanged(const ObjectKey& key, const api::Workload* before,
                            const api::Workload* after, absl::Time now, Refs& touched) {
  // With another priority one that holds quota may have become a victim of those that wait.
  const auto holder = contributions_.find(key);
  if (before != nullptr && after != nullptr && holder != contributions_.end() &&
      queueing::EffectivePriority(*before, order_options_.priority_boost) !=
          queueing::EffectivePriority(*after, order_options_.priority_boost)) {
    releases_.insert(holder->second.cluster_queue);
  }
  missing_.erase(key);
  IndexWorkload(key, before, after);
  if (topology_ != nullptr) {
    Placements::Keys chains;
    placements_.WorkloadChanged(key, before, after, chains);
    TouchPlaces(chains, touched);
  }
  for (const api::Workload* workload : {before, after}) {
    if (workload != nullptr) TouchOwners(key, *workload, touched);
  }
  // The API shows what we assumed, or the object is gone or another one: the assumption is over.
  if (const auto assumed = assumed_.find(key); assumed != assumed_.end()) {
    const bool confirmed = after != nullptr &&
                           api::IsTrue(after->status.conditions, api::kQuotaReserved) &&
                           SamePlaces(*assumed->second, *after);
    const bool other = after == nullptr || after->metadata.uid != assumed->second->metadata.uid;
    if (confirmed || other) assumed_.erase(assumed);
  }
  if (const auto evicting = evicting_.find(key); evicting != evicting_.end()) {
    const bool over = after == nullptr || after->metadata.uid != evicting->second ||
                      api::IsTrue(after->status.conditions, api::kEvicted) ||
                      !queueing::HoldsQuota(*after);
    if (over && !assumed_.contains(key)) evicting_.erase(evicting);
  }
  FollowEvictions(before, after, now);
  FollowCheckpoints(key, before, after, touched);
  Account(key);
  AccountReplaced(before, &touched);
  AccountReplaced(after, &touched);
  FollowUsage(key, before, after, now);
  Enqueue(key, now);
}

// What preemptions and admissions alone change is their consequence; all else is an event.
void World::FollowEvictions(const api::Workload* before, const api::Workload* after,
                            absl::Time now) {
  preemption::History& history = snapshot_.history;
  if (before != nullptr && !TakesPart(*before)) before = nullptr;
  if (after != nullptr && !TakesPart(*after)) after = nullptr;
  if (before == nullptr && after == nullptr) return;
  const bool same = before != nullptr && after != nullptr &&
                    before->metadata.uid == after->metadata.uid &&
                    before->metadata.generation == after->metadata.generation;
  if (!same) {
    history.NoteEvent();
    // Those that were to spare it may have candidates now.
    if (before != nullptr && history.Forget(before->metadata.uid)) {
      releases_.insert(ClusterQueueOf(*before));
    }
  } else if (EvictedOtherwise(*before) != EvictedOtherwise(*after) ||
             before->status.reclaimable_pods != after->status.reclaimable_pods) {
    history.NoteEvent();
  }
  if (after == nullptr) {
    resting_.Set(before->metadata.Key(), absl::InfinitePast());
    return;
  }
  const api::Condition* was =
      same ? api::FindCondition(before->status.conditions, api::kPreempted) : nullptr;
  const api::Condition* is = api::FindCondition(after->status.conditions, api::kPreempted);
  if (is == nullptr || (was != nullptr && is->status != api::ConditionStatus::kTrue)) return;
  if (was != nullptr && was->status == is->status && was->message == is->message) return;
  const std::string preemptor = admission::PreemptorUid(is->message);
  if (preemptor.empty()) return;
  history.SetNow(now);
  history.Record(after->metadata.uid, preemptor);
  if (snapshot_.options.fair_sharing.has_value()) {
    resting_.Set(after->metadata.Key(), history.RestsUntil(after->metadata.uid));
  }
}

void World::TouchOwners(const ObjectKey& key, const api::Workload& workload, Refs& touched) const {
  // A group looks at the Workload of its name even when that belongs to somebody else.
  const bool of_group = workload.metadata.Annotation(api::kIsGroupWorkload) == "true";
  if (of_group || pods_.HasGroup(key.ns, key.name)) {
    touched.insert({api::Kind::kPod, GroupKey(key.ns, key.name)});
  }
  for (const api::OwnerReference& owner : workload.metadata.owner_references) {
    if (owner.kind == "Job") touched.insert({api::Kind::kJob, {key.ns, owner.name}});
    if (owner.kind == "Workload") touched.insert({api::Kind::kWorkload, {key.ns, owner.name}});
    if (owner.kind == "Pod" && !of_group) touched.insert({api::Kind::kPod, {key.ns, owner.name}});
  }
}

void World::IndexWorkload(const ObjectKey& key, const api::Workload* before,
                          const api::Workload* after) {
  const auto remove = [&](auto& index, const auto& index_key) {
    const auto found = index.find(index_key);
    if (found == index.end()) return;
    found->second.erase(key);
    if (found->second.empty()) index.erase(found);
  };
  const bool both = before != nullptr && after != nullptr;
  if (!both || queueing::LocalQueueKey(*before) != queueing::LocalQueueKey(*after)) {
    if (before != nullptr) remove(by_local_queue_, queueing::LocalQueueKey(*before));
    if (after != nullptr) by_local_queue_[queueing::LocalQueueKey(*after)].insert(key);
  }
  const auto replaced = [this](const api::Workload* workload) -> std::optional<ObjectKey> {
    if (workload == nullptr || !snapshot_.options.elastic_jobs) return std::nullopt;
    return queueing::ReplacedSlice(*workload);
  };
  const std::optional<ObjectKey> old_slice = replaced(before);
  const std::optional<ObjectKey> new_slice = replaced(after);
  if (old_slice != new_slice) {
    if (old_slice) remove(slices_after_, *old_slice);
    if (new_slice) slices_after_[*new_slice].insert(key);
  }
  // The Workload of a group has as many owners as pods, and few of its changes concern them.
  if (both && before->metadata.owner_references == after->metadata.owner_references) return;
  if (before != nullptr) {
    for (const api::OwnerReference& owner : before->metadata.owner_references) {
      remove(by_owner_, OwnerKey{key.ns, owner.kind, owner.name});
    }
  }
  if (after != nullptr) {
    for (const api::OwnerReference& owner : after->metadata.owner_references) {
      by_owner_[OwnerKey{key.ns, owner.kind, owner.name}].insert(key);
    }
  }
}

void World::AddContribution(const Contribution& contribution, int32_t sign) {
  const auto add = [&](QueueTotals& totals, const auto& place) {
    if (sign > 0 || !Saturated(totals)) {
      return AddToTotals(totals, contribution.usage, contribution.admitted, sign);
    }
    totals = {};
    for (const auto& [key, other] : contributions_) {
      if (place(other) == place(contribution)) {
        AddToTotals(totals, other.usage, other.admitted, 1);
      }
    }
  };
  QueueTotals& cluster_queue = cluster_queue_totals_[contribution.cluster_queue];
  add(
      cluster_queue, [](const Contribution& one) -> const auto& { return one.cluster_queue; });
  add(
      local_queue_totals_[contribution.local_queue],
      [](const Contribution& one) -> const auto& { return one.local_queue; });
  SLUICE_CHECK(cluster_queue.reserving >= 0, "ClusterQueue {} has {} reserving workloads",
               contribution.cluster_queue, cluster_queue.reserving);
  if (sign > 0) {
    snapshot_.tree.AddUsage(contribution.cluster_queue, contribution.usage);
  } else {
    snapshot_.tree.RemoveUsage(contribution.cluster_queue, contribution.usage);
  }
}

void World::Account(const ObjectKey& key) {
  const std::shared_ptr<const api::Workload> workload = AssumedOrStored(key);
  std::optional<Contribution> next;
  if (workload != nullptr && queueing::HoldsQuota(*workload) && workload->status.admission &&
      TakenOverBy(key) == nullptr && !IsParent(*workload)) {
    next =
        Contribution{workload->status.admission->cluster_queue, queueing::LocalQueueKey(*workload),
                     queueing::AdmittedUsage(*workload, request_options_.reclaimable_pods),
                     api::IsTrue(workload->status.conditions, api::kAdmitted),
                     api::IsTrue(workload->status.conditions, api::kPodsReady)};
  }
  const auto found = contributions_.find(key);
  const bool had = found != contributions_.end();
  CountNotReady(had && !found->second.pods_ready, next && !next->pods_ready);
  if (had == next.has_value() && (!had || found->second.SameTotals(*next))) {
    if (had) found->second.pods_ready = next->pods_ready;
    FollowPlaces(key, next ? workload.get() : nullptr);
    ListReserved(key);
    return;
  }
  std::optional<Contribution> before;
  if (had) {
    const Contribution& old = before.emplace(std::move(found->second));
    contributions_.erase(found);
    AddContribution(old, -1);
    // Anything given back may let another workload in; the same usage turning from reserved to
    // admitted gives nothing back.
    const bool same = next && next->cluster_queue == old.cluster_queue && next->usage == old.usage;
    if (!same) releases_.insert(old.cluster_queue);
    counted_.insert({api::Kind::kClusterQueue, {"", old.cluster_queue}});
    if (settings_.fair_sharing) TouchCohorts(old.cluster_queue, counted_);
    counted_.insert({api::Kind::kLocalQueue, old.local_queue});
  }
  if (next) {
    AddContribution(*next, 1);
    counted_.insert({api::Kind::kClusterQueue, {"", next->cluster_queue}});
    if (settings_.fair_sharing) TouchCohorts(next->cluster_queue, counted_);
    counted_.insert({api::Kind::kLocalQueue, next->local_queue});
    contributions_.emplace(key, *next);
  }
  if (credits_.active()) {
    FollowCredits(key, before ? &*before : nullptr, next ? &*next : nullptr);
  }
  FollowPlaces(key, contributions_.contains(key) ? workload.get() : nullptr);
  ListReserved(key);
}

bool World::IsParent(const api::Workload& workload) const {
  if (!order_options_.concurrent_admission || queueing::IsVariant(workload)) return false;
  if (queueing::IsMarkedParent(workload)) return true;
  // One that was admitted before the feature was there goes on as it is.
  if (api::IsTrue(workload.status.conditions, api::kQuotaReserved)) return false;
  const auto queue = cluster_queues_.Find({"", ClusterQueueOf(workload)});
  return queue != nullptr && queue->spec.concurrent_admission_policy.has_value();
}

std::vector<std::shared_ptr<const api::Workload>> World::VariantsOf(
    const api::ObjectMeta& parent) const {
  std::vector<WorkloadPtr> variants;
  for (const ObjectKey& key : WorkloadsOwnedBy(parent.ns, "Workload", parent.name)) {
    WorkloadPtr variant = AssumedOrStored(key);
    if (variant != nullptr && queueing::IsVariant(*variant) &&
        variant->metadata.Controller()->uid == parent.uid) {
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

std::shared_ptr<const api::Workload> World::TakenOverBy(const ObjectKey& key) const {
  const auto found = slices_after_.find(key);
  if (found == slices_after_.end()) return nullptr;
  const WorkloadPtr old = AssumedOrStored(key);
  // One that was evicted gives its quota back by itself, when its pods have gone.
  if (old == nullptr || !queueing::HoldsQuota(*old) || !old->status.admission ||
      api::IsTrue(old->status.conditions, api::kEvicted)) {
    return nullptr;
  }
  for (const ObjectKey& slice : found->second) {
    WorkloadPtr next = AssumedOrStored(slice);
    if (next != nullptr && queueing::HoldsQuota(*next) && next->status.admission &&
        next->status.admission->cluster_queue == old->status.admission->cluster_queue) {
      return next;
    }
  }
  return nullptr;
}

void World::AccountReplaced(const api::Workload* slice, Refs* touched) {
  if (slice == nullptr || !snapshot_.options.elastic_jobs) return;
  const std::optional<ObjectKey> replaced = queueing::ReplacedSlice(*slice);
  if (!replaced) return;
  Account(*replaced);
  if (touched != nullptr) touched->insert({api::Kind::kWorkload, *replaced});
}

void World::CountNotReady(bool before, bool after) {
  if (before) --snapshot_.not_ready;
  if (after) ++snapshot_.not_ready;
  if (!snapshot_.options.block_admission || !before || snapshot_.not_ready > 0) return;
  // Whoever waits for the others to be ready may go on.
  const absl::btree_set<std::string> waiting = queues_.WaitingQueues();
  for (const std::string& name : waiting) queues_.Retry(name);
}

void World::ListReserved(const ObjectKey& key) {
  const auto held = contributions_.find(key);
  if (held == contributions_.end()) {
    snapshot_.reserved.Remove(key);
    protected_.Set(key, absl::InfinitePast());
    return;
  }
  const std::shared_ptr<const api::Workload> workload = AssumedOrStored(key);
  preemption::ReservedWorkload reserved;
  reserved.cluster_queue = held->second.cluster_queue;
  reserved.local_queue = held->second.local_queue;
  reserved.priority = queueing::EffectivePriority(*workload, order_options_.priority_boost);
  reserved.queue_order_time = queueing::QueueOrderTime(*workload, order_options_);
  const api::Condition* condition =
      api::FindCondition(workload->status.conditions, api::kQuotaReserved);
  reserved.reserved_at = condition->last_transition_time.value_or(absl::InfiniteFuture());
  // One that was asked for a checkpoint goes next, unless the request is withdrawn.
  reserved.evicted = api::IsTrue(workload->status.conditions, api::kEvicted) ||
                     api::IsTrue(workload->status.conditions, preemption::kCheckpointRequested) ||
                     evicting_.contains(key);
  reserved.started_at = preemption::StartOf(*workload);
  reserved.usage = snapshot_.tree.IdsOf(held->second.usage);
  reserved.workload = workload;
  const absl::Time started_at = reserved.started_at;
  const bool moved = !queues_.BackfillQueues().empty() &&
                     MovesReservations(snapshot_.reserved.Find(key), reserved);
  snapshot_.reserved.Put(std::move(reserved));
  if (moved) RetryBackfill(snapshot_, queues_, held->second.cluster_queue);
  const auto checkpoints = preemption::CheckpointsOf(*workload);
  const bool runs = checkpoints && started_at != absl::InfiniteFuture();
  protected_.Set(key, runs && checkpoints->min_runtime > absl::ZeroDuration()
                          ? started_at + checkpoints->min_runtime
                          : absl::InfinitePast());
}

void World::AssumeEviction(const ObjectKey& key) {
  const std::shared_ptr<const api::Workload> workload = AssumedOrStored(key);
  if (workload == nullptr) return;
  evicting_[key] = workload->metadata.uid;
  ListReserved(key);
}

void World::ForgetEviction(const ObjectKey& key) {
  if (evicting_.erase(key) == 0) return;
  const preemption::ReservedWorkload* reserved = snapshot_.reserved.Find(key);
  // Who waits for it decides anew.
  if (reserved != nullptr) releases_.insert(reserved->cluster_queue);
  ListReserved(key);
}

void World::Enqueue(const ObjectKey& key, absl::Time now, bool anew) {
  const auto touch = [&](const queueing::WorkloadInfo& info) {
    counted_.insert({api::Kind::kClusterQueue, {"", info.cluster_queue}});
    counted_.insert({api::Kind::kLocalQueue, info.local_queue});
  };
  const queueing::WorkloadInfoPtr old = queues_.Find(key);
  const std::shared_ptr<const api::Workload> workload = workloads_.Find(key);
  std::string cluster_queue;
  // What a Workload asks for is not known while it cannot be read: it must not be admitted.
  if (workload != nullptr && !assumed_.contains(key) && !missing_.contains(key) &&
      !workload->metadata.Deleting() && !Unreadable({api::Kind::kWorkload, key}) &&
      !IsParent(*workload) && queueing::IsAdmissible(*workload, order_options_)) {
    const ObjectKey queue_key = queueing::LocalQueueKey(*workload);
    const std::shared_ptr<const api::LocalQueue> queue = local_queues_.Find(queue_key);
    if (queue != nullptr && !IsStopped(queue->spec.stop_policy)) {
      cluster_queue = queue->spec.cluster_queue;
    }
  }
  // Room may have been kept for one that does not wait here any more.
  if (old != nullptr && old->cluster_queue != cluster_queue) releases_.insert(old->cluster_queue);
  if (cluster_queue.empty()) {
    if (old != nullptr) {
      touch(*old);
      queues_.Remove(key);
    }
    return;
  }
  const bool same =
      old != nullptr && old->workload == workload && old->cluster_queue == cluster_queue;
  if (same && !anew) return;
  const queueing::WorkloadInfoPtr info = queueing::MakeWorkloadInfo(
      workload, cluster_queue, RequestContextFor(key.ns), order_options_);
  if (old == nullptr || old->local_queue != info->local_queue ||
      old->cluster_queue != info->cluster_queue) {
    touch(*info);
    if (old != nullptr) touch(*old);
  }
  queues_.AddOrUpdate(info, now);
}

void World::EnqueueNamespace(const std::string& ns, absl::Time now, Refs& touched) {
  const auto& all = workloads_.all();
  for (auto it = all.lower_bound(ObjectKey{ns, ""}); it != all.end() && it->first.ns == ns; ++it) {
    touched.insert({api::Kind::kWorkload, it->first});
    if (queues_.Find(it->first) != nullptr) Enqueue(it->first, now, true);
    // What its pods request may have other defaults.
    if (contributions_.contains(it->first)) {
      FollowPlaces(it->first, AssumedOrStored(it->first).get());
    }
  }
}

void World::Assume(std::shared_ptr<const api::Workload> admitted) {
  const ObjectKey key = admitted->metadata.Key();
  // A second pass of a Workload that holds quota already is no new entry.
  const auto stored = workloads_.Find(key);
  if (stored == nullptr || !api::IsTrue(stored->status.conditions, api::kQuotaReserved)) {
    PushEntryPenalty(*admitted);
  }
  queues_.Remove(key);
  assumed_.insert_or_assign(key, std::move(admitted));
  Account(key);
  AccountReplaced(assumed_.at(key).get());
}

void World::Forget(const ObjectKey& key, absl::Time now, Refs& touched) {
  if (assumed_.erase(key) == 0) return;
  touched.insert({api::Kind::kWorkload, key});
  Account(key);
  AccountReplaced(workloads_.Find(key).get(), &touched);
  DropEntryPenalty(key);
  Enqueue(key, now);
}

void World::ForgetMissing(const ObjectKey& key, absl::Time until, absl::Time now, Refs& touched) {
  if (workloads_.Contains(key)) missing_[key] = until;
  Forget(key, now, touched);
}

std::vector<ObjectKey> World::WorkloadsOwnedBy(const std::string& ns, const std::string& kind,
                                               const std::string& name) const {
  const auto found = by_owner_.find(OwnerKey{ns, kind, name});
  if (found == by_owner_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<ObjectKey> World::WorkloadsOfLocalQueue(const ObjectKey& local_queue) const {
  const auto found = by_local_queue_.find(local_queue);
  if (found == by_local_queue_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::string World::ClusterQueueOf(const api::Workload& workload) const {
  const auto queue = local_queues_.Find(queueing::LocalQueueKey(workload));
  return queue == nullptr ? std::string() : queue->spec.cluster_queue;
}

}  // namespace sluice::state
