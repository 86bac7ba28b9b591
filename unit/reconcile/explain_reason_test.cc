#include "reconcile/explain_reason.h"

#include <memory>
#include <string>

#include "api/names.h"
#include "state/world.h"
#include "topology/failure.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

using admission::ExplanationTree;
using Verdict = admission::Explanation::Verdict;
using FindingKind = flavor::Finding::Kind;

const state::Settings kSettings;

ExplanationTree Judged(Verdict verdict, flavor::Cause cause = flavor::Cause::kNone) {
  ExplanationTree tree;
  tree.judged = true;
  tree.verdict.verdict = verdict;
  tree.verdict.cause = cause;
  return tree;
}

std::string ReasonOf(const ExplanationTree& tree,
                     const api::Workload& workload = build::Workload("w").Get()) {
  state::World world(kSettings);
  return WhyOf(world, tree, workload).reason;
}

topology::Failure NoRoom(int64_t total, int64_t needed, int64_t leaves,
                         topology::Exclusions excluded) {
  topology::Failure failure;
  failure.kind = topology::Failure::Kind::kNoRoom;
  failure.total = total;
  failure.needed = needed;
  failure.leaves = leaves;
  failure.excluded = std::move(excluded);
  topology::ClosestDomain closest;
  closest.level = "rack";
  closest.values = {"b1", "r1"};
  closest.fit = 3;
  failure.closest = closest;
  return failure;
}

ExplanationTree Placeless(const topology::Failure& failure) {
  ExplanationTree tree = Judged(Verdict::kNoFit, flavor::Cause::kTopologyPlacementFailed);
  flavor::PodSetAssignment pod_set;
  flavor::Finding finding;
  finding.kind = FindingKind::kNoPlace;
  finding.place = std::make_shared<const topology::Failure>(failure);
  pod_set.findings.push_back(std::move(finding));
  tree.verdict.pod_sets.push_back(std::move(pod_set));
  return tree;
}

TEST_CASE("pods without a place are told apart by what the nodes could take") {
  state::World world(kSettings);
  const auto why = [&](const topology::Failure& failure) {
    return WhyOf(world, Placeless(failure), build::Workload("w").Get());
  };
  // There is room for 8, but not in one domain.
  const Why fragmented = why(NoRoom(8, 6, 4, {}));
  CHECK(fragmented.reason == "TopologyFragmented");
  CHECK(fragmented.help == "room for 3 pods more in rack b1/r1, where 3 would fit now");
  // All nodes together are too small.
  const Why small = why(NoRoom(4, 6, 4, {{"resource \"cpu\"", 2}}));
  CHECK(small.reason == "InsufficientCapacity");
  CHECK(small.help == "nodes for 2 pods more");
  // Two take two pods each; the two that may not be used would have been enough.
  const Why excluded = why(NoRoom(4, 6, 4, {{"taint \"a=b:NoSchedule\"", 2}}));
  CHECK(excluded.reason == "NodesExcluded");
  CHECK(excluded.help == "nodes back: 2 of 4 may not be used (taint 2)");
  // A single one that may not be used would not have been.
  CHECK(why(NoRoom(4, 16, 5, {{"nodeSelector", 1}})).reason == "InsufficientCapacity");
  CHECK(why(NoRoom(0, 2, 2, {{"nodeLifecycle", 2}})).reason == "NodesExcluded");
  topology::Failure none;
  none.kind = topology::Failure::Kind::kNoDomains;
  CHECK(why(none).reason == "InsufficientCapacity");
}

TEST_CASE("what a cycle says, as one word") {
  CHECK(ReasonOf(Judged(Verdict::kNoFit, flavor::Cause::kWaitingForQuota)) == "QuotaExceeded");
  CHECK(ReasonOf(Judged(Verdict::kNoCandidates)) == "QuotaExceeded");
  CHECK(ReasonOf(Judged(Verdict::kProtected)) == "CreditsBehind");
  CHECK(ReasonOf(Judged(Verdict::kQueueInactive)) == "QueueStopped");
  CHECK(ReasonOf(Judged(Verdict::kFits)) == "WouldFit");
  CHECK(ReasonOf(Judged(Verdict::kOthersNotReady)) == "OthersNotReady");
  ExplanationTree behind = Judged(Verdict::kFits);
  behind.position = admission::QueuePosition{true, 2, "ns/a"};
  CHECK(ReasonOf(behind) == "BehindOthers");
  ExplanationTree flavors = Judged(Verdict::kNoFit, flavor::Cause::kNoMatchingFlavor);
  CHECK(ReasonOf(flavors) == "NoMatchingFlavor");
  flavor::PodSetAssignment pod_set;
  flavor::Finding taint;
  taint.kind = FindingKind::kUntoleratedTaint;
  pod_set.findings.push_back(taint);
  flavors.verdict.pod_sets.push_back(pod_set);
  CHECK(ReasonOf(flavors) == "NodesExcluded");
}

TEST_CASE("a decision alone gives the word, but for nodes that are kept out") {
  const auto word = [](const ExplanationTree& tree) { return ReasonOfDecision(tree.verdict); };
  CHECK(word(Placeless(NoRoom(8, 6, 4, {}))) == "TopologyFragmented");
  CHECK(word(Placeless(NoRoom(4, 6, 4, {}))) == "InsufficientCapacity");
  CHECK(word(Placeless(NoRoom(4, 6, 4, {{"taint \"a=b:NoSchedule\"", 2}}))) ==
        "InsufficientCapacity");
  CHECK(word(Judged(Verdict::kNoFit, flavor::Cause::kWaitingForQuota)) == "QuotaExceeded");
  CHECK(word(Judged(Verdict::kProtected)) == "CreditsBehind");
  CHECK(word(Judged(Verdict::kPreempting)) == "QuotaExceeded");
  CHECK(word(Judged(Verdict::kOthersNotReady)) == "OthersNotReady");
  CHECK(word(Judged(Verdict::kFits)).empty());
}

TEST_CASE("conditions alone give the word as far as they tell") {
  const auto word = [](const std::string& reason) {
    return ReasonOfConditions(build::Workload("w").Condition(
        api::kQuotaReserved, api::ConditionStatus::kFalse, reason, build::At(0)));
  };
  CHECK(word("WaitingForQuota") == "QuotaExceeded");
  CHECK(word("ExceedsMaxQuota") == "QuotaExceeded");
  CHECK(word("WaitingForPodsReady") == "OthersNotReady");
  CHECK(word("Suspended") == "QueueStopped");
  CHECK(word("GangRefused") == "GangIncomplete");
  CHECK(word("CreditsBehind") == "CreditsBehind");
  CHECK(word("Reserved") == "Reserved");
  CHECK(word("AdmissionGated") == "AdmissionGated");
  CHECK(word("Pending").empty());
  CHECK(ReasonOfConditions(build::Workload("w")) == "PendingEvaluation");
  CHECK(ReasonOfConditions(build::Workload("w").Condition(
            "BudgetExceeded", api::ConditionStatus::kTrue, "Hard", build::At(0))) ==
        "BudgetExceeded");
  CHECK(IsOfDecision(word("WaitingForQuota")));
  CHECK_FALSE(IsOfDecision(word("Suspended")));
}

TEST_CASE("every reason names what would help") {
  state::World world(kSettings);
  const api::Workload plain = build::Workload("w");
  const auto help = [&](const ExplanationTree& tree) { return WhyOf(world, tree, plain).help; };
  const auto found = [](const flavor::Finding& finding) {
    ExplanationTree tree = Judged(Verdict::kNoFit, flavor::Cause::kNoMatchingFlavor);
    flavor::PodSetAssignment pod_set;
    pod_set.findings.push_back(finding);
    tree.verdict.pod_sets.push_back(pod_set);
    return tree;
  };
  flavor::Finding taint;
  taint.kind = FindingKind::kUntoleratedTaint;
  taint.flavor = "spot";
  taint.taint = api::Taint{"gpu", "yes", "NoSchedule", {}};
  CHECK(help(found(taint)) == "a toleration of taint gpu=yes:NoSchedule of flavor spot");
  flavor::Finding affinity;
  affinity.kind = FindingKind::kAffinityMismatch;
  affinity.flavor = "spot";
  CHECK(help(found(affinity)) == "a node selector and affinity that flavor spot matches");
  flavor::Finding uncovered;
  uncovered.resource = "memory";
  CHECK(help(found(uncovered)) == "quota for memory in the ClusterQueue");

  ExplanationTree behind = Judged(Verdict::kFits);
  behind.position = admission::QueuePosition{true, 2, "ns/a"};
  CHECK(help(behind) == "ns/a has left the queue");
  ExplanationTree guarded = Judged(Verdict::kProtected);
  guarded.verdict.protected_until = build::At(60);
  CHECK(help(guarded) == "the protection by credits ends at 2026-01-01T00:01:00Z");
  ExplanationTree reserved = Judged(Verdict::kReserved);
  reserved.verdict.held_by = "ns/head";
  CHECK(help(reserved) == "ns/head has started");
  ExplanationTree lost = Judged(Verdict::kNoLongerFits);
  lost.verdict.rivals = {{"ns/winner", "cq"}};
  CHECK(help(lost) == "ns/winner ends");
  lost.verdict.rivals.front().waits = true;
  CHECK(help(lost) == "ns/winner has started, or waits no longer");
  ExplanationTree checks = Judged(Verdict::kChecksFailed);
  checks.wake_ups.push_back({admission::WakeUp::Kind::kCheckChanges, ""});
  CHECK(help(checks) == "its admission checks change");
  const api::Workload broken = build::Workload("w").Condition(
      "GangIntact", api::ConditionStatus::kFalse, "PodsLost", build::Epoch(), "2 of 3 pods");
  ExplanationTree admitted;
  admitted.blockers.push_back({"Admitted", "it is admitted"});
  CHECK(WhyOf(world, admitted, broken).help == "its missing pods run again");
}

TEST_CASE("what lacks quota names the smallest amount, and who holds as much") {
  state::World world(kSettings);
  const auto cell = [](const char* resource, int64_t missing) {
    admission::CellTrial trial;
    trial.cell = {"f", ResourceName(resource)};
    admission::QuotaRefusal refusal;
    refusal.node = {admission::Named::Kind::kCohort, "org"};
    refusal.missing = missing;
    trial.refusals.push_back(refusal);
    return trial;
  };
  ExplanationTree tree = Judged(Verdict::kNoFit, flavor::Cause::kWaitingForQuota);
  admission::PodSetTrial pod_set;
  pod_set.flavors.emplace_back().cells = {cell("cpu", 4000), cell("pods", 2)};
  tree.pod_sets = {pod_set};
  const auto help = [&] { return WhyOf(world, tree, build::Workload("w").Get()).help; };
  CHECK(help() == "4 more cpu in flavor f of Cohort org and 2 more pods in flavor f of Cohort org");
  tree.pod_sets[0].flavors.emplace_back().cells = {cell("cpu", 9000)};
  CHECK(help() == "9 more cpu in flavor f of Cohort org");
  auto& refusal = tree.pod_sets[0].flavors[1].cells[0].refusals[0];
  refusal.holders = {{{admission::Named::Kind::kClusterQueue, "a"}, 20'000, 20'000, 2},
                     {{admission::Named::Kind::kClusterQueue, "b"}, 9000, 9000, 1},
                     {{admission::Named::Kind::kClusterQueue, "c"}, 1000, 1000, 1}};
  CHECK(help() == "9 more cpu in flavor f of Cohort org, or so much back from ClusterQueue b");
  refusal.holders = {{{admission::Named::Kind::kWorkload, "ns/x"}, 9000, 9000, 0}};
  CHECK(help() == "9 more cpu in flavor f of Cohort org, or the end of Workload ns/x");
}

TEST_CASE("what keeps it from being judged, as one word") {
  const auto blocked = [](const char* reason) {
    ExplanationTree tree;
    tree.blockers.push_back({reason, "text"});
    return tree;
  };
  CHECK(ReasonOf(blocked("ChecksPending")) == "CheckPending");
  CHECK(ReasonOf(blocked("LocalQueueStopped")) == "QueueStopped");
  CHECK(ReasonOf(blocked("Deactivated")) == "Deactivated");
  CHECK(ReasonOf(blocked("AdmissionGated")) == "AdmissionGated");
  CHECK(Waits(blocked("Deactivated")));
  CHECK_FALSE(Waits(blocked("Admitted")));
  // A gang that runs without all of its pods.
  const api::Workload broken = build::Workload("w").Condition(
      "GangIntact", api::ConditionStatus::kFalse, "PodsLost", build::Epoch(), "2 of 3 pods");
  CHECK(ReasonOf(blocked("Admitted"), broken) == "GangIncomplete");
  CHECK(ReasonOf(blocked("Admitted")) == "Admitted");
}

TEST_CASE("conditions that know more than a cycle give the word and the sentence") {
  state::World world(kSettings);
  for (const char* type : {"Reserved", "CreditsBehind", "BudgetExceeded", "WaitingForCheckpoint"}) {
    const api::Workload workload = build::Workload("w").Condition(
        type, api::ConditionStatus::kTrue, "Any", build::Epoch(), "starts at noon");
    const Why why = WhyOf(world, Judged(Verdict::kNoCandidates), workload);
    CHECK(why.reason == type);
    CHECK(why.sentence == "starts at noon");
    const api::Workload over = build::Workload("w").Condition(
        type, api::ConditionStatus::kFalse, "Any", build::Epoch(), "starts at noon");
    CHECK(WhyOf(world, Judged(Verdict::kNoCandidates), over).reason == "QuotaExceeded");
  }
}

}  // namespace
}  // namespace sluice::reconcile
