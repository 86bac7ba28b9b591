// Structured log: a message and key-value fields, as text for people or one JSON object per line.
//
// Contract: thread-safe; lines are never mixed. Timestamps are UTC with nanoseconds. Everything is
// escaped, so a line stays one line whatever a user puts into a name. Never throws. Pass a Log to
// those who need it; there is no global one. Only the shell logs.
//
//   log.Info("admitted", {{"workload", key.ToString()}, {"clusterQueue", cq},
//   {"waitSeconds", 1.5}});
//
// text: 2026-08-22T10:00:00.000000000Z INFO admitted workload=team-a/j1 clusterQueue=cq
// waitSeconds=1.5 json:
// {"level":"info","ts":"2026-08-22T10:00:00.000000000Z","msg":"admitted","workload":"team-a/j1",...}
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::loop {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat { kText, kJson };

// The value of --zap-log-level: "error", "info", "debug", "panic" (nothing below it exists, so
// nothing is printed), or a verbosity: 1 and 2 are info, 3 and 4 debug, 5 and above trace.
absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text);

class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key_(key), value_(std::string(value)) {}
  LogField(std::string_view key, const std::string& value) : key_(key), value_(value) {}
  LogField(std::string_view key, const char* value) : key_(key), value_(std::string(value)) {}
  LogField(std::string_view key, bool value) : key_(key), value_(value) {}
  LogField(std::string_view key, double value) : key_(key), value_(value) {}
  template <std::integral T>
  LogField(std::string_view key, T value) : key_(key), value_(static_cast<int64_t>(value)) {}
  // In seconds.
  LogField(std::string_view key, absl::Duration value)
      : key_(key), value_(absl::ToDoubleSeconds(value)) {}
  // Code and message.
  LogField(std::string_view key, const absl::Status& value);

  void AppendText(std::string& out) const;
  void AppendJson(std::string& out) const;

 private:
  std::string key_;
  std::variant<std::string, int64_t, double, bool> value_;
};

using LogFields = std::vector<LogField>;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kJson;
  std::ostream* stream = nullptr;     // null: standard error; otherwise it must outlive the Log
  std::function<absl::Time()> clock;  // null: the system's
};

// A cheap handle; copies write to the same sink.
class Log {
 public:
  explicit Log(LogOptions options);

  void Trace(std::string_view message, const LogFields& fields = {}) const;
  void Debug(std::string_view message, const LogFields& fields = {}) const;
  void Info(std::string_view message, const LogFields& fields = {}) const;
  void Warn(std::string_view message, const LogFields& fields = {}) const;
  void Error(std::string_view message, const LogFields& fields = {}) const;

  // For callers that would have to compute the fields.
  bool Enabled(LogLevel level) const;
  // A handle that adds these fields, after the message, to each of its lines.
  Log With(const LogFields& fields) const;

 private:
  struct Sink;
  void Write(LogLevel level, std::string_view message, const LogFields& fields) const;

  std::shared_ptr<Sink> sink_;
  LogFields common_;
};

}  // namespace sluice::loop
