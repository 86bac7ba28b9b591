#include "cli/forecast_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "cli/table.h"
#include "sim/report.h"
#include "sim/trace_engine.h"
#include "sim/trace_text.h"

namespace sluice::cli {
namespace {

using sim::Micros;

struct Loaded {
  std::unique_ptr<sim::TraceCluster> cluster;
  sim::Trace trace;
};

absl::StatusOr<Loaded> Load(const ReplayInput& input) {
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.cluster, sim::TraceCluster::Load(input.manifests, input.settings));
  sim::TraceBuilder builder(*loaded.cluster);
  RETURN_IF_ERROR(loaded.cluster->AddManifestWorkloads(builder));
  for (const sim::SourceFile& file : input.traces) {
    RETURN_IF_ERROR(file.path.ends_with(".csv") ? sim::ReadCsvTrace(file, builder)
                                                : sim::ReadJsonTrace(file, builder));
  }
  ASSIGN_OR_RETURN(loaded.trace, builder.Finish());
  if (loaded.trace.jobs.empty()) return InvalidArgument("there are no workloads in the trace");
  return loaded;
}

// The spans in which each workload ran, and as what.
class Spans : public sim::TraceListener {
 public:
  struct Span {
    Micros begin = 0;
    Micros end = sim::kMaxMicros;
    bool finished = false;
    std::shared_ptr<const api::Workload> workload = nullptr;
  };
  explicit Spans(const Loaded& replay) : spans(replay.trace.jobs.size()), replay_(replay) {}
  void OnTraceEvent(const sim::TraceEvent& event) override {
    std::vector<Span>& of_job = spans[event.job];
    switch (event.kind) {
      case sim::TraceEvent::Kind::kAdmit:
        of_job.push_back({event.time, sim::kMaxMicros, false, WorkloadOf(event.job)});
        break;
      case sim::TraceEvent::Kind::kPreempt:
        of_job.back().end = event.time;
        break;
      case sim::TraceEvent::Kind::kFinish:
        of_job.back().end = event.time;
        of_job.back().finished = true;
        break;
      default:
        break;
    }
  }
  std::vector<std::vector<Span>> spans;

 private:
  std::shared_ptr<const api::Workload> WorkloadOf(uint32_t job) const {
    const sim::TraceJob& of = replay_.trace.jobs[job];
    const uint32_t queue = replay_.trace.shapes[of.shape].local_queue;
    return replay_.cluster->world().AssumedOrStored(
        {replay_.cluster->local_queues()[queue].key.ns, of.name});
  }

  const Loaded& replay_;
};

// What is known at one instant of the replay.
class Snapshot {
 public:
  Snapshot(const ReplayInput& input, const sim::Trace& trace, const Spans& spans, Micros at)
      : input_(input), trace_(trace), spans_(spans), at_(at) {}

  // The forecast of the start of that workload, after `at`; -1: never.
  absl::StatusOr<Micros> StartOf(uint32_t job) {
    ASSIGN_OR_RETURN(const auto cluster,
                     sim::TraceCluster::Load(input_.manifests, input_.settings));
    sim::Trace known;
    known.start = trace_.start + absl::Microseconds(at_);
    known.sources = trace_.sources;
    known.shapes = trace_.shapes;
    const std::optional<Micros> mean = MeanRuntime();
    std::vector<std::pair<Micros, sim::TraceJob>> running;
    std::vector<sim::TraceJob> waiting;
    for (size_t i = 0; i < trace_.jobs.size(); ++i) {
      const sim::TraceJob& other = trace_.jobs[i];
      if (other.submit > at_) break;
      const std::optional<Spans::Span> span = LastSpan(i);
      if (span && span->finished && span->end <= at_) continue;
      sim::TraceJob copy = other;
      if (input_.mean_runtime) copy.run = mean.value_or(sim::kForever);
      if (span && span->end > at_) {
        GoesOn(*span, i, copy, known);
        running.emplace_back(span->begin, std::move(copy));
      } else {
        // Of what came at the same instant only those that stand before it are known.
        if (other.submit == at_ && i > job) continue;
        waiting.push_back(std::move(copy));
      }
    }
    std::stable_sort(running.begin(), running.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Micros next = 0;
    std::optional<uint32_t> wanted;
    const auto add = [&](sim::TraceJob&& copy) {
      if (copy.name == trace_.jobs[job].name && copy.line == trace_.jobs[job].line &&
          copy.source == trace_.jobs[job].source) {
        wanted = static_cast<uint32_t>(known.jobs.size());
      }
      copy.submit = next++;
      known.jobs.push_back(std::move(copy));
    };
    for (auto& [begin, copy] : running) add(std::move(copy));
    for (sim::TraceJob& copy : waiting) add(std::move(copy));
    // It runs already: the forecast was made too late.
    if (!wanted || *wanted < running.size()) return Micros{0};
    sim::TraceEngine engine(*cluster, known, {});
    RETURN_IF_ERROR(engine.Run());
    const Micros start = engine.outcomes()[*wanted].first_start;
    return start < 0 ? Micros{-1} : start - known.jobs[*wanted].submit;
  }

 private:
  // It holds what it got, in the flavors and places where it is.
  void GoesOn(const Spans::Span& span, size_t job, sim::TraceJob& copy, sim::Trace& known) const {
    const Micros ran = at_ - span.begin;
    if (copy.run != sim::kForever) copy.run = std::max<Micros>(copy.run, ran + sim::kSecond);
    auto workload = std::make_shared<api::Workload>(*span.workload);
    workload->metadata.uid = fmt::format("runs-{}", job);  // the numbers of this trace are others
    known.live.push_back({std::move(workload), ran, true});
    copy.live = static_cast<uint32_t>(known.live.size());
  }
  std::optional<Spans::Span> LastSpan(size_t job) const {
    std::optional<Spans::Span> last;
    for (const Spans::Span& span : spans_.spans[job]) {
      // What starts at this instant is not known yet.
      if (span.begin < at_) last = span;
    }
    return last;
  }
  std::optional<Micros> MeanRuntime() const {
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < trace_.jobs.size(); ++i) {
      const std::optional<Spans::Span> span = LastSpan(i);
      if (!span || !span->finished || span->end > at_) continue;
      sum += static_cast<double>(span->end - span->begin);
      ++count;
    }
    if (count == 0) return std::nullopt;
    return static_cast<Micros>(sum / count);
  }

  const ReplayInput& input_;
  const sim::Trace& trace_;
  const Spans& spans_;
  Micros at_;
};

double At(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  const auto index = static_cast<size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[index];
}

}  // namespace

absl::StatusOr<ForecastError> MeasureForecast(const ReplayInput& input) {
  ASSIGN_OR_RETURN(const Loaded replay, Load(input));
  sim::TraceEngine engine(*replay.cluster, replay.trace, {});
  Spans spans(replay);
  engine.AddListener(&spans);
  RETURN_IF_ERROR(engine.Run());
  ForecastError error;
  error.mean_runtime = input.mean_runtime;
  const size_t count = replay.trace.jobs.size();
  const size_t samples = std::min(count, static_cast<size_t>(input.samples));
  std::vector<double> errors;
  for (size_t i = 0; i < samples; ++i) {
    // Spread over the trace.
    const auto job = static_cast<uint32_t>(i * count / samples);
    const Micros submit = replay.trace.jobs[job].submit;
    const Micros real = engine.outcomes()[job].first_start;
    ASSIGN_OR_RETURN(const Micros forecast,
                     Snapshot(input, replay.trace, spans, submit).StartOf(job));
    if (real < 0 || forecast < 0) {
      ++error.never;
      continue;
    }
    const auto wait = static_cast<double>(real - submit);
    const double off = static_cast<double>(forecast) - wait;
    errors.push_back(std::abs(off));
    error.real_mean += wait;
    error.bias += off;
    if (wait == 0 && off == 0) ++error.at_once;
    if (std::abs(off) <= 60.0 * sim::kSecond) ++error.within_minute;
    if (std::abs(off) <= wait / 10) ++error.within_tenth;
  }
  error.samples = static_cast<int>(errors.size());
  if (errors.empty()) return error;
  const auto number = static_cast<double>(errors.size());
  for (const double off : errors) error.mean += off / number;
  error.real_mean /= number;
  error.bias /= number;
  std::sort(errors.begin(), errors.end());
  error.median = At(errors, 0.5);
  error.p95 = At(errors, 0.95);
  return error;
}

namespace {

std::string AssumptionOf(const ForecastError& error) {
  return error.mean_runtime ? "nothing else arrives; run times are the mean of what finished before"
                            : "nothing else arrives; run times are known";
}

}  // namespace

std::string ErrorText(const ForecastError& error) {
  const std::string bias = sim::ShortTime(std::abs(error.bias));
  Table table({"FORECASTS", "AT-ONCE", "REAL-WAIT", "MEAN-ERROR", "MEDIAN", "P95", "BIAS",
               "WITHIN-1M", "WITHIN-10%", "NEVER"});
  const auto part = [&](int count) {
    return error.samples == 0 ? std::string("-") : fmt::format("{}%", 100 * count / error.samples);
  };
  table.Add({std::to_string(error.samples), std::to_string(error.at_once),
             sim::ShortTime(error.real_mean), sim::ShortTime(error.mean),
             sim::ShortTime(error.median), sim::ShortTime(error.p95),
             (error.bias < 0 && bias != "0s" ? "-" : "") + bias, part(error.within_minute),
             part(error.within_tenth), std::to_string(error.never)});
  return table.Text(false) + "Assumption: " + AssumptionOf(error) + ".\n";
}

api::Json ErrorJson(const ForecastError& error) {
  const auto seconds = [](double micros) { return micros / sim::kSecond; };
  return api::Json::MakeObject({{"forecasts", error.samples},
                                {"atOnce", error.at_once},
                                {"never", error.never},
                                {"realWaitSeconds", seconds(error.real_mean)},
                                {"meanErrorSeconds", seconds(error.mean)},
                                {"medianErrorSeconds", seconds(error.median)},
                                {"p95ErrorSeconds", seconds(error.p95)},
                                {"biasSeconds", seconds(error.bias)},
                                {"withinMinute", error.within_minute},
                                {"withinTenth", error.within_tenth},
                                {"meanRuntime", error.mean_runtime},
                                {"assumption", AssumptionOf(error)}});
}

}  // namespace sluice::cli
