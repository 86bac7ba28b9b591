#include "kube/executor.h"

#include <absl/time/clock.h>
#include <pthread.h>

#include <chrono>

namespace sluice::kube {

absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

Executor::Executor(std::string name) : name_(std::move(name)) {
  thread_ = std::thread([this] {
    // The kernel keeps 15 characters of a thread's name.
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  });
  thread_id_ = thread_.get_id();
}

Executor::~Executor() { Shutdown(); }

void Executor::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  ready_.push_back(std::move(task));
  changed_.Signal();
}

Executor::TimerId Executor::PostAfter(absl::Duration delay, Task task) {
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_id_++;
  if (stopping_) return id;
  const absl::Time due = SteadyNow() + delay;
  const auto placed = timers_.emplace(std::pair(due, id), std::move(task)).first;
  due_.emplace(id, due);
  // The thread only has to look again when this is the earliest.
  if (placed == timers_.begin()) changed_.Signal();
  return id;
}

bool Executor::Cancel(TimerId id) {
  Task dropped;  // destroyed after the lock is released: it may own anything
  absl::MutexLock lock(&mutex_);
  const auto found = due_.find(id);
  if (found == due_.end()) return false;
  const auto timer = timers_.find(std::pair(found->second, id));
  dropped = std::move(timer->second);
  timers_.erase(timer);
  due_.erase(found);
  return true;
}

Executor::Task Executor::Next() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    while (!stopping_ && !timers_.empty() && timers_.begin()->first.first <= SteadyNow()) {
      const auto first = timers_.begin();
      due_.erase(first->first.second);
      ready_.push_back(std::move(first->second));
      timers_.erase(first);
    }
    if (!ready_.empty()) {
      Task task = std::move(ready_.front());
      ready_.pop_front();
      return task;
    }
    if (stopping_) return nullptr;
    if (timers_.empty()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitWithTimeout(&mutex_, timers_.begin()->first.first - SteadyNow());
    }
  }
}

void Executor::Run() {
  while (const Task task = Next()) task();
}

void Executor::Shutdown() {
  absl::btree_map<std::pair<absl::Time, TimerId>, Task> dropped;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(timers_);
    due_.clear();
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace sluice::kube
