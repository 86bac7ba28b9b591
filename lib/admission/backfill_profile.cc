#include "admission/backfill_profile.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::admission {

using quota::CellAmounts;
using quota::Node;
using quota::Tree;

BackfillProfile::BackfillProfile(absl::Time now) : now_(now) {}

void BackfillProfile::AddRunning(Node& queue, const CellAmounts& usage, absl::Time end) {
  if (end == absl::InfiniteFuture() || usage.empty()) return;
  releases_.push_back({end, {&queue, usage, false}});
}

void BackfillProfile::AddInstant(absl::Time time) {
  if (time != absl::InfiniteFuture()) releases_.push_back({time, {nullptr, {}, false}});
}

void BackfillProfile::Build(std::vector<Node*> queues, std::vector<quota::CellId> cells) {
  queues_ = std::move(queues);
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  cells_ = std::move(cells);
  std::stable_sort(releases_.begin(), releases_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  steps_.clear();
  steps_.push_back({now_, now_, {}, {}});
  for (auto& [end, delta] : releases_) {
    const absl::Time at = std::max(end, now_);
    if (steps_.size() == 1 || steps_.back().at != at) steps_.push_back({at, at, {}, {}});
    if (end <= now_) steps_.back().shown = end == absl::InfinitePast() ? now_ : end;
    if (delta.queue != nullptr) steps_.back().deltas.push_back(std::move(delta));
  }
  releases_.clear();
  Refresh(0, steps_.size());
}

size_t BackfillProfile::Column(const Node& queue, quota::CellId cell) const {
  const auto row = std::find(queues_.begin(), queues_.end(), &queue);
  const auto column = std::lower_bound(cells_.begin(), cells_.end(), cell);
  SLUICE_CHECK(row != queues_.end() && column != cells_.end() && *column == cell,
               "{} asks about a cell that was not named", queue.name());
  return static_cast<size_t>(row - queues_.begin()) * cells_.size() +
         static_cast<size_t>(column - cells_.begin());
}

std::vector<std::pair<size_t, int64_t>> BackfillProfile::Wanted(const Node& queue,
                                                                const CellAmounts& request) const {
  std::vector<std::pair<size_t, int64_t>> wanted;
  wanted.reserve(request.size());
  for (const quota::CellAmount& one : request) {
    wanted.emplace_back(Column(queue, one.cell), one.amount);
  }
  return wanted;
}

bool BackfillProfile::FitsIn(const Step& step,
                             const std::vector<std::pair<size_t, int64_t>>& wanted) const {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& one) { return one.second <= step.free[one.first]; });
}

std::optional<BackfillProfile::Fit> BackfillProfile::EarliestFit(
    const Node& queue, const std::vector<CellAmounts>& requests, absl::Duration bound,
    size_t first_step) const {
  std::optional<Fit> best;
  for (size_t option = 0; option < requests.size(); ++option) {
    const auto wanted = Wanted(queue, requests[option]);
    const size_t last = best ? best->step : steps_.size();
    for (size_t start = first_step; start < last;) {
      const absl::Time end = steps_[start].at + bound;
      size_t step = start;
      while (step < steps_.size() && (step == start || steps_[step].at < end) &&
             FitsIn(steps_[step], wanted)) {
        ++step;
      }
      const bool whole = step == steps_.size() || (step > start && steps_[step].at >= end);
      if (whole) {
        best = Fit{start, option, steps_[start].shown};
        break;
      }
      start = step + 1;
    }
  }
  return best;
}

bool BackfillProfile::FitsUntil(const Node& queue, const CellAmounts& request,
                                absl::Time end) const {
  const auto wanted = Wanted(queue, request);
  return std::all_of(steps_.begin(), steps_.end(),
                     [&](const Step& step) { return step.at >= end || FitsIn(step, wanted); });
}

size_t BackfillProfile::StepAt(absl::Time time) const {
  const auto found =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.at >= time; });
  return static_cast<size_t>(found - steps_.begin());
}

// The step that begins at that instant, made where there is none; never the first one. Number of
// steps for InfiniteFuture.
size_t BackfillProfile::CutAt(absl::Time time) {
  if (time == absl::InfiniteFuture()) return steps_.size();
  const absl::Time at = std::max(time, now_);
  size_t index = 1;
  while (index < steps_.size() && steps_[index].at < at) ++index;
  if (index < steps_.size() && steps_[index].at == at) return index;
  steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(index),
                Step{at, at, {}, steps_[index - 1].free});
  return index;
}

// What is free in these steps, from the tree with all that ends and begins until then.
void BackfillProfile::Refresh(size_t from, size_t to) {
  const auto apply = [](const Delta& delta, bool add) {
    if (add) {
      Tree::AddUsage(*delta.queue, delta.amounts);
    } else {
      Tree::RemoveUsage(*delta.queue, delta.amounts);
    }
  };
  for (size_t i = 0; i < to; ++i) {
    for (const Delta& delta : steps_[i].deltas) apply(delta, delta.add);
    if (i < from) continue;
    steps_[i].free.clear();
    for (const Node* queue : queues_) {
      for (const quota::CellId cell : cells_) {
        steps_[i].free.push_back(Tree::Available(*queue, cell));
      }
    }
  }
  for (size_t i = to; i-- > 0;) {
    for (auto delta = steps_[i].deltas.rbegin(); delta != steps_[i].deltas.rend(); ++delta) {
      apply(*delta, !delta->add);
    }
  }
}

// The request was booked in these steps.
void BackfillProfile::Take(const Node& queue, const CellAmounts& request, size_t from, size_t to) {
  if (queue.parent() != nullptr) return Refresh(from, to);
  // Nobody else has to do with its quota.
  for (const auto& [column, amount] : Wanted(queue, request)) {
    for (size_t i = from; i < to; ++i) {
      int64_t& free = steps_[i].free[column];
      free = std::max<int64_t>(0, quota::SubtractAmounts(free, amount));
    }
  }
}

void BackfillProfile::Reserve(Node& queue, const CellAmounts& request, const Fit& fit,
                              absl::Duration bound) {
  const size_t end = CutAt(steps_[fit.step].at + bound);
  steps_[fit.step].deltas.push_back({&queue, request, true});
  if (end < steps_.size()) steps_[end].deltas.push_back({&queue, request, false});
  Take(queue, request, fit.step, end);
}

void BackfillProfile::Start(Node& queue, const CellAmounts& request, absl::Time end) {
  const size_t until = CutAt(end);
  if (until < steps_.size()) steps_[until].deltas.push_back({&queue, request, false});
  Take(queue, request, 0, until);
}

}  // namespace sluice::admission
