#include "admission/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/names.h"
#include "quota/overlay.h"

namespace sluice::admission {
namespace {

using queueing::RequeueReason;
using queueing::WorkloadInfo;
using queueing::WorkloadInfoPtr;
using Verdict = Explanation::Verdict;

// A head after nomination.
struct Entry {
  Decision decision;
  flavor::Assignment assignment;
};

void Wait(Decision& decision, Verdict verdict, RequeueReason requeue) {
  decision.kind = Decision::Kind::kWait;
  decision.explanation.verdict = verdict;
  decision.reason = ReasonOf(decision.explanation);
  decision.message = RenderMessage(decision.explanation);
  decision.requeue.reason = requeue;
  decision.requeue.condition_reason = decision.reason;
}

bool HasFailedCheck(const api::Workload& workload) {
  const auto& checks = workload.status.admission_checks;
  return std::any_of(checks.begin(), checks.end(), [](const api::AdmissionCheckState& check) {
    return check.state == "Retry" || check.state == "Rejected";
  });
}

// What keeps the head from being assigned at all; false when nothing does.
bool Inadmissible(const Snapshot& snapshot, const WorkloadInfo& info, Decision& decision) {
  const auto refuse = [&](Verdict verdict, RequeueReason requeue = RequeueReason::kGeneric) {
    Wait(decision, verdict, requeue);
    return true;
  };
  if (HasFailedCheck(*info.workload)) return refuse(Verdict::kChecksFailed);
  const ClusterQueueSnapshot* queue = snapshot.FindClusterQueue(info.cluster_queue);
  if (queue == nullptr) return refuse(Verdict::kQueueNotFound);
  if (!queue->active || snapshot.tree.InCycle(info.cluster_queue)) {
    return refuse(Verdict::kQueueInactive);
  }
  const std::string& ns = info.workload->metadata.ns;
  const api::Namespace* found = snapshot.FindNamespace(ns);
  if (found == nullptr) {
    decision.explanation.problems = {fmt::format("namespace {} not found", ns)};
    return refuse(Verdict::kNamespaceGone);
  }
  if (!NamespaceMatches(*queue->cluster_queue, *found)) {
    return refuse(Verdict::kNamespaceMismatch, RequeueReason::kNamespaceMismatch);
  }
  if (!info.problems.empty()) {
    decision.explanation.problems = info.problems;
    return refuse(Verdict::kInvalidResources);
  }
  return false;
}

flavor::Assignment AssignFlavors(const Snapshot& snapshot, const WorkloadInfo& info) {
  flavor::AssignContext context;
  context.cluster_queue = snapshot.FindClusterQueue(info.cluster_queue)->cluster_queue.get();
  context.flavor = [&snapshot](const FlavorName& name) { return snapshot.FindFlavor(name); };
  context.tree = &snapshot.tree;
  context.options.ignore_undeclared = snapshot.options.ignore_undeclared;
  context.options.fungibility = snapshot.options.flavor_fungibility;
  std::vector<flavor::PodSetInput> inputs;
  for (size_t i = 0; i < info.requests.size(); ++i) {
    flavor::PodSetInput input;
    input.pod_set = &info.workload->spec.pod_sets[i];
    input.count = info.requests[i].count;
    input.requests = &info.requests[i].total;
    inputs.push_back(input);
  }
  return flavor::Assign(context, inputs);
}

Entry Nominate(const Snapshot& snapshot, const WorkloadInfoPtr& info) {
  Entry entry;
  Decision& decision = entry.decision;
  decision.info = info;
  decision.explanation.cluster_queue = info->cluster_queue;
  if (api::IsTrue(info->workload->status.conditions, api::kQuotaReserved)) {
    decision.kind = Decision::Kind::kDrop;
    return entry;
  }
  if (Inadmissible(snapshot, *info, decision)) return entry;
  entry.assignment = AssignFlavors(snapshot, *info);
  decision.explanation.cause = entry.assignment.cause;
  decision.explanation.pod_sets = entry.assignment.pod_sets;
  decision.borrow_level = entry.assignment.borrow_level;
  decision.requeue.untried_flavors = entry.assignment.HasUntriedFlavors();
  switch (entry.assignment.mode) {
    case flavor::Mode::kNoFit:
      Wait(decision, Verdict::kNoFit, RequeueReason::kNoFit);
      break;
    case flavor::Mode::kPreempt:
    case flavor::Mode::kDeferredFit:
      Wait(decision, Verdict::kNoCandidates, RequeueReason::kPreemptionNoCandidates);
      break;
    case flavor::Mode::kFit:
      decision.kind = Decision::Kind::kAdmit;
      break;
  }
  return entry;
}

// Takes the quota for an entry that fits, if it still does after the ones before it.
void Process(const Snapshot& snapshot, quota::Overlay& overlay, Entry& entry) {
  Decision& decision = entry.decision;
  if (decision.kind != Decision::Kind::kAdmit) return;
  const std::string& queue = decision.info->cluster_queue;
  if (!snapshot.tree.Fits(queue, entry.assignment.usage)) {
    Wait(decision, Verdict::kNoLongerFits, RequeueReason::kFailedAfterNomination);
    return;
  }
  overlay.Add(*snapshot.tree.FindQueue(queue), snapshot.tree.IdsOf(entry.assignment.usage));
  decision.explanation.verdict = Verdict::kFits;
  decision.admission = flavor::MakeAdmission(queue, entry.assignment);
  decision.usage = std::move(entry.assignment.usage);
}

std::vector<Decision> RunOn(const Snapshot& snapshot, quota::Overlay& overlay,
                            const std::vector<WorkloadInfoPtr>& heads) {
  std::vector<Entry> entries;
  entries.reserve(heads.size());
  for (const WorkloadInfoPtr& head : heads) entries.push_back(Nominate(snapshot, head));
  const bool by_priority = snapshot.options.priority_sorting_within_cohort;
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.decision.borrow_level != b.decision.borrow_level) {
      return a.decision.borrow_level < b.decision.borrow_level;
    }
    const WorkloadInfo& left = *a.decision.info;
    const WorkloadInfo& right = *b.decision.info;
    if (by_priority && left.priority != right.priority) return left.priority > right.priority;
    const api::ObjectMeta& m = left.workload->metadata;
    const api::ObjectMeta& n = right.workload->metadata;
    return std::tie(left.queue_order_time, m.uid, m.ns, m.name) <
           std::tie(right.queue_order_time, n.uid, n.ns, n.name);
  });
  std::vector<Decision> decisions;
  decisions.reserve(entries.size());
  for (Entry& entry : entries) {
    Process(snapshot, overlay, entry);
    decisions.push_back(std::move(entry.decision));
  }
  return decisions;
}

}  // namespace

std::vector<Decision> RunCycle(Snapshot& snapshot, const std::vector<WorkloadInfoPtr>& heads,
                               absl::Time now) {
  (void)now;  // nothing in a cycle depends on time yet
  quota::Overlay overlay;
  return RunOn(snapshot, overlay, heads);
}

std::vector<Decision> Schedule(Snapshot& snapshot, queueing::QueueManager& queues, absl::Time now,
                               size_t max_admissions) {
  quota::Overlay overlay;
  std::vector<Decision> all;
  absl::btree_map<ObjectKey, size_t> last;  // position of the workload's newest decision
  size_t admissions = 0;
  while (admissions < max_admissions) {
    const std::vector<WorkloadInfoPtr> heads = queues.Heads(now);
    if (heads.empty()) break;
    for (Decision& decision : RunOn(snapshot, overlay, heads)) {
      const ObjectKey key = decision.info->Key();
      if (decision.kind == Decision::Kind::kWait) {
        queues.Requeue(key, decision.requeue, now);
      } else {
        queues.Remove(key);
        if (decision.kind == Decision::Kind::kAdmit) ++admissions;
      }
      last[key] = all.size();
      all.push_back(std::move(decision));
    }
  }
  std::vector<Decision> newest;
  newest.reserve(last.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (last.at(all[i].info->Key()) == i) newest.push_back(std::move(all[i]));
  }
  return newest;
}

absl::Time QueuedSince(const api::Workload& workload) {
  const api::Condition* requeued = api::FindCondition(workload.status.conditions, api::kRequeued);
  if (requeued != nullptr && requeued->last_transition_time.has_value()) {
    return *requeued->last_transition_time;
  }
  return workload.metadata.creation_timestamp.value_or(absl::UnixEpoch());
}

std::string QuotaReservedEventText(const Decision& decision, absl::Time now) {
  const absl::Duration waited =
      std::max(absl::ZeroDuration(), now - QueuedSince(*decision.info->workload));
  std::string text =
      fmt::format("Quota reserved in ClusterQueue {}, wait time since queued was {:.0f}s",
                  decision.info->cluster_queue, absl::ToDoubleSeconds(waited));
  const std::string considered = RenderConsidered(decision.explanation);
  if (!considered.empty()) text += "; Flavors considered: " + considered;
  return text;
}

}  // namespace sluice::admission
