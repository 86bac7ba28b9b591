// Questions: what other threads want to know of the World, answered by the loop between batches.
//
// For what no published view can hold, because it is computed from everything at once. Each
// question must be answered in bounded time and leave the World as it was. So that decisions go on,
// the loop answers only a few between two batches, and when too many wait new ones are turned away.
//
// Contract: Ask from any thread, never waits; Answer on the loop's thread.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <deque>
#include <functional>
#include <utility>

#include "state/world.h"

namespace sluice::loop {

class Questions {
 public:
  using Question = std::function<void(state::World& world, absl::Time now)>;
  static constexpr size_t kMostWaiting = 64;
  static constexpr int kMostAtOnce = 4;

  // `wake` makes the loop come to Answer soon; it may be called from any thread.
  explicit Questions(std::function<void()> wake) : wake_(std::move(wake)) {}

  // False: too many wait, or Close was called.
  bool Ask(Question question);
  void Answer(state::World& world, absl::Time now);
  // Those that wait are dropped unanswered.
  void Close();

 private:
  std::function<void()> wake_;
  absl::Mutex mutex_;
  std::deque<Question> waiting_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::loop
