#include "reconcile/topology_ungater.h"

#include <algorithm>
#include <utility>

#include "api/names.h"
#include "base/status.h"
#include "queueing/topology_inputs.h"
#include "topology/ranks.h"

namespace sluice::reconcile {
namespace {

constexpr char kSliceName[] = "kueue.x-k8s.io/workload-slice-name";
constexpr char kIndexOffset[] = "kueue.x-k8s.io/pod-index-offset";

std::optional<std::string> Find(const api::StringMap& map, const std::string& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

bool BelongsTo(const PodView& pod, const std::string& ns, const std::string& chain,
               const std::string& pod_set) {
  if (pod.metadata->ns != ns || pod.phase == "Failed" || pod.phase == "Succeeded") return false;
  const api::StringMap& annotations = pod.metadata->annotations;
  const auto slice = Find(annotations, kSliceName);
  const auto owner = slice.has_value() ? slice : Find(annotations, api::kWorkloadAnnotation);
  return owner == chain && Find(pod.metadata->labels, api::kPodSetLabel) == pod_set;
}

int32_t CountOf(const api::PodSet& pod_set, const api::PodSetAssignment& assigned) {
  return assigned.count.value_or(pod_set.count);
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

topology::RankedPod RankedPodOf(const PodView& pod, const api::PodSet& pod_set,
                                const std::vector<std::string>& levels) {
  topology::RankedPod ranked;
  const std::vector<std::string>& gates = pod.spec->scheduling_gates;
  ranked.gated = std::find(gates.begin(), gates.end(), kTopologyGate) != gates.end();
  ranked.offset = Find(pod.metadata->annotations, kIndexOffset);
  if (pod_set.topology_request) {
    const api::PodSetTopologyRequest& request = *pod_set.topology_request;
    if (request.pod_index_label) {
      ranked.index = Find(pod.metadata->labels, *request.pod_index_label);
    }
    if (request.sub_group_index_label) {
      ranked.sub_group = Find(pod.metadata->labels, *request.sub_group_index_label);
    }
  }
  for (const std::string& level : levels) {
    ranked.selector.push_back(Find(pod.spec->node_selector, level).value_or(""));
  }
  return ranked;
}

bool HasFailed(const api::Workload& workload, const topology::Assignment& assignment,
               const topology::AssignedDomain& domain) {
  if (assignment.levels.empty() || assignment.levels.back() != topology::kHostname) return false;
  const auto& unhealthy = workload.status.unhealthy_nodes;
  return std::any_of(unhealthy.begin(), unhealthy.end(),
                     [&](const std::string& node) { return node == domain.values.back(); });
}

}  // namespace

absl::StatusOr<std::vector<UngatedPod>> UngatePods(const api::Workload& workload,
                                                   const std::string& chain,
                                                   const std::vector<PodView>& pods) {
  std::vector<UngatedPod> ungated;
  if (!api::IsTrue(workload.status.conditions, api::kAdmitted) || !workload.status.admission) {
    return ungated;
  }
  for (const api::PodSetAssignment& assigned : workload.status.admission->pod_set_assignments) {
    if (!assigned.topology_assignment.has_value()) continue;
    const auto& pod_sets = workload.spec.pod_sets;
    const auto pod_set = std::find_if(pod_sets.begin(), pod_sets.end(),
                                      [&](const auto& one) { return one.name == assigned.name; });
    if (pod_set == pod_sets.end()) continue;
    topology::GangPods gang;
    ASSIGN_OR_RETURN(gang.assignment, queueing::DecodeAssignment(*assigned.topology_assignment));
    gang.count = CountOf(*pod_set, assigned);
    if (pod_set->topology_request) {
      gang.index_label = pod_set->topology_request->pod_index_label.has_value();
      gang.sub_group_label = pod_set->topology_request->sub_group_index_label.has_value();
      gang.sub_groups = pod_set->topology_request->sub_group_count.value_or(0);
    }
    gang.group_offset = GroupOffsetOf(workload, static_cast<size_t>(pod_set - pod_sets.begin()));
    std::vector<const PodView*> members;
    for (const PodView& pod : pods) {
      if (!BelongsTo(pod, workload.metadata.ns, chain, assigned.name)) continue;
      members.push_back(&pod);
      gang.pods.push_back(RankedPodOf(pod, *pod_set, gang.assignment.levels));
    }
    ASSIGN_OR_RETURN(const std::vector<topology::PodPlace> places, topology::AssignPods(gang));
    for (const topology::PodPlace& place : places) {
      const topology::AssignedDomain& domain = gang.assignment.domains[place.domain];
      if (HasFailed(workload, gang.assignment, domain)) continue;
      UngatedPod& pod = ungated.emplace_back();
      pod.pod = members[place.pod]->metadata->Key();
      for (size_t level = 0; level < gang.assignment.levels.size(); ++level) {
        pod.node_selector[gang.assignment.levels[level]] = domain.values[level];
      }
    }
  }
  return ungated;
}

}  // namespace sluice::reconcile
