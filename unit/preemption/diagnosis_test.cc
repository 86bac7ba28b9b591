// Why a search found nobody to preempt.
#include "preemption/diagnosis.h"

#include <algorithm>
#include <map>

#include "unit/catch.h"
#include "unit/preemption/oracle.h"
#include "unit/preemption/random_cluster.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

using Outcome = Diagnosis::Outcome;

const Policies kReclaim{Policy::kLowerPriority, Policy::kAny, false, {}};

Diagnosis Of(const Cluster& cluster, const Evictors& evictors = {}) {
  SearchRun run(cluster, {0});
  run.SetEvictors(evictors);
  return run.DiagnoseFirst();
}

int64_t Protected(const Diagnosis& found, Protection protection) {
  for (const Diagnosis::Group& group : found.protected_by) {
    if (group.protection == protection) return group.workloads;
  }
  return 0;
}

TEST_CASE("Diagnosis: nobody may be preempted, and what protects each") {
  Cluster c;
  c.Queue("a", "pool", {4}).Queue("b", "pool", {4}).Queue("d", "pool", {4});
  c.Runs("a", "a1", {4}).Runs("b", "b1", {5}).Runs("d", "d1", {3});
  const Diagnosis never = Of(c.Needs("a", {2}, {.priority = 5}));
  CHECK(never.outcome == Outcome::kNoCandidates);
  CHECK(Protected(never, Protection::kWithinClusterQueueNever) == 1);
  CHECK(Protected(never, Protection::kReclaimWithinCohortNever) == 2);
  c = Cluster();
  c.Queue("a", "pool", {4}, {Policy::kLowerPriority, Policy::kLowerPriority, false, {}});
  c.Queue("b", "pool", {4}).Queue("d", "pool", {4});
  c.Runs("a", "a1", {4}, {.priority = 9}).Runs("b", "b1", {5}, {.priority = 9});
  c.Runs("d", "d1", {3}, {.priority = 1});
  const Diagnosis priority = Of(c.Needs("a", {2}, {.priority = 5}));
  CHECK(priority.outcome == Outcome::kNoCandidates);
  CHECK(Protected(priority, Protection::kPriority) == 2);
  CHECK(Protected(priority, Protection::kWithinQuota) == 1);
}

TEST_CASE("Diagnosis: what there is to preempt is not enough") {
  Cluster c;
  c.Queue("q", "", {10}, kReclaim);
  c.Runs("q", "low", {3}, {.priority = 1}).Runs("q", "high", {6}, {.priority = 9});
  const Diagnosis found = Of(c.Needs("q", {7}, {.priority = 5}));
  CHECK(found.outcome == Outcome::kNotEnough);
  CHECK(found.candidates == 1);
  CHECK(found.amount == 3);
  CHECK(found.missing == 3);
  const Diagnosis enough = Of(c.Needs("q", {4}, {.priority = 5}));
  CHECK(enough.outcome == Outcome::kFound);
  CHECK(enough.targets == 1);
}

TEST_CASE("Diagnosis: enough, but not while it borrows") {
  Cluster c;
  c.Queue("a", "pool", {4}, kReclaim).Queue("b", "pool", {2}).Queue("s", "pool", {2});
  c.Runs("a", "a1", {4}, {.priority = 9}).Runs("b", "b1", {4});
  const Diagnosis found = Of(c.Needs("a", {2}, {.priority = 9}));
  CHECK(found.outcome == Outcome::kMustBorrow);
  CHECK(found.candidates == 1);
}

TEST_CASE("Diagnosis: enough, but the shares are against it") {
  Cluster c;
  c.Queue("a", "pool", {0}, kReclaim).Queue("b", "pool", {0}).Queue("s", "pool", {10});
  c.Runs("a", "a1", {5}).Runs("b", "b1", {5});
  c.Needs("a", {2});
  const Diagnosis found = Of(c.Fair());
  CHECK(found.outcome == Outcome::kShares);
  CHECK(found.own_share == 700);
  CHECK(found.their_share == 500);
  CHECK(found.their_side == "b");
}

TEST_CASE("Diagnosis: one that it had to go for before") {
  Cluster c;
  c.Queue("a", "pool", {2}, kReclaim).Queue("b", "pool", {2}, kReclaim);
  c.Runs("a", "a1", {2}, {.reserved_at = 2}).Runs("a", "a2", {2}, {.reserved_at = 1});
  c.Needs("a", {4}, {.priority = 5});
  const Diagnosis found = Of(c, {{"a1"}});
  CHECK(found.outcome == Outcome::kNotEnough);
  CHECK(found.candidates == 1);
  CHECK(Protected(found, Protection::kEvictor) == 1);
  CHECK(found.missing == 2);
}

TEST_CASE("Diagnosis: counts everybody, agrees with the search and leaves the tree alone") {
  const RandomRuns runs = RunsFromEnvironment(3'000);
  std::map<Outcome, int> seen;
  for (uint64_t i = 0; i < runs.count; ++i) {
    const uint64_t seed = runs.first + i;
    INFO("SLUICE_SEED=" << seed);
    const Cluster cluster = RandomCluster(seed);
    const std::vector<size_t> contested = Oracle(cluster).contested();
    if (contested.empty()) continue;
    SearchRun run(cluster, contested);
    const size_t cell = contested.front();
    const Diagnosis found = run.DiagnoseFirst();
    ++seen[found.outcome];
    run.tree().CheckInvariants();
    int64_t holders = 0;
    const auto root = [&](int node) {
      while (cluster.nodes[static_cast<size_t>(node)].parent >= 0) {
        node = cluster.nodes[static_cast<size_t>(node)].parent;
      }
      return node;
    };
    for (const WorkloadSpec& workload : cluster.running) {
      if (workload.amounts[cell] > 0 && root(workload.queue) == root(cluster.preemptor.queue)) {
        ++holders;
      }
    }
    int64_t counted = found.candidates;
    for (const Diagnosis::Group& group : found.protected_by) counted += group.workloads;
    REQUIRE(counted == holders);
    if (found.outcome == Outcome::kNotEnough) REQUIRE(found.missing > 0);
    const bool single =
        std::count_if(cluster.preemptor.amounts.begin(), cluster.preemptor.amounts.end(),
                      [](int amount) { return amount > 0; }) == 1;
    if (single && contested.size() == 1) {
      REQUIRE((found.outcome == Outcome::kFound) == !run.Find().empty());
    }
  }
  if (runs.count < 1000) return;
  for (const Outcome outcome : {Outcome::kFound, Outcome::kNoCandidates, Outcome::kNotEnough,
                                Outcome::kMustBorrow, Outcome::kShares}) {
    CHECK(seen[outcome] > 0);
  }
}

}  // namespace
}  // namespace sluice::preemption
