#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

#include "cli/simulate.h"

namespace sluice::cli {
namespace {

constexpr int kUsage = 2;
// Commands that users of the project's documentation may try before they exist.
constexpr const char* kPlanned[] = {"explain", "forecast", "top", "queues", "check", "dump"};

}  // namespace

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app("Questions about queues and quotas, and a simulator of the controller.",
               "kubectl-sluice");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kubectl-sluice ") + SLUICE_VERSION);
  SimulateOptions simulate;
  AddSimulateOptions(
      *app.add_subcommand("simulate",
                          "Play scenarios, or traces of workloads, in virtual time and print what "
                          "comes out"),
      simulate);
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
  return Simulate(simulate, out, err);
}

}  // namespace sluice::cli
