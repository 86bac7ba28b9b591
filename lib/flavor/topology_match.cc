#include "flavor/topology_match.h"

#include <absl/container/btree_set.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace sluice::flavor {

TopologyMatch MatchTopology(TopologyWish wish, const topology::TopologyRequest& request,
                            bool has_topology, const topology::Tree* tree, bool covers_pods) {
  switch (wish) {
    case TopologyWish::kImplied:
      return TopologyMatch::kMatches;
    case TopologyWish::kNone:
      return has_topology ? TopologyMatch::kOnlyTopology : TopologyMatch::kMatches;
    case TopologyWish::kAsked:
      break;
  }
  if (!has_topology) {
    return covers_pods ? TopologyMatch::kNotSupported : TopologyMatch::kMatches;
  }
  if (tree == nullptr) return TopologyMatch::kUnknown;
  return topology::Placer::HasLevels(request, tree->flavor()) ? TopologyMatch::kMatches
                                                              : TopologyMatch::kLevelMissing;
}

bool HasOnlyTopology(const api::ClusterQueueSpec& queue,
                     const std::function<bool(const FlavorName&)>& has_topology) {
  for (const api::ResourceGroup& group : queue.resource_groups) {
    for (const auto& flavor : group.flavors) {
      if (!has_topology(flavor.name)) return false;
    }
  }
  return true;
}

TopologyFlavorOf FindTopologyFlavor(const PodSetAssignment& pod_set,
                                    const std::function<bool(const FlavorName&)>& has_topology) {
  absl::btree_set<FlavorName> flavors;
  for (const auto& [resource, choice] : pod_set.flavors) {
    if (has_topology(choice.flavor)) flavors.insert(choice.flavor);
  }
  if (flavors.empty()) return {"", "no TAS flavor assigned"};
  if (flavors.size() > 1) {
    return {"", "more than one TAS flavor assigned: " + absl::StrJoin(flavors, ", ")};
  }
  return {*flavors.begin(), ""};
}

TopologyOutcome DecideTopology(topology::Placer& placer, const topology::WorkloadRequest& request,
                               Mode mode) {
  TopologyOutcome outcome;
  outcome.mode = mode;
  if (mode == Mode::kNoFit) return outcome;
  const bool repairs = std::any_of(request.pod_sets.begin(), request.pod_sets.end(),
                                   [](const topology::PodSetRequest& one) {
                                     return one.previous_kind == topology::Previous::kReplaceNode;
                                   });
  const auto place = [&](bool empty) {
    outcome.placement = empty ? placer.PlaceInEmpty(request) : placer.Place(request);
    const topology::PodSetPlacement* failed = outcome.placement.first_failure();
    if (failed == nullptr) return true;
    outcome.failed_pod_set = failed->name;
    outcome.reason = topology::Render(*failed->failure);
    outcome.failure = std::make_shared<const topology::Failure>(*failed->failure);
    return false;
  };
  if (mode == Mode::kFit) {
    if (place(false)) return outcome;
    outcome.mode = Mode::kPreempt;
  }
  if (repairs) return outcome;
  // What stands in the way now is what the user wants to know, if removing others could help.
  const std::string now_set = outcome.failed_pod_set;
  const std::string now_reason = outcome.reason;
  const auto now_failure = outcome.failure;
  if (!place(true)) {
    outcome.mode = Mode::kNoFit;
  } else {
    outcome.failed_pod_set = now_set;
    outcome.reason = now_reason;
    outcome.failure = now_failure;
  }
  return outcome;
}

}  // namespace sluice::flavor
