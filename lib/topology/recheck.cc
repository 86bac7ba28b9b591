#include "topology/recheck.h"

#include <absl/container/btree_map.h>

#include <algorithm>

#include "topology/request.h"

namespace sluice::topology {
namespace {

// By domain of a level: its pods, and one of the assignment's domains in it.
struct Part {
  int64_t pods = 0;
  const AssignedDomain* first = nullptr;
};
using Parts = absl::btree_map<int32_t, Part>;

Parts PartsAt(const Tree& tree, const Assignment& assignment, size_t level) {
  Parts parts;
  for (const AssignedDomain& domain : assignment.domains) {
    const int32_t leaf = tree.PositionOf(SlotIn(tree, domain.values));
    Part& part = parts[Ancestor(tree, leaf, level)];
    part.pods += domain.count;
    if (part.first == nullptr) part.first = &domain;
  }
  return parts;
}

// The first domain that is not in that of the first one, or that has a part of a slice.
const AssignedDomain* FindApart(const Tree& tree, const TopologyRequest& request,
                                const Assignment& assignment, bool in_slices) {
  if (assignment.domains.empty()) return nullptr;
  const int required = request.required.empty() ? -1 : tree.FindLevel(request.required);
  if (required >= 0) {
    const Parts parts = PartsAt(tree, assignment, static_cast<size_t>(required));
    const AssignedDomain* first = &assignment.domains.front();
    for (const auto& [position, part] : parts) {
      if (parts.size() > 1 && part.first != first) return part.first;
    }
  }
  const Layers layers = LayersOf(request);
  const int level = layers.empty() || !in_slices ? -1 : tree.FindLevel(layers.front().level);
  if (level < 0 || layers.front().size <= 0) return nullptr;
  for (const auto& [position, part] : PartsAt(tree, assignment, static_cast<size_t>(level))) {
    if (part.pods % layers.front().size != 0) return part.first;
  }
  return nullptr;
}

}  // namespace

int32_t SlotIn(const Tree& tree, const std::vector<std::string>& values) {
  if (values.empty() || (!tree.ends_in_hosts() && values.size() != tree.depth())) return -1;
  return tree.FindLeaf(tree.ends_in_hosts() ? values.back() : tree.IdentityOf(values));
}

int32_t Ancestor(const Tree& tree, int32_t leaf, size_t level) {
  for (size_t l = tree.depth() - 1; l > level; --l) {
    leaf = tree.level(l).parent[static_cast<size_t>(leaf)];
  }
  return leaf;
}

std::optional<LostDomain> FindLost(const Tree& tree, const PodSetRequest& pod_set,
                                   const Assignment& assignment,
                                   const std::vector<std::string>& failed, bool in_slices) {
  Assignment kept = assignment;
  std::erase_if(kept.domains, [&](const AssignedDomain& domain) {
    return domain.count <= 0 ||
           (tree.ends_in_hosts() &&
            std::find(failed.begin(), failed.end(), domain.values.back()) != failed.end());
  });
  const Tree::Mask& mask = tree.MaskFor(pod_set.filter);
  for (const AssignedDomain& domain : kept.domains) {
    const int32_t slot = SlotIn(tree, domain.values);
    if (slot < 0) return LostDomain{LostDomain::Kind::kGone, domain.values};
    if (mask.code[static_cast<size_t>(slot)] == Tree::Mask::kAccepted) continue;
    return LostDomain{LostDomain::Kind::kExcluded, domain.values};
  }
  // With a part of them lost there are no whole slices to be found.
  const bool whole = in_slices && kept.domains.size() == assignment.domains.size();
  if (const AssignedDomain* apart = FindApart(tree, pod_set.topology, kept, whole)) {
    return LostDomain{LostDomain::Kind::kApart, apart->values};
  }
  return std::nullopt;
}

}  // namespace sluice::topology
