#include "cli/explain.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "admission/cycle.h"
#include "admission/explain_text.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "cli/find.h"
#include "cli/table.h"
#include "reconcile/explain.h"
#include "reconcile/explain_reason.h"

namespace sluice::cli {
namespace {

using admission::ExplanationTree;
using api::Json;

constexpr int kFailed = 1;

struct Position {
  int64_t in_cluster_queue = 0;
  int64_t in_local_queue = 0;
};

// What the controller says, or else what follows from the objects.
std::optional<Position> PositionOf(Scene& scene, const api::Workload& workload,
                                   const std::string& cluster_queue) {
  const ObjectKey key = workload.metadata.Key();
  if (scene.connection != nullptr) {
    const auto answer = scene.connection->Ask(
        fmt::format("/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues/{}/"
                    "pendingworkloads?limit=100000",
                    key.ns, workload.spec.queue_name));
    const Json* items = answer.ok() ? answer->Find("items") : nullptr;
    if (items != nullptr) {
      for (const Json& item : items->AsArray()) {
        if (item.GetString("metadata", "name") != key.name) continue;
        return Position{item.Find("positionInClusterQueue")->AsInt(),
                        item.Find("positionInLocalQueue")->AsInt()};
      }
      return std::nullopt;
    }
  }
  Position position;
  for (const queueing::PendingWorkload& pending : scene.world->queues().Snapshot(cluster_queue)) {
    if (pending.info->Key() == key) return position;
    ++position.in_cluster_queue;
    if (pending.info->local_queue == queueing::LocalQueueKey(workload)) ++position.in_local_queue;
  }
  return std::nullopt;
}

struct Answer {
  ExplanationTree tree;
  reconcile::Why why;
  const api::Condition* condition = nullptr;
  std::optional<Position> position;
};

Json JsonOf(const Answer& answer) {
  Json json = admission::RenderJson(answer.tree);
  reconcile::AddWhy(answer.why, json);
  if (answer.condition != nullptr) {
    json.Set("condition", Json::MakeObject({{"type", answer.condition->type},
                                            {"reason", answer.condition->reason},
                                            {"message", answer.condition->message}}));
  }
  if (answer.position) {
    json.Set("positionInClusterQueue", answer.position->in_cluster_queue);
    json.Set("positionInLocalQueue", answer.position->in_local_queue);
  }
  return json;
}

// What `-o wide` adds: whose it is, and since when it waits.
std::string WideText(const Scene& scene, const api::Workload& workload, const Answer& answer) {
  std::string text = fmt::format("Queue: LocalQueue {}, ClusterQueue {}\nPriority: {}\n",
                                 queueing::LocalQueueKey(workload).ToString(),
                                 answer.tree.cluster_queue, workload.spec.priority.value_or(0));
  if (const api::OwnerReference* owner = workload.metadata.Controller()) {
    text += fmt::format("Owner: {} {}\n", owner->kind, owner->name);
  }
  if (!reconcile::Waits(answer.tree)) return text;
  const absl::Time since = admission::QueuedSince(workload);
  return text + fmt::format("Waits since: {} ({})\n", sluice::FormatTime(since),
                            sluice::FormatDuration(absl::Trunc(
                                std::max(scene.objects.taken - since, absl::ZeroDuration()),
                                absl::Seconds(1))));
}

std::string TextOf(const Answer& answer, const std::string& wide, bool colours) {
  const Tone tone = reconcile::Waits(answer.tree) ? Tone::kWarning : Tone::kGood;
  std::string text =
      fmt::format("Reason: {}\n", colours ? Toned(answer.why.reason, tone) : answer.why.reason);
  if (!answer.why.sentence.empty()) {
    text += fmt::format("Message: {}\n", answer.why.sentence);
  } else if (answer.condition != nullptr && !answer.condition->message.empty()) {
    text += fmt::format("Message: {}\n", answer.condition->message);
  }
  if (answer.position) {
    text += fmt::format("Position: {} in its ClusterQueue, {} in its LocalQueue\n",
                        answer.position->in_cluster_queue, answer.position->in_local_queue);
  }
  if (!answer.why.help.empty()) text += fmt::format("Would help: {}\n", answer.why.help);
  return text + wide + "\n" + admission::RenderLines(answer.tree);
}

std::string IncompleteText(const std::string& sentence, const OutputOptions& output) {
  if (output.structured()) {
    return Structured(
        Json::MakeObject({{"structuredReason", "GangIncomplete"}, {"sentence", sentence}}),
        output.format);
  }
  const std::string reason = "GangIncomplete";
  return fmt::format("Reason: {}\nMessage: {}\n",
                     output.colours ? Toned(reason, Tone::kWarning) : reason, sentence);
}

absl::Status ExplainOnce(const ExplainOptions& options, bool first, std::string& text,
                         std::ostream& err) {
  const OutputOptions& output = options.output;
  ASSIGN_OR_RETURN(Scene scene, OpenScene(options.connect, absl::Now()));
  for (const std::string& note : scene.objects.notes) {
    if (first) err << "note: " << note << '\n';
  }
  const absl::StatusOr<ObjectKey> key = FindWorkload(scene, options.what);
  if (!key.ok()) {
    const std::string group = IncompleteGroup(scene, options.what);
    if (group.empty()) return key.status();
    text = IncompleteText(group, output);
    return absl::OkStatus();
  }
  const auto workload = scene.world->workloads().Find(*key);
  Answer answer;
  answer.tree = reconcile::ExplainWorkload(*scene.world, *key, scene.objects.taken);
  answer.why = reconcile::WhyOf(*scene.world, answer.tree, *workload);
  answer.condition = api::FindCondition(workload->status.conditions, api::kQuotaReserved);
  answer.position = PositionOf(scene, *workload, answer.tree.cluster_queue);
  if (output.structured()) {
    text = Structured(JsonOf(answer), output.format);
  } else {
    text = TextOf(answer, output.wide() ? WideText(scene, *workload, answer) : "", output.colours);
  }
  return absl::OkStatus();
}

}  // namespace

void AddExplainOptions(CLI::App& command, ExplainOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  command.add_option("what", options.what, "[workload|job|pod|podgroup] NAME")
      ->required()
      ->expected(1, 2);
}

int Explain(const ExplainOptions& options, std::ostream& out, std::ostream& err) {
  const absl::Status status = PrintAgain(options.output, out, [&](bool first, std::string& text) {
    return ExplainOnce(options, first, text, err);
  });
  if (status.ok()) return 0;
  err << std::string(status.message()) << '\n';
  return kFailed;
}

}  // namespace sluice::cli
