// The admission cycle: heads of the queues in, decisions out.
//
// RunCycle: every head is nominated on the unchanged snapshot (flavors, mode, borrowing level), the
// nominated are ordered, and each is checked again after the ones before it took their quota. The
// quota tree is as before when it returns: the caller assumes the decisions it acts on.
//
// Schedule repeats cycles over a QueueManager until nothing more can be decided or `max_admissions`
// is reached, each cycle seeing what the ones before admitted and evicted. What is admitted has
// left the queue manager; everything else was requeued. When nothing more can be decided in order,
// ClusterQueues with backfill let later workloads start before a head that waits. The outcome is
// that of admitting one by one. A head that waits (for its preemptions, or in strict order) takes
// part in every cycle in which somebody of its cohort tree may get something, so that others do not
// take what it waits for. The places on nodes that it waits for are kept from other trees as well;
// where somebody needs just those, it takes part there too, and the order decides. When a cycle
// changes nothing, all wait. The snapshot's `reserved` keeps what was decided: the admitted
// are in it and the victims of new preemptions are marked as on their way out. The caller must book
// the usage of every kAdmit decision (in order), and undo either when its write fails.
//
// Contract: pure, deterministic, no I/O; `now` is the only time. A decision carries its
// explanation. Source: Kueue documentation, "Workload" and "Cluster Queue".
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "admission/explanation.h"
#include "admission/reservation.h"
#include "admission/snapshot.h"
#include "queueing/queue_manager.h"

namespace sluice::admission {

struct Decision {
  enum class Kind {
    kAdmit,    // reserve quota: `admission` and `usage` are set
    kWait,     // back to the queue: `requeue`, `reason` and `message` are set
    kPreempt,  // evict `victims` first; back to the queue: `requeue`, `reason`, `message` are set
    kDrop,     // it holds quota already: forget it, no write
  };
  Kind kind = Kind::kWait;
  queueing::WorkloadInfoPtr info;

  api::Admission admission;
  // What it takes in addition to what `replaces` holds.
  FlavorResourceAmounts usage;
  int borrow_level = 0;
  // The workload whose place it takes: that one ends, and its usage becomes part of this one's.
  std::shared_ptr<const api::Workload> replaces;

  // A workload that must give its quota back first.
  struct Victim {
    preemption::ReservedWorkloadPtr workload;
    preemption::Reason reason = preemption::Reason::kInClusterQueue;
    bool ongoing = false;  // it was told so before: nothing is to be written
  };
  // Also of a decision other than kPreempt, when an earlier one of the same call made them victims.
  std::vector<Victim> victims;

  // It starts before others of its ClusterQueue that wait (admission/reservation.h).
  struct Backfill {
    std::string before;                     // "namespace/name" of the first of them
    std::optional<absl::Time> reserved_at;  // when that one is to start; none: not known
    absl::Time ends_at;                     // by its own bound; InfiniteFuture: it has none
  };
  std::optional<Backfill> backfill{};
  // It preempts nobody, yet kept others of the cycle from what it could use.
  bool kept_room = false;

  queueing::RequeueRequest requeue;
  std::string reason;   // of QuotaReserved=False, in the granular scheme
  std::string message;  // the same text as RenderMessage(explanation)
  Explanation explanation;
};

// Decisions in the order in which they were made; one per head. `queues` (may be null) tells what
// is remembered of the heads; nothing in it is changed. `most_rivals`: how many of those who won
// are named to one that lost (Explanation::rivals).
std::vector<Decision> RunCycle(Snapshot& snapshot,
                               const std::vector<queueing::WorkloadInfoPtr>& heads,
                               const queueing::QueueManager* queues = nullptr,
                               size_t most_rivals = 1);

// At most one decision per workload (the last one), in the order in which they were made.
// `reservations` (may be null) receives what was computed for ClusterQueues with backfill. A
// workload that such a reservation keeps from starting was not popped and needs no requeue; its
// decision is kWait all the same.
// Above zero, `recheck` says that the system is under load: classes that were refused before and
// that StillRefused finds no better off are judged again after that time only.
std::vector<Decision> Schedule(Snapshot& snapshot, queueing::QueueManager& queues, absl::Time now,
                               size_t max_admissions = 1000, Reservations* reservations = nullptr,
                               absl::Duration recheck = absl::ZeroDuration());

// The message of the Evicted and Preempted conditions of a victim.
std::string PreemptionMessage(const Decision& decision, const Decision::Victim& victim,
                              const quota::Tree& tree);
// The UID of the workload for which one was preempted, from the message of its Preempted condition;
// "" when it names none.
std::string PreemptorUid(const std::string& message);
// The text of the QuotaReserved event: how long it waited, and the flavors looked at.
std::string QuotaReservedEventText(const Decision& decision, absl::Time now);
// The text of the Backfilled event: whom it starts before, and until when it may run for that.
std::string BackfilledEventText(const Decision::Backfill& backfill);
// The instant since which the workload waits: its last requeue, else its creation.
absl::Time QueuedSince(const api::Workload& workload);

}  // namespace sluice::admission
