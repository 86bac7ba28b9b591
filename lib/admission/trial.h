// TryToStart: what the next cycles would decide about one workload, and nothing happens.
//
// The cycles are those of Schedule, on the snapshot as it is and on queues that exist for the
// question only (a part of the real ones, with the workload asked about among them). They end as
// soon as the answer is known: it starts, preempts, or was refused for good; or when so many
// workloads were looked at that the question is given up.
//
// Contract: pure but for the clock of the snapshot's history, which moves to `now`; usage, nodes
// and the workloads that hold quota are as before on return. `queues` shows what was decided: who
// left, who waits, who is parked. O(most_judged) nominations.
#pragma once

#include <absl/time/time.h>

#include <optional>

#include "admission/cycle.h"

namespace sluice::admission {

struct TrialOptions {
  // Looks at workloads (one may be looked at in several cycles); a cycle that began is finished.
  size_t most_judged = 1000;
  size_t most_rivals = 1;  // Explanation::rivals
};

struct Trial {
  std::optional<Decision> decision;  // the last one about it; none: it was never its turn
  Reservations reservations;
  size_t judged = 0;
  bool complete = true;  // false: it was given up before the answer was known
};

Trial TryToStart(Snapshot& snapshot, queueing::QueueManager& queues, const ObjectKey& asked,
                 absl::Time now, const TrialOptions& options);

}  // namespace sluice::admission
