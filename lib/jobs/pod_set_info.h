// What a started job's pod templates receive from the admission: node selectors, tolerations,
// labels, annotations and counts. Source: Kueue documentation, "Workload", "ResourceFlavor".
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "api/core_types.h"
#include "api/kueue_types.h"
#include "state/feature_gates.h"

namespace sluice::jobs {

// What the settings say about the topology requests of pod templates.
struct TopologyOptions {
  bool aware = false;        // gate TopologyAwareScheduling
  bool multi_layer = false;  // gate TASMultiLayerTopology
};
TopologyOptions PodTopologyOf(const state::FeatureGates& gates);

// The topology request of a pod set: what the annotations of its template ask for, with the label
// that says a pod's index. InvalidArgument for an annotation that cannot be read.
absl::StatusOr<std::optional<api::PodSetTopologyRequest>> TopologyRequestOf(
    const api::StringMap& annotations, const char* index_label, const TopologyOptions& options);

struct PodSetInfo {
  std::string name;
  int32_t count = 0;
  api::StringMap labels;
  api::StringMap annotations;
  api::StringMap node_selector;
  std::vector<api::Toleration> tolerations;
  std::vector<std::string> scheduling_gates;
};

// Adds `update` to `info`. A key that both have with different values is a FailedPrecondition that
// names the map, the key and both values: no retry can mend it. Tolerations and gates that are
// there already are not repeated.
absl::Status Merge(PodSetInfo& info, const PodSetInfo& update);

// The same merge into a pod template in JSON ({"metadata": ..., "spec": ...}).
absl::Status MergeIntoTemplate(api::Json& pod_template, const PodSetInfo& info);

// Replaces in `pod_template` all that MergeIntoTemplate may have added by what `original` has:
// labels, annotations, node selector, tolerations and scheduling gates.
void RestoreTemplate(api::Json& pod_template, const api::Json& original);

// Whether two tolerations mean the same (an empty operator is Equal; seconds do not count).
bool SameToleration(const api::Toleration& a, const api::Toleration& b);

}  // namespace sluice::jobs
