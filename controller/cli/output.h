// How an answer is printed: as a table or text, with more in it (`-o wide`), as data, once or again
// and again.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace sluice::cli {

struct OutputOptions {
  std::string format;  // "", "wide", "json", "yaml"
  bool watch = false;
  double interval = 2;
  int rounds = 0;        // of --watch; 0: until it is stopped
  bool colours = false;  // of a terminal

  bool wide() const { return format == "wide"; }
  bool structured() const { return format == "json" || format == "yaml"; }
};
void AddOutputOptions(CLI::App& command, OutputOptions& output);

// Prints what `answer` returns, each time in the place of the last one where colours mean a
// terminal. The first failure ends it; it is returned. `first`: not printed before.
absl::Status PrintAgain(const OutputOptions& output, std::ostream& out,
                        const std::function<absl::Status(bool first, std::string& text)>& answer);

}  // namespace sluice::cli
