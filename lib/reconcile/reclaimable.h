// What of a Workload's pods has ended and needs no quota any more, as a part of its status.
//
// Source: Kueue documentation, "Workload" (reclaimable pods); Kubernetes documentation,
// "Server-Side Apply" (list maps).
#pragma once

#include <optional>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"

namespace sluice::reconcile {

// The status to apply so that the Workload says this, no pod set having more than it has pods;
// nullopt when it says so already. The API server keeps the order in which the pod sets came to be
// there, so the order means nothing.
std::optional<api::Json> ReclaimableStatus(const api::Workload& workload,
                                           std::vector<api::ReclaimablePod> pods);

}  // namespace sluice::reconcile
