// PendingIndex: what waits in every queue, in order, for the threads that answer questions.
//
// Nobody asks most of the time, and then it is empty and costs the loop nothing. Whoever asks says
// so by Prepare; the loop then fills it in one pass and tells it what changes from there on, which
// costs O(changes) and never a look at a whole queue, until nobody has asked for a while. Whoever
// asks gets an immutable view of one ClusterQueue; it is sorted when it is first asked for after a
// change, on the asking thread. The order is that of queueing::QueueManager::Snapshot.
//
// Contract: thread-safe; Apply holds the lock for O(changes), a question for O(pending in that
// ClusterQueue) copies of pointers.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_types.h"
#include "queueing/queue_manager.h"

namespace sluice::serve {

// One workload that waits; shares nothing with the loop's objects.
struct PendingItem {
  ObjectKey key;
  std::string uid;
  std::string cluster_queue;
  ObjectKey local_queue;
  int64_t order_priority = 0;  // effective: with its boost
  absl::Time order_time;
  int32_t priority = 0;  // of the spec
  std::optional<absl::Time> created;
  std::vector<api::OwnerReference> owners;
  // Why it waits, when it was last decided about: in one word ("" when not known) and as its
  // condition says it.
  std::string reason;
  std::string sentence;
  // It is listed from then on; InfiniteFuture: when another version of it comes.
  absl::Time listed_from = absl::InfinitePast();
};
using PendingItemPtr = std::shared_ptr<const PendingItem>;
// `decided`: the word of the last decision about it, "" where that is not known.
PendingItemPtr MakePendingItem(const queueing::WorkloadInfo& info, const std::string& decided = "");

struct PendingPosition {
  PendingItemPtr item;
  int64_t in_local_queue = 0;
};

// In order: the index of an entry is its position in the ClusterQueue.
struct PendingView {
  std::vector<PendingPosition> entries;
  absl::Time valid_until = absl::InfiniteFuture();  // by time alone
};

// What decides about the order in a ClusterQueue besides the workloads themselves: by usage of
// their LocalQueues first (where `usage_based`), then `first` before all others.
struct OrderFacts {
  bool usage_based = false;
  std::optional<ObjectKey> first{};
  bool operator==(const OrderFacts&) const = default;
};

struct PendingUpdate {
  std::vector<std::pair<ObjectKey, PendingItemPtr>> workloads;  // nullptr: waits no longer
  std::vector<std::pair<std::string, OrderFacts>> orders;
  std::vector<std::pair<ObjectKey, queueing::UsageValue>> usages;       // of LocalQueues
  std::vector<std::pair<std::string, bool>> cluster_queues;             // false: is gone
  std::vector<std::pair<ObjectKey, std::optional<std::string>>> local;  // LocalQueue, ClusterQueue
  bool Empty() const {
    return workloads.empty() && orders.empty() && usages.empty() && cluster_queues.empty() &&
           local.empty();
  }
};

class PendingIndex {
 public:
  using Then = std::function<void()>;

  // `wake` makes the loop come to Ready soon; it may be called from any thread.
  explicit PendingIndex(std::function<void()> wake = nullptr) : wake_(std::move(wake)) {}

  // Calls `then` when questions can be answered: at once when it is filled (or when nothing can be
  // answered yet, before the first lists are complete), else later on the loop's thread.
  void Prepare(absl::Time now, Then then);
  // Those that wait are dropped.
  void Close();

  // On the loop's thread.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void Apply(const PendingUpdate& update);
  // It is filled: those who wait are told.
  void Ready();
  // Empties it when nobody has asked since then; false: it must be kept up.
  bool StopUnlessAskedSince(absl::Time time);
  // Until the first lists are complete nothing is answered.
  void SetSynced();
  bool synced() const;
  // Whether it shows the queues now.
  bool filled() const;

  // nullptr: there is no such ClusterQueue.
  std::shared_ptr<const PendingView> OfClusterQueue(const std::string& name, absl::Time now) const;
  // The view of its ClusterQueue, which has the workloads of other LocalQueues too; empty where
  // that does not exist. nullptr: there is no such LocalQueue.
  std::shared_ptr<const PendingView> OfLocalQueue(const ObjectKey& key, absl::Time now) const;

 private:
  struct Queue {
    bool exists = false;
    OrderFacts facts;
    absl::btree_map<ObjectKey, PendingItemPtr> items;
    uint64_t version = 0;
    std::shared_ptr<const PendingView> view;  // of that version; null: to be made
  };
  struct Sortable;

  static void Changed(Queue& queue);
  void Put(const ObjectKey& key, const PendingItemPtr& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::shared_ptr<const PendingView> Sort(std::vector<Sortable> items, absl::Time now);

  const std::function<void()> wake_;
  std::atomic<bool> wanted_{false};
  mutable absl::Mutex mutex_;
  std::vector<Then> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::Time asked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool filled_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  mutable absl::btree_map<std::string, Queue> queues_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, PendingItemPtr> items_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, std::string> local_queues_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, queueing::UsageValue> usages_ ABSL_GUARDED_BY(mutex_);
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::serve
