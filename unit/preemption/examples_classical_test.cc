// Worked examples of classical preemption.
#include "unit/catch.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

const Policies kReclaim{Policy::kLowerPriority, Policy::kAny, false, {}};
const Policies kWithin{Policy::kLowerPriority, Policy::kNever, false, {}};
const Policies kReclaimOnly{Policy::kNever, Policy::kAny, false, {}};

TEST_CASE("what comes back when it is not needed") {
  Cluster c;
  c.Queue("q", "", {10}, kWithin);
  c.Runs("q", "low1", {4}, {.priority = -1, .reserved_at = 10});
  c.Runs("q", "low2", {2}, {.priority = -1, .reserved_at = 20});
  c.Runs("q", "mid", {4}, {.priority = 0, .reserved_at = 5});
  CHECK(Targets(c.Needs("q", {4}, {.priority = 5})) == "low1 InClusterQueue");
  CHECK(Targets(c.Needs("q", {5}, {.priority = 5})) == "low2 InClusterQueue, low1 InClusterQueue");
  CHECK(Targets(c.Needs("q", {7}, {.priority = 5})) == "low1 InClusterQueue, mid InClusterQueue");
  CHECK(Targets(c.Needs("q", {7}, {.priority = 0})).empty());
}

Cluster Reclaim(const Policies& policies) {
  Cluster c;
  c.Queue("a", "pool", {6}, policies).Queue("b", "pool", {6});
  c.Runs("a", "a1", {2}, {.priority = -1});
  c.Runs("b", "b1", {4}, {.priority = 0, .reserved_at = 1});
  c.Runs("b", "b2", {3}, {.priority = 0, .reserved_at = 2});
  c.Runs("b", "b3", {3}, {.priority = 10, .reserved_at = 3});
  return c;
}

TEST_CASE("reclaiming within the nominal quota has the advantage") {
  Cluster c = Reclaim(kReclaim);
  CHECK(Targets(c.Needs("a", {4})) == "b1 InCohortReclamation");
}

TEST_CASE("one that would borrow takes back what is lent without borrowing") {
  Cluster c = Reclaim(kReclaim);
  CHECK(Targets(c.Needs("a", {5})) == "b2 InCohortReclamation, a1 InClusterQueue");
}

TEST_CASE("reclaiming from lower priorities only") {
  Cluster c = Reclaim({Policy::kLowerPriority, Policy::kLowerPriority, false, {}});
  CHECK(Targets(c.Needs("a", {4}, {.priority = 0})).empty());
  CHECK(Targets(c.Needs("a", {4}, {.priority = 5})) == "b1 InCohortReclamation");
}

TEST_CASE("victims of another ClusterQueue end at its nominal quota") {
  Cluster c;
  c.Queue("a", "pool", {8}, kReclaim).Queue("b", "pool", {4});
  c.Runs("a", "a1", {6}, {.priority = 9});
  c.Runs("b", "b1", {3}, {.reserved_at = 1}).Runs("b", "b2", {3}, {.reserved_at = 2});
  CHECK(Targets(c.Needs("a", {2})) == "b2 InCohortReclamation");
  CHECK(Targets(c.Needs("a", {3})).empty());
}

TEST_CASE("preempting while borrowing, up to a priority") {
  const auto cluster = [](bool borrow, std::optional<int64_t> threshold, int needs) {
    Cluster c;
    c.Queue("a", "pool", {4}, {Policy::kLowerPriority, Policy::kLowerPriority, borrow, threshold});
    c.Queue("b", "pool", {0}).Queue("s", "pool", {8});
    c.Runs("a", "a1", {4}, {.priority = 0});
    c.Runs("b", "b1", {5}, {.priority = -10}).Runs("b", "b2", {3}, {.priority = 2});
    c.Needs("a", {needs}, {.priority = 5});
    return c;
  };
  CHECK(Targets(cluster(true, 0, 4)) == "b1 InCohortReclaimWhileBorrowing");
  CHECK(Targets(cluster(true, 0, 7)) == "b1 InCohortReclaimWhileBorrowing, a1 InClusterQueue");
  CHECK(Targets(cluster(true, std::nullopt, 7)) ==
        "b1 InCohortReclaimWhileBorrowing, b2 InCohortReclaimWhileBorrowing");
  CHECK(Targets(cluster(false, std::nullopt, 4)) == "a1 InClusterQueue");
}

TEST_CASE("the priority threshold of preempting while borrowing is inclusive") {
  Cluster c;
  c.Queue("a", "pool", {0}, {Policy::kNever, Policy::kAny, true, 2}).Queue("b", "pool", {0});
  c.Queue("s", "pool", {3});
  c.Runs("b", "b1", {3}, {.priority = 2});
  CHECK(Targets(c.Needs("a", {1}, {.priority = 5})) == "b1 InCohortReclaimWhileBorrowing");
  c.nodes[1].policies.max_priority_threshold = 1;
  CHECK(Targets(c).empty());
}

Cluster Hierarchy() {
  Cluster c;
  c.Cohort("r").Cohort("m", "r", {4});
  c.Queue("x", "m", {2}, kReclaimOnly).Queue("y", "m", {2}).Queue("z", "r", {4});
  c.Runs("y", "y1", {2});
  c.Runs("z", "z1", {4}, {.priority = 0}).Runs("z", "z2", {3}, {.priority = 50});
  c.Runs("z", "z3", {3}, {.priority = 100});
  return c;
}

TEST_CASE("a subtree that can hold it gives the advantage over everything outside") {
  Cluster c = Hierarchy();
  CHECK(Targets(c.Needs("x", {5})) == "z1 InCohortReclamation, z2 InCohortReclamation");
  CHECK(Targets(c.Needs("x", {6})) == "z1 InCohortReclamation, z2 InCohortReclamation");
}

TEST_CASE("a subtree within its quota is protected even where a member borrows") {
  Cluster c;
  c.Cohort("r").Cohort("m", "r", {6});
  c.Queue("x", "m", {0}).Queue("z", "r", {6}, kReclaimOnly).Queue("w", "r", {0});
  c.Runs("x", "x1", {6}, {.priority = -100}).Runs("z", "z1", {3}).Runs("w", "w1", {3});
  CHECK(Targets(c.Needs("z", {3})) == "w1 InCohortReclamation");
}

TEST_CASE("a cohort that falls within its quota protects what is left in it") {
  // n lends nothing back before x1 goes; then it is within its quota and x2 is safe, although its
  // ClusterQueue still borrows.
  Cluster c;
  c.Cohort("r").Cohort("n", "r", {3});
  c.Queue("x", "n", {0}).Queue("z", "r", {6}, kReclaimOnly).Queue("v", "r", {0});
  c.Runs("x", "x1", {2}, {.priority = -9}).Runs("x", "x2", {3}, {.priority = -8});
  c.Runs("v", "v1", {4}, {.priority = 7});
  CHECK(Targets(c.Needs("z", {6})) == "x1 InCohortReclamation, v1 InCohortReclamation");
}

TEST_CASE("two resources: each victim uses one, the fit is of both") {
  Cluster c;
  c.resources = 2;
  c.Queue("a", "pool", {4, 4}, kReclaimOnly).Queue("b", "pool", {0, 0});
  c.Runs("b", "b1", {2, 0}, {.reserved_at = 1}).Runs("b", "b2", {0, 2}, {.reserved_at = 2});
  c.Runs("b", "b3", {1, 0}, {.reserved_at = 3});
  CHECK(Targets(c.Needs("a", {4, 4})) ==
        "b3 InCohortReclamation, b2 InCohortReclamation, b1 InCohortReclamation");
}

TEST_CASE("a candidate must use a contested cell, the fit is of every requested one") {
  Cluster c;
  c.resources = 2;
  c.Queue("q", "", {4, 4}, kWithin);
  c.Runs("q", "memory", {0, 4}, {.priority = -9}).Runs("q", "cpu", {4, 0}, {.priority = -1});
  // Only memory is named as contested: the cpu workload is no candidate, and nothing helps.
  c.contested = {false, true};
  CHECK(Targets(c.Needs("q", {1, 1})).empty());
  c.contested = {};
  CHECK(Targets(c) == "memory InClusterQueue, cpu InClusterQueue");
}

// Kueue takes m1 as well, because b borrows cpu; m1 would take its place back by right.
TEST_CASE("what is used of the own quota is safe, also where another resource is borrowed") {
  Cluster c;
  c.resources = 2;
  c.Queue("a", "pool", {4, 4}, kReclaimOnly).Queue("b", "pool", {1, 4}).Queue("d", "pool", {0, 0});
  c.Runs("b", "m1", {0, 4}, {.reserved_at = 9}).Runs("b", "c1", {3, 0}, {.reserved_at = 5});
  c.Runs("d", "m2", {0, 1}, {.reserved_at = 3});
  c.Needs("a", {4, 4});
  CHECK(Targets(c) == "c1 InCohortReclamation, m2 InCohortReclamation");
  CHECK(Targets(c.Fair()) == "c1 InCohortReclamation, m2 InCohortReclamation");
}

TEST_CASE("an equal priority gives way when it is newer in the queue order") {
  Cluster c;
  c.Queue("q", "", {4}, {Policy::kLowerOrNewerEqualPriority, Policy::kNever, false, {}});
  c.Runs("q", "older", {2}, {.reserved_at = 9, .order_time = 1});
  c.Runs("q", "newer", {2}, {.reserved_at = 1, .order_time = 9});
  CHECK(Targets(c.Needs("q", {2}, {.order_time = 5})) == "newer InClusterQueue");
  CHECK(Targets(c.Needs("q", {4}, {.order_time = 5})).empty());
  // Equal times are not newer.
  CHECK(Targets(c.Needs("q", {2}, {.order_time = 9})).empty());
}

TEST_CASE("candidates are ordered by when they got their quota, not by the queue order") {
  Cluster c;
  c.Queue("q", "", {4}, kWithin);
  c.Runs("q", "first", {2}, {.reserved_at = 1, .order_time = 9});
  c.Runs("q", "second", {2}, {.reserved_at = 2, .order_time = 1});
  CHECK(Targets(c.Needs("q", {2}, {.priority = 1})) == "second InClusterQueue");
}

TEST_CASE("one on its way out goes first") {
  Cluster c;
  c.Queue("q", "", {10}, kWithin);
  c.Runs("q", "low", {5}, {.priority = -5}).Runs("q", "mid", {5}, {.priority = 1, .evicted = true});
  CHECK(Targets(c.Needs("q", {5}, {.priority = 5})) == "mid InClusterQueue");
}

TEST_CASE("the last one taken stays a victim") {
  // big is taken last and would alone be enough; small1 and small2 come back.
  Cluster c;
  c.Queue("q", "", {10}, kWithin);
  c.Runs("q", "small1", {1}, {.priority = -3}).Runs("q", "small2", {2}, {.priority = -2});
  c.Runs("q", "big", {7}, {.priority = -1});
  CHECK(Targets(c.Needs("q", {6}, {.priority = 1})) == "big InClusterQueue");
}

TEST_CASE("an own need within nominal evicts no more than it needs") {
  Cluster c;
  c.Queue("qa", "c", {4}, kWithin).Queue("qb", "c", {4});
  for (int i = 1; i <= 6; ++i) c.Runs("qa", "w" + std::to_string(i), {1}, {.reserved_at = i});
  CHECK(Targets(c.Needs("qa", {4}, {.priority = 10})) == "w6 InClusterQueue, w5 InClusterQueue");
}

TEST_CASE("workloads of an inactive ClusterQueue are no candidates") {
  Cluster c;
  c.Queue("a", "pool", {4}, kReclaimOnly).Queue("b", "pool", {0});
  c.Runs("b", "b1", {4});
  CHECK(Targets(c.Needs("a", {4})) == "b1 InCohortReclamation");
  c.nodes[2].active = false;
  CHECK(Targets(c).empty());
}

TEST_CASE("victims end at different times: the preemptor needs both (classical)") {
  Cluster c;
  const Policies all{Policy::kLowerPriority, Policy::kAny, true, {}};
  c.Queue("al", "c", {2}, all).Queue("be", "c", {1}).Queue("ga", "c", {1});
  c.Runs("al", "a", {1}, {.priority = 2}).Runs("be", "b", {3}, {.priority = 2});
  CHECK(Targets(c.Needs("al", {4}, {.priority = 3})) ==
        "b InCohortReclaimWhileBorrowing, a InClusterQueue");
}

TEST_CASE("raw availability below zero counts at every level") {
  // The cohort is 3 over its cut quota; freeing 3 leaves nothing, one more is needed.
  Cluster c;
  c.Queue("a", "pool", {10}, kWithin).Queue("b", "pool", {2});
  c.Runs("a", "a1", {5}, {.reserved_at = 3}).Runs("a", "a2", {3}, {.reserved_at = 2});
  c.Runs("a", "a3", {7}, {.reserved_at = 1});
  CHECK(Targets(c.Needs("a", {2}, {.priority = 1})) == "a1 InClusterQueue");
  CHECK(Targets(c.Needs("a", {3}, {.priority = 1})) == "a1 InClusterQueue, a2 InClusterQueue");
}

}  // namespace
}  // namespace sluice::preemption
