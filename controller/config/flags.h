// The command line of sluice-controller.
//
// Contract: parsing never exits and never prints; the caller does both with what it gets back. Bad
// use of a flag is exit code 2 with one line. Flags keep the names that Kueue's manager has;
// --shutdown-delay-duration is that of kube-apiserver.
//
//   FlagsResult result = ParseFlags(argc, argv, "1.0.0");
//   if (!result.flags) return Print(result.text, result.exit_code);
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>

namespace sluice::config {

inline constexpr int kUsageExitCode = 2;

struct LogOptions {
  enum class Encoder { kJson, kConsole };
  enum class Level { kDebug, kInfo, kError, kPanic };
  Encoder encoder = Encoder::kJson;
  Level level = Level::kInfo;
  int verbosity = 0;  // 0 to 9: how much detail below "info" is logged; 1 for "debug"
  bool operator==(const LogOptions&) const = default;
};

struct Flags {
  std::string config_path;  // "": the defaults of v1beta2
  std::string kubeconfig;   // "": KUBECONFIG, in-cluster credentials, ~/.kube/config
  absl::btree_map<std::string, bool> feature_gates;
  LogOptions log;
  std::string record_path;  // write every event of the loop to this file
  std::string replay_path;  // read events from this file instead of a cluster
  // After SIGTERM webhooks are served for so long, while clients learn to go elsewhere.
  absl::Duration shutdown_delay = absl::ZeroDuration();
};

struct FlagsResult {
  std::optional<Flags> flags;  // nullopt: print text and exit
  int exit_code = 0;           // 0: text goes to stdout, else to stderr
  std::string text;
};

FlagsResult ParseFlags(int argc, const char* const* argv, const std::string& version);

// "A=true,B=false" and "debug", "info", "error", "panic" or a number from 1.
absl::StatusOr<absl::btree_map<std::string, bool>> ParseFeatureGates(const std::string& text);
absl::Status ParseLogLevel(const std::string& text, LogOptions* log);

}  // namespace sluice::config
