// From an assignment of flavors to the question that placement is asked, and from its answer to the
// admission that is written.
//
// Contract: pure. Source: Kueue's concept page "Topology Aware Scheduling"; KEP-2724.
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <string>
#include <vector>

#include "admission/snapshot.h"
#include "api/kueue_types.h"
#include "flavor/assigner.h"
#include "queueing/requests.h"
#include "topology/placer.h"

namespace sluice::admission {

struct TopologySources {
  // Whether a flavor names a topology.
  std::function<bool(const FlavorName&)> has_topology;
  // Every flavor of the ClusterQueue does: pod sets that do not ask get a place all the same.
  bool only_topology = false;
  queueing::RequestContext context;  // of the workload's namespace
  absl::Time now;
};

// As the snapshot has them for a workload of that namespace in that ClusterQueue.
TopologySources TopologySourcesOf(const Snapshot& snapshot, const std::string& cluster_queue,
                                  const std::string& ns, absl::Time now);

struct TopologyQuestion {
  topology::WorkloadRequest request;  // no pod sets: nothing is to be placed
  // When no question can be asked: the pod set and what is wrong with it.
  std::string failed_pod_set;
  std::string error;
};

// Of every pod set that asks for topology or is to get one, and has pods. Pod sets of one group are
// served by the same flavor; one without requests of its own takes that of its group.
TopologyQuestion AskTopology(const TopologySources& sources, const api::Workload& workload,
                             const flavor::Assignment& assignment);

// Writes the places into the admission. Pod sets without a domain get no assignment.
// `by_hostname_prefix`: gate TASAssignmentsEncodingByHostnamePrefix.
void AddAssignments(api::Admission& admission, const topology::WorkloadPlacement& placement,
                    bool by_hostname_prefix);

}  // namespace sluice::admission
