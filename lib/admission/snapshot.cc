#include "admission/snapshot.h"

#include <utility>

namespace sluice::admission {
namespace {

template <typename Map>
auto FindIn(const Map& map, const std::string& name) -> decltype(map.begin()->second.get()) {
  auto found = map.find(name);
  return found == map.end() ? nullptr : found->second.get();
}

}  // namespace

ClusterQueueSnapshot::ClusterQueueSnapshot(std::shared_ptr<const api::ClusterQueue> object,
                                           bool is_active)
    : cluster_queue(std::move(object)),
      active(is_active),
      policies(preemption::PoliciesOf(cluster_queue->spec)) {
  const auto& scope = cluster_queue->spec.admission_scope;
  usage_based = scope.has_value() && scope->admission_mode == "UsageBasedAdmissionFairSharing";
}

const ClusterQueueSnapshot* Snapshot::FindClusterQueue(const std::string& name) const {
  auto found = cluster_queues.find(name);
  return found == cluster_queues.end() ? nullptr : &found->second;
}

const api::ResourceFlavor* Snapshot::FindFlavor(const FlavorName& name) const {
  return FindIn(flavors, name);
}

bool Snapshot::HasTopology(const FlavorName& name) const {
  if (topology == nullptr) return false;
  const api::ResourceFlavor* flavor = FindFlavor(name);
  return flavor != nullptr && !flavor->spec.topology_name.empty();
}

const api::Namespace* Snapshot::FindNamespace(const std::string& name) const {
  return FindIn(namespaces, name);
}

quota::CellLimits LimitsOf(const std::vector<api::ResourceGroup>& groups) {
  quota::CellLimits limits;
  for (const api::ResourceGroup& group : groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        quota::Limits& cell = limits[{flavor.name, quota.name}];
        cell.nominal = AmountOf(quota.name, quota.nominal_quota);
        if (quota.borrowing_limit.has_value()) {
          cell.borrowing_limit = AmountOf(quota.name, *quota.borrowing_limit);
        }
        if (quota.lending_limit.has_value()) {
          cell.lending_limit = AmountOf(quota.name, *quota.lending_limit);
        }
      }
    }
  }
  return limits;
}

bool NamespaceMatches(const api::ClusterQueue& cluster_queue, const api::Namespace& ns) {
  return cluster_queue.spec.namespace_selector.has_value() &&
         cluster_queue.spec.namespace_selector->Matches(ns.metadata.labels);
}

}  // namespace sluice::admission
