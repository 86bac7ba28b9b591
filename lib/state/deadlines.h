// Deadlines: instants after which something is to be looked at again, one for each key.
//
// Each is due once: setting the same instant again, also after it was due, changes nothing.
//
// Contract: pure, thread-compatible. O(log n).
//
//   deadlines.Set(key, until);
//   for (const ObjectKey& key : deadlines.TakeDue(now)) ...
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <utility>
#include <vector>

#include "base/object_key.h"

namespace sluice::state {

class Deadlines {
 public:
  // InfinitePast: none.
  void Set(const ObjectKey& key, absl::Time until) {
    const auto found = set_.find(key);
    if (found != set_.end()) {
      if (found->second == until) return;
      due_.erase({found->second, key});
      set_.erase(found);
    }
    if (until == absl::InfinitePast()) return;
    set_.emplace(key, until);
    due_.insert({until, key});
  }
  // InfiniteFuture: none.
  absl::Time Next() const { return due_.empty() ? absl::InfiniteFuture() : due_.begin()->first; }
  std::vector<ObjectKey> TakeDue(absl::Time now) {
    std::vector<ObjectKey> keys;
    while (!due_.empty() && due_.begin()->first <= now) {
      keys.push_back(due_.begin()->second);
      due_.erase(due_.begin());
    }
    return keys;
  }

 private:
  absl::btree_map<ObjectKey, absl::Time> set_;
  absl::btree_set<std::pair<absl::Time, ObjectKey>> due_;
};

}  // namespace sluice::state
