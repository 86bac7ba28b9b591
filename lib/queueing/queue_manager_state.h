// The parts of QueueManager that its own source files share. For nobody else.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <memory>
#include <optional>
#include <string>

#include "queueing/queue_manager.h"

namespace sluice::queueing {

struct QueueManager::Entry {
  WorkloadInfoPtr info;
  Queue* queue = nullptr;
  Place place = Place::kNone;  // kActive: member of `group`, whose class may be blocked
  Group* group = nullptr;
  uint64_t popped_cycle = 0;
  int64_t popped_generation = 0;  // of the object that was handed out last
  std::optional<absl::Time> due;
  std::optional<ScanProgress> progress;
  bool places_matter = true;                            // to its last answer
  std::shared_ptr<const topology::Booking> place_kept;  // by that answer
};

struct QueueManager::EntryLess {
  bool operator()(const Entry* a, const Entry* b) const {
    return OrderedBefore(*a->info, *b->info);
  }
};
struct QueueManager::GroupLess {
  bool operator()(const Group* a, const Group* b) const;
};
struct QueueManager::LaneLess {
  bool operator()(const Lane* a, const Lane* b) const;
};

// The workloads of one class and one LocalQueue that are not parked one by one; never empty.
struct QueueManager::Group {
  Class* of_class = nullptr;
  Lane* lane = nullptr;
  absl::btree_set<Entry*, EntryLess> members;
};

// An equivalence class in one ClusterQueue.
struct QueueManager::Class {
  EquivalenceClass equivalence;
  bool blocked = false;
  // Its last answer was a refusal, or others of the cycle outdid it, and since then there were only
  // releases.
  bool refused = false;
  std::string block_reason;
  bool places_matter = true;                                  // to that answer
  const Entry* evaluated = nullptr;                           // whose answer that was
  absl::btree_map<ObjectKey, std::unique_ptr<Group>> groups;  // by LocalQueue
};

// The workloads of one LocalQueue in order: all groups of classes that are not blocked.
struct QueueManager::Lane {
  ObjectKey local_queue;
  UsageValue usage;  // zero in a ClusterQueue whose order does not depend on it
  absl::btree_set<Group*, GroupLess> order;
  int64_t groups = 0;  // blocked ones too; none: the lane goes
  // Its first workload, by which it has its place among the lanes; null when it has no place.
  Entry* top = nullptr;
  bool top_is_sticky = false;
};

struct QueueManager::Queue {
  std::string name;
  bool known = false;
  ClusterQueueOptions options;
  absl::btree_map<EquivalenceClass, std::unique_ptr<Class>> classes;
  absl::btree_map<ObjectKey, std::unique_ptr<Lane>> lanes;
  absl::btree_set<Lane*, LaneLess> order;  // lanes with a top
  absl::btree_set<EquivalenceClass> blocked;
  absl::btree_map<ObjectKey, Entry*> parked;
  absl::btree_map<ObjectKey, Entry*> in_flight;
  PendingCounts counts;              // without regard to `options.active`
  Entry* preemptor = nullptr;        // the last that issued preemptions and still waits
  int64_t preemptor_generation = 0;  // the one that was evaluated then
  Entry* waiting = nullptr;          // at the head, and another try would change nothing
  uint64_t released_cycle = 0;
  std::optional<absl::Time> recheck;  // when those that were passed over are judged again

  bool Serves() const { return known && options.active; }
  // Sorts before all others (of its LocalQueue, where usage decides between LocalQueues).
  Entry* Sticky() const {
    return options.strategy == QueueingStrategy::kBestEffortFifo ? preemptor : nullptr;
  }
  Entry* Top() const { return order.empty() ? nullptr : (*order.begin())->top; }
};

inline bool QueueManager::GroupLess::operator()(const Group* a, const Group* b) const {
  return OrderedBefore(*(*a->members.begin())->info, *(*b->members.begin())->info);
}

inline bool QueueManager::LaneLess::operator()(const Lane* a, const Lane* b) const {
  if (const auto order = a->usage <=> b->usage; order != 0) return order < 0;
  if (a->top_is_sticky != b->top_is_sticky) return a->top_is_sticky;
  return OrderedBefore(*a->top->info, *b->top->info);
}

}  // namespace sluice::queueing
