// Whether a node has failed for a workload that has pods assigned to it.
//
// Only names of nodes matter here, and what was seen of the node and of the workload's pods. A node
// that is gone has failed; one that is not ready or has taints has failed once no pod of the
// workload runs there any more, or by other rules where feature gates say so.
//
// Contract: pure. Instants in Unix seconds. Source: Kueue's concept page "Topology Aware
// Scheduling", hot swap of nodes; Kubernetes documentation, "Taints and Tolerations".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/types.h"

namespace sluice::topology {

inline constexpr int64_t kNotReadyGrace = 30;  // seconds

struct NodeState {
  bool known = false;           // there is a node of that name with a Ready condition
  bool ready = false;           // the condition is True
  int64_t not_ready_since = 0;  // last transition, when it is not ready
  std::vector<Taint> taints;
};

// A toleration; `limited` when it has tolerationSeconds.
struct TimedToleration {
  Toleration toleration;
  bool limited = false;
};

struct NodeUse {
  bool assigned = false;     // the node is in the workload's assignment with pods
  bool running_pod = false;  // a pod is bound there, has not ended and is not being deleted
  // Of each pod set that is assigned there: what its pods tolerate in the end.
  std::vector<std::vector<TimedToleration>> tolerations;
};

struct HealthRules {
  bool on_pod_termination = true;  // TASReplaceNodeOnPodTermination
  bool over_fixed_time = false;    // TASReplaceNodeDueToNotReadyOverFixedTime
  bool taints = true;              // TASReplaceNodeOnNodeTaints
};

enum class NodeVerdict {
  kHealthy,  // take it off the list of unhealthy nodes
  kFailed,   // repair the workload, or evict it when another node failed before
  kWait,     // as it is; something that will be seen has to change first
};

struct Judgement {
  NodeVerdict verdict = NodeVerdict::kHealthy;
  std::optional<int64_t> check_again;  // when time alone can change the verdict
  // Pods of the workload that are pinned to the node and not bound can never start there.
  bool terminate_pinned = false;
  bool operator==(const Judgement&) const = default;
};

Judgement JudgeNode(const NodeState& node, const NodeUse& use, const HealthRules& rules,
                    int64_t now);

}  // namespace sluice::topology
