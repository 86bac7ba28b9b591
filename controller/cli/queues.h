// kubectl-sluice queues and top: what is in which queue, and who uses what.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/live.h"

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
};
void AddOutputOptions(CLI::App& command, OutputOptions& output);

struct QueuesOptions {
  ConnectOptions connect;
  OutputOptions output;
  bool local = false;
};
void AddQueuesOptions(CLI::App& command, QueuesOptions& options);
void AddTopOptions(CLI::App& command, QueuesOptions& options);

int Queues(const QueuesOptions& options, std::ostream& out, std::ostream& err);
int Top(const QueuesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
