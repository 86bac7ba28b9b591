#include "cli/cli.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/completion.h"
#include "cli/explain.h"
#include "cli/forecast.h"
#include "cli/queues.h"
#include "cli/simulate.h"

namespace sluice::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
struct Commands {
  SimulateOptions simulate;
  QueuesOptions queues;
  QueuesOptions top;
  ExplainOptions explain;
  CheckOptions check;
  ForecastOptions forecast;
  ConnectOptions dump;
  std::string shell;
};

void Declare(CLI::App& app, Commands& commands) {
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("kubectl-sluice ") + SLUICE_VERSION);
  AddQueuesOptions(*app.add_subcommand("queues", "Queues and how many workloads are in them"),
                   commands.queues);
  AddTopOptions(*app.add_subcommand("top", "Who uses how much of which quota"), commands.top);
  AddExplainOptions(*app.add_subcommand("explain", "Why a workload or job waits"),
                    commands.explain);
  AddCheckOptions(*app.add_subcommand("check", "What would happen to a job if it were created now"),
                  commands.check);
  AddForecastOptions(*app.add_subcommand("forecast", "When what waits will start"),
                     commands.forecast);
  AddConnectOptions(
      *app.add_subcommand("dump", "Write everything that decisions depend on as one YAML List"),
      commands.dump, false);
  AddSimulateOptions(
      *app.add_subcommand("simulate",
                          "Play scenarios, or traces of workloads, in virtual time and print what "
                          "comes out"),
      commands.simulate);
  app.add_subcommand("completion", "Print the script of a shell that completes commands and names")
      ->add_option("shell", commands.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

int Dump(const ConnectOptions& options, std::ostream& out, std::ostream& err) {
  absl::StatusOr<Scene> scene = OpenScene(options, absl::Now());
  if (!scene.ok()) {
    err << std::string(scene.status().message()) << '\n';
    return kFailed;
  }
  LeaveOutHomeless(scene->objects);
  for (const std::string& note : scene->objects.notes) err << "note: " << note << '\n';
  out << DumpText(scene->objects);
  return 0;
}

}  // namespace

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, bool terminal) {
  CLI::App app("Questions about queues and quotas, and a simulator of the controller.",
               "kubectl-sluice");
  Commands commands;
  Declare(app, commands);
  const bool for_kubectl = std::string(argv[0]).ends_with("kubectl_complete-sluice");
  if (argc > 1 && std::string(argv[1]) == "__files") {
    return CompletesFiles(app, {argv + 2, argv + argc}) ? 0 : 1;
  }
  if (for_kubectl || (argc > 1 && std::string(argv[1]) == "__complete")) {
    const std::vector<std::string> words(argv + (for_kubectl ? 1 : 2), argv + argc);
    for (const std::string& word : Completions(app, words)) out << word << '\n';
    // What kubectl does with them: 0 completes names of files where there is no other word, 4
    // never.
    if (for_kubectl) out << (CompletesFiles(app, words) ? ":0\n" : ":4\n");
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : kUsage;
  }
  for (OutputOptions* output :
       {&commands.queues.output, &commands.top.output, &commands.explain.output,
        &commands.check.output, &commands.forecast.output}) {
    output->colours = terminal;
  }
  if (app.got_subcommand("queues")) return Queues(commands.queues, out, err);
  if (app.got_subcommand("top")) return Top(commands.top, out, err);
  if (app.got_subcommand("explain")) return Explain(commands.explain, out, err);
  if (app.got_subcommand("check")) return Check(commands.check, out, err);
  if (app.got_subcommand("forecast")) return Forecast(commands.forecast, out, err);
  if (app.got_subcommand("dump")) return Dump(commands.dump, out, err);
  if (app.got_subcommand("completion")) {
    out << CompletionScript(commands.shell);
    return 0;
  }
  return Simulate(commands.simulate, out, err);
}

}  // namespace sluice::cli
