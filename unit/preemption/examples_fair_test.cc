// Worked examples of preemption by fair sharing.
#include "unit/catch.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

const Policies kBoth{Policy::kLowerPriority, Policy::kAny, false, {}};
const Policies kReclaimOnly{Policy::kNever, Policy::kAny, false, {}};
const std::vector<Strategy> kFinalOnly{Strategy::kLessThanOrEqualToFinalShare};

TEST_CASE("the second strategy takes what the first one set aside") {
  Cluster c;
  c.Queue("a", "pool", {4}, kBoth).Queue("b", "pool", {4}).Queue("d", "pool", {4});
  c.Runs("b", "b1", {4}, {.reserved_at = 1}).Runs("b", "b2", {2}, {.reserved_at = 2});
  c.Runs("b", "b3", {4}, {.priority = 5, .reserved_at = 3}).Runs("d", "d1", {2});
  c.Fair().Needs("a", {6});
  CHECK(Targets(c) == "b2 InCohortFairSharing, b1 InCohortFairSharing");
}

Cluster Larger() {
  Cluster c;
  c.Queue("a", "pool", {2}, kBoth).Queue("b", "pool", {2}).Queue("d", "pool", {8});
  c.Runs("a", "a1", {2}, {.priority = 9});
  c.Runs("b", "b2", {2}, {.reserved_at = 1}).Runs("b", "b1", {8}, {.reserved_at = 2});
  c.Needs("a", {3});
  return c;
}

TEST_CASE("one that would fall below the preemptor's share waits for the second strategy") {
  Cluster c = Larger();
  CHECK(Targets(c.Fair(kFinalOnly)).empty());
  CHECK(Targets(c.Fair()) == "b1 InCohortFairSharing");
}

TEST_CASE("weight zero preempts within nominal only") {
  Cluster c;
  c.Queue("a", "pool", {6}, kBoth, 0).Queue("b", "pool", {2}).Queue("d", "pool", {4});
  c.Runs("a", "a1", {2}, {.priority = 9});
  c.Runs("b", "b1", {6}, {.priority = 9, .reserved_at = 2})
      .Runs("b", "b2", {4}, {.reserved_at = 1});
  c.Fair();
  CHECK(Targets(c.Needs("a", {4})) == "b2 InCohortReclamation");
  CHECK(Targets(c.Needs("a", {5})).empty());
}

Cluster Hierarchy(bool within_nominal) {
  Cluster c;
  c.Cohort("root").Cohort("l", "root").Cohort("q", "root");
  c.Queue("a", "l", {4}, kBoth).Queue("b", "l", {2}).Queue("d", "q", {4}).Queue("e", "q", {2});
  c.Runs("b", "b1", {3}).Runs("d", "d1", {4});
  c.Runs("e", "e1", {3}, {.reserved_at = 2}).Runs("e", "e2", {2}, {.reserved_at = 3});
  c.Fair().Needs("a", {3});
  c.preempt_within_nominal = within_nominal;
  return c;
}

TEST_CASE("shares are compared just below the lowest common cohort") {
  CHECK(Targets(Hierarchy(false)) == "e1 InCohortFairSharing");
  CHECK(Targets(Hierarchy(true)) == "e1 InCohortReclamation");
}

// Kueue evicts b1 alone here: a1 lowers a's share, b1 passes its test because of that, and then a1
// is given back, so that b1 has gone to one with the larger share (its issue 14543). Here a1 stays
// taken, because b1 may go only while it is gone.
TEST_CASE("own workload first by share, and not given back where a share test needs it") {
  Cluster c;
  c.Queue("a", "pool", {4}, kBoth).Queue("b", "pool", {4});
  c.Runs("a", "a1", {3}).Runs("b", "b1", {5});
  c.Fair().Needs("a", {4}, {.priority = 5});
  CHECK(Targets(c) == "a1 InClusterQueue, b1 InCohortFairSharing");
}

TEST_CASE("within nominal is looked at once, before anything is taken") {
  // Without a1 the request is within nominal; the test was made with it, so b1 goes by its share.
  Cluster c;
  c.Queue("a", "pool", {4}, kBoth).Queue("b", "pool", {4});
  c.Runs("a", "a1", {3}).Runs("b", "b1", {5});
  c.Fair(kFinalOnly).Needs("a", {4}, {.priority = 5});
  CHECK(Targets(c) == "a1 InClusterQueue, b1 InCohortFairSharing");
  c.running[0].amounts[0] = 0;
  c.running.erase(c.running.begin());
  c.running[0].amounts[0] = 8;
  CHECK(Targets(c) == "b1 InCohortReclamation");
}

TEST_CASE("two zero weights compare by plain ratio") {
  Cluster c;
  c.Queue("a", "pool", {0}, kReclaimOnly, 0).Queue("b", "pool", {0}, kReclaimOnly, 0);
  c.Queue("c", "pool", {8});
  c.Runs("b", "b1", {4}, {.reserved_at = 1}).Runs("b", "b2", {4}, {.reserved_at = 2});
  c.Fair().Needs("a", {4});
  CHECK(Targets(c) == "b2 InCohortFairSharing");
  // Afterwards both use 4, and b1 is safe from a second such preemptor.
  c.running.pop_back();
  c.Runs("a", "a1", {4}, {.reserved_at = 3}).Needs("a", {4});
  CHECK(Targets(c).empty());
  // And so is a1 from b2.
  c.Needs("b", {4});
  CHECK(Targets(c).empty());
}

TEST_CASE("zero weights do not evict each other without end") {
  Cluster c;
  c.Cohort("c", "", {8});
  c.Queue("qa", "c", {0}, kReclaimOnly, 0).Queue("qb", "c", {0}, kReclaimOnly, 0);
  c.Runs("qa", "a1", {4}, {.priority = 9001, .reserved_at = 1});
  c.Runs("qa", "a2", {4}, {.priority = 100, .reserved_at = 2});
  c.Fair().Needs("qb", {4}, {.priority = 100});
  CHECK(Targets(c) == "a2 InCohortFairSharing");
}

TEST_CASE("reclaiming from lower priorities only holds under fair sharing too") {
  Cluster c;
  c.Queue("a", "pool", {4}, {Policy::kNever, Policy::kLowerPriority, false, {}});
  c.Queue("b", "pool", {0});
  c.Runs("b", "b1", {4});
  c.Fair();
  CHECK(Targets(c.Needs("a", {4}, {.priority = 0})).empty());
  CHECK(Targets(c.Needs("a", {4}, {.priority = 1})) == "b1 InCohortReclamation");
}

TEST_CASE("a gang that evens the shares is let in, a larger one is not") {
  const auto found = [](int gang) {
    Cluster c;
    c.Cohort("c", "", {8});
    c.Queue("p1", "c", {0}, kReclaimOnly).Queue("p2", "c", {0}, kReclaimOnly);
    for (int i = 1; i <= 4; ++i) c.Runs("p1", "g" + std::to_string(i), {2}, {.reserved_at = i});
    return Targets(c.Fair().Needs("p2", {gang}));
  };
  CHECK(found(6).empty());
  CHECK(found(5).empty());
  CHECK(found(4) == "g4 InCohortFairSharing, g3 InCohortFairSharing");
  CHECK(found(3) == "g4 InCohortFairSharing, g3 InCohortFairSharing");
}

TEST_CASE("within nominal for the contested resource needs no share test") {
  Cluster c;
  c.resources = 2;
  c.Queue("q1", "c", {10, 0}, kReclaimOnly).Queue("q2", "c", {0, 10}, kReclaimOnly);
  c.Runs("q2", "a", {1, 0}, {.priority = 100, .reserved_at = 1});
  c.Runs("q2", "b", {1, 0}, {.priority = 100, .reserved_at = 2});
  c.Fair().Needs("q1", {10, 10});
  CHECK(Targets(c) == "b InCohortReclamation, a InCohortReclamation");
}

TEST_CASE("the second strategy takes at most one of a ClusterQueue") {
  // Whatever goes leaves b below a's share, so all waits for the second strategy; b gives one,
  // which is not enough.
  Cluster c;
  c.Queue("a", "pool", {0}, kReclaimOnly).Queue("b", "pool", {0}).Queue("s", "pool", {12});
  c.Runs("b", "b1", {6}, {.reserved_at = 1}).Runs("b", "b2", {6}, {.reserved_at = 2});
  c.Fair().Needs("a", {7});
  CHECK(Targets(c).empty());
  // b2 is set aside, b1 passes and is not enough, then b2 may go by the share before; b1 comes
  // back.
  c.running[0].amounts[0] = 1;
  c.running[1].amounts[0] = 11;
  c.Needs("a", {10});
  CHECK(Targets(c) == "b2 InCohortFairSharing");
  // With 11, b1's removal leaves b with no more than a would have.
  CHECK(Targets(c.Needs("a", {11})).empty());
}

TEST_CASE("the share of the preemptor counts what it asks for") {
  // Without its own request a would have the smaller share.
  Cluster c;
  c.Queue("a", "pool", {0}, kReclaimOnly).Queue("b", "pool", {0}).Queue("s", "pool", {8});
  c.Runs("a", "a1", {2}).Runs("b", "b1", {3}, {.reserved_at = 1}).Runs("b", "b2", {3});
  c.Fair();
  CHECK(Targets(c.Needs("a", {4})).empty());
  CHECK(Targets(c.Needs("a", {1})) == "b1 InCohortFairSharing");
}

TEST_CASE("without a cohort there is only the own ClusterQueue") {
  Cluster c;
  c.Queue("a", "", {4}, kBoth).Queue("b", "", {4});
  c.Runs("a", "a1", {4}).Runs("b", "b1", {8});
  c.Fair().Needs("a", {2}, {.priority = 1});
  CHECK(Targets(c) == "a1 InClusterQueue");
  CHECK(Targets(c.Needs("a", {2}, {.priority = 0})).empty());
}

TEST_CASE("workloads of the LocalQueue that used more go first, whatever their priority") {
  Cluster c;
  c.Queue("a", "", {4}, kBoth);
  c.nodes[0].usage_based = true;
  c.local_queue_usage = {5, 9};
  c.Runs("a", "little", {2}, {.priority = -5, .local_queue = 0});
  c.Runs("a", "much", {2}, {.priority = 1, .local_queue = 1});
  c.Needs("a", {2}, {.priority = 2});
  CHECK(Targets(c) == "much InClusterQueue");
  CHECK(Targets(c.Fair()) == "much InClusterQueue");
  c.nodes[0].usage_based = false;
  CHECK(Targets(c) == "little InClusterQueue");
}

}  // namespace
}  // namespace sluice::preemption
