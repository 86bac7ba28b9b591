#include "config/flags.h"

#include <vector>

#include "unit/catch.h"

namespace sluice::config {
namespace {

FlagsResult Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "sluice-controller");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), "1.2.3");
}

TEST_CASE("No flags give the defaults") {
  const FlagsResult result = Parse({});
  REQUIRE(result.flags);
  CHECK(result.flags->config_path.empty());
  CHECK(result.flags->kubeconfig.empty());
  CHECK(result.flags->feature_gates.empty());
  CHECK(result.flags->log == LogOptions{});
  CHECK(result.flags->record_path.empty());
  CHECK(result.flags->replay_path.empty());
  CHECK(result.flags->shutdown_delay == absl::ZeroDuration());
}

TEST_CASE("Every flag arrives") {
  const FlagsResult result =
      Parse({"--config=/etc/c.yaml", "--kubeconfig", "/k", "--feature-gates=A=true, B=False",
             "--zap-log-level=3", "--zap-encoder=console", "--record=/r",
             "--shutdown-delay-duration=1m5s"});
  REQUIRE(result.flags);
  CHECK(result.flags->config_path == "/etc/c.yaml");
  CHECK(result.flags->kubeconfig == "/k");
  CHECK(result.flags->feature_gates ==
        absl::btree_map<std::string, bool>{{"A", true}, {"B", false}});
  CHECK(result.flags->log.encoder == LogOptions::Encoder::kConsole);
  CHECK(result.flags->log.level == LogOptions::Level::kDebug);
  CHECK(result.flags->log.verbosity == 3);
  CHECK(result.flags->record_path == "/r");
  CHECK(result.flags->shutdown_delay == absl::Seconds(65));
  CHECK(Parse({"--replay=/p"}).flags->replay_path == "/p");
}

TEST_CASE("An empty value is the same as no flag, and the last value counts") {
  CHECK(Parse({"--feature-gates="}).flags->feature_gates.empty());
  CHECK(Parse({"--config="}).flags->config_path.empty());
  CHECK(Parse({"--shutdown-delay-duration="}).flags->shutdown_delay == absl::ZeroDuration());
  CHECK(Parse({"--config=a", "--config=b"}).flags->config_path == "b");
}

struct LevelRow {
  const char* text;
  LogOptions::Level level;
  int verbosity;
};

TEST_CASE("Log levels") {
  const LevelRow row = GENERATE(values<LevelRow>({
      {"info", LogOptions::Level::kInfo, 0},
      {"debug", LogOptions::Level::kDebug, 1},
      {"error", LogOptions::Level::kError, 0},
      {"panic", LogOptions::Level::kPanic, 0},
      {"1", LogOptions::Level::kDebug, 1},
      {"2", LogOptions::Level::kDebug, 2},
      {"127", LogOptions::Level::kDebug, 9},
  }));
  DYNAMIC_SECTION(row.text) {
    LogOptions log;
    REQUIRE(ParseLogLevel(row.text, &log).ok());
    CHECK(log.level == row.level);
    CHECK(log.verbosity == row.verbosity);
  }
}

TEST_CASE("Help and version are answers, not errors") {
  const FlagsResult help = Parse({"--help"});
  CHECK_FALSE(help.flags);
  CHECK(help.exit_code == 0);
  for (const char* flag :
       {"--config", "--kubeconfig", "--feature-gates", "--zap-log-level", "--zap-encoder",
        "--record", "--replay", "--shutdown-delay-duration", "--version", "--help"}) {
    CHECK_THAT(help.text, Catch::Contains(flag));
  }
  const FlagsResult version = Parse({"--version"});
  CHECK_FALSE(version.flags);
  CHECK(version.exit_code == 0);
  CHECK(version.text == "sluice-controller 1.2.3\n");
}

struct BadRow {
  std::string name;
  std::vector<const char*> arguments;
  std::string text;
};

TEST_CASE("Bad use is one line and exit code 2") {
  const BadRow row = GENERATE(values<BadRow>({
      {"a flag of old versions", {"--metrics-bind-address=:1"}, "--metrics-bind-address"},
      {"a stray word", {"run"}, "run"},
      {"a gate without value", {"--feature-gates=A"}, "--feature-gates: \"A\" must have the form"},
      {"a gate with a bad value", {"--feature-gates=A=maybe"}, "--feature-gates: \"A=maybe\""},
      {"a gate without name", {"--feature-gates==true"}, "--feature-gates: \"=true\""},
      {"an unknown level", {"--zap-log-level=loud"}, "--zap-log-level: must be"},
      {"level zero", {"--zap-log-level=0"}, "--zap-log-level: must be"},
      {"a negative level", {"--zap-log-level=-1"}, "--zap-log-level: must be"},
      {"an unknown encoder", {"--zap-encoder=xml"}, "--zap-encoder: must be json or console"},
      {"a delay without unit", {"--shutdown-delay-duration=5"}, "--shutdown-delay-duration: must"},
      {"a negative delay", {"--shutdown-delay-duration=-5s"}, "--shutdown-delay-duration: must"},
      {"an endless delay", {"--shutdown-delay-duration=inf"}, "--shutdown-delay-duration: must"},
      {"record and replay", {"--record=a", "--replay=b"}, "exclude each other"},
  }));
  DYNAMIC_SECTION(row.name) {
    const FlagsResult result = Parse(row.arguments);
    CHECK_FALSE(result.flags);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.text, Catch::StartsWith("sluice-controller: ") && Catch::Contains(row.text));
    CHECK(std::count(result.text.begin(), result.text.end(), '\n') == 1);
  }
}

}  // namespace
}  // namespace sluice::config
