#include "quota/refusal.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "unit/catch.h"

namespace sluice::quota {
namespace {

using Limit = Refusal::Limit;

const FlavorResource kCell{"f", "cpu"};

// A tree, and the limits as the objects say them.
struct World {
  void Queue(const std::string& name, const std::string& cohort, const Limits& limits) {
    lending[name] = limits.lending_limit;
    tree.SetClusterQueue(name, cohort, {{kCell, limits}});
  }
  void Cohort(const std::string& name, const std::string& parent, const Limits& limits) {
    lending[name] = limits.lending_limit;
    tree.SetCohort(name, parent, {{kCell, limits}});
  }
  void Use(const std::string& name, int64_t amount) { tree.AddUsage(name, {{kCell, amount}}); }
  RefusalFinder Finder() const {
    return RefusalFinder(tree.IdOf(kCell), [this](const Node& node) {
      const auto found = lending.find(node.name());
      return found == lending.end() ? std::nullopt : found->second;
    });
  }
  std::vector<Refusal> Ask(const std::string& queue, int64_t request,
                           Horizon horizon = Horizon::kNow) const {
    return Finder().Refusals(*tree.FindQueue(queue), request, horizon);
  }

  Tree tree;
  std::map<std::string, std::optional<int64_t>> lending;
};

TEST_CASE("Refusal: the own quota of a ClusterQueue without cohort") {
  World world;
  world.Queue("a", "", {10, {}, {}});
  world.Use("a", 7);
  CHECK(world.Ask("a", 3).empty());
  const auto now = world.Ask("a", 5);
  REQUIRE(now.size() == 1);
  CHECK(now[0].node->name() == "a");
  CHECK(now[0].limit == Limit::kNominalQuota);
  CHECK(now[0].room == 3);
  CHECK(now[0].missing == 2);
  CHECK(world.Ask("a", 10, Horizon::kEver).empty());
  CHECK(world.Ask("a", 12, Horizon::kEver).at(0).missing == 2);
}

TEST_CASE("Refusal: the tree of the README names who keeps quota back") {
  World world;
  world.Cohort("org", "", {4, {}, {}});
  world.Queue("a", "org", {10, 5, 6});
  world.Queue("b", "org", {8, {}, {}});
  // b could have 18; a keeps 4 for itself.
  const auto lent = world.Ask("b", 20);
  REQUIRE(lent.size() == 1);
  CHECK(lent[0].limit == Limit::kLendingLimit);
  CHECK(lent[0].node->name() == "org");
  CHECK(lent[0].lender->name() == "a");
  CHECK(lent[0].missing == 2);
  const auto capacity = world.Ask("b", 23, Horizon::kEver);
  REQUIRE(capacity.size() == 1);
  CHECK(capacity[0].limit == Limit::kCapacity);
  CHECK(capacity[0].missing == 5);
  // a may borrow 5, and then org has no more either: the larger lack comes first.
  const auto both = world.Ask("a", 24);
  REQUIRE(both.size() == 2);
  CHECK(both[0].node->name() == "a");
  CHECK(both[0].limit == Limit::kBorrowingLimit);
  CHECK(both[0].missing == 9);
  CHECK(both[1].node->name() == "org");
  CHECK(both[1].missing == 2);
  world.Use("a", 7);
  world.Use("b", 12);
  const auto holders = world.Finder().Holders(*world.tree.FindCohort("org"), 3);
  REQUIRE(holders.size() == 2);
  CHECK(holders[0].node->name() == "b");
  CHECK(holders[0].counted == 12);
  CHECK(holders[1].usage == 7);
  CHECK(holders[1].counted == 3);
  CHECK(world.Finder().Holders(*world.tree.FindCohort("org"), 1).size() == 1);
}

TEST_CASE("Refusal: a cohort in the middle, and one that is over its quota") {
  World world;
  world.Cohort("root", "", {100, {}, {}});
  world.Cohort("mid", "root", {0, 3, {}});
  world.Queue("a", "mid", {5, {}, {}});
  const auto mid = world.Ask("a", 10);
  REQUIRE(mid.size() == 1);
  CHECK(mid[0].node->name() == "mid");
  CHECK(mid[0].limit == Limit::kBorrowingLimit);
  CHECK(mid[0].missing == 2);
  world.Use("a", 8);
  world.Cohort("mid", "root", {0, 0, {}});
  const auto over = world.Ask("a", 1);
  REQUIRE(over.size() == 1);
  CHECK(over[0].room == -3);
  CHECK(over[0].missing == 4);
}

TEST_CASE("Refusal: a cell that is not listed") {
  World world;
  world.tree.SetClusterQueue("a", "", {});
  const auto refusals = world.Ask("a", 2);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].limit == Limit::kNominalQuota);
  CHECK(refusals[0].missing == 2);
  CHECK(world.Ask("a", 0).empty());
}

// A random tree whose limits can be changed one by one.
class RandomTree {
 public:
  explicit RandomTree(uint64_t seed) : random_(seed) {
    const int cohorts = Number(0, 4);
    for (int i = 0; i < cohorts; ++i) {
      const std::string name = "c" + std::to_string(i);
      nodes_[name] = {i == 0 || Number(0, 3) == 0 ? "" : "c" + std::to_string(Number(0, i - 1)),
                      true, RandomLimits()};
    }
    const int queues = Number(1, 5);
    for (int i = 0; i < queues; ++i) {
      const std::string parent =
          cohorts == 0 || Number(0, 5) == 0 ? "" : "c" + std::to_string(Number(0, cohorts - 1));
      Limits limits = RandomLimits();
      if (parent.empty()) limits = {limits.nominal, {}, {}};
      nodes_["q" + std::to_string(i)] = {parent, false, limits};
    }
    for (const auto& [name, node] : nodes_) Put(name);
    for (int i = 0; i < queues; ++i) {
      if (Number(0, 3) > 0) world.Use("q" + std::to_string(i), Number(0, 15));
    }
  }

  int Number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::vector<std::string> Queues() const {
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) {
      if (!node.cohort) names.push_back(name);
    }
    return names;
  }

  // Changes the limit that the refusal names, and that one only.
  void Raise(const Refusal& refusal, int64_t by) {
    const bool lends = refusal.limit == Limit::kLendingLimit;
    const std::string name = lends ? refusal.lender->name() : refusal.node->name();
    Limits& limits = nodes_.at(name).limits;
    if (lends) {
      limits.lending_limit = limits.lending_limit.value() + by;
    } else if (refusal.limit == Limit::kBorrowingLimit) {
      limits.borrowing_limit = limits.borrowing_limit.value() + by;
    } else {
      limits.nominal += by;
    }
    Put(name);
  }

  World world;

 private:
  struct Object {
    std::string parent;
    bool cohort = false;
    Limits limits;
  };

  Limits RandomLimits() {
    Limits limits{Number(0, 10), {}, {}};
    if (Number(0, 2) == 0) limits.borrowing_limit = Number(0, 8);
    if (Number(0, 2) == 0) limits.lending_limit = Number(0, 8);
    return limits;
  }
  void Put(const std::string& name) {
    const Object& node = nodes_.at(name);
    if (node.cohort) {
      world.Cohort(name, node.parent, node.limits);
    } else {
      world.Queue(name, node.parent, node.limits);
    }
  }

  std::mt19937_64 random_;
  std::map<std::string, Object> nodes_;
};

bool Refuses(const std::vector<Refusal>& refusals, const Refusal& which) {
  const bool borrowing = which.limit == Limit::kBorrowingLimit;
  return std::any_of(refusals.begin(), refusals.end(), [&](const Refusal& refusal) {
    return refusal.node == which.node && (refusal.limit == Limit::kBorrowingLimit) == borrowing;
  });
}

TEST_CASE(
    "Refusal: the node whose limit grows by what is missing refuses no more, and not before") {
  const char* only = std::getenv("SLUICE_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? 4000 : first;
  std::map<Limit, int> seen;
  for (uint64_t seed = first; seed <= last; ++seed) {
    INFO("SLUICE_SEED=" << seed);
    RandomTree random(seed);
    const CellId cell = random.world.tree.IdOf(kCell);
    for (const std::string& queue : random.Queues()) {
      for (const Horizon horizon : {Horizon::kNow, Horizon::kEver}) {
        const int64_t request = random.Number(1, 40);
        const auto refusals = random.world.Ask(queue, request, horizon);
        const Node& node = *random.world.tree.FindQueue(queue);
        const int64_t room = horizon == Horizon::kNow ? Tree::Room(node, cell)
                                                      : Tree::PotentialAvailable(node, cell);
        REQUIRE(refusals.empty() == (request <= room));
        if (!refusals.empty()) REQUIRE(refusals[0].missing == request - room);
        for (const Refusal& refusal : refusals) {
          ++seen[refusal.limit];
          random.Raise(refusal, refusal.missing - 1);
          REQUIRE(Refuses(random.world.Ask(queue, request, horizon), refusal));
          random.Raise(refusal, 1);
          REQUIRE_FALSE(Refuses(random.world.Ask(queue, request, horizon), refusal));
          random.Raise(refusal, -refusal.missing);
        }
      }
    }
    random.world.tree.CheckInvariants();
  }
  if (only != nullptr) return;
  CHECK(seen[Limit::kNominalQuota] > 500);
  CHECK(seen[Limit::kBorrowingLimit] > 500);
  CHECK(seen[Limit::kLendingLimit] > 500);
  CHECK(seen[Limit::kCapacity] > 500);
}

}  // namespace
}  // namespace sluice::quota
