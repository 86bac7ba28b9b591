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
};
void AddCheckOptions(CLI::App& command, CheckOptions& options);
// 0: it would be admitted now, perhaps by preempting others; 1: it would wait, or an error.
int Check(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
