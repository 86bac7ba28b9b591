#include "admission/backfill_profile.h"

#include <absl/container/btree_set.h>

#include <algorithm>
#include <random>
#include <string>

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using build::At;
using quota::CellAmounts;
using quota::Tree;

const FlavorResource kGpu{"default", "gpu"};

TEST_CASE("the earliest fit follows from what ends") {
  Tree tree;
  tree.SetClusterQueue("cq", "", {{kGpu, {.nominal = 8}}});
  quota::Node& cq = *tree.FindQueue("cq");
  const quota::CellId gpu = tree.IdOf(kGpu);
  tree.AddUsage("cq", {{kGpu, 6}});
  BackfillProfile profile(At(10));
  profile.AddRunning(cq, {{gpu, 6}}, At(60));
  profile.Build({&cq}, {gpu});
  const auto b = profile.EarliestFit(cq, {{{gpu, 8}}}, absl::InfiniteDuration(), 1);
  REQUIRE(b.has_value());
  CHECK(b->at == At(60));
  profile.Reserve(cq, {{gpu, 8}}, *b, absl::InfiniteDuration());
  CHECK(profile.FitsUntil(cq, {{gpu, 2}}, At(60)));
  CHECK_FALSE(profile.FitsUntil(cq, {{gpu, 2}}, At(61)));
  CHECK_FALSE(profile.FitsUntil(cq, {{gpu, 3}}, At(20)));
  CHECK_FALSE(profile.EarliestFit(cq, {{{gpu, 9}}}, absl::Seconds(1), 0).has_value());
  tree.AddUsage("cq", {{kGpu, 2}});  // it starts
  profile.Start(cq, {{gpu, 2}}, At(60));
  CHECK_FALSE(profile.FitsUntil(cq, {{gpu, 1}}, At(20)));
  CHECK(tree.UsageOf("cq") == FlavorResourceAmounts{{kGpu, 8}});
}

TEST_CASE("what should have ended is free from now on, but not now") {
  Tree tree;
  tree.SetClusterQueue("cq", "", {{kGpu, {.nominal = 8}}});
  quota::Node& cq = *tree.FindQueue("cq");
  const quota::CellId gpu = tree.IdOf(kGpu);
  tree.AddUsage("cq", {{kGpu, 6}});
  BackfillProfile profile(At(100));
  profile.AddRunning(cq, {{gpu, 6}}, At(60));
  profile.Build({&cq}, {gpu});
  CHECK_FALSE(profile.FitsUntil(cq, {{gpu, 4}}, At(110)));
  const auto fit = profile.EarliestFit(cq, {{{gpu, 8}}}, absl::Seconds(10), 0);
  REQUIRE(fit.has_value());
  CHECK(fit->step == 1);
  CHECK(fit->at == At(60));
  profile.Reserve(cq, {{gpu, 8}}, *fit, absl::Seconds(10));
  CHECK_FALSE(profile.FitsUntil(cq, {{gpu, 1}}, At(101)));
  const auto next = profile.EarliestFit(cq, {{{gpu, 1}}}, absl::Seconds(10), 1);
  REQUIRE(next.has_value());
  CHECK(next->at == At(110));
}

// The same questions to a list of bookings, with a tree made anew for each instant.
class Oracle {
 public:
  struct Booking {
    std::string queue;
    FlavorResourceAmounts amounts;
    absl::Time from;
    absl::Time until;
  };
  Oracle(absl::Time now, std::function<void(Tree&)> quotas)
      : now_(now), quotas_(std::move(quotas)) {}

  void Book(Booking booking) { bookings_.push_back(std::move(booking)); }

  bool Fits(const std::string& queue, const FlavorResourceAmounts& request, absl::Time from,
            absl::Time until) const {
    for (const absl::Time at : Instants()) {
      if (at != from && (at < from || at >= until)) continue;
      Tree tree;
      quotas_(tree);
      for (const Booking& booking : bookings_) {
        if (booking.from <= at && at < booking.until) tree.AddUsage(booking.queue, booking.amounts);
      }
      if (!tree.Fits(queue, request)) return false;
    }
    return true;
  }
  std::optional<absl::Time> Earliest(const std::string& queue, const FlavorResourceAmounts& request,
                                     absl::Duration bound) const {
    for (const absl::Time at : Instants()) {
      if (Fits(queue, request, at, at + bound)) return at;
    }
    return std::nullopt;
  }
  absl::btree_set<absl::Time> Instants() const {
    absl::btree_set<absl::Time> instants = {now_};
    for (const Booking& booking : bookings_) {
      for (const absl::Time time : {booking.from, booking.until}) {
        if (time > now_ && time != absl::InfiniteFuture()) instants.insert(time);
      }
    }
    return instants;
  }

 private:
  absl::Time now_;
  std::function<void(Tree&)> quotas_;
  std::vector<Booking> bookings_;
};

// Random quotas, what runs in them, and questions about what may come.
class Rehearsal {
 public:
  explicit Rehearsal(uint32_t seed)
      : random_(seed),
        cohort_(Pick(0, 2) > 0),
        oracle_(At(0), [this](Tree& tree) { BuildTree(tree); }),
        profile_(At(0)) {
    for (int i = 0; i < Pick(1, 3); ++i) AddQuota("q" + std::to_string(i));
    BuildTree(tree_);
    for (int i = 0; i < Pick(0, 10); ++i) AddRunning();
    std::vector<quota::Node*> nodes;
    for (const Quota& quota : quotas_) nodes.push_back(tree_.FindQueue(quota.name));
    profile_.Build(nodes, {tree_.IdOf(kCells[0]), tree_.IdOf(kCells[1])});
  }

  void AskAndBook() {
    const std::string queue = AnyQueue();
    quota::Node& node = *tree_.FindQueue(queue);
    const FlavorResourceAmounts request = AnyRequest(8);
    const CellAmounts ids = tree_.IdsOf(request);
    const absl::Duration bound =
        Pick(0, 5) == 0 ? absl::InfiniteDuration() : absl::Seconds(Pick(1, 20));
    const absl::Time end = At(0) + bound;
    const bool fits = oracle_.Fits(queue, request, At(0), end);
    CHECK(profile_.FitsUntil(node, ids, end) == fits);
    const auto expected = oracle_.Earliest(queue, request, bound);
    const auto fit = profile_.EarliestFit(node, {ids}, bound, 0);
    REQUIRE(fit.has_value() == expected.has_value());
    if (!fit) return;
    CHECK(fit->at == *expected);
    if (fits && Pick(0, 1) == 0) {
      tree_.AddUsage(queue, request);
      oracle_.Book({queue, request, absl::InfinitePast(), end});
      profile_.Start(node, ids, end);
    } else if (Pick(0, 1) == 0) {
      oracle_.Book({queue, request, *expected, *expected + bound});
      profile_.Reserve(node, ids, *fit, bound);
    }
  }
  const Tree& tree() const { return tree_; }

 private:
  static inline const std::vector<FlavorResource> kCells = {{"default", "gpu"}, {"spot", "gpu"}};
  struct Quota {
    std::string name;
    quota::CellLimits limits;
  };

  int Pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  void AddQuota(const std::string& name) {
    Quota quota{name, {}};
    for (const FlavorResource& cell : kCells) {
      quota::Limits limits{.nominal = Pick(2, 10)};
      if (cohort_ && Pick(0, 3) == 0) limits.borrowing_limit = Pick(0, 5);
      if (cohort_ && Pick(0, 3) == 0) limits.lending_limit = Pick(0, 5);
      quota.limits[cell] = limits;
    }
    quotas_.push_back(std::move(quota));
  }
  void BuildTree(Tree& tree) const {
    for (const Quota& quota : quotas_) {
      tree.SetClusterQueue(quota.name, cohort_ ? "org" : "", quota.limits);
    }
    if (cohort_) tree.SetCohort("org", "", {{kCells[0], {.nominal = 3}}});
  }
  FlavorResourceAmounts AnyRequest(int most) {
    FlavorResourceAmounts amounts;
    amounts[kCells[static_cast<size_t>(Pick(0, 1))]] = Pick(1, most);
    if (Pick(0, 3) == 0) amounts[kCells[0]] = Pick(1, most);
    return amounts;
  }
  std::string AnyQueue() {
    return quotas_[static_cast<size_t>(Pick(0, static_cast<int>(quotas_.size()) - 1))].name;
  }
  void AddRunning() {
    const std::string queue = AnyQueue();
    const FlavorResourceAmounts usage = AnyRequest(5);
    if (!tree_.Fits(queue, usage)) return;
    const absl::Time end = Pick(0, 4) == 0 ? absl::InfiniteFuture() : At(Pick(1, 30));
    tree_.AddUsage(queue, usage);
    oracle_.Book({queue, usage, absl::InfinitePast(), end});
    profile_.AddRunning(*tree_.FindQueue(queue), tree_.IdsOf(usage), end);
  }

  std::mt19937 random_;
  bool cohort_;
  std::vector<Quota> quotas_;
  Tree tree_;
  Oracle oracle_;
  BackfillProfile profile_;
};

TEST_CASE("Random profiles answer as a list of bookings does") {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Rehearsal rehearsal(seed);
    for (int i = 0; i < 25; ++i) rehearsal.AskAndBook();
    rehearsal.tree().CheckInvariants();
  }
}

}  // namespace
}  // namespace sluice::admission
