// Which gated pods of an admitted workload may start now, and on which nodes.
//
// Contract: pure. Acts on what the pods are: a caller that has removed gates and has not seen that
// yet must wait, or a pod is counted twice. Source: Kueue's concept page "Topology Aware
// Scheduling"; Kubernetes documentation, "Pod Scheduling Readiness".
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "api/kueue_types.h"

namespace sluice::reconcile {

inline constexpr char kTopologyGate[] = "kueue.x-k8s.io/topology";

// A pod as it is now; what it points to must outlive the call.
struct PodView {
  const api::ObjectMeta* metadata = nullptr;
  const api::PodSpec* spec = nullptr;
  std::string phase;
};

struct UngatedPod {
  ObjectKey pod;
  api::StringMap node_selector;  // to be set, beside what the pod has; its gate goes with it
  bool operator==(const UngatedPod&) const = default;
};

// `pods`: of the workload's namespace, in a stable order. `chain`: the name under which pods know
// their workload: its own, or that of its first slice where it is elastic. Pods whose node has
// failed stay gated until there is a replacement. InvalidArgument for an assignment or an index
// offset that cannot be read.
absl::StatusOr<std::vector<UngatedPod>> UngatePods(const api::Workload& workload,
                                                   const std::string& chain,
                                                   const std::vector<PodView>& pods);

}  // namespace sluice::reconcile
