#include "admission/topology_request.h"

#include <algorithm>
#include <utility>

#include "flavor/topology_match.h"
#include "queueing/backfill.h"
#include "queueing/topology_inputs.h"

namespace sluice::admission {
namespace {

std::string GroupOf(const api::PodSet& pod_set) {
  if (!pod_set.topology_request.has_value()) return "";
  return pod_set.topology_request->pod_set_group_name.value_or("");
}

// The flavors of the pod set, or of another one of its group when it has none.
const flavor::PodSetAssignment& FlavorsFor(const api::Workload& workload,
                                           const flavor::Assignment& assignment, size_t index) {
  const flavor::PodSetAssignment& own = assignment.pod_sets[index];
  const std::string group = GroupOf(workload.spec.pod_sets[index]);
  if (!own.flavors.empty() || group.empty()) return own;
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) {
    if (GroupOf(workload.spec.pod_sets[i]) == group && !assignment.pod_sets[i].flavors.empty()) {
      return assignment.pod_sets[i];
    }
  }
  return own;
}

}  // namespace

TopologySources TopologySourcesOf(const Snapshot& snapshot, const std::string& cluster_queue,
                                  const std::string& ns, absl::Time now) {
  TopologySources sources;
  sources.has_topology = [&snapshot](const FlavorName& name) { return snapshot.HasTopology(name); };
  const ClusterQueueSnapshot* queue = snapshot.FindClusterQueue(cluster_queue);
  sources.only_topology = queue != nullptr && queue->only_topology;
  sources.context = snapshot.request_context(ns);
  sources.now = now;
  return sources;
}

TopologyQuestion AskTopology(const TopologySources& sources, const api::Workload& workload,
                             const flavor::Assignment& assignment) {
  TopologyQuestion question;
  question.request.now = absl::ToUnixSeconds(sources.now);
  // The same bound that backfill goes by, in whole seconds and never too short.
  if (const auto bound = queueing::BoundOf(workload)) {
    question.request.bound = absl::ToInt64Seconds(absl::Ceil(*bound, absl::Seconds(1)));
  }
  const auto refuse = [&](const api::PodSet& pod_set, std::string error) {
    question.request.pod_sets.clear();
    question.failed_pod_set = pod_set.name;
    question.error = std::move(error);
    return question;
  };
  const size_t pod_sets = std::min(workload.spec.pod_sets.size(), assignment.pod_sets.size());
  for (size_t i = 0; i < pod_sets; ++i) {
    const api::PodSet& pod_set = workload.spec.pod_sets[i];
    const bool asks = queueing::AsksForTopology(pod_set);
    if (assignment.pod_sets[i].count <= 0 || (!asks && !sources.only_topology)) continue;
    const flavor::TopologyFlavorOf flavor =
        flavor::FindTopologyFlavor(FlavorsFor(workload, assignment, i), sources.has_topology);
    if (!flavor.error.empty()) return refuse(pod_set, flavor.error);
    absl::StatusOr<topology::PodSetRequest> one = queueing::TopologyPodSet(
        workload, pod_set, assignment.pod_sets[i].count, flavor.flavor, !asks, sources.context);
    if (!one.ok()) return refuse(pod_set, std::string(one.status().message()));
    question.request.pod_sets.push_back(*std::move(one));
  }
  return question;
}

void AddAssignments(api::Admission& admission, const topology::WorkloadPlacement& placement,
                    bool by_hostname_prefix) {
  for (const topology::PodSetPlacement& placed : placement.pod_sets) {
    if (!placed.assignment.has_value() || placed.assignment->domains.empty()) continue;
    for (api::PodSetAssignment& assigned : admission.pod_set_assignments) {
      if (assigned.name != placed.name) continue;
      assigned.topology_assignment =
          queueing::EncodeAssignment(*placed.assignment, by_hostname_prefix);
    }
  }
}

}  // namespace sluice::admission
