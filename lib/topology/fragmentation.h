// How broken up the free capacity of a flavor is: of each resource, at each level, what is free
// and how much of it lies in the one domain that has most.
//
// A gang that must stay within one domain of a level can be at most as large as `largest`; what is
// lost to it is 1 - largest / free. Contract: O(domains * resources); for gauges and status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/inventory.h"

namespace sluice::topology {

struct Fragmentation {
  std::string level;
  ResourceName resource;
  int64_t free = 0;     // sum over leaves, those below zero counting as zero
  int64_t largest = 0;  // in one domain of the level
  // (1 - largest / free) in thousandths, rounded down; 0 when nothing is free.
  int64_t PerMille() const;
  bool operator==(const Fragmentation&) const = default;
};

// By level, coarsest first, then by name of the resource; resources that no node has are left out.
// Empty for an unknown flavor.
std::vector<Fragmentation> FragmentationOf(const Inventory& inventory, const FlavorName& flavor);

}  // namespace sluice::topology
