// What must hold of places on nodes: nothing is given a domain that has no room for it, and all
// pods of a pod set that needs places get one.
//
// Contract: pure; texts of what is broken, empty when all is well. Judged with sums of its own, not
// with those of the placement.
#pragma once

#include <string>
#include <vector>

#include "admission/cycle.h"
#include "sim/invariants.h"
#include "state/world.h"

namespace sluice::sim {

// Of an admission that was just decided and is not counted yet.
Violations CheckPlaces(const state::World& world, const admission::Decision& decision);
// Per flavor with a topology and leaf: what its nodes give, less pods that are not ours, and what
// is used. For comparing two Worlds.
std::vector<std::string> FreeOnNodes(const state::World& world);

}  // namespace sluice::sim
