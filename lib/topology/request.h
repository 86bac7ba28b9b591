// From a topology request to the numbers of a search: which level, which slices, and what is wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/search.h"
#include "topology/types.h"

namespace sluice::topology {

// The slice layers that apply, outermost first; none without slices.
std::vector<SliceLayer> LayersOf(const TopologyRequest& request);
// "" when the request names none.
std::string LevelOf(const TopologyRequest& request, const Flavor& flavor);
bool IsUnconstrained(const TopologyRequest& request);

// Fills level, layers and kind of the search; the text of the first mistake otherwise.
std::optional<std::string> ReadRequest(const Tree& tree, const TopologyRequest& request,
                                       SearchRequest& search);

}  // namespace sluice::topology
