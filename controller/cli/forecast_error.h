// How far forecasts are from what happens: a trace is replayed, and for some of its workloads the
// forecast that was possible when they arrived is compared with their real start.
//
// At the instant of an arrival it is known what runs (where and since when) and what waits; nothing
// is known of later arrivals. Pure; single thread. Cost: one simulation of what is there for each
// sample.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "api/json.h"
#include "sim/trace.h"
#include "sim/trace_cluster.h"
#include "state/settings.h"

namespace sluice::cli {

struct ReplayInput {
  std::vector<sim::SourceFile> manifests;
  std::vector<sim::SourceFile> traces;  // .csv or .jsonl
  state::Settings settings;
  int samples = 100;
  bool mean_runtime = false;  // run times are estimated by the mean of what finished before
};

struct ForecastError {
  int samples = 0;       // forecasts that could be compared
  int at_once = 0;       // of these: started at once, as was said
  int never = 0;         // one of both never starts; not among the samples
  double real_mean = 0;  // wait, microseconds, as all others
  double mean = 0;       // of the absolute errors
  double median = 0;
  double p95 = 0;
  double bias = 0;  // mean of forecast - real: above 0 it started earlier than was said
  int within_minute = 0;
  int within_tenth = 0;  // of the real wait
  bool mean_runtime = false;
};

absl::StatusOr<ForecastError> MeasureForecast(const ReplayInput& input);
std::string ErrorText(const ForecastError& error);
api::Json ErrorJson(const ForecastError& error);

}  // namespace sluice::cli
