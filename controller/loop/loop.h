// The loop: the one thread that thinks.
//
// Takes events in batches, lets the Operator work, calls the hooks, waits for the next event or the
// next due instant. Returns when `stop` says so or the source is exhausted. The same body runs over
// a real inbox or a recorded stream.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "base/time.h"
#include "reconcile/operator.h"
#include "state/ports.h"

namespace sluice::loop {

struct LoopHooks {
  // Before each event is taken in, for recording; may be empty.
  std::function<void(const state::Event&, absl::Time)> on_event;
  // Before each time that the Operator works, on events or on what is due; for recording.
  std::function<void(absl::Time)> on_run;
  // After each batch, on the loop's thread, with the time that the Operator's work took; may be
  // empty.
  std::function<void(const reconcile::Operator&, absl::Time, absl::Duration)> after_batch;
  // Whether to end; asked after each batch, and before its events are worked on.
  std::function<bool()> stop;
  // The longest wait between two calls of after_batch.
  absl::Duration heartbeat = absl::Milliseconds(200);
  // Events that come so soon after a batch began are gathered first, so that a busy cluster does
  // not wake the loop for each of them. What comes later is decided about at once.
  absl::Duration gather = absl::ZeroDuration();
  // How that time is spent; absl::SleepFor when empty.
  std::function<void(absl::Duration)> pause;
};

void RunLoop(reconcile::Operator& op, state::EventSource& source, const Clock& clock,
             const LoopHooks& hooks);

// Feeds a recorded stream (text lines of state/recording.h) to a fresh Operator, which works when
// the recorded one did, and prints every decision and write. Errors name the line.
absl::Status Replay(std::istream& recording, const state::Settings& settings, std::ostream& out);

}  // namespace sluice::loop
