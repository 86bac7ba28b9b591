// The part of World that follows fair-share credits.
//
// A reservation counts from the millisecond that its Workload carries, or from the second of its
// condition; it ends with the second of the condition that shows the end, and with the second in
// which it is seen where there is none. The replay of an account reads the same times, and
// checkpoints are at whole seconds: so it never matters when an account was written down.
#include <algorithm>

#include "api/names.h"
#include "queueing/workload_info.h"
#include "state/credit_history.h"
#include "state/spec_defaults.h"
#include "state/world.h"

namespace sluice::state {
namespace {

constexpr absl::Duration kLookAgain = absl::Minutes(1);
// Nobody waits longer for the checkpoint of an account: it may be that it cannot be written.
constexpr absl::Duration kLongestWait = absl::Minutes(5);

std::vector<FlavorResource> CellsOf(const std::vector<api::ResourceGroup>& groups) {
  std::vector<FlavorResource> cells;
  for (const auto& [cell, limits] : admission::LimitsOf(groups)) cells.push_back(cell);
  return cells;
}

}  // namespace

CreditLedger::Sources World::CreditSources() const {
  CreditLedger::Sources sources;
  sources.tree = &snapshot_.tree;
  sources.policies = &credit_policies_;
  sources.accounts = &credit_accounts_;
  sources.cells = [this](bool is_cohort, const std::string& name) {
    if (is_cohort) {
      const auto cohort = cohorts_.Find({"", name});
      return cohort == nullptr ? std::vector<FlavorResource>()
                               : CellsOf(cohort->spec.resource_groups);
    }
    const auto queue = cluster_queues_.Find({"", name});
    std::vector<FlavorResource> cells = CellsOf(queue->spec.resource_groups);
    // Also what was taken out of the quotas while it is used.
    for (const auto& [cell, amount] : ClusterQueueTotals(name).reservation) cells.push_back(cell);
    return cells;
  };
  sources.queue = [this](const std::string& name) {
    CreditLedger::QueueFacts facts;
    const auto queue = cluster_queues_.Find({"", name});
    facts.exists = queue != nullptr;
    facts.earns = facts.exists && !IsStopped(queue->spec.stop_policy) && ActivityOf(name).active;
    facts.held = &ClusterQueueTotals(name).reservation;
    return facts;
  };
  sources.history = [this](const std::string& name) { return ReservationsIn(name); };
  return sources;
}

std::vector<Reservation> World::ReservationsIn(const std::string& cluster_queue) const {
  std::vector<Reservation> reservations;
  for (const ObjectKey& queue : LocalQueuesOf(cluster_queue)) {
    for (const ObjectKey& key : WorkloadsOfLocalQueue(queue)) {
      const auto workload = AssumedOrStored(key);
      for (Reservation& one : PastReservations(*workload, request_options_.reclaimable_pods)) {
        if (one.cluster_queue == cluster_queue) reservations.push_back(std::move(one));
      }
    }
  }
  // Those that last are found by what they hold, wherever their LocalQueue points to now.
  for (const preemption::ReservedWorkload* held : snapshot_.reserved.Of(cluster_queue)) {
    Reservation one;
    one.from = ReservedSince(*held->workload);
    one.cluster_queue = cluster_queue;
    for (const auto& [cell, amount] : contributions_.at(held->Key()).usage) {
      one.amounts[cell.resource] = SaturatingAdd(one.amounts[cell.resource], amount);
    }
    reservations.push_back(std::move(one));
  }
  return reservations;
}

// `since`: when the reservation began, which is all that is left of one that never came about.
absl::Time World::ReleaseTime(const ObjectKey& key, absl::Time since) const {
  const auto workload = AssumedOrStored(key);
  absl::Time released = credits_now_;
  if (workload != nullptr && TakenOverBy(key) == nullptr) {
    if (const auto shown = ReleasedAt(*workload)) {
      released = *shown;
    } else if (!api::IsTrue(workload->status.conditions, api::kQuotaReserved)) {
      released = since;
    }
  }
  return std::max(since, std::min(released, credits_now_));
}

void World::FollowCredits(const ObjectKey& key, const Contribution* before,
                          const Contribution* after) {
  const auto workload = AssumedOrStored(key);
  if (before != nullptr && after != nullptr && before->cluster_queue == after->cluster_queue) {
    // Pods that are needed no more, or the same in another LocalQueue.
    if (before->usage == after->usage) return;
    credits_.Hold(before->cluster_queue, before->usage, -1, credits_now_);
    credits_.Hold(after->cluster_queue, after->usage, 1, credits_now_);
    return;
  }
  if (before != nullptr) {
    const auto known = reserved_since_.find(key);
    const absl::Time since = known == reserved_since_.end() ? absl::InfinitePast() : known->second;
    credits_.Hold(before->cluster_queue, before->usage, -1, ReleaseTime(key, since));
    if (known != reserved_since_.end()) reserved_since_.erase(known);
  }
  if (after == nullptr) {
    if (workload == nullptr) ForgetLender(key);
    return;
  }
  ForgetLender(key);
  const absl::Time since = ReservedSince(*workload);
  // Elsewhere nobody asks. A policy that has just come may govern it in a moment.
  if (credits_.stale() || credits_.Governs(after->cluster_queue)) reserved_since_[key] = since;
  credits_.Hold(after->cluster_queue, after->usage, 1, since);
}

World::CreditsNeed World::CreditsNeedOf(const api::Workload& workload, absl::Time now) const {
  if (!credits_.active()) return CreditsNeed::kNothing;
  const ObjectKey key = workload.metadata.Key();
  const auto held = contributions_.find(key);
  if (held != contributions_.end() && queueing::HoldsQuota(workload) &&
      credits_.Charges(held->second.cluster_queue, held->second.usage)) {
    return CreditsNeed::kEnd;
  }
  for (const Reservation& one : PastReservations(workload, request_options_.reclaimable_pods)) {
    if (!one.to.has_value() || now > *one.to + kLongestWait) continue;
    if (*one.to > credits_.OldestCheckpoint(one.cluster_queue) &&
        credits_.Charges(one.cluster_queue, one.amounts)) {
      return CreditsNeed::kCheckpoint;
    }
  }
  return CreditsNeed::kNothing;
}

absl::Time World::CreditsCertainUntil(absl::Time now) const {
  absl::Time until = quota::FloorSecond(now);
  for (const auto& [key, workload] : assumed_) {
    if (contributions_.contains(key)) {
      until = std::min(until, quota::FloorSecond(ReservedSince(*workload)));
    }
  }
  return until;
}

void World::NoteLender(const ObjectKey& workload, absl::Time until) {
  const queueing::WorkloadInfoPtr waits = queues_.Find(workload);
  if (waits == nullptr) return;
  lenders_[workload] = {waits->workload->metadata.uid, until};
  credits_.standing().SetLender(waits->workload->metadata.uid, until);
  lenders_due_ = std::min(lenders_due_, until);
}

void World::ForgetLender(const ObjectKey& key) {
  const auto found = lenders_.find(key);
  if (found == lenders_.end()) return;
  credits_.standing().ForgetLender(found->second.uid);
  lenders_.erase(found);
}

quota::CellLimits World::LimitsFor(const std::string& name,
                                   const api::ClusterQueueSpec& spec) const {
  quota::CellLimits limits = admission::LimitsOf(spec.resource_groups);
  if (!credits_.active()) return limits;
  for (auto& [cell, cell_limits] : limits) {
    const std::optional<int64_t> burst = credits_.BurstLimit(name, cell);
    if (burst.has_value() && cell_limits.borrowing_limit.has_value()) {
      cell_limits.borrowing_limit = std::max(*cell_limits.borrowing_limit, *burst);
    }
  }
  return limits;
}

void World::RenewLimits(const std::string& cluster_queue) {
  const auto queue = cluster_queues_.Find({"", cluster_queue});
  if (queue == nullptr) return;
  snapshot_.history.Clear();
  snapshot_.tree.SetClusterQueue(cluster_queue, queue->spec.cohort_name,
                                 LimitsFor(cluster_queue, queue->spec),
                                 quota::Weight(FairWeight(queue->spec.fair_sharing)));
  releases_.insert(cluster_queue);
}

void World::UpdateBurstLimits(absl::Time now) {
  bursts_stale_ = false;
  for (const std::string& name : credits_.UpdateBursts(now, burst_due_)) RenewLimits(name);
}

void World::PrepareCredits(absl::Time now, Refs& touched) {
  credits_now_ = quota::FloorSecond(now);
  credits_.SetNow(now);
  if (!credits_.active() && !credits_.stale()) return;
  if (credits_.stale()) {
    const bool was_active = snapshot_.credits != nullptr;
    const CreditLedger::LookAgain again = credits_.Rebuild(now);
    for (const std::string& name : again.accounts) {
      touched.insert({api::Kind::kCreditAccount, {"", name}});
    }
    for (const std::string& name : again.policies) {
      touched.insert({api::Kind::kCreditPolicy, {"", name}});
    }
    for (const std::string& name : again.limits) RenewLimits(name);
    bursts_stale_ = true;
    snapshot_.credits = credits_.active() ? &credits_.standing() : nullptr;
    // Whoever waits may get another answer with other rules.
    if (was_active || credits_.active()) {
      for (const auto& [name, queue] : cluster_queues_.all()) releases_.insert(name.name);
    }
  }
  for (const std::string& name : credits_.TakeChanged()) {
    counted_.insert({api::Kind::kCreditAccount, {"", name}});
    bursts_stale_ = true;
    if (settings_.fair_sharing) drain_due_ = std::min(drain_due_, now + kLookAgain);
  }
  if (bursts_stale_ || burst_due_ <= now) UpdateBurstLimits(now);
  if (lenders_due_ <= now) {
    lenders_due_ = absl::InfiniteFuture();
    for (const auto& [key, lender] : lenders_) {
      const queueing::WorkloadInfoPtr waits = queues_.Find(key);
      if (waits == nullptr) continue;
      // A bank may be empty before the delay is over.
      releases_.insert(waits->cluster_queue);
      if (lender.until > now)
        lenders_due_ = std::min({lenders_due_, lender.until, now + kLookAgain});
    }
  }
  if (drain_due_ <= now) {
    const std::vector<std::string> spending = credits_.Spending(now);
    drain_due_ = spending.empty() ? absl::InfiniteFuture() : now + kLookAgain;
    if (queues_.size() > 0) releases_.insert(spending.begin(), spending.end());
  }
  credits_.standing().SetNow(now);
}

absl::Time World::CreditsDue(absl::Time now) const {
  if (credits_.stale() || credits_.HasChanged()) return now;
  return std::min({burst_due_, lenders_due_, drain_due_});
}

}  // namespace sluice::state
