// BackfillProfile: how much of a quota tree is free from now on, as far as bounds tell.
//
// Time is cut into steps at which something ends or begins: what runs gives its quota back at its
// deadline, a reservation takes it at its start. Within a step nothing changes. For the
// ClusterQueues that ask it holds what each could take of each cell in each step, so a question
// costs a walk over numbers; the rules of borrowing and lending are those of the quota tree, which
// is asked once per step after every booking.
//
// The first step is the tree as it is. What should have ended already holds its quota in the first
// step and is free in the second one, at the same instant.
//
// Why a booking needs to be checked for the one who books only: a reservation stays possible while
// no node of the tree is above its limits, and what is booked later passes every limit on its own
// way to the root.
//
// Contract: pure; the tree is as before after every call. One booking costs O(steps * (cells *
// depth)), or O(steps * cells) in a ClusterQueue without a cohort; a question O(steps * cells).
//
//   BackfillProfile profile(now);
//   profile.AddRunning(*queue, usage, deadline);     // all that hold quota in the tree
//   profile.Build({queue}, cells);
//   auto fit = profile.EarliestFit(*queue, {request}, bound, 1);
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <optional>
#include <utility>
#include <vector>

#include "quota/tree.h"

namespace sluice::admission {

class BackfillProfile {
 public:
  explicit BackfillProfile(absl::Time now);

  // Holds quota in the tree until that time, InfiniteFuture: for ever. Before Build.
  void AddRunning(quota::Node& queue, const quota::CellAmounts& usage, absl::Time end);
  // A step begins then, though nothing is given back.
  void AddInstant(absl::Time time);
  // Those that ask questions below, and the cells that they may ask about.
  void Build(std::vector<quota::Node*> queues, std::vector<quota::CellId> cells);

  struct Fit {
    size_t step = 0;
    size_t option = 0;  // which of the requests
    absl::Time at;      // the beginning of the step; in the past where something is overdue
  };
  // The earliest start of one of the requests that fits for `bound` without a break, not before
  // that step; among equals the first request. InfiniteDuration: it never ends.
  std::optional<Fit> EarliestFit(const quota::Node& queue,
                                 const std::vector<quota::CellAmounts>& requests,
                                 absl::Duration bound, size_t first_step) const;
  // Whether it fits from now until `end` without a break.
  bool FitsUntil(const quota::Node& queue, const quota::CellAmounts& request, absl::Time end) const;
  // When the step begins; the first one now.
  absl::Time TimeOf(size_t step) const { return steps_[step].at; }
  // The first step that begins at `time` or later; number of steps: none does.
  size_t StepAt(absl::Time time) const;

  // Takes it from the beginning of the fit for `bound`.
  void Reserve(quota::Node& queue, const quota::CellAmounts& request, const Fit& fit,
               absl::Duration bound);
  // It has started now, and is in the tree: until `end`.
  void Start(quota::Node& queue, const quota::CellAmounts& request, absl::Time end);

  size_t steps() const { return steps_.size(); }

 private:
  struct Delta {
    quota::Node* queue;
    quota::CellAmounts amounts;
    bool add;
  };
  struct Step {
    absl::Time at;
    absl::Time shown;  // of the step for what is overdue: the latest deadline of those
    std::vector<Delta> deltas;
    std::vector<int64_t> free;  // by queue and cell
  };
  size_t Column(const quota::Node& queue, quota::CellId cell) const;
  bool FitsIn(const Step& step, const std::vector<std::pair<size_t, int64_t>>& wanted) const;
  std::vector<std::pair<size_t, int64_t>> Wanted(const quota::Node& queue,
                                                 const quota::CellAmounts& request) const;
  size_t CutAt(absl::Time time);
  void Refresh(size_t from, size_t to);
  void Take(const quota::Node& queue, const quota::CellAmounts& request, size_t from, size_t to);

  absl::Time now_;
  std::vector<Step> steps_;
  std::vector<std::pair<absl::Time, Delta>> releases_;  // until Build
  std::vector<quota::Node*> queues_;
  std::vector<quota::CellId> cells_;  // sorted
};

}  // namespace sluice::admission
