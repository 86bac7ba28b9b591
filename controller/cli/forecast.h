// kubectl-sluice forecast: when what waits will start, and how good such forecasts are.
//
// A forecast plays the cluster on from now, in virtual time, by the code that decides. It rests on
// an assumption, which is always printed: nothing else arrives, and workloads end when their
// annotations, limits or the mean of finished ones say. `--measure` replays a trace, makes the
// forecast for workloads at the instant of their arrival, and compares it with their real start.
#pragma once

#include <absl/status/statusor.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "cli/live.h"
#include "cli/queues.h"
#include "sim/trace.h"

namespace sluice::cli {

struct ForecastOptions {
  ConnectOptions connect;
  OutputOptions output;
  std::vector<std::string> what;  // [workload|job] NAME; empty: everything that waits
  std::string default_runtime;
  // --measure
  std::string measure;  // manifests or a directory
  std::vector<std::string> traces;
  int samples = 100;
  bool mean_runtime = false;
};
void AddForecastOptions(CLI::App& command, ForecastOptions& options);
// The start of a workload that does not exist, behind everything that waits; -1: never.
struct ForecastStart {
  sim::Micros start = -1;  // after the instant of the scene
  std::string text;        // a time, or "never"
  std::string assumption;
};
absl::StatusOr<ForecastStart> ForecastOf(const Scene& scene, const api::Workload& workload,
                                         const std::string& default_runtime);

int Forecast(const ForecastOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
