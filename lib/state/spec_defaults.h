// What fields of a spec mean when they are not written.
//
// Contract: pure, constant time. Source: Kueue documentation of the API (stopPolicy, fairSharing).
#pragma once

#include <optional>
#include <string>

#include "api/kueue_types.h"

namespace sluice::state {

// stopPolicy of a ClusterQueue or LocalQueue: nothing new is admitted.
inline bool IsStopped(const std::string& policy) { return !policy.empty() && policy != "None"; }

// The weight in fair sharing, 1 by default.
inline Quantity FairWeight(const std::optional<api::FairSharing>& fair_sharing) {
  const Quantity one = Quantity::FromInt(1);
  return fair_sharing ? fair_sharing->weight.value_or(one) : one;
}

}  // namespace sluice::state
