#include "base/time.h"

#include "base/status.h"

namespace sluice {

std::string FormatTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string FormatMicroTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

absl::StatusOr<absl::Time> ParseTime(const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return InvalidArgument("\"{}\" is not an RFC 3339 time: {}", text, error);
  }
  return time;
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  absl::Duration duration;
  if (text.empty() || !absl::ParseDuration(text, &duration)) {
    return InvalidArgument("\"{}\" is not a duration such as 90s or 1h30m", text);
  }
  return duration;
}

std::string FormatDuration(absl::Duration duration) {
  if (duration == absl::ZeroDuration()) return "0s";
  if (duration < absl::ZeroDuration()) return "-" + sluice::FormatDuration(-duration);
  if (duration < absl::Seconds(1)) return absl::FormatDuration(duration);
  const int64_t hours = absl::ToInt64Hours(duration);
  const int64_t minutes = absl::ToInt64Minutes(duration) % 60;
  const absl::Duration seconds = duration - absl::Hours(hours) - absl::Minutes(minutes);
  std::string tail = seconds == absl::ZeroDuration() ? "0s" : absl::FormatDuration(seconds);
  if (seconds > absl::ZeroDuration() && seconds < absl::Seconds(1)) {
    tail = fmt::format("{}s", absl::ToDoubleSeconds(seconds));
  }
  if (hours > 0) return fmt::format("{}h{}m{}", hours, minutes, tail);
  if (minutes > 0) return fmt::format("{}m{}", minutes, tail);
  return tail;
}

}  // namespace sluice
