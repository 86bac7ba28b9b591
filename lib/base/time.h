// Time in the formats of the Kubernetes API (RFC 3339).
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>

namespace sluice {

// Source of the current time. Only the shell and the simulator implement it; everything that
// decides gets an instant as a parameter.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// "2026-08-22T10:00:00Z" (metav1.Time: whole seconds, UTC).
std::string FormatTime(absl::Time time);
// "2026-08-22T10:00:00.123456Z" (metav1.MicroTime).
std::string FormatMicroTime(absl::Time time);
// Accepts what the API server writes, with or without fraction, with Z or an offset.
absl::StatusOr<absl::Time> ParseTime(const std::string& text);

// Go's time.Duration text: "1h30m", "300ms", "1.5h", "-2s". Formatting follows Go ("1m0s", "0s").
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text);
std::string FormatDuration(absl::Duration duration);

}  // namespace sluice
