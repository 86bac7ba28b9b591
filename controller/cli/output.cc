#include "cli/output.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/status.h"

namespace sluice::cli {

void AddOutputOptions(CLI::App& command, OutputOptions& output) {
  command.add_option("-o,--output", output.format, "How it is printed")
      ->check(CLI::IsMember({"wide", "json", "yaml"}));
  CLI::Option* watch = command.add_flag("-w,--watch", output.watch, "Print it again and again");
  command.add_option("--interval", output.interval, "Seconds between two prints of --watch")
      ->check(CLI::Range(0.0, 86400.0))
      ->needs(watch);
  command.add_option("--rounds", output.rounds, "End --watch after so many prints")
      ->check(CLI::NonNegativeNumber)
      ->needs(watch);
}

absl::Status PrintAgain(const OutputOptions& output, std::ostream& out,
                        const std::function<absl::Status(bool first, std::string& text)>& answer) {
  for (int round = 0;;) {
    std::string text;
    RETURN_IF_ERROR(answer(round == 0, text));
    if (output.watch && output.colours) out << "\x1b[H\x1b[2J";
    out << text;
    out.flush();
    if (!output.watch || ++round == output.rounds) return absl::OkStatus();
    absl::SleepFor(absl::Seconds(output.interval));
  }
}

}  // namespace sluice::cli
