// QuietRun: a whole system of running and waiting workloads that preempt each other until nothing
// changes any more, or until a state comes back again and again.
//
// One step: of the waiting workloads, in order, the first that fits is admitted, or the first that
// finds targets evicts them and is admitted. The evicted wait with the place in the queue that they
// had.
#pragma once

#include <string>
#include <vector>

#include "unit/preemption/cluster.h"

namespace sluice::preemption {

enum class WaitingOrder {
  kPriority,   // higher priority, then earlier in the queue order
  kShare,      // smaller share of its ClusterQueue with it
  kBorrowing,  // does not borrow before borrows, then as kPriority
};

struct QuietSystem {
  Cluster cluster;                    // `running` run; the preemptor is not used
  std::vector<WorkloadSpec> waiting;  // in any order
  WaitingOrder order = WaitingOrder::kPriority;
  bool events = false;  // after every step something else happens too
  std::string Describe() const;
};

struct QuietResult {
  bool quiet = false;
  int evictions = 0;
  std::string log;  // one line per step
  std::vector<std::string> running;
};
QuietResult RunUntilQuiet(const QuietSystem& system);

}  // namespace sluice::preemption
