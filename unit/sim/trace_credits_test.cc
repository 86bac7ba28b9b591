// Traces with what decisions know of ours: credit policies, checkpoints and run times.
#include <fmt/format.h>

#include <functional>

#include "sim/report.h"
#include "sim/trace_stats.h"
#include "sim/trace_text.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

// ClusterQueues "a" and "b" of 4 CPUs each, and 4 more of their cohort, each with a LocalQueue "q"
// in the namespace of the same name.
std::string ClusterText(const std::string& preemption = "", const std::string& annotations = "",
                        int pool = 4) {
  std::string text = fmt::format(R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {{name: all}}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {}}}]}}]
)",
                                 pool);
  for (const char* name : {"a", "b"}) {
    text += fmt::format(R"(---
apiVersion: v1
kind: Namespace
metadata: {{name: {0}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {0}, annotations: {{{2}}}}}
spec:
  cohortName: all
  namespaceSelector: {{}}
  preemption: {{{1}}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 4}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: q, namespace: {0}}}
spec: {{clusterQueue: {0}}}
)",
                        name, preemption, annotations);
  }
  return text;
}

std::string PolicyText(const std::string& more = "") {
  return "---\napiVersion: sluice.dev/v1alpha1\nkind: CreditPolicy\nmetadata: {name: p}\nspec: "
         "{selector: {cohort: all}, resources: [{name: cpu, weight: 1}], halfLife: 0s" +
         more + "}\n";
}

std::string AccountText(const std::string& name, const std::string& balance) {
  return fmt::format(
      "---\napiVersion: sluice.dev/v1alpha1\nkind: CreditAccount\nmetadata: {{name: {}}}\nstatus: "
      "{{balance: \"{}\"}}\n",
      name, balance);
}

struct Outcome {
  std::string timeline;
  TraceResult result;
};

using Reader = std::function<absl::Status(TraceBuilder&)>;

Outcome PlayTrace(const std::string& cluster_text, const TraceOptions& options,
                  const Reader& read) {
  auto cluster = TraceCluster::Load({{"c.yaml", cluster_text}}, state::Settings{});
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  TraceBuilder builder(**cluster);
  const absl::Status status = read(builder);
  INFO(status.ToString());
  REQUIRE(status.ok());
  const absl::StatusOr<Trace> trace = builder.Finish();
  REQUIRE(trace.ok());
  Outcome outcome;
  TraceEngine engine(**cluster, *trace, options);
  TraceStats stats(**cluster, *trace, engine);
  TimelineWriter writer(**cluster, *trace, TimelineWriter::Format::kText,
                        [&](const std::string& line) { outcome.timeline += line; });
  engine.AddListener(&stats);
  engine.AddListener(&writer);
  const absl::Status played = engine.Run();
  INFO(played.ToString());
  REQUIRE(played.ok());
  outcome.result = stats.Result();
  return outcome;
}

Outcome Play(const std::string& cluster, const std::string& csv, const TraceOptions& options = {}) {
  return PlayTrace(cluster, options, [&](TraceBuilder& builder) {
    return ReadCsvTrace({"t.csv", csv}, builder);
  });
}

bool Has(const Outcome& outcome, const std::string& text) {
  return outcome.timeline.find(text) != std::string::npos;
}

// B uses all that it has and the pool, A nothing for an hour; then both want more than they have.
constexpr char kSaverAndSpender[] =
    "name,submit,run,queue,cpu\n"
    "b-own,0,20000,b/q,4\n"
    "b-block,0,3700,b/q,4\n"
    "a-own,3600,20000,a/q,4\n"
    "b-more,3650,100,b/q,4\n"
    "a-more,3651,1000,a/q,4\n";

TEST_CASE("a trace with a credit policy: who saved comes first") {
  const Outcome without = Play(ClusterText(), kSaverAndSpender);
  INFO(without.timeline);
  CHECK(Has(without, "3700 admit   b/b-more"));
  CHECK(Has(without, "3800 admit   a/a-more"));
  const Outcome with = Play(ClusterText() + PolicyText(), kSaverAndSpender);
  INFO(with.timeline);
  CHECK(Has(with, "3700 admit   a/a-more"));
  CHECK(Has(with, "4700 admit   b/b-more"));
  // The same bytes each time.
  CHECK(Play(ClusterText() + PolicyText(), kSaverAndSpender).timeline == with.timeline);
}

TEST_CASE("a trace begins with the balances that accounts have") {
  constexpr char kNoTimeToSave[] =
      "name,submit,run,queue,cpu\n"
      "b-own,0,20000,b/q,4\n"
      "a-own,0,20000,a/q,4\n"
      "b-block,0,100,b/q,4\n"
      "b-more,50,100,b/q,4\n"
      "a-more,51,100,a/q,4\n";
  const std::string cluster = ClusterText() + PolicyText();
  CHECK(Has(Play(cluster, kNoTimeToSave), "100 admit   b/b-more"));
  CHECK(Has(Play(cluster + AccountText("cq-a", "12.5"), kNoTimeToSave), "100 admit   a/a-more"));
  const auto bad =
      TraceCluster::Load({{"c.yaml", cluster + AccountText("cq-a", "much")}}, state::Settings{});
  REQUIRE_FALSE(bad.ok());
  CHECK(std::string(bad.status().message()).find("c.yaml:") == 0);
  CHECK(std::string(bad.status().message()).find("status.balance: \"much\"") != std::string::npos);
}

TEST_CASE("a trace with protection: a lender waits as long as the policy says, no longer") {
  const std::string cluster =
      ClusterText("reclaimWithinCohort: Any", "", 0) + AccountText("cq-a", "100");
  constexpr char kTrace[] =
      "name,submit,run,queue,cpu,priority\n"
      "own,0,9000,a/q,4,9\n"
      "borrowed,0,9000,a/q,4,1\n"
      "claim,10,50,b/q,4,5\n";
  const Outcome order = Play(cluster + PolicyText(), kTrace);
  CHECK(Has(order, "10 preempt a/borrowed: for b/claim (InCohortReclamation)"));
  const Outcome protects =
      Play(cluster + PolicyText(", effect: Protect, maxLenderDelay: 15m"), kTrace);
  INFO(protects.timeline);
  CHECK(Has(protects, "910 preempt a/borrowed: for b/claim (InCohortReclamation)"));
}

TEST_CASE("of two policies the older one governs a trace, wherever it stands") {
  const auto policy = [](const char* name, const char* created, const char* more) {
    return fmt::format(
        "---\napiVersion: sluice.dev/v1alpha1\nkind: CreditPolicy\nmetadata: {{name: {}{}}}\nspec: "
        "{{selector: {{cohort: all}}, resources: [{{name: cpu, weight: 1}}], halfLife: 0s{}}}\n",
        name, created, more);
  };
  const std::string cluster =
      ClusterText("reclaimWithinCohort: Any", "", 0) + AccountText("cq-a", "100");
  constexpr char kTrace[] =
      "name,submit,run,queue,cpu,priority\n"
      "own,0,9000,a/q,4,9\n"
      "borrowed,0,9000,a/q,4,1\n"
      "claim,10,50,b/q,4,5\n";
  constexpr char kOld[] = ", creationTimestamp: \"2025-11-01T00:00:00Z\"";
  constexpr char kYoung[] = ", creationTimestamp: \"2025-11-02T00:00:00Z\"";
  constexpr char kProtects[] = ", effect: Protect, maxLenderDelay: 15m";
  // By name the other one would come first.
  for (const char* young : {kYoung, ""}) {
    const Outcome protects =
        Play(cluster + policy("m", young, "") + policy("p", kOld, kProtects), kTrace);
    INFO(protects.timeline);
    CHECK(Has(protects, "910 preempt a/borrowed: for b/claim (InCohortReclamation)"));
  }
  const Outcome order =
      Play(cluster + policy("p", kYoung, kProtects) + policy("z", kOld, ""), kTrace);
  CHECK(Has(order, "10 preempt a/borrowed: for b/claim (InCohortReclamation)"));
}

constexpr char kReclaim[] = "reclaimWithinCohort: Any, withinClusterQueue: LowerPriority";
constexpr char kOnRequest[] =
    "name,submit,run,queue,cpu,priority,annotation:sluice.dev/checkpoint-on-request,"
    "annotation:sluice.dev/restart-cost\n";

TEST_CASE("a trace asks for a checkpoint before it preempts") {
  const std::string cluster = ClusterText(kReclaim, "", 0);
  SECTION("answered: nothing is lost but the restart") {
    const Outcome outcome = Play(cluster, std::string(kOnRequest) +
                                              "borrower,0,100,a/q,8,,true,5s\n"
                                              "owner,30,10,b/q,4,,,\n");
    CHECK(outcome.timeline ==
          "         0 submit  a/borrower to q\n"
          "         0 admit   a/borrower default cpu=8\n"
          "        30 submit  b/owner to q\n"
          "        30 ask     a/borrower: for b/owner (InCohortReclamation)\n"
          "        60 preempt a/borrower: for b/owner (InCohortReclamation), after a checkpoint\n"
          "        60 requeue a/borrower\n"
          "        60 admit   b/owner default cpu=4\n"
          "        70 finish  b/owner\n"
          "        70 admit   a/borrower default cpu=8\n"
          "       115 finish  a/borrower\n");
    CHECK(outcome.result.total.lost == 5 * kSecond);
  }
  SECTION("the grace is shorter: it goes without one") {
    TraceOptions options;
    options.checkpoint_time = 200 * kSecond;
    const Outcome outcome = Play(cluster,
                                 std::string(kOnRequest) +
                                     "borrower,0,1000,a/q,8,,true,\n"
                                     "owner,30,10,b/q,4,,,\n",
                                 options);
    CHECK(Has(outcome, "150 preempt a/borrower: for b/owner (InCohortReclamation)\n"));
    CHECK(outcome.result.total.lost == 150 * kSecond);
  }
  SECTION("it ends meanwhile") {
    TraceOptions options;
    options.checkpoint_time = 200 * kSecond;
    const Outcome outcome = Play(cluster,
                                 std::string(kOnRequest) +
                                     "borrower,0,100,a/q,8,,true,\n"
                                     "owner,30,10,b/q,4,,,\n",
                                 options);
    CHECK(Has(outcome, "100 finish  a/borrower\n"));
    CHECK(Has(outcome, "100 admit   b/owner"));
    CHECK(outcome.result.total.preemptions == 0);
    CHECK(outcome.result.total.lost == 0);
  }
  SECTION("room comes from elsewhere: it stays") {
    const Outcome outcome = Play(cluster, std::string(kOnRequest) +
                                              "short,0,45,a/q,4,9,,\n"
                                              "borrower,0,100,a/q,4,1,true,\n"
                                              "owner,30,10,b/q,4,5,,\n");
    INFO(outcome.timeline);
    CHECK(Has(outcome, "30 ask     a/borrower: for b/owner"));
    CHECK(Has(outcome, "45 admit   b/owner"));
    CHECK(Has(outcome, "60 withdraw a/borrower\n"));
    CHECK(Has(outcome, "100 finish  a/borrower\n"));
    CHECK(outcome.result.total.preemptions == 0);
  }
}

TEST_CASE("a trace keeps the work of whole checkpoint intervals") {
  const std::string cluster = ClusterText(kReclaim, "", 0);
  const auto check = [](const Outcome& outcome) {
    INFO(outcome.timeline);
    CHECK(Has(outcome, "120 finish  a/borrower"));
    CHECK(outcome.result.total.lost == 10 * kSecond);
  };
  check(Play(cluster,
             "name,submit,run,queue,cpu,annotation:sluice.dev/checkpoint-interval\n"
             "borrower,0,100,a/q,8,20s\n"
             "owner,30,10,b/q,4,\n"));
  const std::string lines =
      R"({"name": "borrower", "submit": 0, "run": 100, "queue": "a/q", "requests": {"cpu": 8}, )"
      R"("annotations": {"sluice.dev/checkpoint-interval": "20s"}})"
      "\n"
      R"({"name": "owner", "submit": 30, "run": 10, "queue": "b/q", "requests": {"cpu": 4}})"
      "\n";
  check(PlayTrace(cluster, {}, [&](TraceBuilder& builder) {
    return ReadJsonTrace({"t.jsonl", lines}, builder);
  }));
}

TEST_CASE("a trace backfills by expected run times") {
  const std::string cluster = ClusterText("", "sluice.dev/backfill: EASY", 0);
  const std::string header = "name,submit,run,queue,cpu,annotation:sluice.dev/expected-runtime\n";
  // Nothing is lent here: B has taken what is its own.
  const std::string jobs =
      "own,0,900,b/q,4,\n"
      "a,0,60,a/q,3,60s\n"
      "b,5,30,a/q,4,30s\n";
  CHECK(Has(Play(cluster, header + jobs + "c,6,50,a/q,1,50s\n"), " 6 admit   a/c"));
  CHECK(Has(Play(cluster, header + jobs + "c,6,50,a/q,1,70s\n"), "90 admit   a/c"));
}

TEST_CASE("an annotation that a trace cannot play is refused with its line") {
  const auto error = [](const std::string& column, const std::string& value) {
    auto cluster = TraceCluster::Load({{"c.yaml", ClusterText()}}, state::Settings{});
    REQUIRE(cluster.ok());
    TraceBuilder builder(**cluster);
    const absl::Status status = ReadCsvTrace(
        {"t.csv", "submit,run,queue," + column + "\n0,1,a/q," + value + "\n"}, builder);
    return std::string(status.message());
  };
  CHECK(error("annotation:example.com/x", "1") ==
        "t.csv:2: annotation:example.com/x: \"1\" is no annotation that can be simulated");
  CHECK(error("annotation:sluice.dev/last-checkpoint", "2026-01-01T00:00:00Z")
            .find("is no annotation that can be simulated") != std::string::npos);
  CHECK(error("annotation:sluice.dev/expected-runtime", "soon") ==
        "t.csv:2: annotation:sluice.dev/expected-runtime: \"soon\" must be a duration such as 30m "
        "or 1h30m");
}

}  // namespace
}  // namespace sluice::sim
