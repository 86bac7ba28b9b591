// EarliestStart: when a workload that has to wait could start, by the bounds of what runs.
//
// A quick forecast for questions: what holds quota, and places on nodes, gives them back at its own
// deadline (its maximum execution time, or the annotation sluice.dev/expected-runtime), and nothing
// that waits comes first. A forecast that plays everything on is the simulator's (lib/sim).
//
// Contract: pure; the quota tree and the nodes are as before on return. O(h log h) for h workloads
// that hold quota, and O(log h) searches for places where its flavors have a topology.
#pragma once

#include <absl/time/time.h>

#include <optional>

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
};

EarliestStart FindEarliestStart(Snapshot& snapshot, const queueing::WorkloadInfoPtr& info,
                                absl::Time now);

}  // namespace sluice::admission
