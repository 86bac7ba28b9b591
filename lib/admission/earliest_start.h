// EarliestStart: when a workload that has to wait could start, by the bounds of what runs.
//
// A quick forecast for questions: what holds quota, and places on nodes, gives them back at its own
// deadline (its maximum execution time, or the annotation sluice.dev/expected-runtime), and of what
// waits only those come first that are named: each as early as there is quota for it, and until its
// own bound. A forecast that plays everything on is the simulator's (lib/sim).
//
// Contract: pure; the quota tree and the nodes are as before on return. O(h log h) for h workloads
// that hold quota, O(h) more for each that comes first, and O(log h) searches for places where its
// flavors have a topology.
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

#include "admission/snapshot.h"
#include "queueing/workload_info.h"

namespace sluice::admission {

struct EarliestStart {
  enum class Kind {
    kAt,
    kUnbounded,  // something without a bound has to end first
    kNever,      // not with everything idle
  };
  Kind kind = Kind::kNever;
  absl::Time at;  // kAt; now, where what has to end should have ended
  // kUnbounded: "namespace/name" of one that comes first and of which nothing tells when it starts.
  std::string behind{};
};

struct StartsBefore {
  std::vector<queueing::WorkloadInfoPtr> workloads;
  bool in_order = false;  // none starts before the one named before it, and it after all of them
};

EarliestStart FindEarliestStart(Snapshot& snapshot, const queueing::WorkloadInfoPtr& info,
                                absl::Time now, const StartsBefore& before = {});

}  // namespace sluice::admission
