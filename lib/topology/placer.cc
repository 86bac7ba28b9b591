#include "topology/placer.h"

#include <absl/container/btree_map.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

#include "topology/recheck.h"
#include "topology/request.h"

namespace sluice::topology {
namespace {

Failure Invalid(const Tree& tree, std::string text) {
  Failure failure;
  failure.kind = Failure::Kind::kInvalid;
  failure.topology = tree.flavor().topology;
  failure.text = std::move(text);
  return failure;
}

int64_t PodsOf(const Assignment& assignment) {
  int64_t pods = 0;
  for (const AssignedDomain& domain : assignment.domains) pods += domain.count;
  return pods;
}

int32_t PositionIn(const Tree& tree, const std::vector<std::string>& values) {
  const int32_t slot = SlotIn(tree, values);
  return slot < 0 ? -1 : tree.PositionOf(slot);
}

AssignedDomain DomainAt(const Tree& tree, int32_t position, int64_t count) {
  if (tree.ends_in_hosts()) return {{tree.ValueAt(tree.depth() - 1, position)}, count};
  return {tree.ValuesAt(tree.depth() - 1, position), count};
}

Assignment Empty(const Tree& tree) {
  Assignment assignment;
  assignment.levels =
      tree.ends_in_hosts() ? std::vector<std::string>{kHostname} : tree.flavor().levels;
  return assignment;
}

// The first domain of the assignment that is not in the tree.
const AssignedDomain* FindStale(const Tree& tree, const Assignment& assignment) {
  for (const AssignedDomain& domain : assignment.domains) {
    if (PositionIn(tree, domain.values) < 0) return &domain;
  }
  return nullptr;
}

// Where the search for a replacement of `missing` pods has to stay, if anywhere.
std::optional<std::pair<size_t, int32_t>> Confine(const Tree& tree, const SearchRequest& search,
                                                  const Assignment& remaining, int64_t missing) {
  if (remaining.domains.empty()) return std::nullopt;
  if (!search.layers.empty() && missing % search.slice_size != 0) {
    size_t innermost = search.layers.size() - 1;
    while (missing % search.layers[innermost].second == 0) --innermost;
    const auto [level, size] = search.layers[innermost];
    absl::btree_map<int32_t, int64_t> pods;
    for (const AssignedDomain& domain : remaining.domains) {
      pods[Ancestor(tree, PositionIn(tree, domain.values), level)] += domain.count;
    }
    for (const auto& [position, count] : pods) {
      if ((count + missing) % size == 0) return std::pair(level, position);
    }
    return std::nullopt;
  }
  if (!search.required) return std::nullopt;
  const int32_t leaf = PositionIn(tree, remaining.domains.front().values);
  return std::pair(search.level, Ancestor(tree, leaf, search.level));
}

// What is left of the slices when only `missing` pods of a slice are looked for.
TopologyRequest WithoutBrokenSlices(const TopologyRequest& request, int64_t missing) {
  TopologyRequest reduced = request;
  const Layers layers = LayersOf(request);
  reduced.slice_level.clear();
  reduced.slice_size.reset();
  reduced.layers.clear();
  for (size_t i = layers.size(); i-- > 0;) {
    if (missing % layers[i].size == 0) {
      reduced.layers.push_back({layers[i].level, layers[i].size});
      break;
    }
  }
  return reduced;
}

}  // namespace

bool WorkloadPlacement::fits() const { return first_failure() == nullptr; }

const PodSetPlacement* WorkloadPlacement::first_failure() const {
  for (const PodSetPlacement& pod_set : pod_sets) {
    if (pod_set.failure.has_value()) return &pod_set;
  }
  return nullptr;
}

Assignment Merge(const Tree& tree, const Assignment& a, const Assignment& b) {
  // Position first, so that the order is that of the tree; what is not there sorts behind.
  absl::btree_map<std::pair<int32_t, std::vector<std::string>>, int64_t> sums;
  for (const Assignment* part : {&a, &b}) {
    for (const AssignedDomain& domain : part->domains) {
      int32_t position = PositionIn(tree, domain.values);
      if (position < 0) position = std::numeric_limits<int32_t>::max();
      sums[{position, domain.values}] += domain.count;
    }
  }
  Assignment merged = Empty(tree);
  for (const auto& [key, count] : sums) merged.domains.push_back({key.second, count});
  return merged;
}

Options Placer::WithoutMaintenance(Options options) {
  options.exclude_maintenance = false;
  return options;
}

Placer::Placer(const Inventory& inventory)
    : inventory_(inventory),
      searcher_(inventory.options()),
      counter_(WithoutMaintenance(inventory.options())) {}

std::string Placer::RequestedLevel(const TopologyRequest& request, const Flavor& flavor) {
  return LevelOf(request, flavor);
}

bool Placer::HasLevels(const TopologyRequest& request, const Flavor& flavor) {
  const auto has = [&](const std::string& level) {
    return std::find(flavor.levels.begin(), flavor.levels.end(), level) != flavor.levels.end();
  };
  const std::string& level = LevelOf(request, flavor);
  if (level.empty() || !has(level)) return false;
  const Layers layers = LayersOf(request);
  return std::all_of(layers.begin(), layers.end(),
                     [&](const Layer& layer) { return has(layer.level); });
}

WorkloadUsage Placer::UsageOf(const WorkloadRequest& request, const WorkloadPlacement& placement) {
  WorkloadUsage usage;
  for (size_t i = 0; i < request.pod_sets.size() && i < placement.pod_sets.size(); ++i) {
    if (!placement.pod_sets[i].assignment.has_value()) continue;
    usage.push_back({request.pod_sets[i].flavor, request.pod_sets[i].per_pod,
                     *placement.pod_sets[i].assignment});
  }
  return usage;
}

Needs Placer::NeedsOf(const Requests& per_pod) const {
  Needs needs;
  bool with_pods = false;
  static const ResourceName kPodsName = kPods;
  const auto pods = [&] {
    needs.push_back({inventory_.FindResource(kPodsName), 1, &kPodsName});
    with_pods = true;
  };
  for (const auto& [resource, amount] : per_pod) {
    if (resource == kPods) continue;
    if (!with_pods && resource > kPods) pods();
    needs.push_back({inventory_.FindResource(resource), amount, &resource});
  }
  if (!with_pods) pods();
  return needs;
}

// Counts the pods as used for the pod sets that come after.
void Placer::Assume(const Tree& tree, const PodSetRequest& pod_set, const Assignment& assignment) {
  if (request_->pod_sets.size() > 1) Book(tree, pod_set, assignment);
}

// The same for all that follows.
void Placer::Book(const Tree& tree, const PodSetRequest& pod_set, const Assignment& assignment) {
  Book(inventory_.Resolve({{tree.name(), pod_set.per_pod, assignment}}));
}

void Placer::Book(std::vector<LeafUsage> leaves) {
  absl::btree_map<const UsageRecord*, size_t> known;
  for (size_t i = 0; i < assumed_.size(); ++i) known.emplace(assumed_[i].record, i);
  for (LeafUsage& leaf : leaves) {
    const auto [place, added] = known.emplace(leaf.record, assumed_.size());
    if (added) {
      assumed_.push_back(std::move(leaf));
    } else {
      auto& amounts = assumed_[place->second].amounts;
      amounts.insert(amounts.end(), leaf.amounts.begin(), leaf.amounts.end());
    }
  }
}

// Each once, in the order of the names.
std::vector<const FlavorName*> Placer::FlavorsOf(const WorkloadRequest& request) {
  std::vector<const FlavorName*> flavors;
  flavors.reserve(request.pod_sets.size());
  for (const PodSetRequest& pod_set : request.pod_sets) flavors.push_back(&pod_set.flavor);
  std::sort(flavors.begin(), flavors.end(), [](const auto* a, const auto* b) { return *a < *b; });
  flavors.erase(std::unique(flavors.begin(), flavors.end(),
                            [](const auto* a, const auto* b) { return *a == *b; }),
                flavors.end());
  return flavors;
}

std::vector<Placer::Group> Placer::GroupsOf(const WorkloadRequest& request,
                                            const FlavorName& flavor) {
  std::vector<Group> groups;
  std::vector<size_t> done;  // second members
  std::vector<size_t> members;
  const std::vector<PodSetRequest>& sets = request.pod_sets;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].flavor != flavor || sets[i].count <= 0) continue;
    if (std::find(done.begin(), done.end(), i) != done.end()) continue;
    members.clear();
    for (size_t j = i; j < sets.size(); ++j) {
      const bool same = !sets[i].topology.group.empty() &&
                        sets[j].topology.group == sets[i].topology.group &&
                        sets[j].flavor == flavor && sets[j].count > 0;
      if (j == i || same) members.push_back(j);
    }
    // Repair works on pod sets one by one.
    if (members.size() != 2 || sets[i].previous_kind == Previous::kReplaceNode) {
      groups.push_back({i, std::nullopt});
      continue;
    }
    const bool second_larger = sets[members[1]].count > sets[members[0]].count;
    groups.push_back({members[second_larger ? 1 : 0], members[second_larger ? 0 : 1]});
    done.push_back(members[1]);
  }
  return groups;
}

WorkloadPlacement Placer::Place(const WorkloadRequest& request) {
  return PlaceAll(request, request.simulate_empty);
}

WorkloadPlacement Placer::PlaceInEmpty(const WorkloadRequest& request) {
  return PlaceAll(request, true);
}

WorkloadPlacement Placer::PlaceAll(const WorkloadRequest& request, bool empty) {
  request_ = &request;
  empty_ = empty;
  assumed_.clear();
  WorkloadPlacement placement;
  placement.pod_sets.reserve(request.pod_sets.size());
  for (const PodSetRequest& pod_set : request.pod_sets) {
    placement.pod_sets.push_back({pod_set.name, pod_set.flavor, std::nullopt, std::nullopt});
  }
  // What is assumed is kept by usage record, which only flavors that share hosts have in common.
  for (const FlavorName* flavor : FlavorsOf(request)) PlaceFlavor(*flavor, placement);
  request_ = nullptr;
  return placement;
}

bool Placer::Fits(const WorkloadRequest& request) {
  brief_ = true;
  const bool fits = Place(request).fits();
  brief_ = false;
  return fits;
}

void Placer::PlaceFlavor(const FlavorName& flavor, WorkloadPlacement& placement) {
  const Tree* tree = inventory_.FindTree(flavor);
  for (const Group& group : GroupsOf(*request_, flavor)) {
    GroupResult result;
    if (tree == nullptr) {
      result.failure.emplace();
      result.failure->kind = Failure::Kind::kUnknown;
      result.failure->text = "no topology information for flavor " + flavor;
    } else {
      result = PlaceGroup(*tree, group);
    }
    PodSetPlacement& workers = placement.pod_sets[group.workers];
    PodSetPlacement* leader =
        group.leader.has_value() ? &placement.pod_sets[*group.leader] : nullptr;
    if (result.failure.has_value()) {
      if (leader != nullptr) leader->failure = result.failure;
      workers.failure = std::move(result.failure);
      return;
    }
    workers.assignment = std::move(result.workers);
    if (leader != nullptr) leader->assignment = std::move(result.leader);
  }
}

Placer::GroupResult Placer::PlaceGroup(const Tree& tree, const Group& group) {
  const PodSetRequest& workers = request_->pod_sets[group.workers];
  const PodSetRequest* leader =
      group.leader.has_value() ? &request_->pod_sets[*group.leader] : nullptr;
  if (workers.previous_kind == Previous::kReplaceNode) return Replace(tree, workers);
  if (workers.previous_kind == Previous::kResize) return Resize(tree, workers, leader);
  GroupResult result = PlaceFresh(tree, workers, leader);
  if (!result.failure.has_value()) {
    Assume(tree, workers, result.workers);
    if (leader != nullptr) Assume(tree, *leader, result.leader);
  }
  return result;
}

std::optional<Failure> Placer::Prepare(const Tree& tree, const PodSetRequest& workers,
                                       const PodSetRequest* leader, SearchRequest& search) const {
  search.tree = &tree;
  search.worker = NeedsOf(workers.per_pod);
  if (leader != nullptr) search.leader = NeedsOf(leader->per_pod);
  search.filter = &workers.filter;
  search.count = workers.count;
  search.simulate_empty = empty_;
  search.now = request_->now;
  search.bound = request_->bound;
  search.brief = brief_;
  if (auto text = ReadRequest(tree, workers.topology, search)) {
    return Invalid(tree, *std::move(text));
  }
  if (!tree.ends_in_hosts()) return std::nullopt;
  if (auto text = FindInvalid(workers.filter)) return Invalid(tree, *std::move(text));
  return std::nullopt;
}

Placer::GroupResult Placer::PlaceFresh(const Tree& tree, const PodSetRequest& workers,
                                       const PodSetRequest* leader) {
  SearchRequest search;
  if (auto failure = Prepare(tree, workers, leader, search)) return {std::move(failure), {}, {}};
  return RunSearch(search);
}

Placer::GroupResult Placer::RunSearch(const SearchRequest& search) {
  const Tree& tree = *search.tree;
  GroupResult result;
  std::variant<Found, Failure> found = searcher_.Run(search, assumed_);
  if (auto* failure = std::get_if<Failure>(&found)) {
    result.failure = std::move(*failure);
    return result;
  }
  // Nobody wants to know where, and nothing comes after.
  const PodSetRequest& first = request_->pod_sets.front();
  if (brief_ && request_->pod_sets.size() == 1 && first.previous_kind == Previous::kNone) {
    return result;
  }
  const Found& places = std::get<Found>(found);
  result.workers = Empty(tree);
  result.leader = Empty(tree);
  for (const auto& [position, pods] : places.workers) {
    result.workers.domains.push_back(DomainAt(tree, position, pods));
  }
  if (places.leader >= 0) result.leader.domains.push_back(DomainAt(tree, places.leader, 1));
  return result;
}

Placer::GroupResult Placer::Replace(const Tree& tree, const PodSetRequest& pod_set) {
  GroupResult result;
  Assignment remaining = pod_set.previous;
  int64_t missing = 0;
  std::erase_if(remaining.domains, [&](const AssignedDomain& domain) {
    if (domain.values.empty() || domain.values.back() != pod_set.failed_node) return false;
    missing += domain.count;
    return true;
  });
  Failure failure;
  failure.topology = tree.flavor().topology;
  if (const AssignedDomain* stale = FindStale(tree, remaining)) {
    failure.kind = Failure::Kind::kStale;
    failure.text = absl::StrJoin(stale->values, ",");
    result.failure = std::move(failure);
    return result;
  }
  if (missing == 0) {
    result.workers = std::move(remaining);
    return result;
  }
  SearchRequest search;
  result.failure = Prepare(tree, pod_set, nullptr, search);
  if (result.failure.has_value()) return result;
  const auto confined = Confine(tree, search, remaining, missing);
  PodSetRequest reduced = pod_set;
  reduced.count = missing;
  if (!search.layers.empty() && confined.has_value() && missing % search.slice_size != 0) {
    reduced.topology = WithoutBrokenSlices(pod_set.topology, missing);
  }
  search = SearchRequest();
  result.failure = Prepare(tree, reduced, nullptr, search);
  if (result.failure.has_value()) return result;
  search.confined = confined;
  search.banned_leaf = tree.FindLeaf(pod_set.failed_node);
  result = RunSearch(search);
  if (result.failure.has_value()) return result;
  if (PodsOf(result.workers) != missing) {
    failure.kind = Failure::Kind::kNoReplacement;
    failure.text = pod_set.failed_node;
    result.failure = std::move(failure);
    return result;
  }
  Assume(tree, pod_set, result.workers);
  result.workers = Merge(tree, remaining, result.workers);
  return result;
}

Placer::GroupResult Placer::Resize(const Tree& tree, const PodSetRequest& workers,
                                   const PodSetRequest* leader) {
  const bool stale = FindStale(tree, workers.previous) != nullptr ||
                     (leader != nullptr && FindStale(tree, leader->previous) != nullptr);
  const bool new_leader = leader != nullptr && leader->previous.domains.empty();
  const int64_t before = PodsOf(workers.previous);
  if (stale || new_leader || before == 0) {
    GroupResult fresh = PlaceFresh(tree, workers, leader);
    if (fresh.failure.has_value()) return fresh;
    Assume(tree, workers, fresh.workers);
    if (leader != nullptr) Assume(tree, *leader, fresh.leader);
    return fresh;
  }
  // The pods of the slice before are in the inventory's usage; they are counted once, here only
  // when that usage is left out.
  if (empty_) {
    Book(tree, workers, workers.previous);
    if (leader != nullptr) Book(tree, *leader, leader->previous);
  }
  GroupResult result;
  if (leader != nullptr) result.leader = leader->previous;
  result.workers = Empty(tree);
  if (workers.count <= before) {
    int64_t left = workers.count;
    for (const AssignedDomain& domain : workers.previous.domains) {
      const int64_t kept = std::min(left, domain.count);
      if (kept > 0) result.workers.domains.push_back({domain.values, kept});
      left -= kept;
    }
    return result;
  }
  PodSetRequest more = workers;
  more.count = workers.count - before;
  GroupResult added = PlaceFresh(tree, more, nullptr);
  if (added.failure.has_value()) return added;
  Assume(tree, workers, added.workers);
  result.workers = Merge(tree, workers.previous, added.workers);
  return result;
}

std::optional<Broken> Placer::Check(const PodSetRequest& pod_set, const Assignment& assignment,
                                    const Assignment* held) const {
  Broken broken;
  broken.pod_set = pod_set.name;
  const Tree* tree = inventory_.FindTree(pod_set.flavor);
  const Needs needs = NeedsOf(pod_set.per_pod);
  const Tree::Mask* mask = tree == nullptr ? nullptr : &tree->MaskFor(pod_set.filter);
  for (const AssignedDomain& domain : assignment.domains) {
    broken.domain = domain.values;
    const int32_t slot = tree == nullptr ? -1 : SlotIn(*tree, domain.values);
    if (slot < 0) return broken;
    int64_t count = domain.count;
    if (held != nullptr) {
      for (const AssignedDomain& own : held->domains) {
        if (own.values == domain.values) count -= own.count;
      }
    }
    if (count <= 0) continue;
    if (mask->code[static_cast<size_t>(slot)] != Tree::Mask::kAccepted) {
      broken.kind = Broken::Kind::kExcluded;
      return broken;
    }
    for (const Need& need : needs) {
      if (need.amount <= 0) continue;
      const int64_t* base = tree->base(need.resource);
      const int64_t* used = tree->used(need.resource);
      const int64_t free = (base == nullptr ? 0 : base[slot]) - (used == nullptr ? 0 : used[slot]);
      if (free / need.amount >= count) continue;
      broken.kind = Broken::Kind::kNoRoom;
      broken.fit = std::max<int64_t>(0, free / need.amount);
      return broken;
    }
  }
  return std::nullopt;
}

}  // namespace sluice::topology
