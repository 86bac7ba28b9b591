// Explanations of what waits in a simulation.
//
// In a simulated API server they are made from its objects alone, by a World built anew, as a
// program beside the controller would: nothing of the running controller is touched. Pure.
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

#include "admission/explain.h"
#include "sim/api_server.h"
#include "sim/trace_cluster.h"
#include "sim/trace_stats.h"
#include "state/settings.h"

namespace sluice::sim {

admission::ExplanationTree ExplainOne(const ApiServer& api, const state::Settings& settings,
                                      const ObjectKey& workload, absl::Time now);
// Every Workload without quota that has not finished, by key.
std::vector<admission::ExplanationTree> ExplainWaiting(const ApiServer& api,
                                                       const state::Settings& settings,
                                                       absl::Time now);
// The examples that the result names of what waits at the end.
std::vector<admission::ExplanationTree> ExplainWaiting(TraceCluster& cluster,
                                                       const TraceResult& result);

// The lines of an explanation, with the names of Jobs in the place of their Workloads' names.
std::string RenderExplanation(const ApiServer& api, const admission::ExplanationTree& tree);

}  // namespace sluice::sim
