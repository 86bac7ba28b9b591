#include "reconcile/lost_pods.h"

#include <algorithm>
#include <memory>

#include "api/names.h"
#include "jobs/pod_gang.h"

namespace sluice::reconcile {
namespace {

// How often a pod is looked at that should have ended: its node may die without a word about it.
constexpr absl::Duration kLookAgain = absl::Seconds(10);

struct Leaving {
  std::optional<absl::Time> since;  // its time to stop is over
  const std::string& node;
  bool not_ready = false;
  bool forced = false;  // no time to stop was given: only finalizers hold it
};

bool NodeIsDead(const state::World& world, const std::string& name) {
  const auto node = world.nodes().Find({"", name});
  if (node == nullptr) return true;
  const api::Condition* ready = api::FindCondition(node->conditions, "Ready");
  return ready != nullptr && ready->status != api::ConditionStatus::kTrue;
}

bool Lost(const state::World& world, const Leaving& pod, absl::Time now, Plan& plan) {
  if (!pod.since || pod.node.empty()) return false;
  if (now < *pod.since) {
    plan.RecheckAt(*pod.since);
    return false;
  }
  if (pod.not_ready || pod.forced) return true;
  if (!world.NeedsNodes() || !world.NodesKnown()) return false;
  if (NodeIsDead(world, pod.node)) return true;
  plan.RecheckAt(now + kLookAgain);
  return false;
}

bool OfGang(const state::ManagedPod& pod) {
  return jobs::PodGangOf(pod).form != jobs::GangForm::kNone ||
         !pod.metadata.Annotation(api::kOnGangBroken).empty();
}

}  // namespace

jobs::Pods WithLost(const state::World& world, jobs::Pods pods, absl::Time now, Plan& plan) {
  const bool gang = std::any_of(pods.begin(), pods.end(),
                                [](const state::ManagedPodPtr& pod) { return OfGang(*pod); });
  if (!gang) return pods;
  for (state::ManagedPodPtr& pod : pods) {
    if (jobs::IsTerminated(*pod)) continue;
    const api::Condition* ready = api::FindCondition(pod->conditions, "Ready");
    const bool not_ready = ready != nullptr && ready->status != api::ConditionStatus::kTrue;
    const Leaving leaving{pod->metadata.deletion_timestamp, pod->spec().node_name, not_ready,
                          pod->deletion_grace_period_seconds == 0};
    if (!Lost(world, leaving, now, plan)) continue;
    auto marked = std::make_shared<state::ManagedPod>(*pod);
    marked->phase = "Failed";
    pod = std::move(marked);
  }
  return pods;
}

bool IsLost(const state::World& world, const state::SlicePod& pod, absl::Time now, Plan& plan) {
  return !pod.ended &&
         Lost(world, {pod.deletion_timestamp, pod.node, pod.not_ready, false}, now, plan);
}

}  // namespace sluice::reconcile
