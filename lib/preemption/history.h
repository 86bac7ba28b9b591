// History: who had to go for whom, so that workloads do not evict each other for ever.
//
// A search for victims sees one state. With preemption inside a ClusterQueue and reclaiming from
// others, each step can be right by its own rule while the steps go round: `low` of team a gives
// way to `high` of team a, which borrows for it; team b takes that back; b's own `high` replaces
// what came and borrows; and team a takes that back for `low`. So every workload remembers for whom
// it was evicted. Following these links from a preemptor gives its evictors: those without whose
// starts it would still run. A preemptor that borrows does not evict one of its evictors, which
// would close the circle. With fair sharing a share test tells whose turn it is, and shares change
// while other things happen; so there this holds inside a ClusterQueue, and between ClusterQueues
// only for a while after the preemptor was evicted kTired times, a minute first and twice as long
// every time. A workload that takes no more than its ClusterQueue may claim is not held back by all
// this, unless it was evicted kTired times while nothing else happened.
//
// With no event from outside, evictions therefore end. If they did not, the workloads that are
// evicted without end would in time evict only each other, each being tired, and their links, at
// least one for each, would contain a circle, which no step may close.
//
// The last link of each workload follows from its Preempted condition, which names the preemptor by
// UID, and so survives a restart; only what came before and how often does not. Thread-compatible.
// O(log n) a call; EvictorsOf costs the number of evictors besides.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::preemption {

// The evictors of a workload, by UID.
struct Evictors {
  absl::btree_set<std::string> uids;
  bool tired = false;    // it was evicted kTired times and nothing else happened
  bool resting = false;  // it was evicted kTired times or more, the last time not long ago
};

class History {
 public:
  static constexpr int kTired = 3;
  static constexpr absl::Duration kRest = absl::Minutes(1);
  static constexpr absl::Duration kLongestRest = absl::Hours(1);

  // The instant for which EvictorsOf answers, and at which Record happens.
  void SetNow(absl::Time now) { now_ = now; }
  absl::Time now() const { return now_; }
  // The workload `victim` was evicted for the workload `preemptor` (UIDs).
  void Record(const std::string& victim, const std::string& preemptor);
  // The workload takes part no more, or as another: it ended, or its spec changed. True when a link
  // came from it or led to it, so that others may be judged differently.
  bool Forget(const std::string& workload);
  // Quotas or rules changed: what happened before proves nothing.
  void Clear();
  // Something happened that is no consequence of preemptions.
  void NoteEvent() { ++events_; }

  Evictors EvictorsOf(const std::string& workload) const;
  // Until when it is resting (see Evictors), after which it may find victims by time alone;
  // InfinitePast: it does not rest.
  absl::Time RestsUntil(const std::string& workload) const;
  size_t size() const { return links_.size(); }

 private:
  static constexpr size_t kMostPreemptors = 16;  // remembered for each, the last ones

  struct Links {
    std::vector<std::string> preemptors;  // the last one last
    uint64_t events = 0;                  // when it was evicted last
    int recently = 0;                     // evicted since the last event
    int times = 0;
    absl::Time last;
  };
  absl::btree_map<std::string, Links> links_;     // by victim
  absl::btree_map<std::string, int64_t> linked_;  // how many victims remember the preemptor
  uint64_t events_ = 0;
  absl::Time now_ = absl::InfinitePast();

  void Unlink(const std::string& preemptor);
  static absl::Time RestsUntil(const Links& links);
};

}  // namespace sluice::preemption
