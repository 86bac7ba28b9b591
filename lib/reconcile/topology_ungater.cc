#include "reconcile/topology_ungater.h"

#include <algorithm>
#include <utility>

#include "api/names.h"
#include "base/status.h"
#include "queueing/topology_inputs.h"
#include "topology/ranks.h"

namespace sluice::reconcile {
namespace {

using state::PlacedPod;
using state::PlacedPodPtr;

std::optional<std::string> Find(const api::StringMap& map, const std::string& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

// The first index of the pod set within its group of two.
int64_t GroupOffsetOf(const api::Workload& workload, size_t index) {
  const auto group_of = [](const api::PodSet& pod_set) {
    return pod_set.topology_request ? pod_set.topology_request->pod_set_group_name : std::nullopt;
  };
  const std::vector<api::PodSet>& pod_sets = workload.spec.pod_sets;
  const auto group = group_of(pod_sets[index]);
  if (!group.has_value()) return 0;
  for (size_t other = 0; other < pod_sets.size(); ++other) {
    if (other == index || group_of(pod_sets[other]) != group) continue;
    const size_t first = std::min(index, other);
    const size_t second = std::max(index, other);
    return topology::GroupOffset(pod_sets[first].count, pod_sets[second].count, index == second);
  }
  return 0;
}

topology::RankedPod RankedPodOf(const PlacedPod& pod, const api::PodSet& pod_set,
                                const std::vector<std::string>& levels) {
  topology::RankedPod ranked;
  ranked.gated = pod.Gated();
  ranked.deleting = pod.deleting;
  ranked.offset = pod.index_offset;
  if (pod_set.topology_request) {
    const api::PodSetTopologyRequest& request = *pod_set.topology_request;
    if (request.pod_index_label) ranked.index = Find(pod.labels, *request.pod_index_label);
    if (request.sub_group_index_label) {
      ranked.sub_group = Find(pod.labels, *request.sub_group_index_label);
    }
  }
  for (const std::string& level : levels) {
    ranked.selector.push_back(Find(pod.node_selector, level).value_or(""));
  }
  return ranked;
}

// Elastic Jobs let their pods go by quota first, one by one as well. Who has not been chosen there
// is not chosen here: else one pod could be given the quota and another one the place.
bool WaitsForQuota(const PlacedPod& pod) {
  return pod.Gated() &&
         std::find(pod.gates.begin(), pod.gates.end(), api::kElasticJob) != pod.gates.end();
}

bool HasFailed(const api::Workload& workload, const topology::Assignment& assignment,
               const topology::AssignedDomain& domain) {
  if (!topology::EndsInHosts(assignment.levels)) return false;
  const auto& unhealthy = workload.status.unhealthy_nodes;
  return std::find(unhealthy.begin(), unhealthy.end(), domain.values.back()) != unhealthy.end();
}

topology::GangPods GangOf(const api::Workload& workload, const queueing::PlacedPodSet& placed) {
  const api::PodSet& pod_set = *placed.pod_set;
  topology::GangPods gang;
  gang.assignment = *placed.places;
  gang.count = placed.assigned->count.value_or(pod_set.count);
  if (pod_set.topology_request) {
    gang.index_label = pod_set.topology_request->pod_index_label.has_value();
    gang.sub_group_label = pod_set.topology_request->sub_group_index_label.has_value();
    gang.sub_groups = pod_set.topology_request->sub_group_count.value_or(0);
  }
  gang.group_offset =
      GroupOffsetOf(workload, static_cast<size_t>(&pod_set - workload.spec.pod_sets.data()));
  return gang;
}

}  // namespace

absl::StatusOr<std::vector<UngatedPod>> UngatePods(const api::Workload& workload,
                                                   const std::vector<PlacedPodPtr>& pods) {
  std::vector<UngatedPod> ungated;
  if (!api::IsTrue(workload.status.conditions, api::kAdmitted)) return ungated;
  for (const queueing::PlacedPodSet& placed : queueing::PlacedPodSets(workload)) {
    if (!placed.places.ok()) return placed.places.status();
    topology::GangPods gang = GangOf(workload, placed);
    std::vector<PlacedPodPtr> members;
    for (const PlacedPodPtr& pod : pods) {
      if (pod->Ended() || pod->pod_set != placed.pod_set->name || WaitsForQuota(*pod)) continue;
      members.push_back(pod);
      gang.pods.push_back(RankedPodOf(*pod, *placed.pod_set, gang.assignment.levels));
    }
    ASSIGN_OR_RETURN(const std::vector<topology::PodPlace> places, topology::AssignPods(gang));
    for (const topology::PodPlace& place : places) {
      const topology::AssignedDomain& domain = gang.assignment.domains[place.domain];
      if (HasFailed(workload, gang.assignment, domain)) continue;
      UngatedPod& pod = ungated.emplace_back();
      pod.pod = members[place.pod];
      for (size_t level = 0; level < gang.assignment.levels.size(); ++level) {
        pod.node_selector[gang.assignment.levels[level]] = domain.values[level];
      }
    }
  }
  return ungated;
}

}  // namespace sluice::reconcile
