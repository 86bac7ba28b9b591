#include "sim/place_invariants.h"

#include <absl/container/btree_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "queueing/topology_inputs.h"

namespace sluice::sim {
namespace {

using Amounts = absl::btree_map<ResourceName, int64_t>;

// What the admission would put on one leaf of a flavor, in addition to what is there.
using Load = absl::btree_map<std::pair<FlavorName, std::string>, Amounts>;

void Book(Load& load, const state::World& world, const topology::WorkloadUsage& usage, int sign) {
  for (const topology::PodSetUsage& one : usage) {
    const topology::Tree* tree = world.topology()->inventory().FindTree(one.flavor);
    if (tree == nullptr) continue;
    for (const topology::AssignedDomain& domain : one.assignment.domains) {
      Amounts& amounts = load[{one.flavor, tree->IdentityOf(domain.values)}];
      for (const auto& [resource, amount] : one.per_pod) {
        amounts[resource] += sign * amount * domain.count;
      }
      amounts[kPods] += sign * domain.count;
    }
  }
}

class PlaceCheck {
 public:
  PlaceCheck(const state::World& world, const admission::Decision& decision)
      : world_(world), decision_(decision), admitted_(*decision.info->workload) {
    admitted_.status.admission = decision.admission;
  }

  Violations Run() {
    for (const api::PodSet& pod_set : admitted_.spec.pod_sets) CheckCount(pod_set);
    Load load;
    const queueing::RequestContext context = world_.RequestContextFor(admitted_.metadata.ns);
    Book(load, world_, queueing::TopologyUsage(admitted_, context), 1);
    if (decision_.replaces != nullptr) {
      Book(load, world_, queueing::TopologyUsage(*decision_.replaces, context), -1);
    }
    for (const auto& [leaf, amounts] : load) CheckRoom(leaf.first, leaf.second, amounts);
    return std::move(broken_);
  }

 private:
  void CheckCount(const api::PodSet& pod_set) {
    for (const api::PodSetAssignment& one : decision_.admission.pod_set_assignments) {
      if (one.name != pod_set.name || !one.topology_assignment.has_value()) continue;
      const auto places = queueing::DecodeAssignment(*one.topology_assignment);
      if (!places.ok()) {
        Broken("{}: {}", pod_set.name, std::string(places.status().message()));
        continue;
      }
      int64_t pods = 0;
      for (const topology::AssignedDomain& domain : places->domains) pods += domain.count;
      const int64_t size = SliceSize(pod_set);
      const int64_t wanted = one.count.value_or(0) / size * size;
      if (pods != wanted) Broken("{}: places for {} pods of {}", pod_set.name, pods, wanted);
    }
  }

  static int64_t SliceSize(const api::PodSet& pod_set) {
    if (!pod_set.topology_request.has_value()) return 1;
    const auto& layers = pod_set.topology_request->pod_set_slice_required_topology_constraints;
    const int64_t size = layers.empty() ? pod_set.topology_request->pod_set_slice_size.value_or(1)
                                        : int64_t{layers.front().size};
    return std::max<int64_t>(size, 1);
  }

  void CheckRoom(const FlavorName& flavor, const std::string& identity, const Amounts& amounts) {
    const topology::Inventory& inventory = world_.topology()->inventory();
    const topology::Tree* tree = inventory.FindTree(flavor);
    const int32_t slot = tree == nullptr ? -1 : tree->FindLeaf(identity);
    if (slot < 0) return Broken("is placed on {} of {}, which is not there", identity, flavor);
    for (const auto& [resource, amount] : amounts) {
      const uint32_t id = inventory.FindResource(resource);
      const auto at = [&](const int64_t* column) { return column == nullptr ? 0 : column[slot]; };
      const bool known = id != topology::Inventory::kNoResource;
      const int64_t base = known ? at(tree->base(id)) : 0;
      const int64_t used = known ? at(tree->used(id)) : 0;
      if (amount > 0 && used + amount > base) {
        Broken("takes {} of {} on {}, where {} of {} are used", amount, resource, identity, used,
               base);
      }
    }
  }

  template <typename... Args>
  void Broken(fmt::format_string<Args...> text, Args&&... args) {
    broken_.push_back(fmt::format("{} in ClusterQueue {} {}", decision_.info->Key().ToString(),
                                  decision_.info->cluster_queue,
                                  fmt::format(text, std::forward<Args>(args)...)));
  }

  const state::World& world_;
  const admission::Decision& decision_;
  api::Workload admitted_;
  Violations broken_;
};

}  // namespace

Violations CheckPlaces(const state::World& world, const admission::Decision& decision) {
  if (world.topology() == nullptr || decision.kind != admission::Decision::Kind::kAdmit) return {};
  if (!queueing::HasPlaces(decision.admission)) return {};
  return PlaceCheck(world, decision).Run();
}

std::vector<std::string> FreeOnNodes(const state::World& world) {
  std::vector<std::string> lines;
  if (world.topology() == nullptr) return lines;
  const topology::Inventory& inventory = world.topology()->inventory();
  inventory.CheckInvariants();
  lines.push_back(fmt::format("{} foreign pods", inventory.foreign_pod_count()));
  for (const auto& [key, flavor] : world.flavors().all()) {
    const topology::Tree* tree = inventory.FindTree(key.name);
    if (tree == nullptr) continue;
    const topology::Tree::Level& leaves = tree->level(tree->depth() - 1);
    for (int32_t at = 0; at < leaves.size(); ++at) {
      std::string line =
          fmt::format("{}: {}", key.name, fmt::join(tree->ValuesAt(tree->depth() - 1, at), "/"));
      const auto slot = static_cast<size_t>(leaves.slot[static_cast<size_t>(at)]);
      absl::btree_map<ResourceName, std::string> amounts;  // ids depend on the order of events
      for (size_t id = 0; id < tree->resources(); ++id) {
        const int64_t base = tree->base(id) == nullptr ? 0 : tree->base(id)[slot];
        const int64_t used = tree->used(id) == nullptr ? 0 : tree->used(id)[slot];
        if (base == 0 && used == 0) continue;
        amounts[inventory.ResourceAt(id)] = fmt::format("{} - {}", base, used);
      }
      for (const auto& [resource, text] : amounts) line += fmt::format(" {} {}", resource, text);
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace sluice::sim
