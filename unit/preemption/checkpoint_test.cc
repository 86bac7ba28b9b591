// What an eviction costs, and what follows from that for the choice of victims.
#include "preemption/checkpoint.h"

#include "base/time.h"
#include "unit/catch.h"
#include "unit/preemption/cluster.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

constexpr int kMinute = 60;
constexpr int kHour = 60 * kMinute;
constexpr int kNow = 10 * kHour;
const Policies kLower{Policy::kLowerPriority, Policy::kNever, false, {}};
const Policies kReclaim{Policy::kNever, Policy::kAny, false, {}};

absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

api::Workload Annotated(const api::StringMap& annotations) {
  api::Workload workload;
  workload.metadata.annotations = annotations;
  return workload;
}

absl::Duration Lost(const api::StringMap& annotations, int start) {
  const std::optional<Checkpoints> checkpoints = CheckpointsOf(Annotated(annotations));
  return LostTime(checkpoints ? &*checkpoints : nullptr, At(start), At(kNow));
}

std::string Ago(int seconds) { return sluice::FormatTime(At(kNow - seconds)); }

TEST_CASE("lost time") {
  CHECK(Lost({}, kNow - kHour) == absl::Hours(1));
  CHECK(Lost({{kRestartCost, "5m"}}, kNow - kHour) == absl::Minutes(65));
  CHECK(Lost({{kLastCheckpoint, Ago(180)}, {kRestartCost, "5m"}}, kNow - 5 * kHour) ==
        absl::Minutes(8));
  CHECK(Lost({{kCheckpointInterval, "45m"}}, kNow - 2 * kHour) == absl::Minutes(30));
  // What was reported goes before what was declared.
  CHECK(Lost({{kCheckpointInterval, "45m"}, {kLastCheckpoint, Ago(60)}}, kNow - 2 * kHour) ==
        absl::Minutes(1));
  // A checkpoint of an earlier run saves nothing of this one.
  CHECK(Lost({{kLastCheckpoint, Ago(3 * kHour)}}, kNow - kHour) == absl::Hours(1));
  // One that is said to be in the future says nothing.
  CHECK(Lost({{kLastCheckpoint, Ago(-60)}}, kNow - kHour) == absl::Hours(1));
  CHECK(Lost({{kLastCheckpoint, Ago(-60)}, {kCheckpointInterval, "45m"}}, kNow - kHour) ==
        absl::Minutes(15));
  // The clock ran backwards.
  CHECK(Lost({{kRestartCost, "5m"}}, kNow + kHour) == absl::Minutes(5));
  const std::optional<Checkpoints> cost = CheckpointsOf(Annotated({{kRestartCost, "5m"}}));
  CHECK(LostTime(&*cost, absl::InfiniteFuture(), At(kNow)) == absl::ZeroDuration());
}

TEST_CASE("values that cannot be read count as absent") {
  CHECK_FALSE(CheckpointsOf(Annotated({})).has_value());
  CHECK_FALSE(CheckpointsOf(Annotated({{kLastCheckpoint, "yesterday"}})).has_value());
  CHECK_FALSE(CheckpointsOf(Annotated({{kRestartCost, "-5m"}})).has_value());
  CHECK_FALSE(CheckpointsOf(Annotated({{kMinRuntime, "soon"}})).has_value());
  CHECK_FALSE(CheckpointsOf(Annotated({{kCheckpointOnRequest, "yes"}})).has_value());
  CHECK_FALSE(CheckpointsOf(Annotated({{kCheckpointInterval, "0s"}})).has_value());
  const auto part = CheckpointsOf(Annotated({{kRestartCost, "x"}, {kCheckpointInterval, "1h"}}));
  REQUIRE(part.has_value());
  CHECK(part->interval == absl::Hours(1));
  CHECK(part->restart_cost == absl::ZeroDuration());
  CHECK(CheckpointProblem(kLastCheckpoint, "2026-01-31T10:00:00+02:00") == std::nullopt);
  CHECK(CheckpointProblem(kLastCheckpoint, "1769853600") != std::nullopt);
  CHECK(CheckpointProblem(kCheckpointOnRequest, "false") == std::nullopt);
  CHECK(CheckpointProblem(kMinRuntime, "0s") == std::nullopt);
}

TEST_CASE("lost work is that of the GPUs, or of the CPUs where there are none") {
  CHECK(WeightedMillis({{{"f", "nvidia.com/gpu"}, 8}, {{"f", "cpu"}, 64000}}) == 8000);
  CHECK(WeightedMillis({{{"a", "amd.com/gpu"}, 2}, {{"b", "nvidia.com/gpu"}, 1}}) == 3000);
  CHECK(WeightedMillis({{{"f", "cpu"}, 1500}, {{"f", "memory"}, 1 << 30}}) == 1500);
  CHECK(WeightedMillis({{{"f", "memory"}, 1 << 30}}) == 0);
  CHECK(WeightedMillis({{{"f", "nvidia.com/gpu"}, INT64_MAX}}) == INT64_MAX);
  const quota::CreditWeights weights(
      {{"cpu", Quantity::FromInt(2)}, {"disk", *Quantity::Parse("1n")}});
  CHECK(WeightedMillis({{{"f", "nvidia.com/gpu"}, 8}, {{"f", "cpu"}, 1500}}, &weights) == 3000);
  CHECK(WeightedMillis({{{"f", "disk"}, 1}}, &weights) == 1);
  // What it does not count at all is weighted as without it.
  CHECK(WeightedMillis({{{"f", "nvidia.com/gpu"}, 8}}, &weights) == 8000);
  CHECK(ResourceSeconds(LostWorkOf(absl::Minutes(8), 8000)) == 8 * 8 * kMinute);
  // Neither is rounded before they are multiplied.
  CHECK(ResourceSeconds(LostWorkOf(absl::Milliseconds(1500), 1500)) == 2);
  CHECK(ResourceSeconds(LostWorkOf(absl::InfiniteDuration(), INT64_MAX)) == INT64_MAX);
}

TEST_CASE("preemptions are remembered in a condition for the length of the window") {
  const CheckpointRules rules{3, absl::Hours(1)};
  api::Workload workload = Annotated({{kRestartCost, "5m"}});
  const auto often = [&](int now) {
    return PreemptedOften(*CheckpointsOf(workload), rules, At(now));
  };
  for (const int time : {0, 10 * kMinute, 50 * kMinute}) {
    CHECK_FALSE(often(time));
    NotePreemption(workload, rules, At(time));
  }
  CHECK(often(50 * kMinute));
  CHECK(api::IsTrue(workload.status.conditions, kPreemptedOften));
  CHECK(often(kHour - 1));
  CHECK_FALSE(often(kHour));
  NotePreemption(workload, rules, At(65 * kMinute));
  CHECK(CheckpointsOf(workload)->preemptions ==
        std::vector<absl::Time>{At(10 * kMinute), At(50 * kMinute), At(65 * kMinute)});
  CHECK_FALSE(PreemptedOften(*CheckpointsOf(workload), {0, absl::Hours(1)}, At(65 * kMinute)));
}

// Started 5 h ago with a checkpoint 3 min ago and 5 min to restart; started 10 min ago; started 2 h
// ago with an interval of 45 min: they lose 8, 10 and 30 minutes.
Cluster Three() {
  Cluster c;
  c.now = kNow;
  c.Queue("q", "", {24}, kLower);
  c.Runs("q", "A", {8},
         {.reserved_at = kNow - 5 * kHour,
          .checkpoint = {{.last = kNow - 3 * kMinute, .restart = 5 * kMinute}}});
  c.Runs("q", "B", {8}, {.reserved_at = kNow - 10 * kMinute});
  c.Runs("q", "C", {8},
         {.reserved_at = kNow - 2 * kHour, .checkpoint = {{.interval = 45 * kMinute}}});
  return c.Needs("q", {8}, {.priority = 1});
}

TEST_CASE("the least lost work goes first") {
  Cluster c = Three();
  CHECK(Targets(c) == "A InClusterQueue");
  c.Needs("q", {16}, {.priority = 1});
  CHECK(Targets(c) == "A InClusterQueue, B InClusterQueue");
  for (WorkloadSpec& workload : c.running) workload.checkpoint.reset();
  c.Needs("q", {8}, {.priority = 1});
  CHECK(Targets(c) == "B InClusterQueue");
}

TEST_CASE("priority and evictions under way go before lost work") {
  Cluster c = Three();
  c.running[0].priority = 1;
  c.Needs("q", {8}, {.priority = 2});
  CHECK(Targets(c) == "B InClusterQueue");
  c.running[2].evicted = true;
  CHECK(Targets(c) == "C InClusterQueue");
}

TEST_CASE("twice the GPUs are twice the work") {
  Cluster c = Three();
  c.running[0].amounts[0] = 12;  // 96 GPU-minutes against 80
  c.nodes[0].cells[0].nominal = 28;
  CHECK(Targets(c) == "B InClusterQueue");
}

// What the search finds; the oracle knows no credits.
std::string TargetsWithCredits(Cluster cluster, const std::vector<int>& weights) {
  cluster.credit_weights = weights;
  return Describe(cluster, SearchRun(cluster, {0}).Find());
}

TEST_CASE("the least lost work goes first between ClusterQueues, with credits too") {
  Cluster c;
  c.now = kNow;
  c.Queue("a", "pool", {4}).Queue("b", "pool", {4}).Queue("lender", "pool", {8}, kReclaim);
  c.Runs("a", "saved", {8},
         {.reserved_at = kNow - 5 * kHour,
          .checkpoint = {{.last = kNow - 3 * kMinute, .restart = 5 * kMinute}}});
  c.Runs("b", "newest", {8}, {.reserved_at = kNow - 10 * kMinute});
  c.Needs("lender", {4});
  CHECK(Targets(c) == "saved InCohortReclamation");
  CHECK(TargetsWithCredits(c, {1}) == "saved InCohortReclamation");
}

TEST_CASE("lost work is weighted as the policy of the ClusterQueue says") {
  Cluster c;
  c.now = kNow;
  c.resources = 2;
  c.Queue("q", "", {16, 100000}, kLower);
  const WorkloadOptions same{.reserved_at = kNow - kHour,
                             .checkpoint = {{.last = kNow - 3 * kMinute}}};
  c.Runs("q", "many CPUs", {8, 64000}, same);
  c.Runs("q", "few CPUs", {8, 8000}, same);
  c.Needs("q", {8}, {.priority = 1});
  CHECK(Targets(c) == "many CPUs InClusterQueue");
  CHECK(TargetsWithCredits(c, {1, 0}) == "many CPUs InClusterQueue");
  CHECK(TargetsWithCredits(c, {0, 1}) == "few CPUs InClusterQueue");
}

TEST_CASE("what is not needed is given back, the dearest first") {
  Cluster c;
  c.now = kNow;
  c.Queue("q", "", {16}, kLower);
  const auto runs = [&](const char* name, int amount, int minutes) {
    c.Runs("q", name, {amount},
           {.reserved_at = kNow - 5 * kHour, .checkpoint = {{.last = kNow - minutes * kMinute}}});
  };
  runs("a", 2, 10);  // 20
  runs("b", 4, 6);   // 24
  runs("c", 2, 15);  // 30
  runs("d", 8, 10);  // 80
  c.Needs("q", {10}, {.priority = 1});
  // All four go until it fits; then c is given back, then b, while a must stay.
  CHECK(Targets(c) == "a InClusterQueue, d InClusterQueue");
}

TEST_CASE("the minimum runtime protects from equals and from borrowers") {
  const CheckpointSpec said{.last = -1, .min_runtime = 20 * kMinute};
  Cluster c;
  c.now = kNow;
  const Policies newer{Policy::kLowerOrNewerEqualPriority, Policy::kAny, false, {}};
  c.Queue("q", "pool", {8}, newer).Queue("lender", "pool", {8}, newer);
  c.Runs("q", "w", {16}, {.reserved_at = kNow - 19 * kMinute, .order_time = 9, .checkpoint = said});
  SECTION("an equal of the same queue waits") {
    c.Needs("q", {8});
    CHECK(Targets(c).empty());
    c.now += kMinute;
    CHECK(Targets(c) == "w InClusterQueue");
  }
  SECTION("a higher priority does not") {
    c.Needs("q", {8}, {.priority = 1});
    CHECK(Targets(c) == "w InClusterQueue");
  }
  SECTION("who claims its own quota does not") {
    c.Needs("lender", {8});
    CHECK(Targets(c) == "w InCohortReclamation");
  }
  SECTION("who would borrow waits, whatever its priority") {
    c.nodes.back().policies.borrow_within_cohort = true;
    c.Needs("lender", {9}, {.priority = 5});
    CHECK(Targets(c).empty());
    c.now += kMinute;
    CHECK(Targets(c) == "w InCohortReclaimWhileBorrowing");
  }
}

TEST_CASE("what was preempted often goes only when nothing else will do") {
  Cluster c = Three();
  c.running[0].checkpoint->preempted = 3;
  CHECK(Targets(c) == "B InClusterQueue");
  c.Needs("q", {24}, {.priority = 1});
  CHECK(Targets(c) == "A InClusterQueue, B InClusterQueue, C InClusterQueue");
  c.Needs("q", {8}, {.priority = 1});
  c.running[0].checkpoint->preempted = 2;
  CHECK(Targets(c) == "A InClusterQueue");
}

TEST_CASE("fair sharing and reclaim go by lost work too") {
  Cluster c;
  c.now = kNow;
  c.Queue("a", "pool", {8}, kReclaim).Queue("b", "pool", {8}, kReclaim);
  c.Runs("b", "old", {8},
         {.reserved_at = kNow - 5 * kHour, .checkpoint = {{.last = kNow - kMinute}}});
  c.Runs("b", "new", {8}, {.reserved_at = kNow - 10 * kMinute});
  c.Needs("a", {8});
  CHECK(Targets(c) == "old InCohortReclamation");
  c.Fair();
  CHECK(Targets(c) == "old InCohortReclamation");
  c.preempt_within_nominal = false;
  CHECK(Targets(c) == "old InCohortFairSharing");
}

}  // namespace
}  // namespace sluice::preemption
