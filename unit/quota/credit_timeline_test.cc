#include "quota/credit_timeline.h"

#include <algorithm>
#include <random>
#include <vector>

#include "unit/catch.h"

namespace sluice::quota {
namespace {

using Change = CreditTimeline::Change;

absl::Time At(absl::Duration time) { return absl::FromUnixSeconds(1'800'000'000) + time; }
CreditTimeline::Micros Units(int64_t units) { return CreditTimeline::Micros{units} * 1'000'000; }
CreditTimeline::Picos Used(int64_t units) { return Units(units) * 1'000'000; }

CreditRules Rules(absl::Duration half_life = absl::ZeroDuration()) {
  CreditRules rules;
  rules.half_life = half_life;
  return rules;
}

CreditTimeline::Checkpoint AtZero(absl::Duration time) { return {At(time), {}, {}}; }

TEST_CASE("what is told late counts from its own time") {
  CreditTimeline ledger(Rules(), AtZero(absl::ZeroDuration()), Units(8), true, Used(8));
  ledger.Add({At(absl::Hours(2)), Used(4), {}, {}, {}});
  CHECK(ledger.At(At(absl::Hours(3))).balance() == Credits());
  // It had given back six units after the first hour already.
  ledger.Add({At(absl::Hours(1)), -Used(6), {}, {}, {}});
  CHECK(ledger.At(At(absl::Hours(3))).balance() == Credits::FromHours(6 + 2));
  CHECK(ledger.usage() == Used(6));
  // An entitlement that grew, and a queue that was stopped in between.
  ledger.Add({At(absl::Hours(4)), 0, Units(16), {}, {}});
  CHECK(ledger.At(At(absl::Hours(5))).balance() == Credits::FromHours(10 + 10));
  ledger.Add({At(absl::Hours(4)), 0, {}, false, {}});
  CHECK(ledger.At(At(absl::Hours(5))).balance() == Credits::FromHours(10));
  CHECK_FALSE(ledger.earns());
}

TEST_CASE("what an account was at an earlier instant, whatever came after") {
  CreditRules rules;
  rules.half_life = absl::ZeroDuration();
  CreditTimeline timeline(rules, {At(absl::Hours(0)), Credits(), {}}, 8'000'000, true, 0);
  timeline.Add({At(absl::Hours(1)), CreditTimeline::Picos{6'000'000} * 1'000'000, {}, {}, {}});
  CHECK(timeline.AsOf(At(absl::Minutes(30))).balance() == Credits::FromHours(4));
  CHECK((timeline.AsOf(At(absl::Minutes(30))).usage() == 0));
  CHECK(timeline.AsOf(At(absl::Hours(1))).balance() == Credits::FromHours(8));
  CHECK((timeline.AsOf(At(absl::Hours(1))).usage() == 6'000'000));
  CHECK(timeline.AsOf(At(absl::Hours(2))).balance() == Credits::FromHours(10));
  CHECK(timeline.AsOf(At(-absl::Hours(1))).balance() == Credits());
  CHECK(timeline.AsOf(At(-absl::Hours(1))).last_settled() == At(absl::Hours(0)));
}

TEST_CASE("what is older than the checkpoint counts from the checkpoint on") {
  CreditTimeline ledger(Rules(), AtZero(absl::Hours(1)), Units(8), true, Used(8));
  ledger.Add({At(absl::ZeroDuration()), -Used(8), {}, {}, {}});
  CHECK(ledger.At(At(absl::Hours(2))).balance() == Credits::FromHours(8));
  // And a time before it has no step at all.
  CHECK(ledger.At(At(absl::ZeroDuration())).balance() == Credits());
}

TEST_CASE("a checkpoint that says what is known changes nothing, another one counts") {
  CreditTimeline ledger(Rules(absl::Hours(7)), AtZero(absl::ZeroDuration()), Units(3), true, 0);
  ledger.Add({At(absl::Hours(2)), Used(1), {}, {}, {}});
  const CreditAccount now = ledger.At(At(absl::Hours(4)));
  const CreditAccount then = ledger.At(At(absl::Hours(3)));
  const auto written = [](Credits credits) { return Credits::Parse(credits.ToString()).value(); };
  CreditTimeline::Checkpoint checkpoint{
      At(absl::Hours(3)),
      written(then.balance()),
      {written(then.totals().earned), written(then.totals().spent),
       written(then.totals().expired)}};
  ledger.Rebase(checkpoint);
  CHECK(ledger.size() == 1);
  // One settle more rounds once more.
  CHECK(ledger.At(At(absl::Hours(4))).balance().ToString() == now.balance().ToString());
  ledger.Rebase(AtZero(absl::Hours(2)));  // older
  CHECK(ledger.At(At(absl::Hours(4))).balance().ToString() == now.balance().ToString());
  checkpoint.balance += Credits::FromHours(5);
  checkpoint.totals.earned += Credits::FromHours(5);
  ledger.Rebase(checkpoint);
  CHECK(ledger.At(At(absl::Hours(3))).balance() == checkpoint.balance);
  CHECK(ledger.usage() == Used(1));
}

TEST_CASE("the order in which changes are told does not matter, nor when it was written down") {
  std::mt19937_64 random(5);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 50; ++round) {
    const CreditRules rules = Rules(absl::Hours(below(2) * (1 + below(50))));
    CreditTimeline in_order(rules, AtZero(absl::ZeroDuration()), Units(6), true, Used(5));
    CreditTimeline mixed = in_order;
    std::vector<Change> changes;
    int64_t usage = 5;
    absl::Duration time;
    for (int i = 0; i < 30; ++i) {
      time += absl::Milliseconds(1 + below(7'200'000));
      const int64_t delta = below(12) - std::min<int64_t>(usage, 6);
      usage += delta;
      changes.push_back({At(time), Used(delta), {}, {}, {}});
      in_order.Add(changes.back());
    }
    std::shuffle(changes.begin(), changes.end(), random);
    for (const Change& change : changes) mixed.Add(change);
    const absl::Time end = At(time + absl::Hours(1));
    REQUIRE(in_order.At(end).balance() == mixed.At(end).balance());
    REQUIRE(in_order.At(end).totals() == mixed.At(end).totals());
    // Written down in between, and rebuilt from that by another process.
    const absl::Time middle = FloorMilli(At(time / 2));
    CreditTimeline first(rules, AtZero(absl::ZeroDuration()), Units(6), true, Used(5));
    for (const Change& change : changes) {
      if (change.at <= middle) first.Add(change);
    }
    const std::string written = first.At(middle).balance().ToString();
    CreditTimeline rebuilt(rules, {middle, Credits::Parse(written).value(), {}}, Units(6), true,
                           first.usage());
    for (const Change& change : changes) {
      if (change.at > middle) rebuilt.Add(change);
    }
    const Credits difference = rebuilt.At(end).balance() - in_order.At(end).balance();
    REQUIRE(std::abs(std::stod(difference.ToString())) <= 1e-6);
  }
}

}  // namespace
}  // namespace sluice::quota
