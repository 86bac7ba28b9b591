// The part of World that follows what LocalQueues used: admission fair sharing.
//
// Consumed resources live in the status of the LocalQueue; everything else is derived from the
// Workloads: an entry penalty is pending from the decision (or from the moment a reservation is
// seen) until the Workload is Admitted or its reservation came to nothing.
#include "api/names.h"
#include "state/spec_defaults.h"
#include "state/world.h"

namespace sluice::state {
namespace {

Requests SumOverFlavors(const FlavorResourceAmounts& amounts) {
  Requests sum;
  for (const auto& [cell, amount] : amounts) {
    int64_t& total = sum[cell.resource];
    total = SaturatingAdd(total, amount);
  }
  return sum;
}

// What an entry penalty is taken of: what the pods request. Their number is quota, no request.
Requests PenaltyBase(const FlavorResourceAmounts& usage) {
  Requests requests = SumOverFlavors(usage);
  requests.erase(kPods);
  return requests;
}

std::optional<api::AdmissionFairSharingStatus> PersistedUsage(const api::LocalQueue& queue) {
  const auto& fair_sharing = queue.status.fair_sharing;
  return fair_sharing ? fair_sharing->admission_fair_sharing_status : std::nullopt;
}

bool IsAdmitted(const api::Workload& workload) {
  return api::IsTrue(workload.status.conditions, api::kAdmitted);
}
bool IsReserving(const api::Workload& workload) {
  return api::IsTrue(workload.status.conditions, api::kQuotaReserved);
}

// Holds a reservation that has not led to Admitted, and still may.
bool IsEntering(const api::Workload& workload) {
  return queueing::HoldsQuota(workload) && !IsAdmitted(workload) &&
         !api::IsTrue(workload.status.conditions, api::kEvicted);
}

// The reservation that a pending penalty belongs to came to nothing for good.
bool PenaltyIsOver(const api::Workload& workload, const ObjectKey& charged) {
  return queueing::LocalQueueKey(workload) != charged ||
         api::IsTrue(workload.status.conditions, api::kFinished) ||
         (!workload.spec.active.value_or(true) && !IsReserving(workload));
}

}  // namespace

void World::StartUsageLedger() {
  if (!settings_.admission_fair_sharing || !settings_.gates.Enabled("AdmissionFairSharing")) return;
  const AdmissionFairSharing& fair_sharing = *settings_.admission_fair_sharing;
  usage_ledger_.emplace(queueing::AdmissionFairSharingOptions{fair_sharing.usage_half_life_time,
                                                              fair_sharing.usage_sampling_interval,
                                                              fair_sharing.resource_weights});
  snapshot_.used_more = [this](const ObjectKey& a, const ObjectKey& b) {
    return queues_.LocalQueueUsage(a) > queues_.LocalQueueUsage(b);
  };
  queues_.SetAdmitListener(
      [this](const queueing::WorkloadInfo& info, const FlavorResourceAmounts& usage) {
        if (!UsageBased(info.cluster_queue) || IsReserving(*info.workload)) return;
        usage_ledger_->PushEntryPenalty(info.Key(), info.local_queue, PenaltyBase(usage));
        ShowUsage(info.local_queue);
      });
}

bool World::UsageBased(const std::string& cluster_queue) const {
  if (!usage_ledger_) return false;
  const auto object = cluster_queues_.Find({"", cluster_queue});
  return object != nullptr && object->spec.admission_scope &&
         object->spec.admission_scope->admission_mode == "UsageBasedAdmissionFairSharing";
}

bool World::LocalQueueActive(const ObjectKey& key) const {
  const auto queue = local_queues_.Find(key);
  if (queue == nullptr) return false;
  return !IsStopped(queue->spec.stop_policy) && ActivityOf(queue->spec.cluster_queue).active;
}

void World::ShowUsage(const ObjectKey& local_queue) {
  queues_.SetLocalQueueUsage(local_queue, usage_ledger_->Usage(local_queue));
}

void World::PushEntryPenalty(const api::Workload& admitted) {
  if (!usage_ledger_ || !admitted.status.admission) return;
  if (!UsageBased(admitted.status.admission->cluster_queue)) return;
  const ObjectKey local_queue = queueing::LocalQueueKey(admitted);
  usage_ledger_->PushEntryPenalty(
      admitted.metadata.Key(), local_queue,
      PenaltyBase(queueing::AdmittedUsage(admitted, request_options_.reclaimable_pods)));
  ShowUsage(local_queue);
}

void World::RestoreEntryPenalties() {
  if (!usage_ledger_) return;
  for (const auto& [key, contribution] : contributions_) {
    const auto workload = AssumedOrStored(key);
    if (IsEntering(*workload) && !usage_ledger_->HasEntryPenalty(key)) PushEntryPenalty(*workload);
  }
}

void World::DropEntryPenalty(const ObjectKey& workload) {
  if (!usage_ledger_) return;
  const std::optional<ObjectKey> charged = usage_ledger_->LocalQueueOfPenalty(workload);
  if (!charged) return;
  usage_ledger_->DropEntryPenalty(workload);
  ShowUsage(*charged);
}

void World::FollowUsage(const ObjectKey& key, const api::Workload* before,
                        const api::Workload* after, absl::Time now) {
  if (!usage_ledger_) return;
  const bool same =
      before != nullptr && after != nullptr && before->metadata.uid == after->metadata.uid;
  if (before != nullptr && !same) DropEntryPenalty(key);
  if (after == nullptr) return;
  const ObjectKey local_queue = queueing::LocalQueueKey(*after);
  const bool usage_based =
      after->status.admission && UsageBased(after->status.admission->cluster_queue);
  if (IsAdmitted(*after)) {
    // One that was Admitted when it was first seen is part of the history already.
    if (same && !IsAdmitted(*before) && usage_based) {
      usage_ledger_->SettleEntryPenalty(key, local_queue,
                                        SumOverFlavors(LocalQueueTotals(local_queue).usage), now);
      counted_.insert({api::Kind::kLocalQueue, local_queue});
      ShowUsage(local_queue);
    }
    DropEntryPenalty(key);
    return;
  }
  const std::optional<ObjectKey> charged = usage_ledger_->LocalQueueOfPenalty(key);
  if (charged && PenaltyIsOver(*after, *charged)) DropEntryPenalty(key);
  // A reservation that another process made. Our own was charged when it was decided; one that was
  // there before is charged when everything has been listed.
  const bool entered = IsEntering(*after) && (!same || !IsReserving(*before));
  if (!entered || charged || !Synced()) return;
  PushEntryPenalty(*after);
  counted_.insert({api::Kind::kLocalQueue, local_queue});
}

void World::FollowUsageOfLocalQueue(const ObjectKey& key, const api::LocalQueue* before,
                                    const api::LocalQueue* after, absl::Time now) {
  if (!usage_ledger_) return;
  if (after == nullptr || (before != nullptr && before->metadata.uid != after->metadata.uid)) {
    usage_ledger_->Forget(key);
  }
  if (after == nullptr) {
    queues_.ForgetLocalQueueUsage(key);
    return;
  }
  // Its own status is written by ourselves and tells nothing new.
  if (!usage_ledger_->Knows(key)) usage_ledger_->Start(key, PersistedUsage(*after), now);
  usage_ledger_->SetWeight(key, FairWeight(after->spec.fair_sharing));
  ShowUsage(key);
}

void World::SampleUsage(const ObjectKey& local_queue, absl::Time now) {
  if (!usage_ledger_ || !LocalQueueActive(local_queue)) return;
  if (usage_ledger_->NextSample(local_queue) > now) return;
  usage_ledger_->TakeSample(local_queue, SumOverFlavors(LocalQueueTotals(local_queue).usage), now);
  ShowUsage(local_queue);
}

void World::RestartUsage(absl::Time now) {
  if (!usage_ledger_) return;
  for (const auto& [key, queue] : local_queues_.all()) {
    usage_ledger_->Start(key, PersistedUsage(*queue), now);
    ShowUsage(key);
  }
}

}  // namespace sluice::state
