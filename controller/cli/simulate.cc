#include "cli/simulate.h"

#include <absl/strings/numbers.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <sstream>
#include <utility>

#include "admission/explain_text.h"
#include "base/status.h"
#include "cli/compare.h"
#include "cli/live.h"
#include "cli/live_trace.h"
#include "cli/simulate_options.h"
#include "config/load.h"
#include "sim/explain.h"
#include "sim/report.h"
#include "sim/scenario.h"
#include "sim/swf.h"
#include "sim/trace_text.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || fs::is_directory(path) || !(text << file.rdbuf() || text.str().empty())) {
    return InvalidArgument("{}: cannot be read", path);
  }
  return text.str();
}

absl::Status WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return InvalidArgument("{}: cannot be written", path.string());
  return absl::OkStatus();
}

absl::StatusOr<sim::ScenarioOutcome> Play(const std::string& script, bool explain) {
  if (explain) return sim::PlayScenarioAndExplain(script);
  sim::ScenarioOutcome outcome;
  ASSIGN_OR_RETURN(outcome.text, sim::PlayScenario(script));
  return outcome;
}

// Plays one scenario file; prints what came out, or how it differs from what the file expects.
int PlayScenarioFile(const std::string& path, const SimulateOptions& options, std::ostream& out,
                     std::ostream& err) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    err << std::string(text.status().message()) << '\n';
    return kUsage;
  }
  const sim::ScenarioText scenario = sim::SplitScenario(*text);
  const bool explain = options.explain || !options.explain_json.empty();
  const absl::StatusOr<sim::ScenarioOutcome> actual = Play(scenario.script, explain);
  if (!actual.ok()) {
    err << path << ": " << std::string(actual.status().message()) << '\n';
    return kUsage;
  }
  out << "# " << path << '\n' << actual->text;
  if (options.explain && !actual->explanation.empty()) out << '\n' << actual->explanation;
  if (!options.explain_json.empty()) {
    const absl::Status written = WriteFile(options.explain_json, actual->json.PrettyText() + "\n");
    if (!written.ok()) {
      err << std::string(written.message()) << '\n';
      return kUsage;
    }
  }
  if (scenario.expected.empty()) return 0;
  const std::string diff = sim::DiffLines(scenario.expected, actual->text);
  if (diff.empty()) return 0;
  err << path << ": not as expected\n" << diff;
  return kFailed;
}

// What the options say, checked.
struct Plan {
  state::Settings settings;
  bool configured = false;  // by a file; else a dump may say it
  sim::TraceOptions trace;
  sim::SwfOptions swf;
  std::optional<sim::Micros> default_runtime;
};

absl::Status Annotated(const char* option, const absl::Status& status) {
  return Annotate(status, option);
}

absl::StatusOr<ObjectKey> ParseQueue(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
    return InvalidArgument("\"{}\" is not NAMESPACE/LOCALQUEUE", text);
  }
  return ObjectKey{text.substr(0, slash), text.substr(slash + 1)};
}

// "KEY=VALUE" -> both parts.
absl::StatusOr<std::pair<std::string, std::string>> SplitPair(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return InvalidArgument("\"{}\" is not NUMBER=VALUE", text);
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::Status ParseMap(const std::string& text, sim::SwfOptions& swf) {
  ASSIGN_OR_RETURN(const auto pair, SplitPair(text));
  ASSIGN_OR_RETURN(const ObjectKey queue, ParseQueue(pair.second));
  int64_t number = 0;
  if (pair.first == "*") {
    swf.other = queue;
  } else if (absl::SimpleAtoi(pair.first, &number)) {
    swf.queues[number] = queue;
  } else {
    return InvalidArgument("\"{}\" is neither a number nor *", pair.first);
  }
  return absl::OkStatus();
}

absl::Status ParsePriority(const std::string& text, sim::SwfOptions& swf) {
  ASSIGN_OR_RETURN(const auto pair, SplitPair(text));
  int64_t number = 0;
  int32_t priority = 0;
  if (!absl::SimpleAtoi(pair.first, &number) || !absl::SimpleAtoi(pair.second, &priority)) {
    return InvalidArgument("\"{}\" is not NUMBER=PRIORITY", text);
  }
  swf.priorities[number] = priority;
  return absl::OkStatus();
}

absl::StatusOr<sim::SwfOptions> SwfPlan(const SimulateOptions& options) {
  sim::SwfOptions swf;
  absl::StatusOr<sim::SwfOptions::Field> field = sim::ParseSwfField(options.queue_by);
  if (!field.ok()) return Annotated("--queue-by", field.status());
  swf.queue_by = *field;
  for (const std::string& text : options.map) {
    RETURN_IF_ERROR(Annotated("--map", ParseMap(text, swf)));
  }
  for (const std::string& text : options.priority) {
    RETURN_IF_ERROR(Annotated("--priority", ParsePriority(text, swf)));
  }
  if (options.spread && swf.other) {
    return InvalidArgument("--spread: --map *=... says already where all others go");
  }
  swf.spread = options.spread;
  swf.resource = options.resource;
  absl::StatusOr<Quantity> per_processor = Quantity::Parse(options.per_processor);
  if (!per_processor.ok()) return Annotated("--per-processor", per_processor.status());
  if (per_processor->Sign() <= 0) {
    return InvalidArgument("--per-processor: \"{}\" is not positive", options.per_processor);
  }
  swf.per_processor = *per_processor;
  swf.pod_per_processor = options.pod_per_processor;
  swf.memory = options.memory;
  return swf;
}

absl::StatusOr<Plan> MakePlan(const SimulateOptions& options, const std::string& config) {
  Plan plan;
  if (!config.empty()) {
    config::Flags flags;
    flags.config_path = config;
    ASSIGN_OR_RETURN(config::Config loaded, config::LoadFile(flags, "kueue-system"));
    plan.settings = std::move(loaded.settings);
    plan.configured = true;
  }
  const absl::StatusOr<sim::Micros> stop = sim::ParseMicros(options.stop_time);
  if (!stop.ok()) return Annotated("--stop-time", stop.status());
  plan.trace.stop_time = *stop;
  const absl::StatusOr<sim::Micros> checkpoint = sim::ParseMicros(options.checkpoint_time);
  if (!checkpoint.ok()) return Annotated("--checkpoint-time", checkpoint.status());
  plan.trace.checkpoint_time = *checkpoint;
  if (options.restart == "resume") {
    plan.trace.checkpoint = 0;
  } else if (options.restart != "scratch") {
    const absl::StatusOr<sim::Micros> interval = sim::ParseMicros(options.restart);
    if (!interval.ok() || *interval == 0) {
      return InvalidArgument("--restart: \"{}\" is neither scratch, resume nor an interval",
                             options.restart);
    }
    plan.trace.checkpoint = *interval;
  }
  if (!options.until.empty()) {
    const absl::StatusOr<sim::Micros> until = sim::ParseMicros(options.until);
    if (!until.ok()) return Annotated("--until", until.status());
    plan.trace.until = *until;
  }
  if (!options.default_runtime.empty()) {
    const absl::StatusOr<sim::Micros> runtime = sim::ParseMicros(options.default_runtime);
    if (!runtime.ok()) return Annotated("--default-runtime", runtime.status());
    plan.default_runtime = *runtime;
  }
  ASSIGN_OR_RETURN(plan.swf, SwfPlan(options));
  return plan;
}

absl::Status ReadTrace(const std::string& path, const SimulateOptions& options, const Plan& plan,
                       sim::TraceBuilder& builder) {
  const std::string format = options.format.empty() ? FormatOf(path) : options.format;
  if (format.empty()) {
    return InvalidArgument("{}: the name does not say the format; give --trace-format", path);
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (text.starts_with("\x1f\x8b")) {
    return InvalidArgument("{}: is compressed; decompress it first", path);
  }
  const sim::SourceFile file{path, std::move(text)};
  if (format == "csv") return sim::ReadCsvTrace(file, builder);
  if (format == "jsonl") return sim::ReadJsonTrace(file, builder);
  return sim::ReadSwfTrace(file, plan.swf, builder);
}

// A cluster, its trace, and what goes where.
class TraceRun {
 public:
  TraceRun(const SimulateOptions& options, const Plan& plan, const ClusterChanges& changes,
           std::ostream& out)
      : options_(options), plan_(plan), changes_(changes), out_(out) {}

  // Nothing is printed or written.
  absl::StatusOr<sim::TraceResult> Measure(const std::string& path) {
    RETURN_IF_ERROR(Load(path));
    engine_ = std::make_unique<sim::TraceEngine>(*cluster_, trace_, plan_.trace);
    sim::TraceStats stats(*cluster_, trace_, *engine_);
    engine_->AddListener(&stats);
    RETURN_IF_ERROR(engine_->Run());
    return stats.Result();
  }
  const std::vector<std::string>& notes() const { return notes_; }

  absl::Status Run(const std::string& path) {
    RETURN_IF_ERROR(Load(path));
    engine_ = std::make_unique<sim::TraceEngine>(*cluster_, trace_, plan_.trace);
    sim::TraceStats stats(*cluster_, trace_, *engine_);
    engine_->AddListener(&stats);
    RETURN_IF_ERROR(OpenTimelines());
    out_ << "# " << path << '\n';
    RETURN_IF_ERROR(engine_->Run());
    for (const auto& timeline : timelines_) timeline->Flush();
    const sim::TraceResult result = stats.Result();
    if (options_.timeline) out_ << '\n';
    out_ << sim::RenderReport(result);
    for (const std::string& note : notes_) out_ << "note: " << note << '\n';
    RETURN_IF_ERROR(Explain(result));
    RETURN_IF_ERROR(WriteCsv(result));
    if (options_.html.empty()) return absl::OkStatus();
    const std::string title = fs::path(path).lexically_normal().filename().string();
    return WriteFile(options_.html, sim::RenderHtml(result, title.empty() ? path : title));
  }

 private:
  struct Timeline {
    Timeline(const sim::TraceCluster& cluster, const sim::Trace& trace,
             sim::TimelineWriter::Format format, std::ostream& out)
        : stream(out),
          writer(cluster, trace, format, [this](const std::string& line) { stream << line; }) {}
    void Flush() { stream.flush(); }
    std::ostream& stream;
    sim::TimelineWriter writer;
  };

  absl::Status Load(const std::string& path) {
    ASSIGN_OR_RETURN(const Inputs inputs, FindInputs(path, options_));
    std::vector<sim::SourceFile> files;
    for (const std::string& manifest : inputs.manifests) {
      ASSIGN_OR_RETURN(std::string text, ReadFile(manifest));
      files.push_back({manifest, std::move(text)});
    }
    const bool dump =
        std::any_of(files.begin(), files.end(), [](const auto& file) { return IsDump(file.text); });
    const bool live = dump && files.size() == 1;
    if (dump && !live) {
      return InvalidArgument("{}: a dump of a cluster is played without other manifests", path);
    }
    if (!live && !options_.default_runtime.empty() && path != options_.against) {
      return InvalidArgument("--default-runtime is for a dump of a cluster, and {} is none", path);
    }
    state::Settings settings = plan_.settings;
    ClusterObjects objects;
    if (live || !changes_.empty()) {
      std::string text;
      for (const sim::SourceFile& file : files) text += "\n---\n" + file.text;
      ASSIGN_OR_RETURN(
          objects, ParseObjects(path, live ? files.front().text : text, sim::DefaultTraceStart()));
      if (!plan_.configured) {
        ASSIGN_OR_RETURN(
            settings, SettingsOf(objects.configuration, path + ": the controller's configuration"));
        if (live && objects.configuration.empty()) objects.notes.emplace_back(kNoConfiguration);
      }
      RETURN_IF_ERROR(ApplyChanges(changes_, objects));
      files = {ClusterFile(objects, !live)};
    }
    ASSIGN_OR_RETURN(cluster_, sim::TraceCluster::Load(files, settings));
    sim::TraceBuilder builder(*cluster_);
    if (!options_.strict) builder.SkipBrokenLines();
    RETURN_IF_ERROR(cluster_->AddManifestWorkloads(builder));
    if (live) {
      ASSIGN_OR_RETURN(const RunTimeSources sources,
                       AddLiveWorkloads(objects, plan_.default_runtime, builder));
      objects.notes.push_back(AssumptionText(sources, plan_.trace.checkpoint == 0));
    }
    notes_ = objects.notes;
    for (const std::string& trace : inputs.traces) {
      const size_t before = builder.size();
      RETURN_IF_ERROR(ReadTrace(trace, options_, plan_, builder));
      if (builder.size() == before) notes_.push_back(trace + ": there are no workloads in it");
    }
    ASSIGN_OR_RETURN(trace_, builder.Finish());
    if (trace_.jobs.empty()) {
      return InvalidArgument("{}: there are no workloads: neither Jobs nor {}", path,
                             inputs.traces.empty() ? "a trace" : "lines of a trace");
    }
    return absl::OkStatus();
  }

  absl::Status Explain(const sim::TraceResult& result) const {
    if (!options_.explain && options_.explain_json.empty()) return absl::OkStatus();
    api::Json json = api::Json::MakeArray();
    for (const admission::ExplanationTree& tree : sim::ExplainWaiting(*cluster_, result)) {
      if (options_.explain) out_ << '\n' << admission::RenderLines(tree);
      json.Append(admission::RenderJson(tree));
    }
    if (options_.explain_json.empty()) return absl::OkStatus();
    return WriteFile(options_.explain_json, json.PrettyText() + "\n");
  }

  bool CsvIsFile() const { return Extension(options_.csv) == ".csv"; }

  absl::Status OpenTimelines() {
    if (!options_.timeline) return absl::OkStatus();
    timelines_.push_back(
        std::make_unique<Timeline>(*cluster_, trace_, sim::TimelineWriter::Format::kText, out_));
    engine_->AddListener(&timelines_.back()->writer);
    if (options_.csv.empty() || CsvIsFile()) return absl::OkStatus();
    RETURN_IF_ERROR(MakeDirectory());
    const fs::path path = fs::path(options_.csv) / "events.csv";
    events_.open(path, std::ios::binary);
    if (!events_) return InvalidArgument("{}: cannot be written", path.string());
    timelines_.push_back(
        std::make_unique<Timeline>(*cluster_, trace_, sim::TimelineWriter::Format::kCsv, events_));
    engine_->AddListener(&timelines_.back()->writer);
    return absl::OkStatus();
  }

  absl::Status MakeDirectory() const {
    std::error_code error;
    fs::create_directories(options_.csv, error);
    if (error) return InvalidArgument("{}: {}", options_.csv, error.message());
    return absl::OkStatus();
  }

  absl::Status WriteCsv(const sim::TraceResult& result) const {
    if (options_.csv.empty()) return absl::OkStatus();
    const std::string workloads = sim::RenderWorkloadsCsv(*cluster_, trace_, *engine_);
    if (CsvIsFile()) return WriteFile(options_.csv, workloads);
    RETURN_IF_ERROR(MakeDirectory());
    const fs::path directory(options_.csv);
    RETURN_IF_ERROR(WriteFile(directory / "workloads.csv", workloads));
    for (const auto& [name, text] : sim::RenderCsv(result)) {
      RETURN_IF_ERROR(WriteFile(directory / name, text));
    }
    return absl::OkStatus();
  }

  const SimulateOptions& options_;
  const Plan& plan_;
  const ClusterChanges& changes_;
  std::ostream& out_;
  std::vector<std::string> notes_;
  std::unique_ptr<sim::TraceCluster> cluster_;
  sim::Trace trace_;
  std::unique_ptr<sim::TraceEngine> engine_;
  std::ofstream events_;
  std::vector<std::unique_ptr<Timeline>> timelines_;
};

// The same trace under two policies.
absl::Status Compare(const SimulateOptions& options, const Plan& plan, std::ostream& out) {
  const std::string& path = options.inputs.front();
  const ClusterChanges none;
  TraceRun base(options, plan, none, out);
  Compared a{"BEFORE", {}};
  ASSIGN_OR_RETURN(a.result, base.Measure(path));
  Compared b{"AFTER", {}};
  Plan other = plan;
  if (!options.against_config.empty()) {
    ASSIGN_OR_RETURN(other, MakePlan(options, options.against_config));
  }
  SimulateOptions same_trace = options;
  if (!options.against.empty() && options.traces.empty()) {
    ASSIGN_OR_RETURN(const Inputs inputs, FindInputs(path, options));
    same_trace.traces = inputs.traces;
  }
  TraceRun changed(same_trace, other, options.changes, out);
  ASSIGN_OR_RETURN(b.result, changed.Measure(options.against.empty() ? path : options.against));
  out << "# " << path << '\n' << CompareText(a, b);
  for (const std::string& note : changed.notes()) out << "note: " << note << '\n';
  for (const std::string& note : b.result.notes) out << "note: " << note << '\n';
  if (options.html.empty()) return absl::OkStatus();
  return WriteFile(options.html, CompareHtml(a, b));
}

}  // namespace

int Simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  const auto clusters =
      std::count_if(options.inputs.begin(), options.inputs.end(), std::not_fn(IsScenario));
  const auto fail = [&](const absl::Status& status) {
    err << std::string(status.message()) << '\n';
    return status.code() == absl::StatusCode::kInternal ? kFailed : kUsage;
  };
  if (const absl::Status status = CheckInputs(options, clusters); !status.ok()) {
    return fail(status);
  }
  const absl::StatusOr<Plan> plan = MakePlan(options, options.config);
  if (!plan.ok()) return fail(plan.status());
  if (const absl::Status status = CheckTraces(options); !status.ok()) return fail(status);
  if (Compares(options)) {
    const absl::Status status = Compare(options, *plan, out);
    return status.ok() ? 0 : fail(status);
  }
  int code = 0;
  for (const std::string& path : options.inputs) {
    if (IsScenario(path)) {
      code = std::max(code, PlayScenarioFile(path, options, out, err));
      continue;
    }
    TraceRun run(options, *plan, options.changes, out);
    if (absl::Status status = run.Run(path); !status.ok()) code = std::max(code, fail(status));
  }
  return code;
}

}  // namespace sluice::cli
