#include "topology/node_health.h"

#include <algorithm>

#include "topology/node_filter.h"

namespace sluice::topology {
namespace {

enum class Tolerance { kNo, kForAWhile, kYes };

// Operators that compare numbers do not count here, only where pods are placed.
bool Matches(const TimedToleration& one, const Taint& taint) {
  const bool compares = one.toleration.op == "Lt" || one.toleration.op == "Gt";
  return !compares && Tolerates(one.toleration, taint);
}

Tolerance HowTolerated(const std::vector<TimedToleration>& tolerations, const Taint& taint) {
  Tolerance best = Tolerance::kNo;
  for (const TimedToleration& one : tolerations) {
    if (!Matches(one, taint)) continue;
    best = std::max(best, one.limited ? Tolerance::kForAWhile : Tolerance::kYes);
  }
  return best;
}

// Over all taints and all pod sets on the node, the worst.
Tolerance HowTolerated(const NodeState& node, const NodeUse& use) {
  Tolerance worst = Tolerance::kYes;
  for (const Taint& taint : node.taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    for (const std::vector<TimedToleration>& pod_set : use.tolerations) {
      worst = std::min(worst, HowTolerated(pod_set, taint));
    }
  }
  return worst;
}

// Failed as soon as nothing runs there.
Judgement OncePodsStopped(const NodeUse& use) {
  return {use.running_pod ? NodeVerdict::kWait : NodeVerdict::kFailed, std::nullopt, true};
}

Judgement JudgeNotReady(const NodeState& node, const NodeUse& use, const HealthRules& rules,
                        int64_t now) {
  const int64_t grace_ends = node.not_ready_since + kNotReadyGrace;
  const bool long_ago = now >= grace_ends;
  if (!long_ago && !rules.on_pod_termination) return {NodeVerdict::kWait, grace_ends, false};
  if (long_ago && (rules.over_fixed_time || !rules.on_pod_termination)) {
    return {NodeVerdict::kFailed, std::nullopt, false};
  }
  Judgement judgement = OncePodsStopped(use);
  if (rules.over_fixed_time && judgement.verdict == NodeVerdict::kWait) {
    judgement.check_again = grace_ends;
  }
  return judgement;
}

}  // namespace

Judgement JudgeNode(const NodeState& node, const NodeUse& use, const HealthRules& rules,
                    int64_t now) {
  if (!use.assigned) return {NodeVerdict::kHealthy, std::nullopt, true};
  if (!node.known) return {NodeVerdict::kFailed, std::nullopt, false};
  if (!node.ready) return JudgeNotReady(node, use, rules, now);
  if (!rules.taints) return {};
  switch (HowTolerated(node, use)) {
    case Tolerance::kYes:
      return {};
    case Tolerance::kForAWhile:
      return OncePodsStopped(use);
    case Tolerance::kNo:
      if (!rules.on_pod_termination) return {NodeVerdict::kFailed, std::nullopt, false};
      return OncePodsStopped(use);
  }
  return {};
}

}  // namespace sluice::topology
