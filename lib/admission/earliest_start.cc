#include "admission/earliest_start.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "admission/backfill_profile.h"
#include "admission/nominator.h"
#include "admission/places.h"
#include "queueing/backfill.h"
#include "quota/overlay.h"

namespace sluice::admission {
namespace {

using preemption::ReservedWorkload;

class Finder {
 public:
  Finder(Snapshot& snapshot, const queueing::WorkloadInfoPtr& info, absl::Time now)
      : snapshot_(snapshot),
        info_(info),
        now_(now),
        places_(snapshot, now),
        nominator_(snapshot, nullptr, places_) {}

  EarliestStart Run(const StartsBefore& before) {
    queue_ = snapshot_.tree.FindQueue(info_->cluster_queue);
    const bool known = queue_ != nullptr && quota::Tree::Sound(*queue_) &&
                       snapshot_.FindClusterQueue(info_->cluster_queue) != nullptr;
    if (!known || nominator_.Barred(*info_)) return {};
    if (places_.Concern(info_->cluster_queue)) nodes_.emplace(*snapshot_.topology);
    ListHolders();
    MoveTo(holders_.size());
    const std::vector<flavor::Assignment> options = nominator_.Options(info_);
    EarliestStart best;
    for (const flavor::Assignment& option : options) {
      const EarliestStart found = Find(option);
      const bool sooner = best.kind == found.kind && found.at < best.at;
      if (found.kind < best.kind || sooner) best = found;
    }
    if (best.kind == EarliestStart::Kind::kAt && !before.workloads.empty()) {
      best = After(before, options, best);
    }
    MoveTo(0);
    return best;
  }

 private:
  struct Ask {
    quota::Node* queue = nullptr;
    std::vector<quota::CellAmounts> requests;
    absl::Duration bound;
  };
  Ask AskOf(const queueing::WorkloadInfo& info,
            const std::vector<flavor::Assignment>& options) const {
    Ask ask{snapshot_.tree.FindQueue(info.cluster_queue), {}, absl::InfiniteDuration()};
    if (const auto bound = queueing::BoundOf(*info.workload)) ask.bound = *bound;
    for (const flavor::Assignment& option : options) {
      ask.requests.push_back(snapshot_.tree.IdsOf(option.usage));
    }
    return ask;
  }

  // By quota alone, after those that come first; not before `alone`, when there is room for it if
  // it is alone.
  EarliestStart After(const StartsBefore& before, const std::vector<flavor::Assignment>& options,
                      const EarliestStart& alone) {
    std::vector<Ask> asks;
    std::vector<quota::Node*> queues;
    std::vector<quota::CellId> cells;
    const auto add = [&](Ask ask) {
      if (ask.queue == nullptr || &ask.queue->Root() != &queue_->Root()) ask.requests.clear();
      if (!ask.requests.empty() &&
          std::find(queues.begin(), queues.end(), ask.queue) == queues.end()) {
        queues.push_back(ask.queue);
      }
      for (const quota::CellAmounts& request : ask.requests) {
        for (const quota::CellAmount& one : request) cells.push_back(one.cell);
      }
      asks.push_back(std::move(ask));
    };
    MoveTo(holders_.size());  // options are asked for with everything idle
    for (const queueing::WorkloadInfoPtr& info : before.workloads) {
      add(AskOf(*info, nominator_.Options(info)));
    }
    add(AskOf(*info_, options));
    MoveTo(0);
    BackfillProfile profile(now_);
    for (const Holder& holder : holders_) {
      if (holder.queue != nullptr) {
        profile.AddRunning(*holder.queue, holder.workload->usage, holder.end);
      }
    }
    profile.Build(std::move(queues), std::move(cells));
    size_t first = 0;
    for (size_t i = 0; i < asks.size(); ++i) {
      const bool last = i + 1 == asks.size();
      // Of another tree, or nothing that it could start with: it takes no quota of this one.
      if (!last && asks[i].requests.empty() && !before.in_order) continue;
      const auto fit =
          asks[i].requests.empty()
              ? std::nullopt
              : profile.EarliestFit(*asks[i].queue, asks[i].requests, asks[i].bound, first);
      if (!fit) {
        const std::string name = last ? "" : before.workloads[i]->Key().ToString();
        return {EarliestStart::Kind::kUnbounded, {}, name};
      }
      if (before.in_order) first = fit->step;
      if (last) return {EarliestStart::Kind::kAt, std::max({now_, alone.at, fit->at}), ""};
      profile.Reserve(*asks[i].queue, asks[i].requests[fit->option], *fit, asks[i].bound);
    }
    return alone;
  }

  // Holds quota of the tree, places on nodes, or both.
  struct Holder {
    absl::Time end;
    const ReservedWorkload* workload;
    quota::Node* queue;              // nullptr: of another tree
    const topology::Booking* nodes;  // nullptr: none
  };

  void ListHolders() {
    const quota::Node& root = queue_->Root();
    for (const auto& [name, cluster_queue] : snapshot_.cluster_queues) {
      quota::Node* node = snapshot_.tree.FindQueue(name);
      const bool shares = node != nullptr && quota::Tree::Sound(*node) && &node->Root() == &root;
      if (!shares && !nodes_) continue;
      for (const ReservedWorkload* one : snapshot_.reserved.Of(name)) {
        const topology::Booking* booking = nodes_ ? places_.UsageOf(*one) : nullptr;
        if (!shares && booking == nullptr) continue;
        const absl::Time end = queueing::DeadlineOf(*one->workload, one->started_at, one->evicted);
        holders_.push_back({end, one, shares ? node : nullptr, booking});
      }
    }
    std::sort(holders_.begin(), holders_.end(), [](const Holder& a, const Holder& b) {
      return std::pair(a.end, a.workload->Key()) < std::pair(b.end, b.workload->Key());
    });
    bounded_ = static_cast<size_t>(
        std::partition_point(holders_.begin(), holders_.end(),
                             [](const Holder& one) { return one.end < absl::InfiniteFuture(); }) -
        holders_.begin());
  }

  // So many have ended.
  void MoveTo(size_t count) {
    if (count < marks_.size()) {
      quota_.Rollback(marks_[count].first);
      if (nodes_) nodes_->Rollback(marks_[count].second);
      marks_.resize(count);
    }
    while (marks_.size() < count) {
      const Holder& next = holders_[marks_.size()];
      marks_.emplace_back(quota_.Mark(), nodes_ ? nodes_->Mark() : 0);
      if (next.queue != nullptr) quota_.Remove(*next.queue, next.workload->usage);
      if (next.nodes != nullptr) nodes_->Remove(*next.nodes);
    }
  }

  bool FitsAfter(size_t count, const flavor::Assignment& option,
                 const quota::CellAmounts& request) {
    MoveTo(count);
    return quota::Tree::Fits(*queue_, request) && (!nodes_ || nominator_.HasPlaces(*info_, option));
  }

  // The more has ended, the more is free.
  EarliestStart Find(const flavor::Assignment& option) {
    const quota::CellAmounts request = snapshot_.tree.IdsOf(option.usage);
    if (!FitsAfter(bounded_, option, request)) {
      const bool ever = FitsAfter(holders_.size(), option, request);
      return {ever ? EarliestStart::Kind::kUnbounded : EarliestStart::Kind::kNever, {}};
    }
    size_t low = 0;  // it fits after `high`, and not after fewer than `low`
    size_t high = bounded_;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (FitsAfter(middle, option, request)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const absl::Time at = high == 0 ? now_ : std::max(now_, holders_[high - 1].end);
    return {EarliestStart::Kind::kAt, at};
  }

  Snapshot& snapshot_;
  const queueing::WorkloadInfoPtr& info_;
  const absl::Time now_;
  Places places_;
  Nominator nominator_;
  quota::Node* queue_ = nullptr;
  std::vector<Holder> holders_;
  size_t bounded_ = 0;  // so many of them have a bound
  quota::Overlay quota_;
  std::optional<topology::Overlay> nodes_;
  std::vector<std::pair<size_t, size_t>> marks_;
};

}  // namespace

EarliestStart FindEarliestStart(Snapshot& snapshot, const queueing::WorkloadInfoPtr& info,
                                absl::Time now, const StartsBefore& before) {
  return Finder(snapshot, info, now).Run(before);
}

}  // namespace sluice::admission
