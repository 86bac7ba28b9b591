// Invariants that hold after every step of a simulation, judged from the API objects and from the
// World, by code that shares nothing with the code that decides.
//
// Each function returns what is broken, one sentence each; empty when all is well. Pure.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

#include "admission/cycle.h"
#include "sim/api_server.h"
#include "state/world.h"

namespace sluice::sim {

using Violations = std::vector<std::string>;

// What Workloads with a reservation hold, in milli-units, by "queue/flavor/resource".
absl::btree_map<std::string, int64_t> HeldQuota(const ApiServer& api);

// No ClusterQueue (outside of cohorts) above its quota through an admission: what all Workloads
// with a reservation hold, in milli-units. A quota that a user lowers below the usage breaks
// nothing as long as the usage does not grow; so the last usage is remembered.
class QuotaWatch {
 public:
  Violations Check(const ApiServer& api);

 private:
  absl::btree_map<std::string, int64_t> last_;  // "queue/flavor/resource"
};

// Where PodGroups are served, a gang is all or nothing: when pods of a PodGroup were bound, its
// minimum is reached, pods that ran before and ended well counting with the others; and the
// PodGroup of a Job asks for no fewer pods than the Job runs when its first pod is bound, unless
// the user said so.
class GangWatch {
 public:
  Violations Check(const ApiServer& api);

 private:
  absl::btree_map<ObjectKey, int64_t> bound_;
};

// A Job has at most one Workload that holds quota, an admission is whole, and no Job is finished
// twice.
Violations CheckJobs(const ApiServer& api);
// Counts and usage of every queue in the World are those of its Workloads.
Violations CheckTotals(const state::World& world);
// The World equals one that is built from the API objects alone.
Violations CheckRebuilt(const state::World& world, const ApiServer& api, absl::Time now);
// In a StrictFIFO ClusterQueue nothing that waits stands before the admitted one, unless backfill
// let it start there.
Violations CheckStrictFifo(const state::World& world, const admission::Decision& decision);

}  // namespace sluice::sim
