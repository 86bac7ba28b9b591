// Executor: one named thread that runs posted functions in order, at once or after a delay.
//
// Two of them exist in a controller: one for timers and dispatch, on which nothing may block, and
// one for delivery into the inbox of the loop, which may. Thread-safe. A function must not throw.
// Everything that posts to an executor must be stopped before the executor is destroyed.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace sluice::kube {

class Executor {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;  // never 0

  explicit Executor(std::string name);
  ~Executor();  // Shutdown
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(Task task);
  TimerId PostAfter(absl::Duration delay, Task task);
  // False when it ran, is running or was cancelled before.
  bool Cancel(TimerId id);

  // Runs what Post gave so far, drops timers and later posts, ends the thread. Idempotent; not from
  // the executor's own thread.
  void Shutdown();
  bool OnThisThread() const { return std::this_thread::get_id() == thread_id_; }

 private:
  void Run();
  // Takes the next function that is due, waiting for it; empty when the thread should end.
  Task Next();

  const std::string name_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<Task> ready_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<std::pair<absl::Time, TimerId>, Task> timers_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<TimerId, absl::Time> due_ ABSL_GUARDED_BY(mutex_);
  TimerId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::thread::id thread_id_;
};

// Instants that only move forward, for measuring; their distance to wall-clock time means nothing.
absl::Time SteadyNow();

}  // namespace sluice::kube
