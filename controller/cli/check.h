// kubectl-sluice check: what would happen to a job if it were created now.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/queues.h"

namespace sluice::cli {

struct CheckOptions {
  ConnectOptions connect;
  OutputOptions output;
  std::string file;
  std::string cluster_queue;
  std::string default_runtime;  // for the forecast of what would wait
};
void AddCheckOptions(CLI::App& command, CheckOptions& options);
// 0: all would be admitted now, perhaps by preempting others; 1: one would wait; 2: one could not
// be answered.
int Check(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
