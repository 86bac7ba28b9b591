// Invariants of cohort trees and preemption, judged by NaiveTree; see invariants.h.
#pragma once

#include <absl/time/time.h>

#include <string>

#include "admission/cycle.h"
#include "sim/api_server.h"
#include "sim/invariants.h"
#include "sim/naive_tree.h"
#include "state/world.h"

namespace sluice::sim {

// No admission brings a node of a cohort tree above its quota and borrowing limit, nor makes others
// exceed theirs. A limit that a user lowers below the usage breaks nothing, and neither does an
// admission that was on its way meanwhile: for some seconds after a change of limits nothing is
// judged.
class TreeWatch {
 public:
  Violations Check(const ApiServer& api, absl::Time now);

 private:
  std::string limits_;  // of which generation
  absl::Time judge_from_ = absl::InfinitePast();
  absl::btree_map<std::string, int64_t> last_;  // by "queue/flavor/resource"
};

// A preemption lets its preemptor fit when all that are on their way out have gone, its victims may
// be preempted by the policies of its ClusterQueue, and the last of them is not superfluous.
Violations CheckPreemption(const state::World& world, const admission::Decision& decision);

// Under load nobody who fits is passed over without being judged.
Violations CheckStillRefused(const admission::Snapshot& snapshot,
                             const admission::Decision& decision);

}  // namespace sluice::sim
