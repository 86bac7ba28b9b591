// Asking the same of many states of the inventory: what can be told by counting, and places without
// their names.
#include <algorithm>

#include "topology/placer.h"

namespace sluice::topology {
namespace {

bool IsFresh(const PodSetRequest& pod_set) { return pod_set.previous_kind == Previous::kNone; }

}  // namespace

Placer::Parts Placer::PartsOf(const WorkloadRequest& request) {
  request_ = &request;
  empty_ = request.simulate_empty;
  Parts parts;
  for (const FlavorName* flavor : FlavorsOf(request)) {
    const Tree* tree = inventory_.FindTree(*flavor);
    for (const Group& group : GroupsOf(request, *flavor)) {
      const PodSetRequest& workers = request.pod_sets[group.workers];
      const PodSetRequest* leader =
          group.leader.has_value() ? &request.pod_sets[*group.leader] : nullptr;
      SearchRequest search;
      if (tree == nullptr || !IsFresh(workers) || (leader != nullptr && !IsFresh(*leader)) ||
          Prepare(*tree, workers, leader, search)) {
        parts.all = false;
        continue;
      }
      parts.all = parts.all &&
                  (tree->maintenance_nodes() == 0 || !inventory_.options().exclude_maintenance);
      parts.searches.push_back(std::move(search));
    }
  }
  request_ = nullptr;
  return parts;
}

// `last`: nothing is placed after it.
bool Placer::TakeGroup(const Tree& tree, const Group& group, bool last,
                       std::vector<LeafUsage>& taken) {
  const PodSetRequest& workers = request_->pod_sets[group.workers];
  const PodSetRequest* leader =
      group.leader.has_value() ? &request_->pod_sets[*group.leader] : nullptr;
  SearchRequest search;
  if (Prepare(tree, workers, leader, search)) return false;
  const std::variant<Found, Failure> found = searcher_.Run(search, assumed_);
  if (std::holds_alternative<Failure>(found)) return false;
  const auto& places = std::get<Found>(found);
  const Tree::Level& leaves = tree.level(tree.depth() - 1);
  std::vector<LeafUsage> own;
  own.reserve(places.workers.size() + 1);
  const auto take = [&](const auto& per_pod, int32_t position, int64_t pods) {
    LeafUsage& leaf = own.emplace_back();
    leaf.record = tree.leaf(leaves.slot[static_cast<size_t>(position)]).usage;
    leaf.amounts = Inventory::Times(per_pod, pods);
  };
  const auto per_worker = inventory_.LeafAmountsOf(workers.per_pod);
  for (const auto& [position, pods] : places.workers) take(per_worker, position, pods);
  if (leader != nullptr) take(inventory_.LeafAmountsOf(leader->per_pod), places.leader, 1);
  if (!last) Book(own);
  taken.insert(taken.end(), std::make_move_iterator(own.begin()),
               std::make_move_iterator(own.end()));
  return true;
}

std::optional<std::vector<LeafUsage>> Placer::TakeOf(const WorkloadRequest& request) {
  if (!std::all_of(request.pod_sets.begin(), request.pod_sets.end(), IsFresh)) {
    const WorkloadPlacement placement = Place(request);
    if (!placement.fits()) return std::nullopt;
    return inventory_.Resolve(UsageOf(request, placement));
  }
  request_ = &request;
  empty_ = request.simulate_empty;
  brief_ = true;
  assumed_.clear();
  std::vector<LeafUsage> taken;
  bool fits = true;
  for (const FlavorName* flavor : FlavorsOf(request)) {
    const Tree* tree = inventory_.FindTree(*flavor);
    for (const Group& group : GroupsOf(request, *flavor)) {
      fits =
          fits && tree != nullptr && TakeGroup(*tree, group, request.pod_sets.size() == 1, taken);
    }
  }
  brief_ = false;
  request_ = nullptr;
  if (!fits) return std::nullopt;
  return taken;
}

}  // namespace sluice::topology
