// kubectl-sluice explain: why a workload or job waits, where it stands and what would help.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "admission/explain.h"
#include "cli/live.h"
#include "cli/queues.h"

namespace sluice::cli {

struct ExplainOptions {
  ConnectOptions connect;
  OutputOptions output;
  std::vector<std::string> what;  // [workload|job] NAME
};
void AddExplainOptions(CLI::App& command, ExplainOptions& options);
int Explain(const ExplainOptions& options, std::ostream& out, std::ostream& err);

// One word for programs: QuotaExceeded, TopologyFragmented, NodesExcluded, CheckPending,
// QueueStopped, Deactivated, Reserved, ...; what else keeps it goes by the word of its condition.
std::string StructuredReason(const admission::ExplanationTree& tree, const api::Workload& workload);
// The smallest change that would let it in, as a sentence; "" when none is known.
std::string WhatWouldHelp(const admission::ExplanationTree& tree);

}  // namespace sluice::cli
