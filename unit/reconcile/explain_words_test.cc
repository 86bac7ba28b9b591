// Every word that explain may give for a Workload that waits: it is given, it has a sentence, and
// it says what would help. The words are those of the README's table.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "reconcile/explain.h"
#include "reconcile/explain_reason.h"
#include "topology/failure.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/reconcile/synced_world.h"

namespace sluice::reconcile {
namespace {

using admission::ExplanationTree;
using api::Kind;
using build::At;
using Verdict = admission::Explanation::Verdict;

class Fixture : public SyncedWorld {
 public:
  Fixture() {
    Add(Kind::kResourceFlavor, api::Encode<api::ResourceFlavor>(build::Flavor("f")));
    api::ClusterQueue open = build::ClusterQueue("open").Flavor("f", {{"cpu", "4"}});
    open.spec.preemption.emplace();
    open.spec.preemption->within_cluster_queue = "LowerPriority";
    Queue(open);
    open.metadata.name = "busy";
    Queue(open);
    Queue(build::ClusterQueue("held").StopPolicy("Hold").Flavor("f", {{"cpu", "4"}}));
    Queue(build::ClusterQueue("strict").StrictFifo().Flavor("f", {{"cpu", "4"}}));
  }
};

build::Workload Waiting(const std::string& name, const std::string& queue) {
  build::Workload workload(name);
  workload.Queue(queue).Request("cpu", "3").Uid(name).Created(At(1));
  return workload;
}

ExplanationTree Judged(Verdict verdict) {
  ExplanationTree tree;
  tree.judged = true;
  tree.verdict.verdict = verdict;
  return tree;
}

// Pods for which no place was found: room for `total` of six on four nodes.
ExplanationTree Placeless(int64_t total, topology::Exclusions excluded) {
  topology::Failure failure;
  failure.kind = topology::Failure::Kind::kNoRoom;
  failure.total = total;
  failure.needed = 6;
  failure.leaves = 4;
  failure.excluded = std::move(excluded);
  failure.closest = topology::ClosestDomain{};
  failure.closest->level = "rack";
  failure.closest->values = {"r1"};
  failure.closest->fit = 3;
  flavor::Finding finding;
  finding.kind = flavor::Finding::Kind::kNoPlace;
  finding.flavor = "f";
  finding.text = "no place";
  finding.place = std::make_shared<const topology::Failure>(failure);
  ExplanationTree tree = Judged(Verdict::kNoFit);
  tree.verdict.cause = flavor::Cause::kTopologyPlacementFailed;
  tree.verdict.pod_sets.emplace_back().findings.push_back(std::move(finding));
  return tree;
}

struct Word {
  const char* word;
  ExplanationTree tree;
  api::Workload workload;
};

// Those that follow from objects.
std::vector<Word> WordsOfObjects(Fixture& fixture) {
  fixture.Add(Waiting("runs", "to-open").Admitted("open", "f", At(0)));
  fixture.Add(Waiting("short", "to-open"));
  fixture.Add(Waiting("stopped", "to-held"));
  fixture.Add(Waiting("inactive", "to-open").Active(false));
  fixture.Add(Waiting("checked", "to-strict").Reserved("strict", "f").Check("check", "Pending"));
  std::vector<Word> words;
  for (const auto& [word, name] :
       std::vector<std::pair<const char*, const char*>>{{"QuotaExceeded", "short"},
                                                        {"QueueStopped", "stopped"},
                                                        {"Deactivated", "inactive"},
                                                        {"CheckPending", "checked"}}) {
    const ObjectKey key{"ns", name};
    words.push_back(
        {word, ExplainWorkload(fixture.world, key, At(60)), *fixture.world.workloads().Find(key)});
  }
  // Its victim writes a checkpoint first.
  fixture.Add(Waiting("victim", "to-busy")
                  .Admitted("busy", "f", At(0))
                  .Condition("CheckpointRequested", api::ConditionStatus::kTrue, "InClusterQueue",
                             At(50), "asked"));
  fixture.Add(Waiting("urgent", "to-busy").Priority(9));
  const ObjectKey urgent{"ns", "urgent"};
  words.push_back({"WaitingForCheckpoint", ExplainWorkload(fixture.world, urgent, At(60)),
                   *fixture.world.workloads().Find(urgent)});
  return words;
}

// Those that follow from what was found, or from conditions.
std::vector<Word> OtherWords() {
  const api::Workload plain = build::Workload("w");
  const auto with = [](const char* type, api::ConditionStatus status) -> api::Workload {
    return build::Workload("w").Condition(type, status, "Any", At(0), "so it is");
  };
  std::vector<Word> words = {
      {"TopologyFragmented", Placeless(8, {}), plain},
      {"InsufficientCapacity", Placeless(4, {{"resource \"cpu\"", 2}}), plain},
      {"NodesExcluded", Placeless(4, {{"taint \"a=b:NoSchedule\"", 2}}), plain}};
  ExplanationTree guarded = Judged(Verdict::kProtected);
  guarded.verdict.protected_until = At(90);
  words.push_back({"CreditsBehind", guarded, plain});
  ExplanationTree behind = Judged(Verdict::kFits);
  behind.wake_ups.push_back({admission::WakeUp::Kind::kOther, "what holds its room ends"});
  for (const char* type : {"Reserved", "BudgetExceeded"}) {
    words.push_back({type, behind, with(type, api::ConditionStatus::kTrue)});
  }
  ExplanationTree runs;
  runs.blockers.push_back({"Admitted", "it is admitted"});
  words.push_back({"GangIncomplete", runs, with("GangIntact", api::ConditionStatus::kFalse)});
  return words;
}

std::string SentenceOf(const Why& why, const ExplanationTree& tree) {
  if (!why.sentence.empty()) return why.sentence;
  if (!tree.blockers.empty()) return tree.blockers.front().text;
  return admission::RenderMessage(tree.verdict);
}

TEST_CASE("each word of explain is given, has a sentence, and says what would help") {
  Fixture fixture;
  std::vector<Word> words = WordsOfObjects(fixture);
  for (Word& word : OtherWords()) words.push_back(std::move(word));
  std::set<std::string> seen;
  for (const Word& word : words) {
    const Why why = WhyOf(fixture.world, word.tree, word.workload);
    CAPTURE(word.word, why.reason);
    CHECK(why.reason == word.word);
    CHECK_FALSE(SentenceOf(why, word.tree).empty());
    CHECK_FALSE(why.help.empty());
    api::Json json = api::Json::MakeObject();
    AddWhy(why, json);
    CHECK(json.GetString("structuredReason") == word.word);
    CHECK(json.GetString("whatWouldHelp") == why.help);
    seen.insert(why.reason);
  }
  CHECK(seen == std::set<std::string>{"QuotaExceeded", "TopologyFragmented", "InsufficientCapacity",
                                      "NodesExcluded", "GangIncomplete", "CreditsBehind",
                                      "BudgetExceeded", "Reserved", "WaitingForCheckpoint",
                                      "CheckPending", "QueueStopped", "Deactivated"});
}

TEST_CASE("no verdict is without a word") {
  Fixture fixture;
  const api::Workload plain = build::Workload("w");
  for (int value = 0; value <= static_cast<int>(Verdict::kInvalidResources); ++value) {
    CAPTURE(value);
    CHECK_FALSE(WhyOf(fixture.world, Judged(static_cast<Verdict>(value)), plain).reason.empty());
  }
}

}  // namespace
}  // namespace sluice::reconcile
