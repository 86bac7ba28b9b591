#include "reconcile/explain.h"

#include <absl/container/btree_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "admission/explain_text.h"
#include "api/names.h"
#include "base/time.h"
#include "reconcile/workload_pass.h"

namespace sluice::reconcile {
namespace {

using admission::ExplanationTree;
using admission::WakeUp;

constexpr size_t kMostRivals = 32;

admission::ExplainInput InputOf(state::World& world) {
  return {world.snapshot(), &world.queues(), [&world](const std::string& name) {
            // The World keeps it alive as long as it does not change.
            return world.cohorts().Find({"", name}).get();
          }};
}

class Explainer {
 public:
  Explainer(state::World& world, const api::Workload& workload, absl::Time now)
      : world_(world), workload_(workload), now_(now) {}

  ExplanationTree Run() {
    const bool judge = !NotWaiting() && !Stopped();
    if (judge) {
      Backoff();
      queueing::WorkloadInfoPtr info = world_.queues().Find(workload_.metadata.Key());
      if (info == nullptr) {
        info = queueing::MakeWorkloadInfo(
            std::make_shared<const api::Workload>(workload_), world_.ClusterQueueOf(workload_),
            world_.RequestContextFor(workload_.metadata.ns), world_.order_options());
      }
      ExplanationTree judged = admission::Explain(InputOf(world_), info);
      using Verdict = admission::Explanation::Verdict;
      if (judged.verdict.verdict == Verdict::kPreemptionGated) NameClosedGates();
      LookAtRivals(world_, info, judged);
      FailedPreemption(judged.verdict);
      judged.blockers = std::move(tree_.blockers);
      judged.wake_ups.insert(judged.wake_ups.begin(), tree_.wake_ups.begin(), tree_.wake_ups.end());
      return judged;
    }
    tree_.workload = workload_.metadata.Key();
    tree_.cluster_queue = world_.ClusterQueueOf(workload_);
    if (world_.tree().HasClusterQueue(tree_.cluster_queue)) {
      tree_.path = world_.tree().PathOf(tree_.cluster_queue);
    }
    return std::move(tree_);
  }

 private:
  // True, so that callers can stop there.
  bool Block(std::string reason, std::string text, const std::string& wake_up = "") {
    tree_.blockers.push_back({std::move(reason), std::move(text)});
    if (!wake_up.empty()) tree_.wake_ups.push_back({WakeUp::Kind::kOther, wake_up});
    return true;
  }

  bool Is(const char* type) const {
    return api::IsTrue(workload_.status.conditions, type) || AssumedIs(type);
  }
  bool AssumedIs(const char* type) const {
    const ObjectKey key = workload_.metadata.Key();
    return world_.IsAssumed(key) &&
           api::IsTrue(world_.AssumedOrStored(key)->status.conditions, type);
  }

  bool NotWaiting() {
    if (Is(api::kFinished)) return Block("Finished", "it has finished");
    if (Is(api::kEvicted) && Is(api::kQuotaReserved)) {
      return Block("Evicted", "it is on its way out and holds its quota until its pods are gone",
                   "its pods are gone");
    }
    if (Is(api::kAdmitted)) return Block("Admitted", "it is admitted");
    if (Is(api::kQuotaReserved)) {
      return Block("ChecksPending",
                   "it holds quota and waits for its admission checks: " + Checks(),
                   "its admission checks change");
    }
    if (!IsActive(workload_)) {
      return Block("Deactivated", admission::kDeactivatedMessage, "spec.active is true again");
    }
    return false;
  }

  // Those that are not ready, with what their controllers say: mostly these are not ours.
  std::string Checks() const {
    std::vector<std::string> texts;
    for (const api::AdmissionCheckState& check : workload_.status.admission_checks) {
      if (check.state == "Ready") continue;
      std::string text = fmt::format("{} is {}", check.name, check.state);
      const auto object = world_.admission_checks().Find({"", check.name});
      if (object != nullptr && !object->spec.controller_name.empty()) {
        text += fmt::format(" with {}", object->spec.controller_name);
      }
      if (!check.message.empty()) text += fmt::format(" (\"{}\")", check.message);
      texts.push_back(std::move(text));
    }
    std::string text = fmt::format("{}", fmt::join(texts, ", "));
    const auto& clusters = workload_.status.nominated_cluster_names;
    if (clusters.empty()) return text;
    return text + fmt::format("; clusters that may take it: {}", fmt::join(clusters, ", "));
  }

  bool Stopped() {
    const ObjectKey queue{workload_.metadata.ns, workload_.spec.queue_name};
    const auto local_queue = world_.local_queues().Find(queue);
    if (local_queue == nullptr) {
      return Block("LocalQueueNotFound",
                   fmt::format("LocalQueue {} doesn't exist", queue.ToString()),
                   fmt::format("LocalQueue {} is created", queue.ToString()));
    }
    if (IsStopped(local_queue->spec.stop_policy)) {
      return Block("LocalQueueStopped",
                   fmt::format("LocalQueue {} is stopped: its stopPolicy is {}", queue.ToString(),
                               local_queue->spec.stop_policy),
                   "its stopPolicy is None");
    }
    const std::string& name = local_queue->spec.cluster_queue;
    const auto cluster_queue = world_.cluster_queues().Find({"", name});
    if (cluster_queue == nullptr) {
      return Block("ClusterQueueNotFound", fmt::format("ClusterQueue {} doesn't exist", name),
                   fmt::format("ClusterQueue {} is created", name));
    }
    if (IsStopped(cluster_queue->spec.stop_policy)) {
      return Block("ClusterQueueStopped",
                   fmt::format("ClusterQueue {} is stopped: its stopPolicy is {}", name,
                               cluster_queue->spec.stop_policy),
                   "its stopPolicy is None");
    }
    if (world_.tree().InCycle(name)) {
      return Block("CohortCycle",
                   fmt::format("the Cohorts above ClusterQueue {} form a circle: {}", name,
                               fmt::join(world_.tree().CycleOf(name), " under ")),
                   "one of these Cohorts has another parent");
    }
    if (const state::QueueActivity activity = world_.ActivityOf(name); !activity.active) {
      return Block("ClusterQueueInactive",
                   fmt::format("ClusterQueue {} is not active: {}: {}", name, activity.reason,
                               activity.message),
                   fmt::format("ClusterQueue {} is active", name));
    }
    return Gated();
  }

  bool Gated() {
    const std::string gates = workload_.metadata.Annotation(api::kAdmissionGatedBy);
    if (!gates.empty() && world_.settings().gates.Enabled("AdmissionGatedBy")) {
      return Block("AdmissionGated", "Admission is gated by: " + gates,
                   fmt::format("the annotation {} is gone", api::kAdmissionGatedBy));
    }
    const api::Condition* reserved =
        api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
    if (reserved != nullptr && reserved->status == api::ConditionStatus::kFalse &&
        reserved->reason == admission::kGangRefused) {
      return Block("GangRefused", reserved->message,
                   "its PodGroup, and whoever else uses that, let its pods start as a whole");
    }
    if (reserved != nullptr && reserved->reason == admission::kOnHold) {
      return Block("OnHold", "it is on hold: " + reserved->message, "it is released");
    }
    return false;
  }

  // Only the controller that tried knows, and the condition says it.
  void FailedPreemption(admission::Explanation& verdict) const {
    using Verdict = admission::Explanation::Verdict;
    const api::Condition* reserved =
        api::FindCondition(workload_.status.conditions, api::kQuotaReserved);
    if (verdict.verdict != Verdict::kPreempting || reserved == nullptr ||
        reserved->status != api::ConditionStatus::kFalse) {
      return;
    }
    const size_t why = reserved->message.find(kRefusedEviction);
    if (why == std::string::npos) return;
    verdict.problems.clear();
    for (const Verdict each : {Verdict::kPreempting, Verdict::kPreemptionFailed}) {
      admission::Explanation said = verdict;
      said.verdict = each;
      if (!reserved->message.starts_with(admission::RenderMessage(said))) continue;
      said.problems = {reserved->message.substr(why)};
      verdict = std::move(said);
      return;
    }
  }

  // Only where it would have to preempt: who fits, or has nobody to preempt, is not held back by
  // them.
  void NameClosedGates() {
    for (const std::string& gate : workload_.spec.preemption_gates) {
      const auto& states = workload_.status.preemption_gates;
      const bool open = std::any_of(states.begin(), states.end(), [&](const auto& state) {
        return state.name == gate && state.position == "Open";
      });
      if (open) continue;
      Block("PreemptionGateClosed",
            fmt::format("it would have to preempt, and its preemption gate {} is closed", gate));
    }
  }

  // Does not keep it from being judged.
  void Backoff() {
    const auto& requeue = workload_.status.requeue_state;
    if (requeue.has_value() && requeue->requeue_at.has_value() && *requeue->requeue_at > now_) {
      Block("Backoff",
            fmt::format("it waits out a backoff until {} (try {})",
                        sluice::FormatTime(*requeue->requeue_at), requeue->count.value_or(0)));
      tree_.wake_ups.push_back({WakeUp::Kind::kTime, "", *requeue->requeue_at});
      return;
    }
    const api::Condition* requeued =
        api::FindCondition(workload_.status.conditions, api::kRequeued);
    if (requeued != nullptr && requeued->status == api::ConditionStatus::kFalse) {
      Block("NotRequeued",
            fmt::format("it is not back in its queue: {}: {}", requeued->reason, requeued->message),
            "it is requeued");
    }
  }

  state::World& world_;
  const api::Workload& workload_;
  const absl::Time now_;
  ExplanationTree tree_;
};

}  // namespace

ExplanationTree ExplainWorkload(state::World& world, const ObjectKey& key, absl::Time now) {
  // Lost work, minimum runtimes and the rest after evictions depend on it, whether or not a cycle
  // has run.
  world.snapshot().history.SetNow(now);
  const auto workload = world.workloads().Find(key);
  if (workload != nullptr) return Explainer(world, *workload, now).Run();
  ExplanationTree tree;
  tree.workload = key;
  tree.blockers.push_back({"NotFound", "there is no such Workload"});
  return tree;
}

ExplanationTree ExplainAsIf(state::World& world, const api::Workload& workload, absl::Time now) {
  world.snapshot().history.SetNow(now);
  return Explainer(world, workload, now).Run();
}

namespace {

// The controller said so, whoever it was that won.
bool SaysItLost(const api::Workload& workload) {
  const api::Condition* condition =
      api::FindCondition(workload.status.conditions, api::kQuotaReserved);
  if (condition == nullptr || condition->status != api::ConditionStatus::kFalse) return false;
  using Verdict = admission::Explanation::Verdict;
  for (const Verdict verdict :
       {Verdict::kNoLongerFits, Verdict::kOverlappingTargets, Verdict::kDeferredFit}) {
    admission::Explanation explanation;
    explanation.verdict = verdict;
    if (condition->message.starts_with(admission::RenderMessage(explanation))) return true;
  }
  return false;
}

// Those of other ClusterQueues that share quota with it or, where pods get places on nodes, any.
std::vector<queueing::WorkloadInfoPtr> OtherHeads(state::World& world,
                                                  const queueing::WorkloadInfo& info) {
  const queueing::QueueManager& queues = world.queues();
  const admission::ClusterQueueSnapshot* mine =
      world.snapshot().FindClusterQueue(info.cluster_queue);
  const bool places = mine != nullptr && mine->has_topology;
  const bool lost = SaysItLost(*info.workload);
  const size_t most = lost ? kMostHeadsOfLost : kMostHeads;
  absl::btree_set<std::string> seen = {info.cluster_queue};
  std::vector<queueing::WorkloadInfoPtr> heads;
  const auto look = [&](const std::string& name) {
    if (heads.size() >= most || !seen.insert(name).second) return;
    for (queueing::WorkloadInfoPtr& head : queues.First(name, 1)) heads.push_back(std::move(head));
  };
  const std::vector<std::string> of_tree = world.tree().TreeOf(info.cluster_queue);
  const auto shares = [&](const std::string& name) {
    return std::binary_search(of_tree.begin(), of_tree.end(), name);
  };
  for (const std::string& name : queues.WaitingQueues()) {
    if (places || shares(name)) look(name);
  }
  if (!lost) return heads;
  for (const std::string& name : of_tree) look(name);
  for (const auto& [key, queue] : world.cluster_queues().all()) {
    if (places) look(key.name);
  }
  return heads;
}

}  // namespace

void LookAtRivals(state::World& world, const queueing::WorkloadInfoPtr& info,
                  ExplanationTree& tree) {
  using Verdict = admission::Explanation::Verdict;
  const bool starts = tree.judged && (tree.verdict.verdict == Verdict::kFits ||
                                      tree.verdict.verdict == Verdict::kPreempting);
  if (!starts || !tree.position.has_value() || tree.position->ahead > 0) return;
  std::vector<queueing::WorkloadInfoPtr> heads = OtherHeads(world, *info);
  if (heads.empty()) return;
  heads.push_back(info);
  for (admission::Decision& decision :
       admission::RunCycle(world.snapshot(), heads, &world.queues(), kMostRivals)) {
    const bool waits = decision.kind == admission::Decision::Kind::kWait;
    if (decision.info != info || !waits || decision.explanation.rivals.empty()) continue;
    tree.verdict = std::move(decision.explanation);
    tree.places.clear();
    for (const admission::Explanation::Rival& rival : tree.verdict.rivals) {
      if (tree.wake_ups.size() >= admission::kMostNamed) break;
      tree.wake_ups.push_back({WakeUp::Kind::kHeadLeaves, rival.workload});
    }
  }
}

std::string QuotaDetail(state::World& world, const ObjectKey& key, const std::string& message) {
  const queueing::WorkloadInfoPtr info = world.queues().Find(key);
  if (info == nullptr) return "";
  const ExplanationTree tree = admission::Explain(InputOf(world), info, admission::Depth::kQuota);
  const std::string sentence = admission::RenderSentence(tree);
  const bool same = message.starts_with(admission::RenderMessage(tree.verdict));
  // A text of preemptions still to come has other words behind; its quota is refused all the same.
  return sentence.empty() || !same ? "" : sentence;
}

}  // namespace sluice::reconcile
