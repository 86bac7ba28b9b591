// The second look at workloads that hold quota: places for those that had to wait for their
// admission checks, and new places in the stead of a node that failed.
//
// Flavors stay, and no quota is looked at or booked. Where a repair may wait (the gate
// TASFailedNodeReplacementFailFast is off) it preempts for the new places like any other workload
// of its ClusterQueue, for places alone. Contract: pure; the inventory of the snapshot is asked as
// it is. Source: Kueue's concept page "Topology Aware Scheduling"; KEP-2724 (two-phase
// admission, failed node replacement).
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

#include "admission/cycle.h"
#include "admission/snapshot.h"
#include "api/kueue_types.h"

namespace sluice::admission {

// It has quota and waits only for places, or one of its nodes failed.
bool NeedsSecondPass(const api::Workload& workload);

// The pause before the attempt with that number; 1 is the first.
absl::Duration SecondPassDelay(int attempt);

struct SecondPass {
  enum class Outcome {
    kPlaced,    // `workload` has its places
    kTryAgain,  // not now; `message` says why
    kEvict,  // there is no replacement: it has to start somewhere else; `message` for the eviction
  };
  Outcome outcome = Outcome::kPlaced;
  api::Workload workload;  // kPlaced: with the new places, otherwise as it came
  bool repaired = false;   // it was admitted before
  std::string message;
  // kTryAgain: those that have to go before there is a replacement.
  std::vector<Decision::Victim> victims;
};

// `workload` needs a second pass.
SecondPass PlaceAgain(const Snapshot& snapshot, const api::Workload& workload, absl::Time now);

}  // namespace sluice::admission
