#include "cli/explain.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <ostream>
#include <utility>

#include "admission/explain_text.h"
#include "admission/reservation.h"
#include "api/names.h"
#include "base/status.h"
#include "cli/find.h"
#include "cli/table.h"
#include "reconcile/explain.h"

namespace sluice::cli {
namespace {

using admission::Explanation;
using admission::ExplanationTree;
using api::Json;
using Verdict = Explanation::Verdict;
using FindingKind = flavor::Finding::Kind;

constexpr int kFailed = 1;
constexpr char kReservedCondition[] = "Reserved";
constexpr char kCheckpointRequested[] = "CheckpointRequested";

bool Has(const ExplanationTree& tree, FindingKind kind) {
  for (const flavor::PodSetAssignment& pod_set : tree.verdict.pod_sets) {
    for (const flavor::Finding& finding : pod_set.findings) {
      if (finding.kind == kind) return true;
    }
  }
  return false;
}

std::string ReasonOfBlocker(const std::string& reason) {
  if (reason == "ChecksPending") return "CheckPending";
  for (const char* stopped : {"LocalQueueStopped", "ClusterQueueStopped", "ClusterQueueInactive",
                              "LocalQueueNotFound", "ClusterQueueNotFound", "CohortCycle"}) {
    if (reason == stopped) return "QueueStopped";
  }
  return reason;
}

bool Waits(const ExplanationTree& tree) {
  if (tree.judged) return true;
  if (tree.blockers.empty()) return false;
  const std::string& reason = tree.blockers.front().reason;
  return reason != "Finished" && reason != "Admitted" && reason != "Evicted";
}

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
  std::string reason;
  std::string help;
  const api::Condition* condition = nullptr;
  std::optional<Position> position;
};

Json JsonOf(const Answer& answer) {
  Json json = admission::RenderJson(answer.tree);
  json.Set("structuredReason", answer.reason);
  if (!answer.help.empty()) json.Set("whatWouldHelp", answer.help);
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

std::string TextOf(const Answer& answer, bool colours) {
  const Tone tone = Waits(answer.tree) ? Tone::kWarning : Tone::kGood;
  std::string text =
      fmt::format("Reason: {}\n", colours ? Toned(answer.reason, tone) : answer.reason);
  if (answer.condition != nullptr && !answer.condition->message.empty()) {
    text += fmt::format("Message: {}\n", answer.condition->message);
  }
  if (answer.position) {
    text += fmt::format("Position: {} in its ClusterQueue, {} in its LocalQueue\n",
                        answer.position->in_cluster_queue, answer.position->in_local_queue);
  }
  if (!answer.help.empty()) text += fmt::format("Would help: {}\n", answer.help);
  return text + "\n" + admission::RenderLines(answer.tree);
}

}  // namespace

std::string StructuredReason(const ExplanationTree& tree, const api::Workload& workload) {
  if (!tree.judged) {
    return tree.blockers.empty() ? "Unknown" : ReasonOfBlocker(tree.blockers.front().reason);
  }
  const api::Conditions& conditions = workload.status.conditions;
  if (api::IsTrue(conditions, kReservedCondition)) return "Reserved";
  const api::Condition* quota = api::FindCondition(conditions, api::kQuotaReserved);
  const bool held = quota != nullptr && quota->status == api::ConditionStatus::kFalse &&
                    quota->reason == admission::kWaitsForReservation;
  if (held && tree.verdict.verdict == Verdict::kFits) return "Reserved";
  if (api::IsTrue(conditions, kCheckpointRequested)) return "WaitingForCheckpoint";
  switch (tree.verdict.verdict) {
    case Verdict::kFits:
      return tree.position && tree.position->ahead > 0 ? "BehindOthers" : "WouldFit";
    case Verdict::kOthersNotReady:
      return "GangIncomplete";
    case Verdict::kChecksFailed:
      return "CheckPending";
    case Verdict::kQueueInactive:
    case Verdict::kQueueNotFound:
      return "QueueStopped";
    case Verdict::kNoFit:
      if (tree.verdict.cause == flavor::Cause::kTopologyPlacementFailed) {
        return "TopologyFragmented";
      }
      if (tree.verdict.cause == flavor::Cause::kNoMatchingFlavor) {
        const bool excluded =
            Has(tree, FindingKind::kUntoleratedTaint) || Has(tree, FindingKind::kAffinityMismatch);
        return excluded ? "NodesExcluded" : "NoMatchingFlavor";
      }
      return "QuotaExceeded";
    case Verdict::kProtected:
      return "CreditsBehind";
    case Verdict::kNoLongerFits:
      return tree.verdict.problems.empty() ? "QuotaExceeded" : "CreditsBehind";
    case Verdict::kNoCandidates:
    case Verdict::kPreempting:
    case Verdict::kPreemptionFailed:
    case Verdict::kDeferredFit:
    case Verdict::kOverlappingTargets:
      return "QuotaExceeded";
    default:
      return admission::ReasonOf(tree.verdict);
  }
}

std::string WhatWouldHelp(const ExplanationTree& tree) {
  if (!tree.verdict.preempting.empty()) {
    return fmt::format("{} is preempted", fmt::join(tree.verdict.preempting, ", "));
  }
  std::string best;
  int64_t smallest = 0;
  for (const admission::PodSetTrial& pod_set : tree.pod_sets) {
    for (const admission::FlavorTrial& flavor : pod_set.flavors) {
      // All cells of a flavor have to fit: more than one is no single change.
      if (flavor.cells.size() != 1 || flavor.cells.front().refusals.empty()) continue;
      const admission::CellTrial& cell = flavor.cells.front();
      int64_t missing = 0;
      const admission::QuotaRefusal* at = nullptr;
      for (const admission::QuotaRefusal& refusal : cell.refusals) {
        if (refusal.missing > missing) {
          missing = refusal.missing;
          at = &refusal;
        }
      }
      if (at == nullptr || (!best.empty() && missing >= smallest)) continue;
      smallest = missing;
      best = fmt::format(
          "{} more {} in flavor {} of {} {}", QuantityOf(cell.cell.resource, missing).ToString(),
          cell.cell.resource, cell.cell.flavor,
          at->node.kind == admission::Named::Kind::kCohort ? "Cohort" : "ClusterQueue",
          at->node.name);
    }
  }
  if (!best.empty()) return best;
  for (const admission::WakeUp& wake_up : tree.wake_ups) {
    if (wake_up.kind == admission::WakeUp::Kind::kOther) return wake_up.object;
  }
  return "";
}

void AddExplainOptions(CLI::App& command, ExplainOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  command.add_option("what", options.what, "[workload|job] NAME")->required()->expected(1, 2);
}

int Explain(const ExplainOptions& options, std::ostream& out, std::ostream& err) {
  const OutputOptions& output = options.output;
  for (int round = 0;;) {
    const auto fail = [&](const absl::Status& status) {
      err << std::string(status.message()) << '\n';
      return kFailed;
    };
    absl::StatusOr<Scene> scene = OpenScene(options.connect, absl::Now());
    if (!scene.ok()) return fail(scene.status());
    if (round == 0) {
      for (const std::string& note : scene->objects.notes) err << "note: " << note << '\n';
    }
    const absl::StatusOr<ObjectKey> key = FindWorkload(*scene, options.what);
    if (!key.ok()) return fail(key.status());
    const auto workload = scene->world->workloads().Find(*key);
    Answer answer;
    answer.tree = reconcile::ExplainWorkload(*scene->world, *key, scene->objects.taken);
    answer.reason = StructuredReason(answer.tree, *workload);
    answer.help = Waits(answer.tree) ? WhatWouldHelp(answer.tree) : "";
    answer.condition = api::FindCondition(workload->status.conditions, api::kQuotaReserved);
    answer.position = PositionOf(*scene, *workload, answer.tree.cluster_queue);
    if (output.watch && output.colours) out << "\x1b[H\x1b[2J";
    if (output.format == "json" || output.format == "yaml") {
      out << Structured(JsonOf(answer), output.format);
    } else {
      out << TextOf(answer, output.colours);
    }
    out.flush();
    if (!output.watch || ++round == output.rounds) return 0;
    absl::SleepFor(absl::Seconds(output.interval));
  }
}

}  // namespace sluice::cli
