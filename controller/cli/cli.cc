#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace sluice::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
// Commands that users of the project's documentation may try before they exist.
constexpr const char* kPlanned[] = {"explain", "forecast", "top", "queues", "check", "dump"};

// Plays one file; prints what came out, or how it differs from what the file expects.
int Simulate(const std::string& path, std::ostream& out, std::ostream& err) {
  std::ifstream file(path);
  if (!file) {
    err << path << ": cannot be read\n";
    return kUsage;
  }
  std::stringstream text;
  text << file.rdbuf();
  const sim::ScenarioText scenario = sim::SplitScenario(text.str());
  const absl::StatusOr<std::string> actual = sim::PlayScenario(scenario.script);
  if (!actual.ok()) {
    err << path << ": " << std::string(actual.status().message()) << '\n';
    return kUsage;
  }
  out << "# " << path << '\n' << *actual;
  if (scenario.expected.empty()) return 0;
  const std::string diff = sim::DiffLines(scenario.expected, *actual);
  if (diff.empty()) return 0;
  err << path << ": not as expected\n" << diff;
  return kFailed;
}

}  // namespace

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app("Questions about queues and quotas, and a simulator of the controller.",
               "kubectl-sluice");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kubectl-sluice ") + SLUICE_VERSION);
  std::vector<std::string> files;
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Play scenario files (.scn) in virtual time and print what comes out");
  simulate->add_option("SCENARIO", files, "Scenario files")->required();
  for (const char* name : kPlanned) {
    app.add_subcommand(name)->group("")->allow_extras();
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : kUsage;
  }
  for (const char* name : kPlanned) {
    if (!app.got_subcommand(name)) continue;
    err << "kubectl-sluice: \"" << name << "\" is not supported yet\n";
    return kUsage;
  }
  int code = 0;
  for (const std::string& file : files) code = std::max(code, Simulate(file, out, err));
  return code;
}

}  // namespace sluice::cli
