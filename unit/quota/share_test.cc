// Dominant resource shares, and what is easy to get wrong in the tree below them.
#include "quota/share.h"

#include <limits>

#include "quota/tree.h"
#include "unit/catch.h"

namespace sluice::quota {
namespace {

const FlavorResource kCell{"f", "cpu"};

CellLimits Cell(int64_t nominal, std::optional<int64_t> borrowing = std::nullopt,
                std::optional<int64_t> lending = std::nullopt) {
  return {{kCell, {nominal, borrowing, lending}}};
}
FlavorResourceAmounts Take(int64_t amount) { return {{kCell, amount}}; }
Weight Milli(int64_t milli) { return Weight(Quantity::FromMilli(milli)); }
Share Of(const Tree& tree, const std::string& queue) {
  return tree.ShareOf(*tree.FindQueue(queue));
}
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_CASE("a lending limit above the quota of a cohort keeps nothing back") {
  Tree tree;
  tree.SetCohort("r", "", {});
  tree.SetCohort("m", "r", Cell(2, {}, 8));
  tree.SetClusterQueue("x", "m", Cell(3));
  tree.SetClusterQueue("z", "r", Cell(0));
  CHECK(tree.FindCohort("m")->SubtreeQuota(tree.IdOf(kCell)) == 5);
  CHECK(tree.FindCohort("m")->LocalAvailable(tree.IdOf(kCell)) == 0);
  CHECK(tree.Available("z", kCell) == 5);
  CHECK(tree.PotentialAvailable("z", kCell) == 5);
}

TEST_CASE("the dominant resource over all flavors decides") {
  Tree tree;
  const auto set = [&](const Weight& weight) {
    tree.SetClusterQueue(
        "a", "pool",
        {{{"d", "cpu"}, {10, {}, {}}}, {{"f", "gpu"}, {4, {}, {}}}, {{"g", "gpu"}, {2, {}, {}}}},
        weight);
  };
  set({});
  tree.SetClusterQueue(
      "b", "pool",
      {{{"d", "cpu"}, {20, {}, {}}}, {{"f", "gpu"}, {4, {}, {}}}, {{"g", "gpu"}, {6, {}, {}}}});
  tree.AddUsage("a", {{{"d", "cpu"}, 16}, {{"f", "gpu"}, 6}, {{"g", "gpu"}, 1}});
  CHECK(Of(tree, "a").Rounded() == 200);
  CHECK(Of(tree, "a") == Share(6, 30, {}));
  set(Milli(500));
  CHECK(Of(tree, "a").Rounded() == 400);
  set(Milli(0));
  CHECK(Of(tree, "a").IsInfinite());
  CHECK(Of(tree, "a").Rounded() == kMost);
  CHECK(Of(tree, "b").IsZero());
}

TEST_CASE("what is not lent is not lendable") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(4));
  tree.SetClusterQueue("b", "pool", Cell(12, {}, 4));
  tree.AddUsage("a", Take(7));
  CHECK(tree.FindCohort("pool")->SubtreeQuota(tree.IdOf(kCell)) == 8);
  CHECK(Of(tree, "a") == Share(3, 8, {}));
  CHECK(Of(tree, "a").Rounded() == 375);
}

TEST_CASE("lendable is what the parent could have, with its borrowing limit") {
  Tree tree;
  tree.SetCohort("m", "r", Cell(0, 6));
  tree.SetCohort("n", "r", {});
  tree.SetClusterQueue("x", "m", Cell(2));
  tree.SetClusterQueue("y", "m", Cell(2));
  tree.SetClusterQueue("z", "n", Cell(16));
  tree.AddUsage("x", Take(7));
  CHECK(Of(tree, "x").Rounded() == 500);
  CHECK(Of(tree, "x") == Share(5, 10, {}));
  CHECK(tree.ShareOf(*tree.FindCohort("m")) == Share(3, 20, {}));
  CHECK(tree.ShareOf(*tree.FindCohort("r")).IsZero());
}

TEST_CASE("the share of a root is zero, whatever it uses") {
  Tree tree;
  tree.SetClusterQueue("alone", "", Cell(1));
  tree.AddUsage("alone", Take(9));
  CHECK(Of(tree, "alone").IsZero());
}

TEST_CASE("lendable counts flavors that the ClusterQueue does not list") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(0));
  tree.SetClusterQueue("b", "pool", {{{"g", "cpu"}, {6, {}, {}}}, {kCell, {2, {}, {}}}});
  tree.AddUsage("a", Take(2));
  CHECK(Of(tree, "a") == Share(2, 8, {}));
  // Also one that no ClusterQueue lists, only a cohort.
  tree.SetCohort("pool", "", {{{"h", "cpu"}, {2, {}, {}}}});
  CHECK(Of(tree, "a") == Share(2, 10, {}));
}

TEST_CASE("a resource that nobody could lend is left out") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", {{{"f", "gpu"}, {0, {}, {}}}, {kCell, {1, {}, {}}}});
  tree.SetClusterQueue("b", "pool", Cell(3));
  tree.AddUsage("a", {{{"f", "gpu"}, 5}, {kCell, 2}});
  CHECK(Of(tree, "a") == Share(1, 4, {}));
}

TEST_CASE("weight zero is infinite only while it borrows, and then the plain ratio counts") {
  const Share nothing(0, 8, Milli(0));
  const Share some(1, 8, Milli(0));
  const Share more(2, 8, Milli(0));
  const Share finite(8, 8, Milli(1));
  CHECK(nothing.IsZero());
  CHECK_FALSE(nothing.IsInfinite());
  CHECK(nothing == Share());
  CHECK(nothing.Rounded() == 0);
  CHECK(nothing < finite);
  CHECK(finite < some);
  CHECK(some < more);
  CHECK(some == Share(2, 16, Milli(0)));
}

TEST_CASE("shares compare exactly") {
  CHECK(Share(1, 3, {}) == Share(2, 6, {}));
  CHECK(Share(1, 3, {}) < Share(334, 1001, {}));
  CHECK(Share(1, 12, Milli(500)) == Share(2, 12, {}));
  CHECK(Share(1, 12, Milli(1500)) < Share(1, 12, {}));
  // Numbers for which a double would be equal, and a cross-multiplication too long.
  CHECK(Share(kMost - 1, kMost, Milli(1)) < Share(kMost, kMost, Milli(1)));
  CHECK(Share(kMost - 2, kMost - 1, {}) < Share(kMost - 1, kMost, {}));
  CHECK(Share(kMost, kMost, {}) == Share(1, 1, {}));
}

TEST_CASE("shares are shown in thousandths, rounded up") {
  CHECK(Share(1, 3, {}).Rounded() == 334);
  CHECK(Share(1, 12, {}).Rounded() == 84);
  CHECK(Share(1, 1'000'000, {}).Rounded() == 1);
  CHECK(Share(kMost, 1, {}).Rounded() == kMost);
}

// ---- easy to get wrong ----

TEST_CASE("a deficit of a cohort reaches its children") {
  Tree tree;
  tree.SetCohort("m", "r", {});
  tree.SetClusterQueue("x", "m", Cell(5, {}, 2));
  tree.SetClusterQueue("y", "m", Cell(10));
  tree.AddUsage("y", Take(12));
  tree.SetClusterQueue("y", "m", Cell(2));
  // The cohort has 4 and uses 12; x has 3 of its own, and 8 less than nothing from the cohort.
  CHECK(tree.Available("x", kCell) == 0);
  tree.RemoveUsage("y", Take(9));
  CHECK(tree.Available("x", kCell) == 4);
  CHECK(tree.Available("y", kCell) == 1);
}

TEST_CASE("removing usage gives back to the parent what is stored above the guaranteed part") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(10, {}, 4));  // keeps 6
  tree.SetClusterQueue("b", "pool", Cell(10));
  tree.AddUsage("a", Take(9));
  const CellId cell = tree.IdOf(kCell);
  CHECK(tree.FindCohort("pool")->Usage(cell) == 3);
  tree.RemoveUsage("a", Take(2));
  CHECK(tree.FindCohort("pool")->Usage(cell) == 1);
  tree.RemoveUsage("a", Take(5));
  CHECK(tree.FindCohort("pool")->Usage(cell) == 0);
  tree.RemoveUsage("a", Take(2));
  CHECK(tree.FindCohort("pool")->Usage(cell) == 0);
  tree.CheckInvariants();
}

TEST_CASE("cohorts have borrowing and lending limits too") {
  Tree tree;
  tree.SetCohort("m", "r", Cell(4, 1, 2));
  tree.SetClusterQueue("x", "m", Cell(0));
  tree.SetClusterQueue("z", "r", Cell(5));
  CHECK(tree.Available("x", kCell) == 5);  // 4 of m, and 1 that m may borrow
  CHECK(tree.Available("z", kCell) == 7);  // its own 5, and 2 that m lends
  CHECK(tree.PotentialAvailable("x", kCell) == 5);
  tree.AddUsage("x", Take(5));
  CHECK(tree.Available("x", kCell) == 0);
  CHECK(tree.Available("z", kCell) == 4);
}

TEST_CASE("what could ever fit is not the nominal quota") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(2));
  tree.SetClusterQueue("b", "pool", Cell(3));
  tree.AddUsage("b", Take(3));
  CHECK(tree.PotentialAvailable("a", kCell) == 5);
  tree.SetClusterQueue("a", "pool", Cell(2, 1));
  CHECK(tree.PotentialAvailable("a", kCell) == 3);
}

TEST_CASE("a removed cohort or ClusterQueue leaves no quota behind in any ancestor") {
  Tree tree;
  tree.SetCohort("root", "", {});
  tree.SetCohort("left", "root", {});
  tree.SetCohort("right", "root", Cell(5));
  tree.SetClusterQueue("qa", "left", Cell(10));
  tree.SetClusterQueue("qb", "right", Cell(7));
  tree.AddUsage("qa", Take(10));
  CHECK(tree.Available("qa", kCell) == 12);
  tree.RemoveCohort("right");
  CHECK(tree.Available("qa", kCell) == 0);
  CHECK(tree.PotentialAvailable("qa", kCell) == 10);
  CHECK(tree.Available("qb", kCell) == 7);
  tree.SetCohort("right", "root", Cell(5));
  CHECK(tree.Available("qa", kCell) == 12);
  tree.RemoveClusterQueue("qb");
  CHECK(tree.Available("qa", kCell) == 5);
  tree.CheckInvariants();
}

TEST_CASE("unlimited and near-unlimited amounts saturate") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(kUnlimited));
  tree.SetClusterQueue("b", "pool", Cell(kMost - 1));
  tree.SetClusterQueue("c", "pool", Cell(kMost - 1, {}, 5));
  CHECK(tree.Available("b", kCell) == kUnlimited);
  CHECK(tree.PotentialAvailable("c", kCell) == kUnlimited);
  tree.AddUsage("b", Take(kMost - 1));
  tree.AddUsage("c", Take(kMost - 1));
  tree.AddUsage("a", Take(kMost - 1));
  CHECK(tree.Available("b", kCell) >= 0);
  CHECK(Of(tree, "a").IsZero());
  tree.CheckInvariants();
  tree.SetClusterQueue("a", "pool", Cell(0));
  CHECK(tree.Available("a", kCell) == 0);
  CHECK_FALSE(Of(tree, "a").IsZero());
  CHECK(tree.Available("b", kCell) == 0);
  for (const char* name : {"a", "b", "c"}) tree.RemoveUsage(name, Take(kMost - 1));
  CHECK(tree.Usage("a", kCell) == 0);
  tree.CheckInvariants();
}

}  // namespace
}  // namespace sluice::quota
