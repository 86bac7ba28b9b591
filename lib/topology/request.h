// From a topology request to the numbers of a search: which level, which slices, and what is wrong.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <string>

#include "topology/search.h"
#include "topology/types.h"

namespace sluice::topology {

// A layer of slices of a request, which must outlive it.
struct Layer {
  const std::string& level;
  int64_t size;
};
using Layers = absl::InlinedVector<Layer, 3>;

// The slice layers that apply, outermost first; none without slices.
Layers LayersOf(const TopologyRequest& request);
bool HasLayers(const TopologyRequest& request);
// "" when the request names none. Part of the request or the flavor.
const std::string& LevelOf(const TopologyRequest& request, const Flavor& flavor);
bool IsUnconstrained(const TopologyRequest& request);

// Fills level, layers and kind of the search; the text of the first mistake otherwise.
std::optional<std::string> ReadRequest(const Tree& tree, const TopologyRequest& request,
                                       SearchRequest& search);

}  // namespace sluice::topology
