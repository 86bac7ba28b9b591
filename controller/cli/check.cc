#include "cli/check.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <ostream>
#include <utility>

#include "admission/explain_text.h"
#include "api/names.h"
#include "base/status.h"
#include "cli/explain.h"
#include "cli/table.h"
#include "reconcile/what_if.h"
#include "sim/yaml.h"

namespace sluice::cli {
namespace {

using api::Json;

constexpr int kFailed = 1;

struct Verdict {
  std::string name;
  Json json;  // as the status of the subresource
  std::string text;
  bool enters = false;
};

Verdict VerdictOf(const std::string& name, const reconcile::WhatIf& answer) {
  Verdict verdict;
  verdict.name = name;
  verdict.json = reconcile::WhatIfJson(answer);
  verdict.text = reconcile::WhatIfText(answer);
  verdict.enters = answer.admitted || answer.after_preemption;
  if (!verdict.enters) {
    const std::string reason = StructuredReason(answer.tree, api::Workload());
    verdict.json.Set("structuredReason", reason);
    verdict.text += fmt::format("Reason: {}\n", reason);
    if (const std::string help = WhatWouldHelp(answer.tree); !help.empty()) {
      verdict.text += fmt::format("Would help: {}\n", help);
      verdict.json.Set("whatWouldHelp", help);
    }
    verdict.text += "\n" + admission::RenderLines(answer.tree);
  }
  return verdict;
}

absl::StatusOr<std::vector<Verdict>> Answer(const CheckOptions& options, std::ostream& err) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(options.file));
  absl::StatusOr<std::vector<sim::YamlDocument>> documents = sim::YamlDocuments(text);
  if (!documents.ok()) {
    return InvalidArgument("{}:{}", options.file, std::string(documents.status().message()));
  }
  if (documents->empty()) return InvalidArgument("{}: there is nothing in it", options.file);
  ASSIGN_OR_RETURN(Scene scene, OpenScene(options.connect, absl::Now()));
  for (const std::string& note : scene.objects.notes) err << "note: " << note << '\n';
  std::vector<Verdict> verdicts;
  for (sim::YamlDocument& document : *documents) {
    Json& metadata = document.json["metadata"];
    if (metadata.GetString("namespace").empty()) metadata.Set("namespace", scene.ns);
    const std::string name = fmt::format("{} {}", document.json.GetString("kind"),
                                         document.json.GetString("metadata", "name"));
    absl::StatusOr<reconcile::WhatIf> answer = reconcile::AskWhatIf(
        *scene.world, document.json, options.cluster_queue, scene.objects.taken);
    if (!answer.ok()) {
      return InvalidArgument("{}:{}: {}", options.file, document.line,
                             std::string(answer.status().message()));
    }
    verdicts.push_back(VerdictOf(name, *answer));
  }
  return verdicts;
}

}  // namespace

void AddCheckOptions(CLI::App& command, CheckOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  command.add_option("-f,--filename", options.file, "Jobs or Workloads (YAML or JSON; - is stdin)")
      ->required();
  command.add_option("--cluster-queue", options.cluster_queue,
                     "Ask about this ClusterQueue; that of the job's LocalQueue when absent");
}

int Check(const CheckOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::vector<Verdict>> verdicts = Answer(options, err);
  if (!verdicts.ok()) {
    err << std::string(verdicts.status().message()) << '\n';
    return kFailed;
  }
  const std::string& format = options.output.format;
  Json items = Json::MakeArray();
  bool all = true;
  for (const Verdict& verdict : *verdicts) {
    all = all && verdict.enters;
    items.Append(verdict.json);
    if (format == "json" || format == "yaml") continue;
    if (verdicts->size() > 1) out << "# " << verdict.name << '\n';
    out << verdict.text;
  }
  if (format == "json" || format == "yaml") {
    out << Structured(items.AsArray().size() == 1 ? items.AsArray().front()
                                                  : Json::MakeObject({{"items", items}}),
                      format);
  }
  return all ? 0 : kFailed;
}

}  // namespace sluice::cli
