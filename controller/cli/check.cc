#include "cli/check.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "admission/explain_text.h"
#include "api/names.h"
#include "base/status.h"
#include "cli/forecast.h"
#include "cli/table.h"
#include "reconcile/what_if.h"
#include "sim/api_server.h"
#include "sim/yaml.h"

namespace sluice::cli {
namespace {

using api::Json;

constexpr int kWouldWait = 1;
constexpr int kNotAnswered = 2;

struct Verdict {
  std::string name;
  Json json;  // as the status of the subresource
  std::string text;
  bool enters = false;
};

// What is known of the start of one that would wait, in words and as data.
void AddForecast(const CheckOptions& options, const Scene& scene, const reconcile::WhatIf& answer,
                 Verdict& verdict) {
  if (answer.reserved) {
    verdict.text += "Forecast: none: nothing tells when its admission checks are ready\n";
    return;
  }
  const absl::StatusOr<ForecastStart> forecast =
      ForecastOf(scene, *answer.made, options.default_runtime);
  if (!forecast.ok()) {
    verdict.text += fmt::format("Forecast: none: {}\n", std::string(forecast.status().message()));
    return;
  }
  verdict.text +=
      fmt::format("Forecast: {}, if {}\n",
                  forecast->start < 0 ? "it never starts" : "it starts at " + forecast->text,
                  forecast->assumption);
  Json json = Json::MakeObject({{"assumption", forecast->assumption}});
  if (forecast->start >= 0) json.Set("start", forecast->text);
  verdict.json.Set("forecast", std::move(json));
}

Verdict VerdictOf(const CheckOptions& options, const Scene& scene, const std::string& name,
                  const reconcile::WhatIf& answer) {
  Verdict verdict;
  verdict.name = name;
  verdict.json = reconcile::WhatIfJson(answer);
  verdict.text = reconcile::WhatIfText(answer);
  verdict.enters = answer.enters();
  if (verdict.enters && options.output.wide()) {
    verdict.text += "\n" + admission::RenderLines(answer.tree);
  }
  if (!verdict.enters) {
    const std::string& reason = answer.why.reason;
    verdict.text += fmt::format("Reason: {}\n",
                                options.output.colours ? Toned(reason, Tone::kWarning) : reason);
    if (!answer.why.help.empty()) {
      verdict.text += fmt::format("Would help: {}\n", answer.why.help);
    }
    if (answer.tree.judged) AddForecast(options, scene, answer, verdict);
    verdict.text += "\n" + admission::RenderLines(answer.tree);
  }
  return verdict;
}

// What the API server would say of the object: its schema, defaults and webhooks, with the field.
absl::Status Refusal(const Scene& scene, const Json& object) {
  const std::string version = object.GetString("apiVersion");
  const api::KindInfo* info =
      api::FindKind(version.substr(0, version.find('/')), object.GetString("kind"));
  if (info == nullptr || (info->kind != api::Kind::kJob && info->kind != api::Kind::kWorkload)) {
    return absl::OkStatus();  // AskWhatIf says which kinds there are
  }
  sim::ApiServer server(scene.settings, {});
  state::Action action;
  action.verb = state::Verb::kCreate;
  action.kind = api::Kind::kNamespace;
  action.key = {"", object.GetString("metadata", "namespace")};
  action.body = Json::MakeObject({{"apiVersion", "v1"},
                                  {"kind", "Namespace"},
                                  {"metadata", Json::MakeObject({{"name", action.key.name}})}});
  server.Execute(action, scene.objects.taken);
  action.kind = info->kind;
  action.key = {action.key.name, object.GetString("metadata", "name")};
  action.body = object;
  if (action.key.name.empty()) {
    action.key.name = object.GetString("metadata", "generateName") + "check";
    action.body["metadata"].Set("name", action.key.name);
  }
  const state::Reply reply = server.Execute(action, scene.objects.taken);
  return reply.ok() ? absl::OkStatus() : InvalidArgument("{}", reply.message);
}

absl::StatusOr<Verdict> AnswerOne(const CheckOptions& options, Scene& scene, Json object) {
  if (!object.IsObject()) return InvalidArgument("not an object");
  Json& metadata = object["metadata"];
  if (metadata.GetString("namespace").empty()) metadata.Set("namespace", scene.ns);
  std::string name = metadata.GetString("name");
  if (name.empty()) name = metadata.GetString("generateName");
  name = fmt::format("{} {}", object.GetString("kind"), name);
  RETURN_IF_ERROR(Refusal(scene, object));
  ASSIGN_OR_RETURN(
      const reconcile::WhatIf answer,
      reconcile::AskWhatIf(*scene.world, object, options.cluster_queue, scene.objects.taken,
                           reconcile::WithForecast::kNo, reconcile::Effort::kThorough));
  return VerdictOf(options, scene, name, answer);
}

struct Answers {
  std::vector<Verdict> verdicts;
  std::vector<std::string> errors;  // of documents, with file and line
};

absl::StatusOr<std::vector<sim::YamlDocument>> ReadDocuments(const CheckOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(options.file));
  absl::StatusOr<std::vector<sim::YamlDocument>> documents = sim::YamlDocuments(text);
  if (!documents.ok()) {
    return InvalidArgument("{}:{}", options.file, std::string(documents.status().message()));
  }
  if (documents->empty()) return InvalidArgument("{}: there is nothing in it", options.file);
  if (!options.default_runtime.empty()) {
    const auto runtime = sim::ParseMicros(options.default_runtime);
    if (!runtime.ok()) return Annotate(runtime.status(), "--default-runtime");
  }
  return documents;
}

absl::StatusOr<Answers> Answer(const CheckOptions& options,
                               const std::vector<sim::YamlDocument>& documents, bool first,
                               std::ostream& err) {
  ASSIGN_OR_RETURN(Scene scene, OpenScene(options.connect, absl::Now()));
  for (const std::string& note : scene.objects.notes) {
    if (first) err << "note: " << note << '\n';
  }
  Answers answers;
  for (const sim::YamlDocument& document : documents) {
    std::vector<Json> objects;
    const Json* items = document.json.Find("items");
    const bool list = items != nullptr && document.json.GetString("kind").ends_with("List");
    if (list) {
      objects = items->AsArray();
    } else {
      objects.push_back(document.json);
    }
    for (size_t i = 0; i < objects.size(); ++i) {
      absl::StatusOr<Verdict> verdict = AnswerOne(options, scene, std::move(objects[i]));
      if (verdict.ok()) {
        answers.verdicts.push_back(*std::move(verdict));
        continue;
      }
      const std::string where = list ? fmt::format("items[{}]: ", i) : "";
      const std::string message(verdict.status().message());
      answers.errors.push_back(fmt::format(
          "{}:{}: {}{}", options.file,
          document.LineFor(list ? fmt::format("items[{}]", i) : message), where, message));
    }
  }
  return answers;
}

std::string TextOf(const Answers& answers, const OutputOptions& output) {
  std::string text;
  Json items = Json::MakeArray();
  for (const Verdict& verdict : answers.verdicts) {
    items.Append(verdict.json);
    if (answers.verdicts.size() > 1) text += "# " + verdict.name + "\n";
    text += verdict.text;
  }
  if (!output.structured() || answers.verdicts.empty()) return text;
  return Structured(
      items.AsArray().size() == 1 ? items.AsArray().front() : Json::MakeObject({{"items", items}}),
      output.format);
}

// Of the last round.
int CodeOf(const Answers& answers) {
  if (!answers.errors.empty()) return kNotAnswered;
  const bool all = std::all_of(answers.verdicts.begin(), answers.verdicts.end(),
                               [](const Verdict& verdict) { return verdict.enters; });
  return all ? 0 : kWouldWait;
}

}  // namespace

void AddCheckOptions(CLI::App& command, CheckOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  command.add_option("-f,--filename", options.file, "Jobs or Workloads (YAML or JSON; - is stdin)")
      ->required();
  command.add_option("--cluster-queue", options.cluster_queue,
                     "Ask about this ClusterQueue; that of the job's LocalQueue when absent");
  command.add_option("--default-runtime", options.default_runtime,
                     "For the forecast: how long workloads run of which nothing is known");
}

int Check(const CheckOptions& options, std::ostream& out, std::ostream& err) {
  int code = kNotAnswered;
  const absl::StatusOr<std::vector<sim::YamlDocument>> documents = ReadDocuments(options);
  const absl::Status status =
      !documents.ok()
          ? documents.status()
          : PrintAgain(options.output, out, [&](bool first, std::string& text) -> absl::Status {
              ASSIGN_OR_RETURN(const Answers answers, Answer(options, *documents, first, err));
              text = TextOf(answers, options.output);
              for (const std::string& error : answers.errors) err << error << '\n';
              code = CodeOf(answers);
              return absl::OkStatus();
            });
  if (status.ok()) return code;
  err << std::string(status.message()) << '\n';
  return kNotAnswered;
}

}  // namespace sluice::cli
