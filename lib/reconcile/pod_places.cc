#include "reconcile/pod_places.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/pod.h"
#include "queueing/topology_inputs.h"
#include "reconcile/topology_ungater.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using state::ManagedPod;
using state::PlacedPod;
using state::PlacedPodPtr;

constexpr char kIndexOffset[] = "kueue.x-k8s.io/pod-index-offset";

// As it will be when it is released.
PlacedPodPtr Placed(const ManagedPod& pod, std::string pod_set) {
  auto placed = std::make_shared<PlacedPod>();
  placed->key = pod.metadata.Key();
  placed->uid = pod.metadata.uid;
  placed->resource_version = pod.metadata.resource_version;
  placed->pod_set = std::move(pod_set);
  placed->labels = pod.metadata.labels;
  if (const auto offset = pod.metadata.annotations.find(kIndexOffset);
      offset != pod.metadata.annotations.end()) {
    placed->index_offset = offset->second;
  }
  placed->gates = pod.spec().scheduling_gates;
  placed->node_selector = pod.spec().node_selector;
  placed->node_name = pod.spec().node_name;
  placed->phase = pod.phase;
  placed->deleting = pod.metadata.Deleting();
  return placed;
}

}  // namespace

PodPlaces PlacesAtRelease(const state::World& world, const api::Workload& workload,
                          const jobs::Pods& pods,
                          const std::function<std::string(const ManagedPod&)>& pod_set_of,
                          absl::Time now) {
  PodPlaces places;
  if (!workload.status.admission || !queueing::HasPlaces(*workload.status.admission)) return places;
  std::vector<PlacedPodPtr> placed;
  for (const state::ManagedPodPtr& pod : pods) {
    PlacedPodPtr one = Placed(*pod, pod_set_of(*pod));
    if (one->Ended()) continue;
    if (one->Gated() && !jobs::IsGated(*pod)) return places;  // it waits for its place already
    if (!one->Gated() || !one->deleting) placed.push_back(std::move(one));
  }
  if (!PlacesAreSound(world, workload, placed, now)) return places;
  const auto ungated = UngatePods(workload, placed);
  if (!ungated.ok()) return places;  // who looks after the placements says why
  for (const UngatedPod& pod : *ungated) places[pod.pod->key.name] = pod.node_selector;
  return places;
}

bool TakeBackPlaces(const state::World& world, const api::Workload& workload,
                    const jobs::Pods& pods, absl::Time now, Plan& plan) {
  const bool started =
      std::any_of(pods.begin(), pods.end(), [](const auto& pod) { return jobs::IsReleased(*pod); });
  return !started && world.NodesKnown() && RollBackPlaces(world, workload, now, plan);
}

void AddPlace(const api::StringMap& node_selector, Json& patch) {
  Json& spec = patch["spec"];
  for (const auto& [label, value] : node_selector) spec["nodeSelector"].Set(label, value);
  Json kept = Json::MakeArray();
  for (const Json& gate : spec["schedulingGates"].AsArray()) {
    if (gate.GetString("name") != api::kTopologyGate) kept.Append(gate);
  }
  spec.Set("schedulingGates", std::move(kept));
}

}  // namespace sluice::reconcile
