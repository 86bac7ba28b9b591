// Two simulations side by side: what another policy does to the same trace.
#pragma once

#include <string>

#include "sim/trace_stats.h"

namespace sluice::cli {

struct Compared {
  std::string name;
  sim::TraceResult result;
};

// Lines "METRIC  A  B  CHANGE", for all workloads and for each ClusterQueue.
std::string CompareText(const Compared& a, const Compared& b);
// The same as a page of its own, without scripts.
std::string CompareHtml(const Compared& a, const Compared& b);

}  // namespace sluice::cli
