#include "quota/tree.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "quota/overlay.h"
#include "unit/catch.h"

namespace sluice::quota {
namespace {

const FlavorResource kCell{"f", "cpu"};

CellLimits Cell(int64_t nominal, std::optional<int64_t> borrowing = std::nullopt,
                std::optional<int64_t> lending = std::nullopt) {
  return {{kCell, {nominal, borrowing, lending}}};
}
FlavorResourceAmounts Take(int64_t amount) { return {{kCell, amount}}; }

TEST_CASE("a ClusterQueue without cohort uses its own quota only") {
  Tree tree;
  tree.SetClusterQueue("a", "", Cell(10));
  CHECK(tree.Available("a", kCell) == 10);
  CHECK(tree.PotentialAvailable("a", kCell) == 10);
  CHECK(tree.Fits("a", Take(10)));
  CHECK_FALSE(tree.Fits("a", Take(11)));
  tree.AddUsage("a", Take(7));
  CHECK(tree.Available("a", kCell) == 3);
  CHECK(tree.PotentialAvailable("a", kCell) == 10);
  CHECK(tree.Borrowed("a", kCell) == 0);
  CHECK(tree.TreeOf("a") == std::vector<std::string>{"a"});
  // A cut below the usage leaves nothing available, and nothing negative.
  tree.SetClusterQueue("a", "", Cell(2));
  CHECK(tree.Available("a", kCell) == 0);
  CHECK(tree.Usage("a", kCell) == 7);
  tree.RemoveUsage("a", Take(7));
  CHECK(tree.Available("a", kCell) == 2);
}

TEST_CASE("cells that are not listed offer nothing") {
  Tree tree;
  tree.SetClusterQueue("a", "pool", Cell(1));
  tree.SetCohort("pool", "", {{{"g", "cpu"}, {5, {}, {}}}});
  CHECK(tree.Available("a", {"g", "cpu"}) == 0);
  CHECK(tree.PotentialAvailable("a", {"g", "cpu"}) == 0);
  CHECK_FALSE(tree.Fits("a", {{{"g", "cpu"}, 0}}));
  CHECK_FALSE(tree.Fits("unknown", Take(0)));
}

TEST_CASE("usage does not depend on the order in which objects arrive") {
  Tree tree;
  tree.AddUsage("a", Take(4));
  CHECK(tree.Usage("a", kCell) == 4);
  CHECK(tree.Available("a", kCell) == 0);
  tree.SetClusterQueue("a", "", Cell(10));
  CHECK(tree.Available("a", kCell) == 6);
  tree.RemoveClusterQueue("a");
  CHECK(tree.Usage("a", kCell) == 4);
  CHECK_FALSE(tree.HasClusterQueue("a"));
  tree.RemoveUsage("a", Take(4));
  CHECK(tree.UsageOf("a").empty());
  tree.CheckInvariants();
}

TEST_CASE("two queues and a pool, with lending and borrowing limits") {
  Tree tree;
  tree.SetCohort("org", "", Cell(4));
  tree.SetClusterQueue("a", "org", Cell(10, 5, 6));
  tree.SetClusterQueue("b", "org", Cell(8));
  CHECK(tree.PotentialAvailable("a", kCell) == 15);
  CHECK(tree.PotentialAvailable("b", kCell) == 18);
  const auto available = [&] {
    return std::pair(tree.Available("a", kCell), tree.Available("b", kCell));
  };
  CHECK(available() == std::pair<int64_t, int64_t>(15, 18));
  tree.AddUsage("a", Take(7));
  CHECK(available() == std::pair<int64_t, int64_t>(8, 15));
  tree.AddUsage("b", Take(12));
  CHECK(available() == std::pair<int64_t, int64_t>(3, 3));
  CHECK(tree.Borrowed("b", kCell) == 4);
  tree.RemoveUsage("a", Take(5));
  CHECK(available() == std::pair<int64_t, int64_t>(8, 6));
  tree.CheckInvariants();
}

TEST_CASE("three levels") {
  Tree tree;
  tree.SetCohort("r", "", Cell(2));
  tree.SetCohort("m", "r", Cell(6, 4, 3));
  tree.SetClusterQueue("x", "m", Cell(5));
  tree.SetClusterQueue("y", "m", Cell(0));
  tree.SetClusterQueue("z", "r", Cell(7));
  CHECK(tree.PotentialAvailable("x", kCell) == 15);
  CHECK(tree.PotentialAvailable("y", kCell) == 15);
  CHECK(tree.PotentialAvailable("z", kCell) == 12);
  tree.AddUsage("y", Take(10));
  CHECK(tree.Available("x", kCell) == 5);
  CHECK(tree.Available("y", kCell) == 5);
  CHECK(tree.Available("z", kCell) == 10);
  tree.AddUsage("z", Take(9));
  CHECK(tree.Available("x", kCell) == 1);
  CHECK(tree.Available("z", kCell) == 1);
  CHECK(tree.TreeOf("y") == std::vector<std::string>{"x", "y", "z"});
  tree.CheckInvariants();
}

TEST_CASE("a quota cut evicts nobody and leaves nothing available") {
  Tree tree;
  tree.SetClusterQueue("a", "root", Cell(10));
  tree.SetClusterQueue("b", "root", Cell(10));
  tree.AddUsage("a", Take(15));
  tree.SetClusterQueue("b", "root", Cell(2));
  CHECK(tree.Available("a", kCell) == 0);
  CHECK(tree.Available("b", kCell) == 0);
  CHECK(tree.Usage("a", kCell) == 15);
}

TEST_CASE("borrowing levels") {
  Tree tree;
  tree.SetCohort("m", "r", {});
  tree.SetCohort("n", "r", {});
  tree.SetClusterQueue("x", "m", Cell(2));
  tree.SetClusterQueue("x2", "m", Cell(4));
  tree.SetClusterQueue("w", "n", Cell(10));
  const auto level = [&](int64_t request) { return tree.LevelFor("x", kCell, request); };
  CHECK(level(2) == BorrowLevel{0, true});
  CHECK(level(5) == BorrowLevel{1, true});
  CHECK(level(6) == BorrowLevel{1, true});
  CHECK(level(7) == BorrowLevel{2, false});
  CHECK(level(16) == BorrowLevel{2, false});
  CHECK(tree.PotentialAvailable("x", kCell) == 16);
  tree.AddUsage("x2", Take(3));
  CHECK(level(3) == BorrowLevel{1, true});
  CHECK(level(4) == BorrowLevel{2, false});
}

TEST_CASE("unlimited quota stays unlimited") {
  CHECK(AddAmounts(kUnlimited, 5) == kUnlimited);
  CHECK(SubtractAmounts(kUnlimited, 5) == kUnlimited);
  CHECK(SubtractAmounts(kUnlimited, kUnlimited) == 0);
  CHECK(SubtractAmounts(5, kUnlimited) < 0);
  Tree tree;
  tree.SetClusterQueue("a", "", Cell(kUnlimited));
  tree.AddUsage("a", Take(kUnlimited - 1));
  CHECK(tree.Available("a", kCell) == kUnlimited);
  // More than 64 bits of usage comes back exactly.
  tree.AddUsage("a", Take(kUnlimited - 1));
  tree.RemoveUsage("a", Take(kUnlimited - 1));
  tree.RemoveUsage("a", Take(kUnlimited - 1));
  CHECK(tree.Usage("a", kCell) == 0);
}

TEST_CASE("a cycle of cohorts offers nothing and heals") {
  Tree tree;
  tree.SetCohort("p", "q", Cell(3));
  tree.SetClusterQueue("a", "p", Cell(4));
  tree.AddUsage("a", Take(1));
  CHECK_FALSE(tree.InCycle("a"));
  tree.SetCohort("q", "p", {});
  CHECK(tree.InCycle("a"));
  CHECK(tree.Available("a", kCell) == 0);
  CHECK(tree.TreeOf("a") == std::vector<std::string>{"a"});
  tree.AddUsage("a", Take(2));
  tree.RemoveUsage("a", Take(1));
  tree.SetCohort("q", "", {});
  CHECK_FALSE(tree.InCycle("a"));
  CHECK(tree.Available("a", kCell) == 5);
  tree.SetCohort("p", "p", {});
  CHECK(tree.InCycle("a"));
  tree.RemoveCohort("p");
  CHECK(tree.Available("a", kCell) == 2);
  tree.CheckInvariants();
}

TEST_CASE("an overlay is undone exactly") {
  Tree tree;
  tree.SetClusterQueue("a", "root", Cell(10, {}, 4));
  tree.SetClusterQueue("b", "root", Cell(10));
  tree.AddUsage("a", Take(3));
  {
    Overlay overlay;
    overlay.Add(*tree.FindQueue("a"), tree.IdsOf(Take(9)));
    const size_t mark = overlay.Mark();
    overlay.Remove(*tree.FindQueue("a"), tree.IdsOf(Take(2)));
    overlay.Add(*tree.FindQueue("b"), tree.IdsOf(Take(1)));
    overlay.Rollback(mark);
    CHECK(tree.Usage("a", kCell) == 12);
    CHECK(tree.Usage("b", kCell) == 0);
    tree.CheckInvariants();
  }
  CHECK(tree.Usage("a", kCell) == 3);
  tree.CheckInvariants();
}

// The definition, written down without any stored sum.
class NaiveModel {
 public:
  struct Node {
    std::string parent;
    bool is_cohort = false;
    Limits limits;
    int64_t usage = 0;
  };
  std::map<std::string, Node> nodes;

  int64_t Quota(const std::string& name) const {
    int64_t sum = nodes.at(name).limits.nominal;
    for (const auto& [child, node] : nodes) {
      if (node.parent == name) sum += Quota(child) - Guaranteed(child);
    }
    return sum;
  }
  int64_t Guaranteed(const std::string& name) const {
    const auto& lending = nodes.at(name).limits.lending_limit;
    return lending.has_value() ? std::max<int64_t>(0, Quota(name) - *lending) : 0;
  }
  int64_t Usage(const std::string& name) const {
    const Node& node = nodes.at(name);
    if (!node.is_cohort) return node.usage;
    int64_t sum = 0;
    for (const auto& [child, other] : nodes) {
      if (other.parent == name) sum += std::max<int64_t>(0, Usage(child) - Guaranteed(child));
    }
    return sum;
  }
  int64_t Available(const std::string& name) const {
    const Node& node = nodes.at(name);
    if (node.parent.empty()) return Quota(name) - Usage(name);
    int64_t shared = Available(node.parent);
    if (node.limits.borrowing_limit.has_value()) {
      const int64_t above = std::max<int64_t>(0, Usage(name) - Guaranteed(name));
      shared =
          std::min(shared, Quota(name) - Guaranteed(name) - above + *node.limits.borrowing_limit);
    }
    return std::max<int64_t>(0, Guaranteed(name) - Usage(name)) + shared;
  }
};

TEST_CASE("random trees agree with the naive model") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int limit) {
      return static_cast<int>(random() % static_cast<unsigned>(limit));
    };
    const auto limit = [&]() -> std::optional<int64_t> {
      return pick(2) == 0 ? std::nullopt : std::optional<int64_t>(pick(8));
    };
    Tree tree;
    NaiveModel model;
    for (int step = 0; step < 120; ++step) {
      const int index = pick(4);
      const std::string cohort = "c" + std::to_string(index);
      const std::string queue = "q" + std::to_string(pick(5));
      // A cohort's parent has a smaller number, so there is no cycle.
      const std::string parent = index == 0 ? "" : "c" + std::to_string(pick(index));
      const Limits limits{pick(12), limit(), limit()};
      switch (pick(4)) {
        case 0:
          tree.SetCohort(cohort, parent, {{kCell, limits}});
          model.nodes[cohort].limits = limits;
          model.nodes[cohort].parent = parent;
          break;
        case 1:
          tree.SetClusterQueue(queue, cohort, {{kCell, limits}});
          model.nodes[queue].limits = limits;
          model.nodes[queue].parent = cohort;
          break;
        case 2: {
          const int64_t amount = pick(9);
          tree.AddUsage(queue, Take(amount));
          model.nodes[queue].usage += amount;
          break;
        }
        default:
          if (const int64_t used = model.nodes[queue].usage; used > 0) {
            const int64_t amount = 1 + pick(static_cast<int>(used));
            tree.RemoveUsage(queue, Take(amount));
            model.nodes[queue].usage -= amount;
          }
      }
      for (int i = 0; i < 4; ++i) model.nodes["c" + std::to_string(i)].is_cohort = true;
      tree.CheckInvariants();
      for (int i = 0; i < 5; ++i) {
        const std::string name = "q" + std::to_string(i);
        if (!tree.HasClusterQueue(name)) continue;
        INFO("seed " << seed << " step " << step << " " << name);
        REQUIRE(tree.Available(name, kCell) == std::max<int64_t>(0, model.Available(name)));
        REQUIRE(tree.Usage(name, kCell) == model.Usage(name));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::quota
