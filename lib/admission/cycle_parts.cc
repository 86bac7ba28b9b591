#include "admission/cycle_parts.h"

#include <algorithm>
#include <utility>

namespace sluice::admission {

const quota::Node* RootOf(const Snapshot& snapshot, const std::string& cluster_queue) {
  const quota::Node* node = snapshot.tree.FindQueue(cluster_queue);
  return node == nullptr || !quota::Tree::Sound(*node) ? nullptr : &node->Root();
}

void Scope::Include(const std::string& cluster_queue) {
  const quota::Node* root = RootOf(*snapshot_, cluster_queue);
  if (root == nullptr) return;
  roots_.insert(root);
  of_places_ = of_places_ || places_->Concern(cluster_queue);
}

bool Scope::ConcernsQuota(const std::string& cluster_queue) const {
  return roots_.contains(RootOf(*snapshot_, cluster_queue));
}

bool Scope::ConcernsPlaces(const std::string& cluster_queue) const {
  return of_places_ && places_->Concern(cluster_queue);
}

Defence DefenceOf(queueing::QueueManager& queues, const Scope& scope, bool contested,
                  const absl::btree_set<std::string>& except) {
  Defence defence;
  if (scope.empty()) return defence;
  std::vector<std::string> taking_part;
  for (const std::string& name : queues.WaitingQueues()) {
    if (except.contains(name)) continue;
    const bool places = scope.ConcernsPlaces(name);
    if (scope.ConcernsQuota(name) || (places && contested)) {
      taking_part.push_back(name);
    } else if (places) {
      if (auto place = queues.KeptPlace(name)) defence.places.push_back(std::move(place));
    }
  }
  defence.heads = queues.HeldHeads(taking_part);
  return defence;
}

preemption::ReservedWorkload ReservedBy(const Decision& decision, const quota::Tree& tree,
                                        absl::Time now) {
  preemption::ReservedWorkload reserved;
  reserved.workload = decision.info->workload;
  reserved.cluster_queue = decision.info->cluster_queue;
  reserved.local_queue = decision.info->local_queue;
  reserved.priority = decision.info->priority;
  reserved.queue_order_time = decision.info->queue_order_time;
  reserved.reserved_at = now;
  reserved.started_at = now;
  reserved.usage =
      tree.IdsOf(decision.replaces == nullptr ? decision.usage
                                              : flavor::WholeUsage(decision.explanation.pod_sets));
  return reserved;
}

quota::CellAmounts KeptFrom(const Entry& entry) {
  quota::CellAmounts kept;
  for (const auto& [cell, amount] : entry.usage) {
    const int64_t used = entry.queue->Usage(cell);
    const int64_t nominal = entry.queue->Nominal(cell);
    int64_t part = amount;
    if (entry.assignment.borrow_level == 0) {
      part = std::max<int64_t>(0, std::min(amount, quota::SubtractAmounts(nominal, used)));
    } else if (const auto limit = entry.queue->BorrowingLimit(cell)) {
      part = std::min(amount, quota::SubtractAmounts(quota::AddAmounts(nominal, *limit), used));
    }
    // Above its limits already: there is nothing that it could keep.
    if (part > 0) kept.push_back({cell, part});
  }
  return kept;
}

void TellOfWholeScan(const std::vector<Decision>& all,
                     const absl::btree_map<ObjectKey, size_t>& last, Decision& decision) {
  const auto before = last.find(decision.info->Key());
  if (before == last.end()) return;
  const Decision& begun = all[before->second];
  if (begun.kind != Decision::Kind::kWait || !begun.requeue.untried_flavors || begun.requeue.hold ||
      begun.explanation.cause >= decision.explanation.cause) {
    return;
  }
  decision.reason = begun.reason;
  decision.message = begun.message;
  decision.explanation = begun.explanation;
  decision.requeue.condition_reason = begun.requeue.condition_reason;
}

void KeepVictims(Decision& decision, const std::vector<Decision::Victim>& issued) {
  for (const Decision::Victim& victim : issued) {
    const auto same = std::find_if(decision.victims.begin(), decision.victims.end(),
                                   [&](const Decision::Victim& other) {
                                     return other.workload->Key() == victim.workload->Key();
                                   });
    if (same == decision.victims.end()) {
      decision.victims.push_back(victim);
    } else {
      same->ongoing = false;
    }
  }
}

std::vector<Decision> Newest(
    std::vector<Decision>& all, const absl::btree_map<ObjectKey, size_t>& last,
    const absl::btree_map<ObjectKey, std::vector<Decision::Victim>>& issued) {
  std::vector<Decision> newest;
  newest.reserve(last.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const ObjectKey key = all[i].info->Key();
    if (last.at(key) != i) continue;
    if (const auto found = issued.find(key); found != issued.end()) {
      KeepVictims(all[i], found->second);
    }
    newest.push_back(std::move(all[i]));
  }
  return newest;
}

void PutBackReserved(const ReservedBefore& before, preemption::ReservedWorkloads& reserved) {
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    it->second != nullptr ? reserved.Put(*it->second) : reserved.Remove(it->first);
  }
}

}  // namespace sluice::admission
