#include "quota/credit_standing.h"

#include <memory>

#include "unit/catch.h"

namespace sluice::quota {
namespace {

const FlavorResource kGpu{"default", "nvidia.com/gpu"};
const FlavorResource kCores{"default", "cpu"};

absl::Time At(absl::Duration time) { return absl::FromUnixSeconds(1'800'000'000) + time; }
CreditAccount::Micros Units(int64_t units) { return CreditAccount::Micros{units} * 1'000'000; }

// Two queues with 8 GPUs each below a cohort with 16 more; a horizon of two hours.
class Cluster {
 public:
  Cluster() {
    tree_.SetCohort("org", "", {{kGpu, {.nominal = 16}}, {kCores, {.nominal = 64'000}}});
    for (const char* name : {"a", "b"}) {
      tree_.SetClusterQueue(name, "org", {{kGpu, {.nominal = 8}}, {kCores, {.nominal = 8'000}}});
    }
    auto weights = std::make_shared<CreditWeights>(absl::btree_map<ResourceName, Quantity>{
        {kGpu.resource, Quantity::FromInt(1)}, {"memory", Quantity::FromInt(0)}});
    weights->AddCell(tree_, kGpu);
    weights->AddCell(tree_, kCores);
    CreditRules rules;
    rules.half_life = absl::ZeroDuration();
    rules.horizon = absl::Hours(2);
    account_ = std::make_unique<CreditTimeline>(
        rules, CreditTimeline::Checkpoint{At(absl::ZeroDuration()), {}, {}}, Units(8), true,
        Units(8) * 1'000'000);
    auto policy = std::make_shared<CreditStanding::Policy>();
    policy->name = "p";
    policy->weights = weights;
    policy->protects = true;
    for (const char* name : {"a", "b"}) {
      standing_.Set(*tree_.FindQueue(name), policy, Units(8),
                    name[0] == 'a' ? account_.get() : nullptr);
    }
    standing_.SetNow(At(absl::ZeroDuration()));
  }

  // Credit-hours in the account of a.
  void Bank(int64_t hours) {
    account_->Rebase({At(absl::Hours(1)), Credits::FromHours(hours), {}});
    standing_.SetNow(At(absl::Hours(1)));
  }
  void Use(const char* name, int64_t gpus) { tree_.AddUsage(name, {{kGpu, gpus}}); }
  Node& Queue(const char* name) { return *tree_.FindQueue(name); }

  Tree tree_;
  std::unique_ptr<CreditTimeline> account_;
  CreditStanding standing_;
};

TEST_CASE("a queue is within its standing entitlement as long as its bank allows") {
  Cluster c;
  c.Use("a", 14);
  const auto* terms = c.standing_.Of(c.Queue("a"));
  REQUIRE(terms != nullptr);
  CHECK_FALSE(c.standing_.Within(c.Queue("a"), *terms));
  CHECK_FALSE(c.standing_.Protected(c.Queue("a")));
  c.Bank(12);  // 12 credit-hours over two hours are six more GPUs
  terms = c.standing_.Of(c.Queue("a"));
  CHECK(c.standing_.Within(c.Queue("a"), *terms));
  CHECK(c.standing_.Protected(c.Queue("a")));
  const CellAmounts one_more = {{c.tree_.IdOf(kGpu), 1}};
  CHECK_FALSE(c.standing_.Within(c.Queue("a"), *terms, one_more));
  // Another resource does not count.
  CHECK(c.standing_.Within(c.Queue("a"), *terms, {{c.tree_.IdOf(kCores), 5'000}}));
  CHECK(c.standing_.Of(*c.tree_.FindCohort("org")) == nullptr);
}

TEST_CASE("who is furthest above, as a fraction of the entitlement") {
  Cluster c;
  c.Use("a", 14);
  c.Use("b", 10);
  CHECK(c.standing_.OverageOf(c.Queue("a")) > c.standing_.OverageOf(c.Queue("b")));
  c.Bank(10);  // a is one above, b two
  CHECK(c.standing_.OverageOf(c.Queue("a")) < c.standing_.OverageOf(c.Queue("b")));
  CHECK(c.standing_.OverageOf(*c.tree_.FindCohort("org")) == CreditStanding::Overage{});
  // Use of somebody without any entitlement is above everything.
  CHECK(CreditStanding::Overage{1, 0} > CreditStanding::Overage{1'000'000'000'000'000, 1'000'000});
  CHECK(CreditStanding::Overage{0, 0} < CreditStanding::Overage{1'000'000, 1'000'000});
}

TEST_CASE("only use above the standing entitlement counts in a share") {
  Cluster c;
  c.Use("a", 14);
  CHECK(c.standing_.ShareOf(c.tree_, c.Queue("a")) == c.tree_.ShareOf(c.Queue("a")));
  CHECK(c.tree_.ShareOf(c.Queue("a")).Rounded() == 188);  // 6 of 32
  c.Bank(6);
  CHECK(c.standing_.ShareOf(c.tree_, c.Queue("a")).Rounded() == 94);  // 3 of 32
  c.Bank(12);
  CHECK(c.standing_.ShareOf(c.tree_, c.Queue("a")).IsZero());
  // What is borrowed of a resource that is not banked counts as ever.
  c.tree_.AddUsage("a", {{kCores, 48'000}});
  CHECK(c.standing_.ShareOf(c.tree_, c.Queue("a")).Rounded() == 500);  // 40 of 80 cores
}

TEST_CASE("a lender's claim is remembered by its workload") {
  CreditStanding standing;
  CHECK_FALSE(standing.LenderUntil("uid").has_value());
  standing.SetLender("uid", At(absl::Hours(1)));
  CHECK(standing.LenderUntil("uid") == At(absl::Hours(1)));
  standing.ForgetLender("uid");
  CHECK_FALSE(standing.LenderUntil("uid").has_value());
}

}  // namespace
}  // namespace sluice::quota
