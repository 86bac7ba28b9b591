#include "preemption/reserved_workloads.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice::preemption {

bool PreemptedBefore(const ReservedWorkload& a, const ReservedWorkload& b) {
  if (a.evicted != b.evicted) return a.evicted;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.reserved_at != b.reserved_at) return a.reserved_at > b.reserved_at;
  const api::ObjectMeta& m = a.workload->metadata;
  const api::ObjectMeta& n = b.workload->metadata;
  return std::tie(m.uid, m.ns, m.name) < std::tie(n.uid, n.ns, n.name);
}

namespace {

bool Before(const ReservedWorkload* a, const ReservedWorkload* b) {
  return PreemptedBefore(*a, *b);
}

}  // namespace

void ReservedWorkloads::Put(ReservedWorkload workload) {
  const ObjectKey key = workload.Key();
  Remove(key);
  workload.checkpoints = nullptr;
  if (std::optional<Checkpoints> said = CheckpointsOf(*workload.workload); said.has_value()) {
    workload.checkpoints = std::make_shared<const Checkpoints>(*std::move(said));
  }
  auto entry = std::make_shared<const ReservedWorkload>(std::move(workload));
  List& list = by_queue_[entry->cluster_queue];
  list.insert(std::lower_bound(list.begin(), list.end(), entry.get(), Before), entry.get());
  if (entry->checkpoints != nullptr) with_checkpoints_.emplace(key, entry.get());
  by_key_.emplace(key, std::move(entry));
}

void ReservedWorkloads::Remove(const ObjectKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const ReservedWorkload* entry = found->second.get();
  const auto queue = by_queue_.find(entry->cluster_queue);
  List& list = queue->second;
  list.erase(std::lower_bound(list.begin(), list.end(), entry, Before));
  if (list.empty()) by_queue_.erase(queue);
  with_checkpoints_.erase(key);
  by_key_.erase(found);
}

const ReservedWorkload* ReservedWorkloads::Find(const ObjectKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second.get();
}

ReservedWorkloadPtr ReservedWorkloads::Share(const ObjectKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

const ReservedWorkloads::List& ReservedWorkloads::Of(const std::string& cluster_queue) const {
  static const List kNone;
  const auto found = by_queue_.find(cluster_queue);
  return found == by_queue_.end() ? kNone : found->second;
}

}  // namespace sluice::preemption
