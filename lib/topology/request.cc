#include "topology/request.h"

#include <fmt/format.h>

namespace sluice::topology {

Layers LayersOf(const TopologyRequest& request) {
  Layers layers;
  for (const SliceLayer& layer : request.layers) layers.push_back({layer.level, layer.size});
  if (layers.empty() && !request.slice_level.empty()) {
    layers.push_back({request.slice_level, request.slice_size.value_or(0)});
  }
  return layers;
}

bool HasLayers(const TopologyRequest& request) {
  return !request.layers.empty() || !request.slice_level.empty();
}

bool IsUnconstrained(const TopologyRequest& request) {
  if (request.unconstrained || request.implied) return true;
  return request.required.empty() && request.preferred.empty() && HasLayers(request);
}

const std::string& LevelOf(const TopologyRequest& request, const Flavor& flavor) {
  static const std::string kNone;
  if (!request.required.empty()) return request.required;
  if (!request.preferred.empty()) return request.preferred;
  if (HasLayers(request)) return flavor.levels.front();
  if (request.unconstrained || request.implied) return flavor.levels.back();
  return kNone;
}

std::optional<std::string> ReadRequest(const Tree& tree, const TopologyRequest& request,
                                       SearchRequest& search) {
  const Layers layers = LayersOf(request);
  if (!layers.empty() && layers.front().size <= 0) {
    return "slice topology requested, but slice size not provided";
  }
  const std::string& level = LevelOf(request, tree.flavor());
  if (level.empty()) return "topology level not specified";
  const int at = tree.FindLevel(level);
  if (at < 0) return fmt::format("no requested topology level: {}", level);
  search.level = static_cast<size_t>(at);
  search.required = !request.required.empty();
  search.unconstrained = IsUnconstrained(request);
  search.even = request.spreading == Spreading::kSpread;
  search.slice_level = tree.depth() - 1;
  search.slice_size = 1;
  search.layers.clear();
  search.inner.clear();
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const int layer_at = tree.FindLevel(layer.level);
    if (i == 0) {
      if (layer_at < 0) {
        return fmt::format("no requested topology level for slices: {}", layer.level);
      }
      if (layer_at < at) {
        return fmt::format("podset slice topology {} is above the podset topology {}", layer.level,
                           level);
      }
      search.slice_level = static_cast<size_t>(layer_at);
      search.slice_size = layer.size;
      search.layers.emplace_back(search.slice_level, layer.size);
      continue;
    }
    const auto [above, above_size] = search.layers.back();
    if (layer_at < 0) {
      return fmt::format("no requested topology level for additional slice layer: {}", layer.level);
    }
    if (layer_at <= static_cast<int>(above)) {
      return fmt::format("additional slice layer topology {} must be at a lower level than {}",
                         layer.level, layers[i - 1].level);
    }
    if (layer.size <= 0 || above_size % layer.size != 0) {
      return fmt::format("additional slice layer size {} must evenly divide parent layer size {}",
                         layer.size, above_size);
    }
    search.inner.resize(tree.depth());
    for (size_t l = above + 1; l <= static_cast<size_t>(layer_at); ++l) {
      search.inner[l] = layer.size;
    }
    search.layers.emplace_back(static_cast<size_t>(layer_at), layer.size);
  }
  return std::nullopt;
}

}  // namespace sluice::topology
