// Whether the pods of a pod set could run on the nodes that a ResourceFlavor stands for.
//
// Contract: pure. Sources: Kubernetes documentation "Taints and Tolerations" and "Assigning Pods to
// Nodes" (node selector requirements, matching of terms).
#pragma once

#include <optional>

#include "api/kueue_types.h"

namespace sluice::flavor {

bool Tolerates(const api::Toleration& toleration, const api::Taint& taint);

// The first taint of the flavor with effect NoSchedule or NoExecute that neither the pod nor the
// flavor itself tolerates.
std::optional<api::Taint> FirstUntoleratedTaint(const api::ResourceFlavor& flavor,
                                                const api::PodSpec& pod);

enum class AffinityMatch { kMatches, kDiffers, kInvalid };

// Node selector and required node affinity against the flavor's node labels. Only keys that the
// flavor declares are looked at; a term that becomes empty makes the whole affinity match.
AffinityMatch MatchesAffinity(const api::ResourceFlavor& flavor, const api::PodSpec& pod);

}  // namespace sluice::flavor
