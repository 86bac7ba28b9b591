#include "base/time.h"

#include <chrono>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace sluice {

namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr int64_t kDay = 24 * 60 * 60;
constexpr int64_t kYear10000 = 253402300800;  // the first second with a longer year

// Every object carries several times, nearly all of them in this one form, and the general routines
// for time zones take several times as long.
constexpr std::string_view kForm = "0000-00-00T00:00:00Z";

void PutNumber(std::string& text, size_t at, int64_t value, size_t digits) {
  for (size_t i = digits; i-- > 0; value /= 10) text[at + i] = static_cast<char>('0' + value % 10);
}

std::optional<std::string> FormatPlain(absl::Time time) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  if (time < absl::UnixEpoch() || seconds >= kYear10000) return std::nullopt;
  const year_month_day date{sys_days{std::chrono::days{seconds / kDay}}};
  const int64_t clock = seconds % kDay;
  std::string text(kForm);
  PutNumber(text, 0, static_cast<int>(date.year()), 4);
  PutNumber(text, 5, static_cast<unsigned>(date.month()), 2);
  PutNumber(text, 8, static_cast<unsigned>(date.day()), 2);
  PutNumber(text, 11, clock / 3600, 2);
  PutNumber(text, 14, clock / 60 % 60, 2);
  PutNumber(text, 17, clock % 60, 2);
  return text;
}

std::optional<absl::Time> ParsePlain(std::string_view text) {
  if (text.size() != kForm.size()) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    for (size_t i = at; i < at + digits; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  const year_month_day date{std::chrono::year{number(0, 4)},
                            std::chrono::month{static_cast<unsigned>(number(5, 2))},
                            std::chrono::day{static_cast<unsigned>(number(8, 2))}};
  const int hour = number(11, 2);
  const int minute = number(14, 2);
  const int second = number(17, 2);
  // What is left, leap seconds too, is for the general routine.
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  const int64_t days = sys_days{date}.time_since_epoch().count();
  return absl::FromUnixSeconds(days * kDay + hour * 3600 + minute * 60 + second);
}

}  // namespace

std::string FormatTime(absl::Time time) {
  if (std::optional<std::string> text = FormatPlain(time)) return *std::move(text);
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string FormatMicroTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

absl::StatusOr<absl::Time> ParseTime(const std::string& text) {
  if (const std::optional<absl::Time> time = ParsePlain(text)) return *time;
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
