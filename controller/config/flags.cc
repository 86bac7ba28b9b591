#include "config/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/status.h"

namespace sluice::config {
namespace {

constexpr int kMaxVerbosity = 9;
constexpr absl::Duration kLongestDelay = absl::Minutes(10);

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<bool> ParseBool(std::string_view text) {
  for (const std::string_view word : {"1", "t", "T", "true", "True", "TRUE"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"0", "f", "F", "false", "False", "FALSE"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

// What the flags say, still as text.
struct RawFlags {
  std::string feature_gates;
  std::string log_level = "info";
  std::string encoder = "json";
  std::string shutdown_delay = "0s";
};

// Of a flag that is given twice the last value counts, and an empty value is the same as no flag.
void AddText(CLI::App* app, const std::string& name, std::string* value, const std::string& help) {
  app->add_option(name, *value, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->expected(0, 1);
}

void AddFlags(CLI::App* app, Flags* flags, RawFlags* raw) {
  AddText(app, "--config", &flags->config_path,
          "Configuration file; without it the defaults apply");
  AddText(app, "--kubeconfig", &flags->kubeconfig,
          "kubeconfig file; without it $KUBECONFIG, the credentials of the pod, ~/.kube/config");
  AddText(app, "--feature-gates", &raw->feature_gates,
          "Name=true,Other=false; not together with featureGates in the file");
  AddText(app, "--zap-log-level", &raw->log_level,
          "debug, info, error, panic, or a number from 1 for more detail");
  AddText(app, "--zap-encoder", &raw->encoder, "json or console");
  AddText(app, "--shutdown-delay-duration", &raw->shutdown_delay,
          "How long after SIGTERM to go on serving while /readyz fails, for example 5s");
  AddText(app, "--record", &flags->record_path, "Write every event to this file, for --replay");
  AddText(app, "--replay", &flags->replay_path,
          "Print the decisions for the events in this file; no cluster is needed");
}

FlagsResult Refuse(const std::string& what) {
  return {std::nullopt, kUsageExitCode, fmt::format("sluice-controller: {}\n", what)};
}

absl::Status Interpret(const RawFlags& raw, Flags* flags) {
  absl::StatusOr<absl::btree_map<std::string, bool>> gates = ParseFeatureGates(raw.feature_gates);
  if (!gates.ok()) return Annotate(gates.status(), "--feature-gates");
  flags->feature_gates = *std::move(gates);
  RETURN_IF_ERROR(Annotate(ParseLogLevel(raw.log_level, &flags->log), "--zap-log-level"));
  if (raw.encoder == "console") {
    flags->log.encoder = LogOptions::Encoder::kConsole;
  } else if (raw.encoder != "json" && !raw.encoder.empty()) {
    return InvalidArgument("--zap-encoder: must be json or console (it is \"{}\")", raw.encoder);
  }
  if (!raw.shutdown_delay.empty() &&
      (!absl::ParseDuration(raw.shutdown_delay, &flags->shutdown_delay) ||
       flags->shutdown_delay < absl::ZeroDuration() || flags->shutdown_delay > kLongestDelay)) {
    return InvalidArgument("--shutdown-delay-duration: must be 0s to {} (it is \"{}\")",
                           absl::FormatDuration(kLongestDelay), raw.shutdown_delay);
  }
  if (!flags->record_path.empty() && !flags->replay_path.empty()) {
    return InvalidArgument("--record and --replay exclude each other");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::btree_map<std::string, bool>> ParseFeatureGates(const std::string& text) {
  absl::btree_map<std::string, bool> gates;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = Trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("\"{}\" must have the form Name=true or Name=false", entry);
    }
    const std::string_view name = Trim(entry.substr(0, equals));
    const std::optional<bool> value = ParseBool(Trim(entry.substr(equals + 1)));
    if (name.empty() || !value) {
      return InvalidArgument("\"{}\" must have the form Name=true or Name=false", entry);
    }
    gates[std::string(name)] = *value;
  }
  return gates;
}

absl::Status ParseLogLevel(const std::string& text, LogOptions* log) {
  log->verbosity = 0;
  if (text.empty() || text == "info") {
    log->level = LogOptions::Level::kInfo;
  } else if (text == "debug") {
    log->level = LogOptions::Level::kDebug;
    log->verbosity = 1;
  } else if (text == "error") {
    log->level = LogOptions::Level::kError;
  } else if (text == "panic") {
    log->level = LogOptions::Level::kPanic;
  } else {
    int number = 0;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end || number < 1) {
      return InvalidArgument("must be debug, info, error, panic or a number from 1 (it is \"{}\")",
                             text);
    }
    log->level = LogOptions::Level::kDebug;
    log->verbosity = std::min(number, kMaxVerbosity);
  }
  return absl::OkStatus();
}

FlagsResult ParseFlags(int argc, const char* const* argv, const std::string& version) {
  CLI::App app("Admission and quota controller for Kubernetes", "sluice-controller");
  Flags flags;
  RawFlags raw;
  app.set_version_flag("--version", version);
  app.set_help_flag("--help", "Print this help");
  AddFlags(&app, &flags, &raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::CallForVersion&) {
    return {std::nullopt, 0, fmt::format("sluice-controller {}\n", version)};
  } catch (const CLI::ParseError& error) {
    return Refuse(fmt::format("{} (see --help)", error.what()));
  }
  const absl::Status status = Interpret(raw, &flags);
  if (!status.ok()) return Refuse(std::string(status.message()));
  return {std::move(flags), 0, ""};
}

}  // namespace sluice::config
