#include "reconcile/next_cycles.h"

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "queueing/backfill.h"

namespace sluice::reconcile {
namespace {

using queueing::QueueManager;
using queueing::WorkloadInfoPtr;

constexpr size_t kMostRivals = 32;
constexpr size_t kMostBefore = 32;
constexpr size_t kAll = std::numeric_limits<size_t>::max();

struct Bounds {
  size_t queues;    // other ClusterQueues
  size_t of_other;  // workloads of one of them
  size_t of_class;  // of its own ClusterQueue
  size_t of_own;
  size_t judged;
};
constexpr Bounds kQuick = {32, 16, 16, 256, 64};
constexpr Bounds kThorough = {kAll, kAll, kAll, kAll, kAll};

// A part of the queues, in the state in which they are.
class Excerpt {
 public:
  Excerpt(state::World& world, const WorkloadInfoPtr& asked, const Bounds& bounds, absl::Time now)
      : world_(world), all_(world.queues()), asked_(asked), bounds_(bounds), now_(now) {
    const auto queue = world.cluster_queues().Find({"", asked->cluster_queue});
    strict_ =
        queue != nullptr && queueing::StrategyOf(*queue) == queueing::QueueingStrategy::kStrictFifo;
    backfill_ = queue != nullptr && queueing::BackfillOf(*queue).on();
    usage_based_ = world.UsageBased(asked->cluster_queue);
    ListOwn();
  }

  void Fill() {
    ListOthers();
    FollowUsage();
    AddHeads();
    for (const WorkloadInfoPtr& info : taken_) {
      if (part_.Find(info->Key()) == nullptr) part_.AddOrUpdate(info, now_);
    }
    part_.AddOrUpdate(asked_, now_);
  }

  QueueManager& queues() { return part_; }
  bool alone() const { return taken_.empty(); }

  // Those before it that still stand there, and how many of them were not looked at.
  void Tell(NextCycles& next) const {
    next.position.strict = strict_ && !backfill_;
    absl::btree_set<queueing::EquivalenceClass> refused;
    for (const WorkloadInfoPtr& info : ahead_) {
      if (part_.PlaceOf(info->Key()) == queueing::Place::kParked) refused.insert(info->equivalence);
    }
    for (const WorkloadInfoPtr& info : taken_) {
      const bool left = part_.PlaceOf(info->Key()) == queueing::Place::kNone;
      if (left && next.started.size() < kMostBefore) next.started.push_back(info);
    }
    for (const WorkloadInfoPtr& info : ahead_) {
      const ObjectKey key = info->Key();
      if (taken_keys_.contains(key)) {
        const queueing::Place place = part_.PlaceOf(key);
        if (place == queueing::Place::kNone || place == queueing::Place::kParked) continue;
      } else if (!strict_ && !backfill_ && refused.contains(info->equivalence)) {
        continue;
      } else if (!taken_.empty() && ((!strict_ && !backfill_) || next.position.ahead == 0)) {
        ++next.unseen;  // in order nobody passes one that stands before it
      }
      if (next.position.ahead++ == 0) next.position.head = key.ToString();
      if (next.before.size() < kMostBefore) next.before.push_back(info);
    }
  }

 private:
  bool Precedes(const queueing::WorkloadInfo& other) const {
    if (usage_based_) {
      const auto order =
          all_.LocalQueueUsage(other.local_queue) <=> all_.LocalQueueUsage(asked_->local_queue);
      if (order != 0) return order < 0;
    }
    // Victims are on their way out for it.
    if (!strict_ && !backfill_ && all_.IsPreemptor(other.Key())) return true;
    return queueing::OrderedBefore(other, *asked_);
  }

  // In order, except that those whose backoff ended since the queue was looked at come last.
  std::vector<WorkloadInfoPtr> CanBePopped(const std::string& name, size_t most) const {
    std::vector<WorkloadInfoPtr> first = all_.First(name, most);
    const std::optional<absl::Time> due = all_.NextDue();
    if (!due || *due > now_) return first;
    for (queueing::PendingWorkload& pending : all_.Snapshot(name)) {
      if (first.size() >= most) break;
      const auto& requeue = pending.info->workload->status.requeue_state;
      if (pending.place == queueing::Place::kParked && requeue && requeue->requeue_at &&
          *requeue->requeue_at <= now_ && queueing::BackoffOver(*pending.info->workload, now_)) {
        first.push_back(std::move(pending.info));
      }
    }
    return first;
  }

  void ListOwn() {
    for (WorkloadInfoPtr& info : CanBePopped(asked_->cluster_queue, kAll)) {
      if (Precedes(*info)) ahead_.push_back(std::move(info));
    }
  }

  void Open(const std::string& name) {
    const admission::ClusterQueueSnapshot* queue = FindQueue(name);
    if (queue == nullptr) return;
    const bool backfill = queueing::BackfillOf(*queue->cluster_queue).on();
    part_.AddClusterQueue(name, {backfill ? queueing::QueueingStrategy::kStrictFifo
                                          : queueing::StrategyOf(*queue->cluster_queue),
                                 queue->active, world_.UsageBased(name), backfill});
    opened_.push_back(name);
  }

  const admission::ClusterQueueSnapshot* FindQueue(const std::string& name) const {
    return world_.snapshot().FindClusterQueue(name);
  }

  void Take(const WorkloadInfoPtr& info) {
    taken_.push_back(info);
    taken_keys_.insert(info->Key());
  }

  // Quota is shared within a tree, nodes by all that get places.
  void ListOthers() {
    Open(asked_->cluster_queue);
    TakeOwn();
    size_t queues = 0;
    absl::btree_set<std::string> seen = {asked_->cluster_queue};
    const auto look = [&](const std::string& name) {
      if (queues >= bounds_.queues || !seen.insert(name).second) return;
      const std::vector<WorkloadInfoPtr> first = CanBePopped(name, bounds_.of_other);
      if (first.empty()) return;
      ++queues;
      Open(name);
      for (const WorkloadInfoPtr& info : first) Take(info);
    };
    for (const std::string& name : world_.tree().TreeOf(asked_->cluster_queue)) look(name);
    const admission::ClusterQueueSnapshot* mine = FindQueue(asked_->cluster_queue);
    if (mine == nullptr || !mine->has_topology) return;
    for (const auto& [name, queue] : world_.snapshot().cluster_queues) {
      if (queue.has_topology) look(name);
    }
  }

  void TakeOwn() {
    absl::btree_map<queueing::EquivalenceClass, size_t> of_class;
    const bool in_order = strict_ || backfill_;
    for (const WorkloadInfoPtr& info : ahead_) {
      if (taken_.size() >= bounds_.of_own) break;
      if (in_order || of_class[info->equivalence]++ < bounds_.of_class) Take(info);
    }
    if (!usage_based_) return;
    // What starts changes the order.
    for (const WorkloadInfoPtr& info : all_.First(asked_->cluster_queue, bounds_.of_own)) {
      if (!taken_keys_.contains(info->Key()) && !Precedes(*info)) Take(info);
    }
  }

  // As the World does for its own queues.
  void FollowUsage() {
    const queueing::UsageLedger* usage = world_.usage_ledger();
    if (usage == nullptr) return;
    taken_.push_back(asked_);
    for (const WorkloadInfoPtr& info : taken_) {
      part_.SetLocalQueueUsage(info->local_queue, all_.LocalQueueUsage(info->local_queue));
    }
    taken_.pop_back();
    ledger_.emplace(*usage);
    part_.SetAdmitListener(
        [this](const queueing::WorkloadInfo& info, const FlavorResourceAmounts& amounts) {
          if (!world_.UsageBased(info.cluster_queue)) return;
          Requests requests;
          for (const auto& [cell, amount] : amounts) {
            int64_t& total = requests[cell.resource];
            total = SaturatingAdd(total, amount);
          }
          requests.erase(kPods);
          ledger_->PushEntryPenalty(info.Key(), info.local_queue, requests);
          part_.SetLocalQueueUsage(info.local_queue, ledger_->Usage(info.local_queue));
        });
  }

  // Heads that wait, and those for which room is being made, in the state that an answer like
  // theirs leaves them in.
  void AddHeads() {
    absl::btree_set<std::string> ready;
    for (const std::string& name : opened_) {
      const std::vector<WorkloadInfoPtr> head = all_.First(name, 1);
      if (head.empty() || !taken_keys_.contains(head.front()->Key())) continue;
      const bool waits = all_.WaitingQueues().contains(name);
      if (!waits && !all_.IsPreemptor(head.front()->Key())) continue;
      part_.AddOrUpdate(head.front(), now_);
      if (!waits) ready.insert(name);
    }
    for (const WorkloadInfoPtr& head : part_.Heads(now_)) {
      queueing::RequeueRequest request;
      request.reason = all_.IsPreemptor(head->Key())
                           ? queueing::RequeueReason::kPendingPreemption
                           : queueing::RequeueReason::kFailedAfterNomination;
      request.hold = true;
      part_.Requeue(head->Key(), request, now_);
    }
    for (const std::string& name : ready) part_.Retry(name);
  }

  state::World& world_;
  const QueueManager& all_;
  const WorkloadInfoPtr& asked_;
  const Bounds bounds_;
  const absl::Time now_;
  bool strict_ = false;  // its ClusterQueue
  bool backfill_ = false;
  bool usage_based_ = false;
  std::vector<WorkloadInfoPtr> ahead_;  // all of its ClusterQueue before it
  std::vector<WorkloadInfoPtr> taken_;
  absl::btree_set<ObjectKey> taken_keys_;
  std::vector<std::string> opened_;
  QueueManager part_;
  std::optional<queueing::UsageLedger> ledger_;
};

}  // namespace

NextCycles FindNextCycles(state::World& world, const WorkloadInfoPtr& asked, bool judge,
                          Effort effort, absl::Time now) {
  NextCycles next;
  const Bounds& bounds = effort == Effort::kQuick ? kQuick : kThorough;
  Excerpt excerpt(world, asked, bounds, now);
  if (judge) {
    excerpt.Fill();
    next.alone = excerpt.alone();
    if (!next.alone) {
      next.trial = admission::TryToStart(world.snapshot(), excerpt.queues(), asked->Key(), now,
                                         {bounds.judged, kMostRivals});
    }
  }
  excerpt.Tell(next);
  return next;
}

}  // namespace sluice::reconcile
