// The part of World that follows what Workloads say about checkpoints.
#include "admission/cycle.h"
#include "preemption/checkpoint.h"
#include "state/world.h"

namespace sluice::state {
namespace {

// For whom it was asked for a checkpoint; "" when it was not.
std::string AskedFor(const api::Workload* workload) {
  if (workload == nullptr) return "";
  const api::Condition* asked =
      api::FindCondition(workload->status.conditions, preemption::kCheckpointRequested);
  if (asked == nullptr || asked->status != api::ConditionStatus::kTrue) return "";
  return admission::PreemptorUid(asked->message);
}

}  // namespace

void World::FollowCheckpoints(const ObjectKey& key, const api::Workload* before,
                              const api::Workload* after, Refs& touched) {
  const std::string old_uid = before == nullptr ? "" : before->metadata.uid;
  const std::string new_uid = after == nullptr ? "" : after->metadata.uid;
  // Kept from the first request for a checkpoint on: few clusters ever ask for one, and the UIDs of
  // all Workloads take their room.
  if (!by_uid_.empty() && old_uid != new_uid) {
    if (!old_uid.empty()) by_uid_.erase(old_uid);
    if (!new_uid.empty()) by_uid_[new_uid] = key;
  }
  const std::string old_preemptor = AskedFor(before);
  const std::string new_preemptor = AskedFor(after);
  if (old_preemptor != new_preemptor) {
    if (const auto found = asked_for_.find(old_preemptor); found != asked_for_.end()) {
      found->second.erase(key);
      if (found->second.empty()) asked_for_.erase(found);
    }
    if (!new_preemptor.empty()) {
      asked_for_[new_preemptor].insert(key);
      if (by_uid_.empty()) {
        for (const auto& [name, one] : workloads_.all()) by_uid_[one->metadata.uid] = name;
      }
    }
    // Whoever counted on its room decides anew.
    if (new_preemptor.empty() && before->status.admission.has_value()) {
      releases_.insert(before->status.admission->cluster_queue);
    }
  }
  for (const std::string& uid : {old_uid, new_uid}) {
    const auto found = asked_for_.find(uid);
    if (found == asked_for_.end()) continue;
    for (const ObjectKey& asked : found->second) touched.insert({api::Kind::kWorkload, asked});
  }
}

std::shared_ptr<const api::Workload> World::FindByUid(const std::string& uid) const {
  const auto found = by_uid_.find(uid);
  return found == by_uid_.end() ? nullptr : workloads_.Find(found->second);
}

// From then on it may be what a parked workload waits for, or find victims itself.
void World::EndProtections(absl::Time now) {
  for (const ObjectKey& key : protected_.TakeDue(now)) {
    if (const auto* reserved = snapshot_.reserved.Find(key)) {
      releases_.insert(reserved->cluster_queue);
    }
  }
  for (const ObjectKey& key : resting_.TakeDue(now)) {
    if (const queueing::WorkloadInfoPtr pending = queues_.Find(key)) {
      releases_.insert(pending->cluster_queue);
    }
  }
}

}  // namespace sluice::state
