// kubectl-sluice explain: why a workload or job waits, where it stands and what would help.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/live.h"
#include "cli/queues.h"

namespace sluice::cli {

struct ExplainOptions {
  ConnectOptions connect;
  OutputOptions output;
  std::vector<std::string> what;  // [workload|job|pod|podgroup] NAME
};
void AddExplainOptions(CLI::App& command, ExplainOptions& options);
int Explain(const ExplainOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
