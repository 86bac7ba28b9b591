// kubectl-sluice queues and top: what is in which queue, and who uses what.
#pragma once

#include <iosfwd>

#include "cli/live.h"
#include "cli/output.h"

namespace sluice::cli {

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
