#include "admission/still_refused.h"

#include <algorithm>

#include "flavor/resource_group.h"
#include "quota/amounts.h"

namespace sluice::admission {
namespace {

// The workload may ask for less, or gets what another one holds.
bool MayDoWithLess(const Snapshot& snapshot, const api::Workload& workload) {
  if (snapshot.admitted_sibling || queueing::ReplacedSlice(workload)) return true;
  return std::any_of(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(),
                     [](const api::PodSet& pod_set) { return pod_set.min_count.has_value(); });
}

// What workloads of its own ClusterQueue hold in the cell that may have to go for it.
int64_t HeldBelow(const Snapshot& snapshot, const queueing::WorkloadInfo& info,
                  preemption::Policy within, quota::CellId cell) {
  if (within == preemption::Policy::kNever) return 0;
  int64_t held = 0;
  for (const preemption::ReservedWorkload* other : snapshot.reserved.Of(info.cluster_queue)) {
    const bool below = within == preemption::Policy::kLowerPriority
                           ? other->priority < info.priority
                           : other->priority <= info.priority;
    if (!below && !other->evicted) continue;
    for (const auto& [used, amount] : other->usage) {
      if (used == cell) held = quota::AddAmounts(held, amount);
    }
  }
  return held;
}

// Even without those of its ClusterQueue that may go for it there is less than it needs. Within its
// nominal quota it might take back what others borrow, so then it is judged.
bool Lacks(const Snapshot& snapshot, const queueing::WorkloadInfo& info, const quota::Node& queue,
           const preemption::Policies& policies, quota::CellId cell, int64_t amount) {
  const int64_t available = quota::Tree::Available(queue, cell);
  if (available >= amount) return false;
  const bool reclaims = policies.reclaim_within_cohort != preemption::Policy::kNever;
  const int64_t with = quota::AddAmounts(queue.Usage(cell), amount);
  if (reclaims && with <= queue.Nominal(cell)) return false;
  const int64_t held = HeldBelow(snapshot, info, policies.within_cluster_queue, cell);
  return quota::AddAmounts(available, held) < amount;
}

}  // namespace

bool StillRefused(const Snapshot& snapshot, const queueing::WorkloadInfo& info) {
  const ClusterQueueSnapshot* cluster_queue = snapshot.FindClusterQueue(info.cluster_queue);
  const quota::Node* queue = snapshot.tree.FindQueue(info.cluster_queue);
  if (cluster_queue == nullptr || queue == nullptr || !quota::Tree::Sound(*queue)) return false;
  if (MayDoWithLess(snapshot, *info.workload)) return false;
  const auto lacks = [&](const FlavorName& flavor, const ResourceName& resource, int64_t amount) {
    return Lacks(snapshot, info, *queue, cluster_queue->policies,
                 snapshot.tree.IdOf({flavor, resource}), amount);
  };
  const auto& groups = cluster_queue->cluster_queue->spec.resource_groups;
  for (const queueing::PodSetRequests& pod_set : info.requests) {
    for (const auto& [resource, amount] : pod_set.total) {
      const api::ResourceGroup* group = flavor::GroupOf(groups, resource);
      if (group == nullptr || group->flavors.empty()) continue;
      const auto& flavors = group->flavors;
      if (std::all_of(flavors.begin(), flavors.end(), [&](const api::FlavorQuotas& flavor) {
            return lacks(flavor.name, resource, amount);
          })) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace sluice::admission
