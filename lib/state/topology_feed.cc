#include "state/topology_feed.h"

#include <utility>

#include "queueing/topology_inputs.h"

namespace sluice::state {

topology::Options TopologyOptionsOf(const Settings& settings) {
  const FeatureGates& gates = settings.gates;
  topology::Options options;
  options.exclude_leaving = settings.topology.exclude_leaving;
  options.exclude_maintenance = settings.topology.exclude_maintenance;
  options.mixed_profile = gates.Enabled("TASProfileMixed");
  options.balanced = gates.Enabled("TASBalancedPlacement");
  options.preferred_affinity = gates.Enabled("TASRespectNodeAffinityPreferred");
  options.overlapping_flavors = gates.Enabled("TASHandleOverlappingFlavors");
  return options;
}

// Brings the inventory's flavor in line with the flavor and its topology as they are known.
void TopologyFeed::Refresh(const FlavorName& name) {
  const auto flavor = flavors_.find(name);
  const auto topology =
      flavor == flavors_.end() ? topologies_.end() : topologies_.find(flavor->second.topology);
  if (topology == topologies_.end() || topology->second.levels.empty()) {
    inventory_.RemoveFlavor(name);
    return;
  }
  api::ResourceFlavor as_flavor;
  as_flavor.spec.node_labels = flavor->second.node_labels;
  as_flavor.spec.tolerations = flavor->second.tolerations;
  api::Topology as_topology;
  as_topology.metadata.name = topology->first;
  as_topology.spec = topology->second;
  inventory_.SetFlavor(name, queueing::TopologyFlavor(as_flavor, as_topology));
}

TopologyFeed::Wake TopologyFeed::FlavorChanged(const FlavorName& name,
                                               const api::ResourceFlavor* now) {
  const auto known = flavors_.find(name);
  if (now == nullptr || now->spec.topology_name.empty()) {
    if (known == flavors_.end()) return {};
    flavors_.erase(known);
    Refresh(name);
    return {};
  }
  FlavorSource source{now->spec.topology_name, now->spec.node_labels, now->spec.tolerations};
  if (known != flavors_.end() && known->second == source) return {};
  flavors_.insert_or_assign(name, std::move(source));
  Refresh(name);
  return {{name}, absl::ZeroDuration()};
}

TopologyFeed::Wake TopologyFeed::TopologyChanged(const std::string& name,
                                                 const api::Topology* now) {
  const auto known = topologies_.find(name);
  if (now == nullptr) {
    if (known == topologies_.end()) return {};
    topologies_.erase(known);
  } else {
    if (known != topologies_.end() && known->second == now->spec) return {};
    topologies_.insert_or_assign(name, now->spec);
  }
  Wake wake;
  for (const auto& [flavor, source] : flavors_) {
    if (source.topology != name) continue;
    Refresh(flavor);
    wake.flavors.push_back(flavor);
  }
  if (now == nullptr) wake.flavors.clear();
  return wake;
}

TopologyFeed::Wake TopologyFeed::NodeChanged(const topology::NodeName& name, const api::Node* now) {
  topology::Changed changed = now == nullptr ? inventory_.RemoveNode(name)
                                             : inventory_.SetNode(queueing::TopologyNode(*now));
  if (changed.flavors.empty()) return {};
  return {std::move(changed.flavors), kNodeBatch};
}

TopologyFeed::Wake TopologyFeed::PodChanged(const ObjectKey& key, const api::Pod* now) {
  topology::Changed changed;
  if (now == nullptr || !queueing::IsForeignPod(*now)) {
    changed = inventory_.RemoveForeignPod(key.ToString());
  } else {
    changed = inventory_.SetForeignPod(key.ToString(), now->spec.node_name,
                                       queueing::ForeignRequests(*now));
  }
  if (!changed.capacity_grew || changed.flavors.empty()) return {};
  return {std::move(changed.flavors), kPodBatch};
}

TopologyFeed::Wake TopologyFeed::KeepPods(const absl::btree_set<ObjectKey>& seen) {
  absl::btree_set<std::string> keep;
  for (const ObjectKey& key : seen) keep.insert(key.ToString());
  absl::btree_set<FlavorName> flavors;
  for (const std::string& key : inventory_.ForeignPods()) {
    if (keep.contains(key)) continue;
    const topology::Changed changed = inventory_.RemoveForeignPod(key);
    flavors.insert(changed.flavors.begin(), changed.flavors.end());
  }
  if (flavors.empty()) return {};
  return {{flavors.begin(), flavors.end()}, kPodBatch};
}

TopologyFeed::Wake TopologyFeed::WorkloadChanged(const ObjectKey& key, const api::Workload* counted,
                                                 const queueing::RequestContext& context) {
  topology::WorkloadUsage usage;
  if (counted != nullptr) usage = queueing::TopologyUsage(*counted, context);
  const std::string name = key.ToString();
  const topology::Booking* before = inventory_.FindWorkload(name);
  if (before != nullptr ? before->usage() == usage : usage.empty()) return {};
  Wake wake;
  if (before != nullptr) wake.flavors = Sharing(before->usage());
  if (usage.empty()) {
    inventory_.RemoveWorkload(name);
  } else {
    inventory_.SetWorkload(name, usage);
  }
  return wake;
}

std::vector<FlavorName> TopologyFeed::Sharing(const topology::WorkloadUsage& usage) const {
  absl::btree_set<FlavorName> flavors;
  for (const topology::PodSetUsage& one : usage) flavors.insert(one.flavor);
  if (inventory_.options().overlapping_flavors) {
    for (const auto& [name, source] : flavors_) flavors.insert(name);
  }
  return {flavors.begin(), flavors.end()};
}

}  // namespace sluice::state
