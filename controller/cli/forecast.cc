#include "cli/forecast.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <utility>

#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "cli/find.h"
#include "cli/forecast_error.h"
#include "cli/live_trace.h"
#include "cli/table.h"
#include "sim/report.h"
#include "sim/trace_text.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using api::Json;
using sim::Micros;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// When each workload that waits starts after the dump; -1: never.
struct Starts {
  absl::btree_map<ObjectKey, Micros> by_workload;
  std::string assumption;
  std::vector<std::string> notes;
};

absl::StatusOr<Starts> Play(ClusterObjects& objects, const state::Settings& settings,
                            std::optional<Micros> fallback) {
  const sim::SourceFile file = ClusterFile(objects, false);
  ASSIGN_OR_RETURN(const auto cluster, sim::TraceCluster::Load({file}, settings));
  sim::TraceBuilder builder(*cluster);
  ASSIGN_OR_RETURN(const RunTimeSources sources, AddLiveWorkloads(objects, fallback, builder));
  ASSIGN_OR_RETURN(const sim::Trace trace, builder.Finish());
  sim::TraceOptions options;
  options.checkpoint = 0;
  sim::TraceEngine engine(*cluster, trace, options);
  RETURN_IF_ERROR(engine.Run());
  Starts starts;
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const sim::TraceShape& shape = trace.shapes[trace.jobs[i].shape];
    const ObjectKey key{cluster->local_queues()[shape.local_queue].key.ns, trace.jobs[i].name};
    starts.by_workload[key] = engine.outcomes()[i].first_start;
  }
  starts.assumption = AssumptionText(sources, true);
  starts.notes = objects.notes;
  return starts;
}

absl::StatusOr<std::optional<Micros>> FallbackOf(const std::string& text) {
  if (text.empty()) return std::optional<Micros>();
  const absl::StatusOr<Micros> runtime = sim::ParseMicros(text);
  if (!runtime.ok()) return Annotate(runtime.status(), "--default-runtime");
  return std::optional<Micros>(*runtime);
}

std::string StartText(const Scene& scene, Micros start) {
  if (start < 0) return "never";
  return sluice::FormatTime(scene.objects.taken + absl::Microseconds(start));
}

// The workloads that are asked about, in the order of their start.
std::vector<std::pair<ObjectKey, Micros>> Selected(const Scene& scene, const Starts& starts,
                                                   const std::optional<ObjectKey>& only) {
  std::vector<std::pair<ObjectKey, Micros>> rows;
  for (const auto& [key, start] : starts.by_workload) {
    const auto workload = scene.world->workloads().Find(key);
    const bool waits =
        workload != nullptr && !api::IsTrue(workload->status.conditions, api::kQuotaReserved);
    if (!waits || (only && key != *only)) continue;
    rows.emplace_back(key, start);
  }
  const auto rank = [](Micros start) { return start < 0 ? sim::kMaxMicros : start; };
  std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return std::pair(rank(a.second), a.first) < std::pair(rank(b.second), b.first);
  });
  return rows;
}

absl::Status Show(const ForecastOptions& options, bool first, std::string& text,
                  std::ostream& err) {
  const OutputOptions& output = options.output;
  ASSIGN_OR_RETURN(const std::optional<Micros> fallback, FallbackOf(options.default_runtime));
  ASSIGN_OR_RETURN(Scene scene, OpenScene(options.connect, absl::Now()));
  std::optional<ObjectKey> only;
  if (!options.what.empty()) {
    ASSIGN_OR_RETURN(only, FindWorkload(scene, options.what));
  }
  ASSIGN_OR_RETURN(const Starts starts, Play(scene.objects, scene.settings, fallback));
  for (const std::string& note : starts.notes) {
    if (first) err << "note: " << note << '\n';
  }
  const auto rows = Selected(scene, starts, only);
  if (only && rows.empty()) {
    return NotFound("Workload {} does not wait in a queue: see `explain`", only->ToString());
  }
  std::vector<std::string> columns = {"NAMESPACE", "NAME", "CLUSTERQUEUE", "START", "WAIT"};
  if (output.wide()) columns.insert(columns.end(), {"LOCALQUEUE", "PRIORITY", "QUEUED"});
  Table table(columns);
  Json items = Json::MakeArray();
  for (const auto& [key, start] : rows) {
    const auto workload = scene.world->workloads().Find(key);
    const std::string queue = scene.world->ClusterQueueOf(*workload);
    const std::string wait = start < 0 ? "" : sim::ShortTime(static_cast<double>(start));
    std::vector<std::string> cells = {key.ns, key.name, queue, StartText(scene, start), wait};
    if (output.wide()) {
      cells.insert(cells.end(),
                   {workload->spec.queue_name, std::to_string(workload->spec.priority.value_or(0)),
                    sluice::FormatTime(admission::QueuedSince(*workload))});
    }
    table.Add(std::move(cells), start < 0 ? Tone::kBad : Tone::kPlain, 3);
    Json item =
        Json::MakeObject({{"namespace", key.ns}, {"name", key.name}, {"clusterQueue", queue}});
    if (start >= 0) item.Set("start", StartText(scene, start));
    items.Append(std::move(item));
  }
  if (output.structured()) {
    text = Structured(Json::MakeObject({{"assumption", starts.assumption}, {"items", items}}),
                      output.format);
    return absl::OkStatus();
  }
  text = rows.empty() ? std::string("nothing waits\n") : table.Text(output.colours);
  text += "Assumption: " + starts.assumption + ".\n";
  return absl::OkStatus();
}

// ---- --measure

// The queues of a dump and its configuration; its workloads do not take part.
absl::Status ReadDump(const std::string& path, const std::string& text, bool configured,
                      ReplayInput& input, std::ostream& err) {
  ASSIGN_OR_RETURN(ClusterObjects objects, ParseObjects(path, text, sim::DefaultTraceStart()));
  if (!configured) {
    ASSIGN_OR_RETURN(input.settings,
                     SettingsOf(objects.configuration, path + ": the controller's configuration"));
    if (objects.configuration.empty()) objects.notes.emplace_back(kNoConfiguration);
  }
  objects.kinds[api::Kind::kWorkload].clear();
  input.manifests.push_back(ClusterFile(objects, false));
  for (const std::string& note : objects.notes) err << "note: " << note << '\n';
  return absl::OkStatus();
}

absl::StatusOr<ReplayInput> ReadReplay(const ForecastOptions& options, std::ostream& err) {
  ReplayInput input;
  std::vector<std::string> traces = options.traces;
  std::vector<std::string> manifests;
  if (fs::is_directory(options.measure)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(options.measure)) {
      const std::string path = entry.path().string();
      const std::string extension = entry.path().extension().string();
      if (extension == ".yaml" || extension == ".yml") manifests.push_back(path);
      if (options.traces.empty() && (extension == ".csv" || extension == ".jsonl")) {
        traces.push_back(path);
      }
    }
    std::sort(manifests.begin(), manifests.end());
    std::sort(traces.begin(), traces.end());
  } else {
    manifests = {options.measure};
  }
  for (const std::string& path : manifests) {
    ASSIGN_OR_RETURN(std::string text, ReadText(path));
    if (IsDump(text)) {
      RETURN_IF_ERROR(ReadDump(path, text, !options.connect.config.empty(), input, err));
    } else {
      input.manifests.push_back({path, std::move(text)});
    }
  }
  for (const std::string& path : traces) {
    if (!path.ends_with(".csv") && !path.ends_with(".jsonl")) {
      return InvalidArgument("{}: forecasts are measured with traces in .csv or .jsonl", path);
    }
    ASSIGN_OR_RETURN(std::string text, ReadText(path));
    input.traces.push_back({path, std::move(text)});
  }
  if (input.manifests.empty())
    return InvalidArgument("{}: there are no manifests", options.measure);
  if (!options.connect.config.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(options.connect.config));
    ASSIGN_OR_RETURN(input.settings, SettingsOf(text, options.connect.config));
  }
  input.samples = options.samples;
  input.mean_runtime = options.mean_runtime;
  return input;
}

absl::Status Measure(const ForecastOptions& options, std::ostream& out, std::ostream& err) {
  ASSIGN_OR_RETURN(const ReplayInput input, ReadReplay(options, err));
  ASSIGN_OR_RETURN(const ForecastError error, MeasureForecast(input));
  if (options.output.structured()) {
    out << Structured(ErrorJson(error), options.output.format);
  } else {
    out << ErrorText(error);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ForecastStart> ForecastOf(const Scene& scene, const api::Workload& workload,
                                         const std::string& default_runtime) {
  ASSIGN_OR_RETURN(const std::optional<Micros> fallback, FallbackOf(default_runtime));
  ClusterObjects objects = scene.objects;
  Json json = api::Encode<api::Workload>(workload);
  json.Set("apiVersion", api::ApiVersionOf(api::Kind::kWorkload));
  json.Set("kind", "Workload");
  objects.kinds[api::Kind::kWorkload].push_back(std::move(json));
  ASSIGN_OR_RETURN(const Starts starts, Play(objects, scene.settings, fallback));
  const auto found = starts.by_workload.find(workload.metadata.Key());
  ForecastStart start;
  if (found != starts.by_workload.end()) start.start = found->second;
  start.text = StartText(scene, start.start);
  start.assumption = starts.assumption;
  return start;
}

void AddForecastOptions(CLI::App& command, ForecastOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  CLI::Option* name =
      command.add_option("NAME", options.what, "[workload|job] NAME; all that waits when absent")
          ->expected(0, 2);
  CLI::Option* runtime = command.add_option(
      "--default-runtime", options.default_runtime,
      "How long workloads run of which nothing is known; they never end when absent");
  CLI::Option* measure =
      command.add_option("--measure", options.measure,
                         "Replay a trace on these manifests (file or directory), and print how far "
                         "forecasts were from the real starts");
  // It looks at no cluster, and answers once.
  measure->excludes(name)->excludes(runtime);
  for (const char* option : {"--namespace", "--from", "--kubeconfig", "--context", "--watch"}) {
    measure->excludes(command.get_option(option));
  }
  command.add_option("--trace", options.traces, "Trace (.csv, .jsonl) for --measure")
      ->needs(measure);
  command.add_option("--samples", options.samples, "Forecasts to be made by --measure")
      ->check(CLI::Range(1, 100000))
      ->needs(measure);
  command
      .add_flag("--mean-runtime", options.mean_runtime,
                "With --measure: run times are not known, only the mean of what finished before")
      ->needs(measure);
}

int Forecast(const ForecastOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.measure.empty() && options.output.wide()) {
    err << "--measure excludes --output wide: it prints a table, json or yaml\n";
    return kUsage;
  }
  const absl::Status status = options.measure.empty()
                                  ? PrintAgain(options.output, out,
                                               [&](bool first, std::string& text) {
                                                 return Show(options, first, text, err);
                                               })
                                  : Measure(options, out, err);
  if (status.ok()) return 0;
  err << std::string(status.message()) << '\n';
  return kFailed;
}

}  // namespace sluice::cli
