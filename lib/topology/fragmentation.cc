#include "topology/fragmentation.h"

#include <algorithm>

namespace sluice::topology {

int64_t Fragmentation::PerMille() const {
  if (free <= 0) return 0;
  __extension__ typedef __int128 Wide;
  return static_cast<int64_t>(Wide{free - largest} * 1000 / free);
}

std::vector<Fragmentation> FragmentationOf(const Inventory& inventory, const FlavorName& flavor) {
  std::vector<Fragmentation> result;
  const Tree* tree = inventory.FindTree(flavor);
  if (tree == nullptr) return result;
  const size_t bottom = tree->depth() - 1;
  for (size_t level = 0; level <= bottom; ++level) {
    const size_t begin = result.size();
    for (size_t resource = 0; resource < tree->resources(); ++resource) {
      const int64_t* base = tree->base(resource);
      if (base == nullptr) continue;
      const int64_t* used = tree->used(resource);
      Fragmentation part{tree->flavor().levels[level], inventory.ResourceAt(resource), 0, 0};
      const std::vector<int32_t>& slots = tree->level(bottom).slot;
      // The leaves of a domain are a range; its end is found by going down the first children.
      for (int32_t domain = 0, leaf = 0; domain < tree->level(level).size(); ++domain) {
        int32_t end = domain + 1;
        for (size_t l = level; l < bottom; ++l)
          end = tree->level(l).begin[static_cast<size_t>(end)];
        int64_t free = 0;
        for (; leaf < end; ++leaf) {
          const auto slot = static_cast<size_t>(slots[static_cast<size_t>(leaf)]);
          free += std::max<int64_t>(0, base[slot] - (used == nullptr ? 0 : used[slot]));
        }
        part.free += free;
        part.largest = std::max(part.largest, free);
      }
      result.push_back(std::move(part));
    }
    std::sort(
        result.begin() + static_cast<std::ptrdiff_t>(begin), result.end(),
        [](const Fragmentation& a, const Fragmentation& b) { return a.resource < b.resource; });
  }
  return result;
}

}  // namespace sluice::topology
