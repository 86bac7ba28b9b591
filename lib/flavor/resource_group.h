// The resource group that a resource belongs to. Pure. Source: Kueue documentation, "Cluster Queue"
// (a resource is in one group at most).
#pragma once

#include <algorithm>
#include <vector>

#include "api/kueue_types.h"

namespace sluice::flavor {

// nullptr when no quota is declared for the resource.
inline const api::ResourceGroup* GroupOf(const std::vector<api::ResourceGroup>& groups,
                                         const ResourceName& resource) {
  for (const api::ResourceGroup& group : groups) {
    const auto& covered = group.covered_resources;
    if (std::find(covered.begin(), covered.end(), resource) != covered.end()) return &group;
  }
  return nullptr;
}

}  // namespace sluice::flavor
