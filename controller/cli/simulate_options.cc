#include "cli/simulate_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/status.h"

namespace sluice::cli {

namespace fs = std::filesystem;

std::string Extension(const std::string& path) { return fs::path(path).extension().string(); }

namespace {

bool IsManifest(const std::string& path) {
  const std::string extension = Extension(path);
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

}  // namespace

bool IsScenario(const std::string& path) { return Extension(path) == ".scn"; }

std::string FormatOf(const std::string& path) {
  const std::string extension = Extension(path);
  if (extension == ".csv" || extension == ".swf") return extension.substr(1);
  return extension == ".jsonl" || extension == ".ndjson" ? "jsonl" : "";
}

absl::StatusOr<Inputs> FindInputs(const std::string& path, const SimulateOptions& options) {
  Inputs inputs;
  if (!fs::is_directory(path)) {
    inputs.manifests = {path};
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const std::string file = entry.path().string();
      if (IsManifest(file)) inputs.manifests.push_back(file);
      if (!FormatOf(file).empty()) inputs.traces.push_back(file);
    }
    std::sort(inputs.manifests.begin(), inputs.manifests.end());
    std::sort(inputs.traces.begin(), inputs.traces.end());
  }
  if (inputs.manifests.empty()) return InvalidArgument("{}: there are no manifests", path);
  // Those that are named take the place of those that lie there.
  if (!options.traces.empty()) inputs.traces = options.traces;
  return inputs;
}

bool Compares(const SimulateOptions& options) {
  return options.compare || !options.against.empty() || !options.against_config.empty();
}

namespace {

absl::Status CheckCompare(const SimulateOptions& options, std::ptrdiff_t clusters) {
  if (!Compares(options)) return absl::OkStatus();
  if (clusters != 1 || options.inputs.size() != 1) {
    return InvalidArgument("a comparison is of one cluster, not of {} inputs",
                           options.inputs.size());
  }
  if (options.changes.empty() && options.against.empty() && options.against_config.empty()) {
    return InvalidArgument(
        "--compare: nothing is changed: give --set-quota, --add-nodes, --drain, "
        "--remove-policy, --against or "
        "--against-config");
  }
  if (options.timeline || !options.csv.empty() || options.explain ||
      !options.explain_json.empty()) {
    return InvalidArgument("a comparison has no --timeline, --csv, --explain or --explain-json");
  }
  return absl::OkStatus();
}

bool Given(const SimulateOptions& options, const std::string& name) {
  return std::find(options.given.begin(), options.given.end(), name) != options.given.end();
}

// Of traces in the Standard Workload Format.
constexpr const char* kSwfOptions[] = {
    "--queue-by", "--map",           "--spread", "--priority",
    "--resource", "--per-processor", "--memory", "--pod-per-processor"};
// The rest is about clusters: a scenario says itself what is in it and what happens.
constexpr const char* kScenarioOptions[] = {"SCENARIO", "--explain", "--explain-json", "--help"};

void AddWhatIfOptions(CLI::App& command, SimulateOptions& options) {
  const auto what_if = [&](CLI::Option* option) { option->group("What if"); };
  what_if(command.add_option("--set-quota", options.changes.set_quota,
                             "CLUSTERQUEUE/FLAVOR/RESOURCE=QUANTITY; may be repeated"));
  what_if(command.add_option("--remove-policy", options.changes.remove_policy,
                             "preemption, borrowing or lending, of all ClusterQueues or with "
                             ":CLUSTERQUEUE of one; credits, of all CreditPolicies or with :NAME "
                             "of one; may be repeated"));
  what_if(command.add_option("--add-nodes", options.changes.add_nodes,
                             "NODE=COUNT: so many copies of that node, in its domain; may be "
                             "repeated"));
  what_if(command.add_option("--drain", options.changes.drain,
                             "NODE, or LABEL=VALUE: without these nodes; may be repeated"));
  what_if(command.add_flag("--compare", options.compare,
                           "Play the trace without and with these changes, and print both"));
  what_if(command.add_option("--against", options.against,
                             "Compare with these manifests and the same trace"));
  what_if(command.add_option("--against-config", options.against_config,
                             "Compare with this configuration file"));
  what_if(command.add_option("--default-runtime", options.default_runtime,
                             "Of a dump: how long workloads run of which nothing is known; they "
                             "never end when absent"));
}

}  // namespace

void AddSimulateOptions(CLI::App& command, SimulateOptions& options) {
  command
      .add_option(
          "SCENARIO", options.inputs,
          "Scenario files (.scn), manifests (.yaml), or directories of manifests and traces")
      ->required();
  command.add_option("--trace", options.traces,
                     "Trace of workloads (.csv, .jsonl, .swf) for the manifests; may be repeated");
  command.add_option("--trace-format", options.format, "Format of the traces: csv, jsonl or swf")
      ->check(CLI::IsMember({"csv", "jsonl", "swf"}));
  command.add_flag(
      "--strict", options.strict,
      "Refuse a trace with a line that cannot be read; else such lines are left out and "
      "counted");
  command.add_option("--config", options.config, "Configuration file of the controller");
  command.add_flag("--timeline", options.timeline, "Print every event");
  command.add_flag(
      "--explain", options.explain,
      "Explain what waits at the end: which quota refuses, who holds it, what else was "
      "tried");
  command.add_option("--explain-json", options.explain_json, "Write these explanations as JSON");
  command.add_option("--csv", options.csv,
                     "Write CSV files into this directory, or the workloads into this .csv file");
  command.add_option("--html", options.html, "Write a page with charts");
  command.add_option("--until", options.until, "Stop at this time after the start");
  command.add_option("--stop-time", options.stop_time,
                     "How long a preempted workload still holds its quota");
  command.add_option("--checkpoint-time", options.checkpoint_time,
                     "How long a workload takes to write a checkpoint that it is asked for");
  command.add_option("--restart", options.restart,
                     "What a preempted workload does later: start over (scratch), lose nothing "
                     "(resume), or go on from its last checkpoint (an interval such as 10m)");
  const auto swf = [&](CLI::Option* option) { option->group("Standard Workload Format"); };
  swf(command.add_option("--queue-by", options.queue_by,
                         "Field that tells the queue: queue, user, group, executable, partition"));
  swf(command.add_option("--map", options.map,
                         "NUMBER=NAMESPACE/LOCALQUEUE, or *=... for all others; may be repeated"));
  swf(command.add_flag("--spread", options.spread,
                       "Numbers that are not mapped go to one of all LocalQueues in turn"));
  swf(command.add_option("--priority", options.priority,
                         "NUMBER=PRIORITY of that queue's workloads; may be repeated"));
  swf(command.add_option("--resource", options.resource, "The resource that processors are"));
  swf(command.add_option("--per-processor", options.per_processor,
                         "How much of it a processor is"));
  swf(command.add_flag("--pod-per-processor", options.pod_per_processor,
                       "One pod a processor instead of one pod a job"));
  swf(command.add_flag("--memory", options.memory, "Request the memory that the log tells"));
  AddWhatIfOptions(command, options);
  command.parse_complete_callback([&command, &options] {
    for (const CLI::Option* option : command.get_options()) {
      if (option->count() > 0) options.given.push_back(option->get_name());
    }
  });
}

absl::Status CheckInputs(const SimulateOptions& options, std::ptrdiff_t clusters) {
  const auto scenario = std::find_if(options.inputs.begin(), options.inputs.end(), IsScenario);
  for (const std::string& name : options.given) {
    const bool fits = std::find(std::begin(kScenarioOptions), std::end(kScenarioOptions), name) !=
                      std::end(kScenarioOptions);
    if (scenario == options.inputs.end() || fits) continue;
    return InvalidArgument("{} is for manifests, not for scenario files such as {}", name,
                           *scenario);
  }
  if (clusters != 1 && !(options.csv.empty() && options.html.empty())) {
    return InvalidArgument("--csv and --html are for one directory of manifests, not {}", clusters);
  }
  if (!options.explain_json.empty() && options.inputs.size() != 1) {
    return InvalidArgument("--explain-json is for one input, not {}", options.inputs.size());
  }
  return CheckCompare(options, clusters);
}

absl::Status CheckTraces(const SimulateOptions& options) {
  bool any = false;
  bool swf = false;
  for (const std::string& path : options.inputs) {
    if (IsScenario(path)) continue;
    ASSIGN_OR_RETURN(const Inputs inputs, FindInputs(path, options));
    for (const std::string& trace : inputs.traces) {
      any = true;
      swf = swf || (options.format.empty() ? FormatOf(trace) : options.format) == "swf";
    }
  }
  for (const char* name : {"--trace-format", "--strict"}) {
    if (!any && Given(options, name)) {
      return InvalidArgument("{} is for traces, and there is none: give --trace", name);
    }
  }
  for (const char* name : kSwfOptions) {
    if (swf || !Given(options, name)) continue;
    return InvalidArgument(
        "{} is for traces in the Standard Workload Format, and there is none: give --trace "
        "FILE.swf "
        "or --trace-format swf",
        name);
  }
  return absl::OkStatus();
}

}  // namespace sluice::cli
