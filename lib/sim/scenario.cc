#include "sim/scenario.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "admission/explain_text.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"
#include "base/time.h"
#include "sim/explain.h"
#include "sim/scenario_objects.h"
#include "sim/scenario_show.h"
#include "sim/simulation.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using Words = std::vector<std::string>;

struct Line {
  int number = 0;
  size_t indent = 0;
  std::string text;
};

std::vector<Line> ReadLines(const std::string& script) {
  std::vector<Line> lines;
  int number = 0;
  for (std::string text : std::vector<std::string>(absl::StrSplit(script, '\n'))) {
    ++number;
    const size_t indent = text.find_first_not_of(' ');
    if (indent == std::string::npos || text[indent] == '#' || text.starts_with("----")) continue;
    lines.push_back({number, indent, text.substr(indent)});
  }
  return lines;
}

absl::StatusOr<bool> Bool(const std::string& text) {
  if (text == "true" || text == "on") return true;
  if (text == "false" || text == "off") return false;
  return InvalidArgument("\"{}\" is neither true nor false", text);
}

class Player {
 public:
  absl::StatusOr<std::string> Play(const std::string& script) {
    lines_ = ReadLines(script);
    enum { kHead, kCluster, kTimeline } section = kHead;
    const bool starts = std::any_of(lines_.begin(), lines_.end(), [](const Line& line) {
      const Words words = SplitWords(line.text);
      return words.size() == 3 && words[0] == "at" && words[2] == "start";
    });
    for (at_ = 0; at_ < lines_.size(); ++at_) {
      const Line& line = lines_[at_];
      absl::Status status;
      if (line.text == "cluster:") {
        section = kCluster;
        MakeSimulation();
      } else if (line.text == "timeline:") {
        if (sim_ == nullptr) MakeSimulation();
        section = kTimeline;
        // Before the controller is there nobody answers its webhooks.
        sim_->api().set_webhooks(!starts);
        if (!starts) sim_->Start();
      } else if (section == kHead) {
        status = Settings(line.text);
      } else if (section == kCluster) {
        Words words = SplitWords(line.text);
        words.insert(words.begin(), "create");
        if (words[1] == "yaml") words.erase(words.begin());
        status = Command(words, line);
      } else {
        status = TimelineLine(line);
      }
      if (!status.ok()) {
        return InvalidArgument("line {}: {}: {}", line.number, line.text,
                               std::string(status.message()));
      }
    }
    if (sim_ == nullptr) return InvalidArgument("the scenario has neither cluster nor timeline");
    for (const std::string& text : sim_->violations()) out_ += "violation: " + text + "\n";
    return out_;
  }

  void ExplainAll(ScenarioOutcome& outcome) const {
    for (const admission::ExplanationTree& tree :
         ExplainWaiting(sim_->api(), options_.settings, sim_->now())) {
      outcome.explanation += RenderExplanation(sim_->api(), tree);
      outcome.json.Append(admission::RenderJson(tree));
    }
  }

 private:
  void MakeSimulation() {
    sim_ = std::make_unique<Simulation>(options_);
    start_ = sim_->now();
    Report("namespace ns",
           sim_->Create(Kind::kNamespace, "",
                        Json::MakeObject({{"metadata", Json::MakeObject({{"name", "ns"}})}})));
  }

  absl::Status Settings(const std::string& text) {
    const Words words = SplitWords(text);
    if (words.empty() || words[0] != "settings") {
      return InvalidArgument("expected \"settings\", \"cluster:\" or \"timeline:\"");
    }
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      if (equals == std::string::npos) return InvalidArgument("\"{}\" has no value", words[i]);
      RETURN_IF_ERROR(Setting(words[i].substr(0, equals), words[i].substr(equals + 1)));
    }
    return absl::OkStatus();
  }

  absl::Status Setting(const std::string& key, const std::string& value) {
    state::Settings& settings = options_.settings;
    if (key == "manageJobsWithoutQueueName") {
      ASSIGN_OR_RETURN(settings.manage_jobs_without_queue_name, Bool(value));
    } else if (key == "waitForPodsReady") {
      ASSIGN_OR_RETURN(const bool on, Bool(value));
      if (!on) settings.wait_for_pods_ready.reset();
    } else if (key.starts_with("waitForPodsReady.")) {
      if (!settings.wait_for_pods_ready) settings.wait_for_pods_ready.emplace();
      return WaitSetting(key.substr(17), value, *settings.wait_for_pods_ready);
    } else if (key.starts_with("admissionFairSharing.")) {
      if (!settings.admission_fair_sharing) settings.admission_fair_sharing.emplace();
      return UsageSetting(key.substr(21), value, *settings.admission_fair_sharing);
    } else if (key == "retention.afterFinished") {
      ASSIGN_OR_RETURN(settings.object_retention.after_finished, ParseDuration(value));
    } else if (key == "retention.afterDeactivated") {
      ASSIGN_OR_RETURN(settings.object_retention.after_deactivated_by_kueue, ParseDuration(value));
    } else if (key.starts_with("preemption.")) {
      return PreemptionSetting(key.substr(11), value, settings.preemption);
    } else if (key.starts_with("topology.")) {
      return TopologySetting(key.substr(9), value, settings.topology);
    } else if (key == "pods") {
      ASSIGN_OR_RETURN(const bool on, Bool(value));
      if (on) settings.integrations.frameworks.push_back(api::kPodFramework);
    } else if (key == "copyLabel") {
      settings.integrations.label_keys_to_copy.push_back(value);
    } else if (key == "excludeResources") {
      settings.resources.exclude_resource_prefixes.push_back(value);
    } else if (key == "transform") {
      return TransformSetting(value, settings);
    } else if (key == "quotaCheck" && value == "IgnoreUndeclared") {
      settings.resources.quota_check_strategy = state::QuotaCheckStrategy::kIgnoreUndeclared;
    } else if (key == "fairSharing") {
      return FairSharingSetting(value, settings);
    } else if (key == "replicas") {
      if (!absl::SimpleAtoi(value, &options_.replicas) || options_.replicas < 1) {
        return InvalidArgument("\"{}\" is no number of replicas", value);
      }
    } else if (key == "nativeGangs") {
      if (value != "jobs" && value != "podgroups" && value != "off") {
        return InvalidArgument("\"{}\" is none of jobs, podgroups and off", value);
      }
      options_.api.features = {value != "off", value == "jobs"};
    } else if (key == "scheduler" && value == "on") {
      options_.jobs.pod_objects = true;
    } else if (key == "readiness") {
      ASSIGN_OR_RETURN(options_.jobs.readiness_delay, ParseDuration(value));
    } else if (key == "stop") {
      ASSIGN_OR_RETURN(options_.jobs.stop_time, ParseDuration(value));
    } else if (key.starts_with("gate.")) {
      ASSIGN_OR_RETURN(const bool on, Bool(value));
      gates_[key.substr(5)] = on;
      ASSIGN_OR_RETURN(settings.gates, state::FeatureGates::Make(gates_));
    } else {
      return InvalidArgument("the setting \"{}\" is not known", key);
    }
    return absl::OkStatus();
  }

  static absl::Status PreemptionSetting(const std::string& key, const std::string& value,
                                        state::Preemption& preemption) {
    if (key == "checkpointGracePeriod") {
      ASSIGN_OR_RETURN(preemption.checkpoint_grace_period, ParseDuration(value));
    } else if (key == "maxPerWorkload") {
      if (!absl::SimpleAtoi(value, &preemption.max_per_workload)) {
        return InvalidArgument("\"{}\" is no number", value);
      }
    } else if (key == "window") {
      ASSIGN_OR_RETURN(preemption.window, ParseDuration(value));
    } else {
      return InvalidArgument("the setting \"preemption.{}\" is not known", key);
    }
    return absl::OkStatus();
  }

  static absl::Status TopologySetting(const std::string& key, const std::string& value,
                                      state::TopologySettings& topology) {
    if (value != "Exclude" && value != "Ignore") {
      return InvalidArgument("\"{}\" is neither Exclude nor Ignore", value);
    }
    if (key == "nodeLifecycle") {
      topology.exclude_leaving = value == "Exclude";
    } else if (key == "maintenance") {
      topology.exclude_maintenance = value == "Exclude";
    } else {
      return InvalidArgument("the setting \"topology.{}\" is not known", key);
    }
    return absl::OkStatus();
  }

  // INPUT:STRATEGY[:OUTPUT*FACTOR,...]
  static absl::Status TransformSetting(const std::string& value, state::Settings& settings) {
    const Words parts = absl::StrSplit(value, ':');
    if (parts.size() < 2 || (parts[1] != "Replace" && parts[1] != "Retain")) {
      return InvalidArgument("\"{}\" is no transformation", value);
    }
    state::ResourceTransformation transformation;
    transformation.input = parts[0];
    transformation.strategy = parts[1] == "Replace"
                                  ? state::ResourceTransformation::Strategy::kReplace
                                  : state::ResourceTransformation::Strategy::kRetain;
    if (parts.size() > 2) {
      for (const std::string& output : Words(absl::StrSplit(parts[2], ','))) {
        const size_t times = output.find('*');
        if (times == std::string::npos) return InvalidArgument("\"{}\" has no factor", output);
        ASSIGN_OR_RETURN(transformation.outputs[output.substr(0, times)],
                         Quantity::Parse(output.substr(times + 1)));
      }
    }
    settings.resources.transformations.push_back(std::move(transformation));
    return absl::OkStatus();
  }

  static absl::Status UsageSetting(const std::string& key, const std::string& value,
                                   state::AdmissionFairSharing& fair_sharing) {
    if (key == "halfLife") {
      ASSIGN_OR_RETURN(fair_sharing.usage_half_life_time, ParseDuration(value));
    } else if (key == "sampling") {
      ASSIGN_OR_RETURN(fair_sharing.usage_sampling_interval, ParseDuration(value));
    } else if (key.starts_with("weight.")) {
      ASSIGN_OR_RETURN(fair_sharing.resource_weights[key.substr(7)], Quantity::Parse(value));
    } else {
      return InvalidArgument("the setting \"admissionFairSharing.{}\" is not known", key);
    }
    return absl::OkStatus();
  }

  static absl::Status WaitSetting(const std::string& key, const std::string& value,
                                  state::WaitForPodsReady& wait) {
    state::RequeuingStrategy& requeuing = wait.requeuing_strategy;
    if (key == "timeout") {
      const bool same = wait.recovery_timeout == wait.timeout;
      ASSIGN_OR_RETURN(wait.timeout, ParseDuration(value));
      if (same) wait.recovery_timeout = wait.timeout;
    } else if (key == "recoveryTimeout") {
      ASSIGN_OR_RETURN(wait.recovery_timeout, ParseDuration(value));
    } else if (key == "blockAdmission") {
      ASSIGN_OR_RETURN(wait.block_admission, Bool(value));
    } else if (key == "timestamp" && (value == "Eviction" || value == "Creation")) {
      requeuing.timestamp = value == "Creation" ? state::RequeuingTimestamp::kCreation
                                                : state::RequeuingTimestamp::kEviction;
    } else {
      int32_t number = 0;
      if (!absl::SimpleAtoi(value, &number) || number < 0) {
        return InvalidArgument("\"{}\" is no value of waitForPodsReady.{}", value, key);
      }
      if (key == "backoffLimitCount") {
        requeuing.backoff_limit_count = number;
      } else if (key == "backoffBaseSeconds") {
        requeuing.backoff_base_seconds = number;
      } else if (key == "backoffMaxSeconds") {
        requeuing.backoff_max_seconds = number;
      } else {
        return InvalidArgument("the setting \"waitForPodsReady.{}\" is not known", key);
      }
    }
    return absl::OkStatus();
  }

  // "on" (both strategies), "off", or the names of the strategies with commas between them.
  static absl::Status FairSharingSetting(const std::string& value, state::Settings& settings) {
    using state::PreemptionStrategy;
    settings.fair_sharing.reset();
    if (value == "off") return absl::OkStatus();
    const std::string names =
        value == "on" ? "LessThanOrEqualToFinalShare,LessThanInitialShare" : value;
    settings.fair_sharing.emplace();
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(names, ','))) {
      if (name == "LessThanOrEqualToFinalShare") {
        settings.fair_sharing->preemption_strategies.push_back(
            PreemptionStrategy::kLessThanOrEqualToFinalShare);
      } else if (name == "LessThanInitialShare") {
        settings.fair_sharing->preemption_strategies.push_back(
            PreemptionStrategy::kLessThanInitialShare);
      } else {
        return InvalidArgument("\"{}\" is no strategy of fair sharing", name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status TimelineLine(const Line& line) {
    Words words = SplitWords(line.text);
    if (words.size() < 3 || words[0] != "at")
      return InvalidArgument("expected \"at TIME COMMAND\"");
    ASSIGN_OR_RETURN(const absl::Duration at, ParseDuration(words[1]));
    const absl::Time time = start_ + at;
    if (time < sim_->now()) return InvalidArgument("{} is in the past", words[1]);
    sim_->RunUntil(time);
    when_ = words[1];
    words.erase(words.begin(), words.begin() + 2);
    return Command(words, line);
  }

  absl::Status Command(const Words& words, const Line& line) {
    const std::string& verb = words[0];
    if (verb == "create") return Create(Words(words.begin() + 1, words.end()));
    if (verb == "yaml") return Yaml(line);
    if (verb == "patch" || verb == "status") return Patch(words, line);
    if (verb == "delete") return Delete(words);
    if (verb == "activate" || verb == "deactivate") return Activate(words);
    if (verb == "check") return Check(words);
    if (verb == "show") return Show(words);
    if (verb == "explain") return Explain(words);
    if (verb == "start") {
      sim_->api().set_webhooks(true);
      sim_->Start();
    } else if (verb == "crash") {
      sim_->Crash(0);
    } else if (verb == "features") {
      if (words.size() < 2) return InvalidArgument("features needs jobs, podgroups or off");
      sim_->SetFeatures({words[1] != "off", words[1] == "jobs"});
    } else if (verb == "relist") {
      sim_->Relist(0);
    } else if (verb == "leader") {
      int32_t replica = 0;
      if (words.size() < 2 || !absl::SimpleAtoi(words[1], &replica)) {
        return InvalidArgument("leader needs a number");
      }
      sim_->SetLeader(replica);
    } else if (verb == "settled") {
      if (!sim_->Settled()) {
        out_ += when_ + " is not settled\n";
      } else {
        sim_->CheckSettled();
      }
    } else {
      return InvalidArgument("the command \"{}\" is not known", verb);
    }
    return absl::OkStatus();
  }

  void Report(const std::string& what, const state::Reply& reply) {
    if (reply.ok()) return;
    out_ += fmt::format("{} {}: {} {}: {}\n", when_, what, reply.code, reply.reason, reply.message);
  }

  absl::Status Create(const Words& words) {
    ASSIGN_OR_RETURN(ObjectText text, ParseObject(words));
    const std::string what = "create " + words[0] + " " + words[1];
    const ObjectKey key{text.ns, words[1]};
    const state::Reply reply = sim_->Create(text.kind, text.ns, std::move(text.object));
    Report(what, reply);
    if (reply.ok() && !text.status.IsNull()) {
      Report(what, sim_->Patch(text.kind, key,
                               Json::MakeObject({{"status", std::move(text.status)}}), "status"));
    }
    return absl::OkStatus();
  }

  absl::Status Yaml(const Line& line) {
    std::string text;
    while (at_ + 1 < lines_.size() && lines_[at_ + 1].indent > line.indent) {
      const Line& next = lines_[++at_];
      text += std::string(next.indent, ' ') + next.text + "\n";
    }
    ASSIGN_OR_RETURN(Json object, YamlToJson(text));
    const std::string version = object.GetString("apiVersion");
    const size_t slash = version.find('/');
    const api::KindInfo* info = api::FindKind(
        slash == std::string::npos ? "" : version.substr(0, slash), object.GetString("kind"));
    if (info == nullptr) {
      return InvalidArgument("{} of {} is not known", object.GetString("kind"), version);
    }
    std::string ns = object.GetString("metadata", "namespace");
    if (info->namespaced && ns.empty()) ns = "ns";
    const std::string name = object.GetString("metadata", "name");
    Report(fmt::format("create {} {}", info->name, name),
           sim_->Create(info->kind, ns, std::move(object)));
    return absl::OkStatus();
  }

  absl::StatusOr<std::pair<Kind, ObjectKey>> Target(const Words& words) {
    if (words.size() < 3) return InvalidArgument("{} needs a kind and a name", words[0]);
    ASSIGN_OR_RETURN(const Kind kind, ParseKind(words[1]));
    const size_t slash = words[2].find('/');
    ObjectKey key{"", words[2]};
    if (slash != std::string::npos) {
      key = {words[2].substr(0, slash), words[2].substr(slash + 1)};
    } else if (api::InfoOf(kind).namespaced) {
      key.ns = "ns";
    }
    if (kind == Kind::kWorkload) {
      if (const Json* workload = WorkloadOf(key))
        key.name = workload->GetString("metadata", "name");
    }
    return std::make_pair(kind, key);
  }

  absl::Status Patch(const Words& words, const Line& line) {
    ASSIGN_OR_RETURN(const auto target, Target(words));
    const size_t brace = line.text.find('{');
    if (brace == std::string::npos) return InvalidArgument("the patch is missing");
    ASSIGN_OR_RETURN(Json patch, api::ParseJson(line.text.substr(brace)));
    // Anything else would be ignored, and the scenario would test something else than it says.
    if (words[0] == "status" && !patch.Has("status")) {
      return InvalidArgument("the patch of a status has no field \"status\"");
    }
    Report(words[0] + " " + words[1] + " " + words[2],
           sim_->Patch(target.first, target.second, std::move(patch),
                       words[0] == "status" ? "status" : ""));
    return absl::OkStatus();
  }

  absl::Status Delete(const Words& words) {
    ASSIGN_OR_RETURN(const auto target, Target(words));
    const bool foreground = words.size() > 3 && words[3] == "foreground";
    Report("delete " + words[1] + " " + words[2],
           sim_->Delete(target.first, target.second, foreground ? "Foreground" : "Background"));
    return absl::OkStatus();
  }

  // The Workload of a Job, or of that name.
  const Json* WorkloadOf(const ObjectKey& job) {
    if (const Json* workload = sim_->api().Find(Kind::kWorkload, job)) return workload;
    for (const Json& workload : sim_->api().List(Kind::kWorkload)) {
      const Json* owners = workload.Find("metadata", "ownerReferences");
      if (owners == nullptr || workload.GetString("metadata", "namespace") != job.ns) continue;
      for (const Json& owner : owners->AsArray()) {
        if (owner.GetString("name") != job.name) continue;
        return sim_->api().Find(Kind::kWorkload, {job.ns, workload.GetString("metadata", "name")});
      }
    }
    return nullptr;
  }

  absl::StatusOr<const Json*> WorkloadOf(const Words& words) {
    if (words.size() < 2) return InvalidArgument("{} needs the name of a Job", words[0]);
    const size_t slash = words[1].find('/');
    const ObjectKey key = slash == std::string::npos
                              ? ObjectKey{"ns", words[1]}
                              : ObjectKey{words[1].substr(0, slash), words[1].substr(slash + 1)};
    const Json* workload = WorkloadOf(key);
    if (workload == nullptr) return NotFound("{} has no Workload", words[1]);
    return workload;
  }

  absl::Status Activate(const Words& words) {
    ASSIGN_OR_RETURN(const Json* workload, WorkloadOf(words));
    Json patch = Json::MakeObject();
    patch["spec"].Set("active", words[0] == "activate");
    Report(words[0] + " " + words[1], sim_->Patch(Kind::kWorkload,
                                                  {workload->GetString("metadata", "namespace"),
                                                   workload->GetString("metadata", "name")},
                                                  std::move(patch)));
    return absl::OkStatus();
  }

  // What a controller of admission checks writes.
  absl::Status Check(const Words& words) {
    ASSIGN_OR_RETURN(const Json* workload, WorkloadOf(words));
    if (words.size() < 4) return InvalidArgument("check needs JOB CHECK STATE");
    Json list = Json::MakeArray();
    bool found = false;
    if (const Json* checks = workload->Find("status", "admissionChecks")) list = *checks;
    for (Json& check : list.MutableArray()) {
      if (check.GetString("name") != words[2]) continue;
      found = true;
      check.Set("state", words[3]);
      check.Set("lastTransitionTime", sluice::FormatTime(sim_->now()));
      for (size_t i = 4; i < words.size(); ++i) {
        int64_t seconds = 0;
        if (words[i].starts_with("message=")) {
          check.Set("message", words[i].substr(8));
        } else if (words[i].starts_with("after=") &&
                   absl::SimpleAtoi(words[i].substr(6), &seconds)) {
          check.Set("requeueAfterSeconds", seconds);
        } else {
          return InvalidArgument("\"{}\" is not known", words[i]);
        }
      }
    }
    if (!found) return NotFound("the Workload of {} has no check {}", words[1], words[2]);
    Json patch = Json::MakeObject();
    patch["status"].Set("admissionChecks", std::move(list));
    Report("check " + words[1], sim_->Patch(Kind::kWorkload,
                                            {workload->GetString("metadata", "namespace"),
                                             workload->GetString("metadata", "name")},
                                            std::move(patch), "status"));
    return absl::OkStatus();
  }

  absl::Status Show(const Words& words) {
    Words kinds(words.begin() + 1, words.end());
    if (kinds.empty()) kinds = {"cq", "wl", "job"};
    out_ += when_ + "\n";
    for (const std::string& word : kinds) {
      ASSIGN_OR_RETURN(const Kind kind, ParseKind(word));
      out_ += ShowAll(sim_->api(), kind, start_);
    }
    return absl::OkStatus();
  }

  absl::Status Explain(const Words& words) {
    ASSIGN_OR_RETURN(const Json* workload, WorkloadOf(words));
    const bool json = words.size() == 3 && words[2] == "json";
    if (words.size() > 2 && !json) return InvalidArgument("explain needs JOB [json]");
    const admission::ExplanationTree tree = ExplainOne(
        sim_->api(), options_.settings,
        {workload->GetString("metadata", "namespace"), workload->GetString("metadata", "name")},
        sim_->now());
    const std::string text = json ? admission::RenderJson(tree).PrettyText() + "\n"
                                  : RenderExplanation(sim_->api(), tree);
    out_ += when_ + "\n";
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      if (!line.empty()) out_ += "  " + line + "\n";
    }
    return absl::OkStatus();
  }

  SimulationOptions options_;
  absl::btree_map<std::string, bool> gates_;
  std::unique_ptr<Simulation> sim_;
  absl::Time start_;
  std::vector<Line> lines_;
  size_t at_ = 0;
  std::string when_ = "0s";
  std::string out_;
};

}  // namespace

ScenarioText SplitScenario(const std::string& text) {
  ScenarioText result;
  const std::string mark = "\n----\n";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at + mark.size()), text.substr(at + mark.size())};
}

absl::StatusOr<std::string> PlayScenario(const std::string& script) {
  return Player().Play(script);
}

absl::StatusOr<ScenarioOutcome> PlayScenarioAndExplain(const std::string& script) {
  Player player;
  ScenarioOutcome outcome;
  ASSIGN_OR_RETURN(outcome.text, player.Play(script));
  player.ExplainAll(outcome);
  return outcome;
}

std::string DiffLines(const std::string& expected, const std::string& actual) {
  if (expected == actual) return "";
  const std::vector<std::string> a = absl::StrSplit(expected, '\n');
  const std::vector<std::string> b = absl::StrSplit(actual, '\n');
  // Longest common subsequence; the texts are short.
  std::vector<std::vector<size_t>> length(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      length[i][j] =
          a[i] == b[j] ? length[i + 1][j + 1] + 1 : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  std::string diff;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      diff += "  " + a[i++] + "\n";
      ++j;
    } else if (i < a.size() && (j == b.size() || length[i + 1][j] >= length[i][j + 1])) {
      diff += "- " + a[i++] + "\n";
    } else {
      diff += "+ " + b[j++] + "\n";
    }
  }
  return diff;
}

}  // namespace sluice::sim
