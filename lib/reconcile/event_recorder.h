// EventRecorder: turns notes into events.k8s.io/v1 objects, few enough for the API server.
//
// The same note about the same object within six minutes is one event with a series: the second one
// updates it, later ones at most every thirty minutes. Each object has a budget of 25 events that
// refills slowly, and the whole process one of its own, so that a storm of decisions does not
// become a storm of writes. Source: Kubernetes enhancement 383, "Redesign Event API"; client-go's
// defaults. Single thread; pure.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <optional>
#include <string>

#include "reconcile/plan.h"

namespace sluice::reconcile {

struct EventRecorderOptions {
  std::string instance = "sluice";  // reportingInstance
  int object_burst = 25;
  absl::Duration object_refill = absl::Seconds(300);  // one more event per object
  int total_burst = 2000;
  int total_per_second = 200;
};

class EventRecorder {
 public:
  explicit EventRecorder(EventRecorderOptions options) : options_(std::move(options)) {}

  // The write for the note, or nullopt when it only counts up a series or the budget is spent.
  std::optional<state::Action> Record(const Note& note, absl::Time now);
  uint64_t dropped() const { return dropped_; }

 private:
  struct Series {
    ObjectKey name;  // of the event object
    int32_t count = 1;
    absl::Time last;
    absl::Time last_write;
  };
  struct Bucket {
    double tokens = 0;
    absl::Time filled;
  };
  bool TakeToken(const std::string& uid, absl::Time now);
  void Forget(absl::Time now);
  state::Action Create(const Note& note, const ObjectKey& name, absl::Time now) const;

  EventRecorderOptions options_;
  absl::btree_map<std::string, Series> series_;
  absl::btree_map<std::string, Bucket> buckets_;
  Bucket total_;
  bool started_ = false;
  absl::Time next_sweep_ = absl::InfinitePast();
  uint64_t sequence_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace sluice::reconcile
