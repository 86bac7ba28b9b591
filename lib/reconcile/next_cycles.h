// NextCycles: what the next cycles would do with a workload if it were created now.
//
// The cycles themselves are asked (admission/trial.h), over a part of the queues: those before it
// in its ClusterQueue, and whoever shares quota or nodes with it. So the answer is the same whether
// this World has decided everything that there is to decide, as a leader's has, or never decided
// anything, as on a follower and on the command line: there nobody is known to be refused yet.
//
// Bounded: of a queue that does not hold strict order so many of each class are taken, since equal
// ones get equal answers. Contract: pure; the World is as before on return but for the clock of its
// history.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <vector>

#include "admission/explain.h"
#include "admission/trial.h"
#include "state/world.h"

namespace sluice::reconcile {

// How much of the queues an answer may look at: so much that it takes a moment, or everything.
enum class Effort { kQuick, kThorough };

struct NextCycles {
  admission::Trial
      trial;           // no decision where nobody else has to be looked at, or it is not its turn
  bool alone = false;  // nobody else has a part in the answer
  // Those before it that neither start now nor are refused, and the first of them in order.
  admission::QueuePosition position;
  std::vector<queueing::WorkloadInfoPtr> before;
  // Some of those, of any queue, that start before it.
  std::vector<queueing::WorkloadInfoPtr> started;
  int64_t unseen = 0;  // so many of them were not looked at: too many wait
};

// Does nothing but find its position where `judge` is false.
NextCycles FindNextCycles(state::World& world, const queueing::WorkloadInfoPtr& asked, bool judge,
                          Effort effort, absl::Time now);

}  // namespace sluice::reconcile
