#include "loop/inbox.h"

#include <absl/time/clock.h>

#include <utility>

namespace sluice::loop {

bool Inbox::Push(state::Event event) {
  absl::MutexLock lock(&mutex_);
  const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || events_.size() < capacity_;
  };
  mutex_.Await(absl::Condition(&room));
  if (closed_) return false;
  events_.push_back(std::move(event));
  return true;
}

bool Inbox::TryPush(state::Event& event) {
  absl::MutexLock lock(&mutex_);
  if (!closed_ && events_.size() >= capacity_) return false;
  if (!closed_) events_.push_back(std::move(event));
  return true;
}

std::optional<state::Event> Inbox::Next(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || woken_ || !events_.empty();
  };
  // A span, so that a clock that is set back meanwhile does not make it longer.
  mutex_.AwaitWithTimeout(absl::Condition(&ready), deadline - absl::Now());
  woken_ = false;
  if (events_.empty()) return std::nullopt;
  state::Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Inbox::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void Inbox::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool Inbox::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

size_t Inbox::size() const {
  absl::MutexLock lock(&mutex_);
  return events_.size();
}

}  // namespace sluice::loop
