// Events as text, one JSON object a line: what --record writes and the simulator and --replay read.
// A recorded stream is a complete bug report: the same events at the same instants give the same
// decisions.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>

#include "state/ports.h"

namespace sluice::state {

struct RecordedEvent {
  absl::Time time;
  Event event;
};

// Without a newline at the end. Secrets never pass the loop, so none are recorded.
std::string EncodeEvent(const Event& event, absl::Time time);
absl::StatusOr<RecordedEvent> DecodeEvent(const std::string& line);

}  // namespace sluice::state
