#include "admission/second_pass.h"

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "admission/conditions.h"
#include "admission/credits.h"
#include "admission/nominator.h"
#include "admission/topology_request.h"
#include "api/names.h"
#include "preemption/topology_room.h"
#include "queueing/topology_inputs.h"
#include "queueing/workload_info.h"
#include "topology/placer.h"

namespace sluice::admission {
namespace {

bool Waits(const api::PodSetAssignment& assignment) {
  return assignment.delayed_topology_request == "Pending" &&
         !assignment.topology_assignment.has_value();
}

bool IsOn(const topology::Assignment& places, const std::string& node) {
  return topology::EndsInHosts(places.levels) &&
         std::any_of(places.domains.begin(), places.domains.end(), [&](const auto& domain) {
           return !domain.values.empty() && domain.values.back() == node;
         });
}

bool LostNode(const api::Workload& workload, const api::PodSetAssignment& assignment) {
  if (!assignment.topology_assignment.has_value()) return false;
  const auto places = queueing::DecodeAssignment(*assignment.topology_assignment);
  if (!places.ok()) return false;
  const auto& nodes = workload.status.unhealthy_nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const std::string& node) { return IsOn(*places, node); });
}

bool ChecksReady(const api::Workload& workload) {
  const auto& checks = workload.status.admission_checks;
  return !checks.empty() && std::all_of(checks.begin(), checks.end(),
                                        [](const auto& check) { return check.state == "Ready"; });
}

// Exactly one owner, a plain pod, and no group.
bool OwnedByPod(const api::Workload& workload) {
  const auto& owners = workload.metadata.owner_references;
  return owners.size() == 1 && owners[0].kind == "Pod" && owners[0].api_version == "v1" &&
         workload.metadata.Annotation(api::kIsGroupWorkload) != "true";
}

// The flavors that the admission has, as the cycle would have assigned them.
flavor::Assignment AssignmentOf(const api::Workload& workload) {
  flavor::Assignment assignment;
  for (const api::PodSet& pod_set : workload.spec.pod_sets) {
    flavor::PodSetAssignment& one = assignment.pod_sets.emplace_back();
    one.name = pod_set.name;
    for (const api::PodSetAssignment& admitted : workload.status.admission->pod_set_assignments) {
      if (admitted.name != pod_set.name) continue;
      one.count = admitted.count.value_or(pod_set.count);
      for (const auto& [resource, flavor] : admitted.flavors) {
        one.flavors[resource].flavor = flavor;
        one.flavors[resource].mode = flavor::Mode::kFit;
      }
    }
  }
  return assignment;
}

const api::PodSetAssignment* FindAdmitted(const api::Workload& workload, const std::string& name) {
  const auto& assignments = workload.status.admission->pod_set_assignments;
  const auto found = std::find_if(assignments.begin(), assignments.end(),
                                  [&](const auto& one) { return one.name == name; });
  return found == assignments.end() ? nullptr : &*found;
}

// Leaves the pod sets that need places now.
void KeepNeeded(const api::Workload& workload, topology::WorkloadRequest& request) {
  const std::string failed =
      workload.status.unhealthy_nodes.empty() ? "" : workload.status.unhealthy_nodes.front();
  std::erase_if(request.pod_sets, [&](topology::PodSetRequest& pod_set) {
    const api::PodSetAssignment* admitted = FindAdmitted(workload, pod_set.name);
    if (admitted == nullptr) return true;
    if (!admitted->topology_assignment.has_value()) return !Waits(*admitted);
    auto places = queueing::DecodeAssignment(*admitted->topology_assignment);
    if (failed.empty() || !places.ok() || !IsOn(*places, failed)) return true;
    pod_set.previous_kind = topology::Previous::kReplaceNode;
    pod_set.previous = *std::move(places);
    pod_set.failed_node = failed;
    return false;
  });
}

// What the pod sets of the request use: only who has some of that can make room.
std::vector<quota::CellId> CellsOf(const Snapshot& snapshot, const api::Workload& workload,
                                   const topology::WorkloadRequest& request) {
  std::vector<quota::CellId> cells;
  for (const topology::PodSetRequest& pod_set : request.pod_sets) {
    for (const auto& [resource, flavor] : FindAdmitted(workload, pod_set.name)->flavors) {
      const quota::CellId cell = snapshot.tree.IdOf({flavor, resource});
      if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
    }
  }
  return cells;
}

// Who has to go so that the request gets its places. The workload has its quota: it asks for none.
std::vector<Decision::Victim> FindVictims(const Snapshot& snapshot, const api::Workload& workload,
                                          topology::Placer& placer,
                                          const topology::WorkloadRequest& request,
                                          absl::Time now) {
  std::vector<Decision::Victim> victims;
  const preemption::ReservedWorkload* self = snapshot.reserved.Find(workload.metadata.Key());
  if (self == nullptr) return victims;
  const ClusterQueueSnapshot* queue = snapshot.FindClusterQueue(self->cluster_queue);
  preemption::Preemptor preemptor;
  preemptor.queue = snapshot.tree.FindQueue(self->cluster_queue);
  if (queue == nullptr || preemptor.queue == nullptr ||
      snapshot.tree.InCycle(self->cluster_queue)) {
    return victims;
  }
  preemption::TopologyRoom room(*snapshot.topology, placer, request,
                                [&](const preemption::ReservedWorkload& other) {
                                  return snapshot.topology->FindWorkload(other.Key().ToString());
                                });
  preemptor.local_queue = self->local_queue;
  preemptor.priority = self->priority;
  preemptor.queue_order_time = self->queue_order_time;
  preemptor.policies = queue->policies;
  preemptor.heeds_credits = HeedsCredits(snapshot, workload);
  preemptor.evictors = snapshot.history.EvictorsOf(workload.metadata.uid);
  preemptor.contested = CellsOf(snapshot, workload, request);
  preemptor.room = &room;
  preemption::Context context = PreemptionContext(snapshot);
  context.now = now;  // no cycle may have run yet
  context.removed.insert(self);
  for (const preemption::Target& target : preemption::FindTargets(context, preemptor)) {
    victims.push_back(
        {snapshot.reserved.Share(target.workload->Key()), target.reason, target.workload->evicted});
  }
  return victims;
}

void Write(const Snapshot& snapshot, const topology::WorkloadPlacement& placement,
           api::Workload& workload) {
  AddAssignments(*workload.status.admission, placement, snapshot.options.hostname_prefixes);
  for (api::PodSetAssignment& one : workload.status.admission->pod_set_assignments) {
    if (one.delayed_topology_request == "Pending" && one.topology_assignment.has_value()) {
      one.delayed_topology_request = "Ready";
    }
  }
  workload.status.unhealthy_nodes.clear();
}

}  // namespace

bool NeedsSecondPass(const api::Workload& workload) {
  const api::WorkloadStatus& status = workload.status;
  if (!status.admission.has_value() || !queueing::HoldsQuota(workload) ||
      api::IsTrue(status.conditions, api::kEvicted)) {
    return false;
  }
  const auto& assignments = status.admission->pod_set_assignments;
  if (api::IsTrue(status.conditions, api::kAdmitted)) {
    return !status.unhealthy_nodes.empty() &&
           std::any_of(assignments.begin(), assignments.end(),
                       [&](const auto& one) { return LostNode(workload, one); });
  }
  return std::any_of(assignments.begin(), assignments.end(), Waits) && ChecksReady(workload);
}

absl::Duration SecondPassDelay(int attempt) {
  return std::min(absl::Seconds(int64_t{1} << std::clamp(attempt - 1, 0, 5)), absl::Seconds(30));
}

SecondPass PlaceAgain(const Snapshot& snapshot, const api::Workload& workload, absl::Time now) {
  SecondPass pass;
  pass.workload = workload;
  pass.repaired = api::IsTrue(workload.status.conditions, api::kAdmitted);
  if (pass.repaired && snapshot.options.skip_pod_owned && OwnedByPod(workload)) {
    pass.workload.status.unhealthy_nodes.clear();
    return pass;
  }
  const auto fail = [&](std::string message) {
    const bool give_up = pass.repaired && snapshot.options.fail_fast;
    pass.outcome = give_up ? SecondPass::Outcome::kEvict : SecondPass::Outcome::kTryAgain;
    pass.message = give_up ? fmt::format(
                                 "Workload was evicted as there was no replacement for a "
                                 "failed node: {}",
                                 absl::StrJoin(workload.status.unhealthy_nodes, ","))
                           : std::move(message);
    return pass;
  };
  TopologyQuestion question =
      AskTopology(TopologySourcesOf(snapshot, workload.status.admission->cluster_queue,
                                    workload.metadata.ns, now),
                  workload, AssignmentOf(workload));
  if (!question.error.empty()) {
    return fail(fmt::format("failed to assign flavors to pod set {}: {}", question.failed_pod_set,
                            question.error));
  }
  KeepNeeded(workload, question.request);
  topology::Placer placer(*snapshot.topology);
  const topology::WorkloadPlacement placement = placer.Place(question.request);
  if (const topology::PodSetPlacement* failed = placement.first_failure()) {
    std::string message = fmt::format("couldn't assign flavors to pod set {}: {}", failed->name,
                                      topology::Render(*failed->failure));
    if (pass.repaired && !snapshot.options.fail_fast) {
      pass.victims = FindVictims(snapshot, workload, placer, question.request, now);
    }
    if (!pass.victims.empty()) {
      message += fmt::format(". Pending the preemption of {} workload(s)", pass.victims.size());
    }
    return fail(std::move(message));
  }
  Write(snapshot, placement, pass.workload);
  return pass;
}

}  // namespace sluice::admission
