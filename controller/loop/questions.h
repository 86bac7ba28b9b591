// Questions: what other threads want to know of the World, answered by the loop between batches.
//
// For what no published view can hold, because it is computed from everything at once. Each
// question must be answered in bounded time and leave the World as it was. So that decisions go on,
// the loop answers only a few, and begins none after a short time, between two batches; when too
// many wait new ones are turned away.
//
// Contract: Ask from any thread, never waits; Answer on the loop's thread.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
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
  // No other one is begun after this time between two batches.
  static constexpr absl::Duration kMostTime = absl::Milliseconds(5);

  // `wake` makes the loop come to Answer soon; it may be called from any thread. `now` tells the
  // time that answers take, and `held` is told for how long they held up the loop, each time that
  // they did.
  explicit Questions(
      std::function<void()> wake, std::function<absl::Time()> now = [] { return absl::Now(); },
      std::function<void(absl::Duration)> held = nullptr)
      : wake_(std::move(wake)), now_(std::move(now)), held_(std::move(held)) {}

  // False: too many wait, or Close was called.
  bool Ask(Question question);
  void Answer(state::World& world, absl::Time now);
  // Those that wait are dropped unanswered.
  void Close();

 private:
  // How many were answered; `rest`: others still wait.
  int AnswerSome(state::World& world, absl::Time now, absl::Time begin, bool& rest);

  std::function<void()> wake_;
  std::function<absl::Time()> now_;
  std::function<void(absl::Duration)> held_;
  absl::Mutex mutex_;
  std::deque<Question> waiting_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::loop
