#include "loop/log.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <cmath>

#include "base/status.h"

namespace sluice::loop {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

std::string_view LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
      return "trace";
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::warn:
      return "warn";
    case spdlog::level::err:
      return "error";
    default:
      return "info";
  }
}

// Length of the valid UTF-8 sequence at the front, or 0.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first < 0xF5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) >= 0x90;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

// The inside of a JSON string. Bytes that are not UTF-8 become U+FFFD, so the line stays readable.
void AppendEscaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  AppendEscaped(out, text);
  out += '"';
}

bool IsPlainWord(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

void AppendWord(std::string& out, std::string_view text) {
  if (IsPlainWord(text)) {
    out += text;
  } else {
    AppendQuoted(out, text);
  }
}

// Puts time and level around a line that Log rendered; spdlog gives both.
class LineFormatter : public spdlog::formatter {
 public:
  explicit LineFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ",
                                              absl::FromChrono(message.time), absl::UTCTimeZone());
    const std::string_view payload(message.payload.data(), message.payload.size());
    if (format_ == LogFormat::kJson) {
      fmt::format_to(std::back_inserter(out), "{{\"level\":\"{}\",\"ts\":\"{}\",{}}}\n",
                     LevelName(message.level), time, payload);
      return;
    }
    std::string level(LevelName(message.level));
    for (char& c : level) c = static_cast<char>(c - 'a' + 'A');
    fmt::format_to(std::back_inserter(out), "{} {} {}\n", time, level, payload);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(format_);
  }

 private:
  LogFormat format_;
};

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text) {
  if (text == "info") return LogLevel::kInfo;
  if (text == "debug") return LogLevel::kDebug;
  if (text == "error") return LogLevel::kError;
  if (text == "panic") return LogLevel::kOff;
  int verbosity = 0;
  if (!absl::SimpleAtoi(text, &verbosity) || verbosity <= 0) {
    return InvalidArgument(
        "--zap-log-level: \"{}\" is not debug, info, error, panic or a number above 0", text);
  }
  if (verbosity <= 2) return LogLevel::kInfo;
  return verbosity <= 4 ? LogLevel::kDebug : LogLevel::kTrace;
}

LogField::LogField(std::string_view key, const absl::Status& value)
    : key_(key), value_(std::string(value.ToString())) {}

void LogField::AppendText(std::string& out) const {
  AppendWord(out, key_);
  out += '=';
  if (const auto* text = std::get_if<std::string>(&value_)) {
    AppendWord(out, *text);
  } else if (const auto* number = std::get_if<int64_t>(&value_)) {
    out += fmt::to_string(*number);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    out += fmt::to_string(*real);
  } else {
    out += std::get<bool>(value_) ? "true" : "false";
  }
}

void LogField::AppendJson(std::string& out) const {
  AppendQuoted(out, key_);
  out += ':';
  if (const auto* text = std::get_if<std::string>(&value_)) {
    AppendQuoted(out, *text);
  } else if (const auto* number = std::get_if<int64_t>(&value_)) {
    out += fmt::to_string(*number);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    // JSON has no word for what is not finite.
    std::isfinite(*real) ? void(out += fmt::to_string(*real))
                         : AppendQuoted(out, fmt::to_string(*real));
  } else {
    out += std::get<bool>(value_) ? "true" : "false";
  }
}

struct Log::Sink {
  Sink(LogOptions options, spdlog::sink_ptr sink)
      : format(options.format), clock(std::move(options.clock)), logger("", std::move(sink)) {
    logger.set_formatter(std::make_unique<LineFormatter>(format));
    logger.set_level(ToSpdlog(options.level));
    // Written at once: the lines before a crash are the ones that matter.
    logger.flush_on(spdlog::level::trace);
  }

  LogFormat format;
  std::function<absl::Time()> clock;
  spdlog::logger logger;
};

Log::Log(LogOptions options) {
  spdlog::sink_ptr sink;
  if (options.stream != nullptr) {
    sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*options.stream);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  sink_ = std::make_shared<Sink>(std::move(options), std::move(sink));
}

bool Log::Enabled(LogLevel level) const { return sink_->logger.should_log(ToSpdlog(level)); }

Log Log::With(const LogFields& fields) const {
  Log copy = *this;
  copy.common_.insert(copy.common_.end(), fields.begin(), fields.end());
  return copy;
}

void Log::Write(LogLevel level, std::string_view message, const LogFields& fields) const {
  if (!Enabled(level)) return;
  const bool json = sink_->format == LogFormat::kJson;
  std::string line;
  if (json) {
    line += "\"msg\":";
    AppendQuoted(line, message);
  } else {
    AppendEscaped(line, message);
  }
  for (const LogFields* list : {&common_, &fields}) {
    for (const LogField& field : *list) {
      line += json ? ',' : ' ';
      json ? field.AppendJson(line) : field.AppendText(line);
    }
  }
  const auto now =
      sink_->clock ? absl::ToChronoTime(sink_->clock()) : std::chrono::system_clock::now();
  sink_->logger.log(std::chrono::time_point_cast<spdlog::log_clock::duration>(now),
                    spdlog::source_loc{}, ToSpdlog(level),
                    spdlog::string_view_t(line.data(), line.size()));
}

void Log::Trace(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kTrace, message, fields);
}
void Log::Debug(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kDebug, message, fields);
}
void Log::Info(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kInfo, message, fields);
}
void Log::Warn(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kWarn, message, fields);
}
void Log::Error(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kError, message, fields);
}

}  // namespace sluice::loop
