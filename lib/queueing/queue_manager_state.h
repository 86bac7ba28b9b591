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
  Place place = Place::kNone;  // kActive: member of `group`, which may be blocked
  Group* group = nullptr;
  uint64_t popped_cycle = 0;
  int64_t popped_generation = 0;  // of the object that was handed out last
  bool evaluated = false;         // it is the one whose answer blocked the group
  std::optional<absl::Time> due;
  std::optional<ScanProgress> progress;
};

struct QueueManager::EntryLess {
  bool operator()(const Entry* a, const Entry* b) const {
    return OrderedBefore(*a->info, *b->info);
  }
};

struct QueueManager::GroupLess {
  bool operator()(const Group* a, const Group* b) const;
};

// The workloads of one equivalence class that are not parked one by one.
struct QueueManager::Group {
  EquivalenceClass equivalence;
  bool blocked = false;
  std::string block_reason;
  absl::btree_set<Entry*, EntryLess> members;
  absl::btree_map<ObjectKey, int64_t> per_local_queue;
};

inline bool QueueManager::GroupLess::operator()(const Group* a, const Group* b) const {
  return OrderedBefore(*(*a->members.begin())->info, *(*b->members.begin())->info);
}

struct QueueManager::Queue {
  std::string name;
  bool known = false;
  ClusterQueueOptions options;
  absl::btree_map<EquivalenceClass, std::unique_ptr<Group>> groups;
  absl::btree_set<Group*, GroupLess> order;  // groups with members that are not blocked
  absl::btree_set<EquivalenceClass> blocked;
  absl::btree_map<ObjectKey, Entry*> parked;
  absl::btree_map<ObjectKey, Entry*> in_flight;
  PendingCounts counts;              // without regard to `options.active`
  Entry* preemptor = nullptr;        // the last that issued preemptions and still waits
  int64_t preemptor_generation = 0;  // the one that was evaluated then
  Entry* waiting = nullptr;          // at the head, and another try would change nothing
  uint64_t released_cycle = 0;

  bool Serves() const { return known && options.active; }
  // Sorts before all others.
  Entry* Sticky() const {
    return options.strategy == QueueingStrategy::kBestEffortFifo ? preemptor : nullptr;
  }
};

}  // namespace sluice::queueing
