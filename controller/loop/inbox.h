// Inbox: the door of the loop. Transport threads push events, the loop's thread takes them.
//
// Bounded: a full inbox makes Push wait, which holds the sockets of watches back. Thread-safe; Next
// is called by one thread only.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <deque>
#include <optional>

#include "state/ports.h"

namespace sluice::loop {

class Inbox : public state::EventSource {
 public:
  explicit Inbox(size_t capacity = 10000) : capacity_(capacity) {}

  // Waits while the inbox is full. False (and the event is dropped) once it is closed.
  bool Push(state::Event event);
  // As Push, but never waits: false, and the event is untouched, when the inbox is full.
  bool TryPush(state::Event& event);
  // The next event, or nullopt at the deadline or when closed and empty.
  std::optional<state::Event> Next(absl::Time deadline) override;
  // The next call of Next, or the one that waits, returns at once, with an event or without.
  void Wake();
  // Wakes everybody; what is inside can still be taken.
  void Close();
  bool closed() const;
  size_t size() const;

 private:
  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<state::Event> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::loop
