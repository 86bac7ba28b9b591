// PendingIndex: what waits in every queue, in order, for the threads that answer questions.
//
// The loop tells it what changed, which costs it O(changes) and never a look at a whole queue.
// Whoever asks gets an immutable view of one ClusterQueue; it is sorted when it is first asked for
// after a change, on the asking thread. The order is that of queueing::QueueManager::Snapshot.
//
// Contract: thread-safe; Apply holds the lock for O(changes), a question for O(pending in that
// ClusterQueue) copies of pointers.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
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
  // It is listed from then on; InfiniteFuture: when another version of it comes.
  absl::Time listed_from = absl::InfinitePast();
};
using PendingItemPtr = std::shared_ptr<const PendingItem>;
PendingItemPtr MakePendingItem(const queueing::WorkloadInfo& info);

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
  // On the loop's thread.
  void Apply(const PendingUpdate& update);
  // Until the first lists are complete nothing is answered.
  void SetSynced();
  bool synced() const;

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

  mutable absl::Mutex mutex_;
  mutable absl::btree_map<std::string, Queue> queues_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, PendingItemPtr> items_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, std::string> local_queues_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<ObjectKey, queueing::UsageValue> usages_ ABSL_GUARDED_BY(mutex_);
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::serve
