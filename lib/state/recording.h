// What the loop did, as text, one JSON object a line: what --record writes and --replay reads. Each
// line is an event that was taken in, or says that the loop worked on those before it. A recorded
// stream is a complete bug report: the same events in the same batches at the same instants give
// the same decisions and the same numbers of writes, so recorded replies find their writes.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>

#include "state/ports.h"

namespace sluice::state {

struct RecordedLine {
  absl::Time time;
  std::optional<Event> event;  // none: the loop worked then
};

// Without a newline at the end. Secrets never pass the loop, so none are recorded.
std::string EncodeEvent(const Event& event, absl::Time time);
std::string EncodeRun(absl::Time time);
absl::StatusOr<RecordedLine> DecodeLine(const std::string& line);

}  // namespace sluice::state
