// The admission cycle: heads of the queues in, decisions out.
//
// RunCycle: every head is nominated on the unchanged snapshot (flavors, mode, borrowing level), the
// nominated are ordered, and each is checked again after the ones before it took their quota. The
// quota tree is as before when it returns: the caller assumes the decisions it acts on.
//
// Schedule repeats cycles over a QueueManager until nothing more can be decided or `max_admissions`
// is reached, each cycle seeing what the ones before admitted. What is admitted has left the queue
// manager; everything else was requeued. The outcome is that of admitting one by one. The caller
// must book the usage of every kAdmit decision (in order) and add the workload to the queues again
// when its write fails.
//
// Contract: pure, deterministic, no I/O; `now` is the only time. A decision carries its
// explanation. Source: Kueue documentation, "Workload" and "Cluster Queue".
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "admission/explanation.h"
#include "admission/snapshot.h"
#include "queueing/queue_manager.h"

namespace sluice::admission {

struct Decision {
  enum class Kind {
    kAdmit,    // reserve quota: `admission` and `usage` are set
    kWait,     // back to the queue: `requeue`, `reason` and `message` are set
    kPreempt,  // evict others first (nothing makes this decision yet)
    kDrop,     // it holds quota already: forget it, no write
  };
  Kind kind = Kind::kWait;
  queueing::WorkloadInfoPtr info;

  api::Admission admission;
  FlavorResourceAmounts usage;
  int borrow_level = 0;

  queueing::RequeueRequest requeue;
  std::string reason;   // of QuotaReserved=False, in the granular scheme
  std::string message;  // the same text as RenderMessage(explanation)
  Explanation explanation;
};

// Decisions in the order in which they were made; one per head.
std::vector<Decision> RunCycle(Snapshot& snapshot,
                               const std::vector<queueing::WorkloadInfoPtr>& heads, absl::Time now);

// At most one decision per workload (the last one), in the order in which they were made.
std::vector<Decision> Schedule(Snapshot& snapshot, queueing::QueueManager& queues, absl::Time now,
                               size_t max_admissions = 1000);

// The text of the QuotaReserved event: how long it waited, and the flavors looked at.
std::string QuotaReservedEventText(const Decision& decision, absl::Time now);
// The instant since which the workload waits: its last requeue, else its creation.
absl::Time QueuedSince(const api::Workload& workload);

}  // namespace sluice::admission
