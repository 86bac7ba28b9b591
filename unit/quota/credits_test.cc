#include "quota/credits.h"

#include <cmath>
#include <random>

#include "unit/catch.h"

namespace sluice::quota {
namespace {

using absl::Hours;
using absl::Minutes;

absl::Time At(absl::Duration time) { return absl::FromUnixSeconds(1'800'000'000) + time; }
CreditAccount::Micros Units(int64_t units) { return CreditAccount::Micros{units} * 1'000'000; }
Credits Of(const std::string& text) { return Credits::Parse(text).value(); }

// No decay, horizon of two hours, a day's bank.
CreditRules Rules(absl::Duration half_life = absl::ZeroDuration(),
                  absl::Duration max_debt = absl::ZeroDuration()) {
  CreditRules rules;
  rules.horizon = Hours(2);
  rules.half_life = half_life;
  rules.max_debt = max_debt;
  return rules;
}

CreditAccount Account(const CreditRules& rules, int64_t entitlement, int64_t usage,
                      const std::string& balance = "0") {
  CreditAccount account(rules, At(Hours(0)), Of(balance));
  account.SetRates(Units(entitlement), Units(usage), true, At(Hours(0)));
  return account;
}

TEST_CASE("a team saves, bursts, and loses its standing as its bank drains") {
  CreditAccount account = Account(Rules(), 8, 2);
  account.Settle(At(Hours(3)));
  CHECK(account.balance().ToString() == "18.000000");
  CHECK(account.StandingEntitlement() == Units(17));
  account.SetRates(Units(8), Units(14), true, At(Hours(3)));
  CHECK(account.EmptyAt() == At(Hours(6)));
  account.Settle(At(Hours(4)));
  CHECK(account.balance() == Of("12"));
  CHECK(account.StandingEntitlement() == Units(14));
  account.Settle(At(Hours(6)));
  CHECK(account.balance() == Credits());
  CHECK(account.StandingEntitlement() == Units(8));
  CHECK_FALSE(account.EmptyAt().has_value());
  account.Settle(At(Hours(9)));
  CHECK(account.balance() == Credits());
  CHECK(account.totals().earned == Of("18"));
  CHECK(account.totals().spent == Of("18"));
}

TEST_CASE("a bank holds so many hours of the entitlement, the rest expires") {
  CreditAccount account = Account(Rules(), 8, 0);
  account.Settle(At(Hours(48)));
  CHECK(account.balance() == Of("192"));
  CHECK(account.totals().earned == Of("384"));
  CHECK(account.totals().expired == Of("192"));
  account.SetRates(Units(4), Units(4), true, At(Hours(48)));
  CHECK(account.balance() == Of("96"));
  CHECK(account.totals().expired == Of("288"));
}

TEST_CASE("a bank halves with every half-life") {
  CreditRules rules = Rules(Hours(24));
  rules.max_bank = Hours(1000);
  CreditAccount idle = Account(rules, 4, 4, "100");
  idle.Settle(At(Hours(24)));
  CHECK(idle.balance().ToString() == "50.000000");
  CHECK(idle.totals().expired.ToString() == "50.000000");
  CreditAccount earns = Account(rules, 8, 4, "100");
  earns.Settle(At(Hours(24)));
  CHECK(earns.balance().ToString() == "119.249362");
  CHECK(earns.totals().earned == Of("96"));
}

TEST_CASE("debt has a floor") {
  const CreditRules rules = Rules(absl::ZeroDuration(), Hours(2));
  CreditAccount account = Account(rules, 4, 10, "1");
  CHECK(account.EmptyAt() == At(Minutes(10)));
  account.Settle(At(Minutes(10)));
  CHECK(account.balance() == Credits());
  account.Settle(At(Minutes(90)));
  CHECK(account.balance() == Of("-8"));
  account.Settle(At(Hours(50)));
  CHECK(account.balance() == Of("-8"));
  CHECK(account.totals().spent == Of("9"));
  CHECK(account.StandingEntitlement() == Units(4));
  // A debt does not decay; it is paid back.
  CreditAccount owes = Account(Rules(Hours(1), Hours(2)), 4, 4, "-6");
  owes.Settle(At(Hours(5)));
  CHECK(owes.balance() == Of("-6"));
  owes.SetRates(Units(4), Units(1), true, At(Hours(5)));
  owes.Settle(At(Hours(7)));
  CHECK(owes.balance() == Credits());
  owes.Settle(At(Hours(8)));
  CHECK(owes.balance().ToString() == "2.164043");  // 3 h / ln 2 / 2
}

TEST_CASE("a stopped queue pays for what it uses and earns nothing") {
  CreditAccount account = Account(Rules(), 8, 2, "5");
  account.SetRates(Units(8), Units(2), false, At(Hours(0)));
  account.Settle(At(Hours(3)));
  CHECK(account.balance() == Of("5"));
  account.SetRates(Units(8), Units(9), false, At(Hours(3)));
  account.Settle(At(Hours(4)));
  CHECK(account.balance() == Of("4"));
}

TEST_CASE("a clock that goes back stands still") {
  CreditAccount account = Account(Rules(), 8, 2);
  account.Settle(At(Hours(3)));
  account.Settle(At(Hours(1)));
  CHECK(account.last_settled() == At(Hours(3)));
  CHECK(account.balance() == Of("18"));
  account.Settle(At(Hours(4)));
  CHECK(account.balance() == Of("24"));
}

TEST_CASE("credits are granted and taken within the limits") {
  CreditAccount account = Account(Rules(), 8, 8);
  account.Adjust(Of("12.5"), At(Hours(1)));
  CHECK(account.balance() == Of("12.5"));
  CHECK(account.totals().earned == Of("12.5"));
  account.Adjust(Of("-100"), At(Hours(1)));
  CHECK(account.balance() == Credits());
  account.Adjust(Of("1000"), At(Hours(1)));
  CHECK(account.balance() == Of("192"));
}

TEST_CASE("credits as text") {
  for (const char* text : {"0.000000", "12.500000", "-0.000001", "1000000000000.000000"}) {
    CHECK(Of(text).ToString() == text);
  }
  CHECK(Of("+12.5") == Of("12.5"));
  CHECK(Of(".5").ToString() == "0.500000");
  CHECK(Of("-0.0000001").ToString() == "0.000000");
  CHECK(Of("0.0000005").ToString() == "0.000001");
  CHECK(Credits::FromHours(3) == Of("3"));
  for (const char* text : {"", "-", "+", ".", "1e3", "1.2.3", "12h", " 1", "nan", "--1",
                           "10000000000000000", "99999999999999999999999999999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(Credits::Parse(text).ok());
  }
}

// The same, by small steps in floating point.
double Slow(double balance, double rate, double limit, double floor, double half_life,
            double hours) {
  const int steps = 200'000;
  const double step = hours / steps;
  for (int i = 0; i < steps; ++i) {
    const double decay = half_life > 0 && balance > 0 ? balance * std::log(2.0) / half_life : 0;
    balance = std::min(limit, std::max(floor, balance + (rate - decay) * step));
  }
  return balance;
}

double Number(Credits credits) { return std::stod(credits.ToString()); }

TEST_CASE("the balance is what the equation of its change gives") {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int i = 0; i < 60; ++i) {
    CreditRules rules = Rules(Hours(below(3) == 0 ? 0 : 1 + below(200)), Hours(below(30)));
    rules.max_bank = Hours(1 + below(60));
    const int64_t entitlement = 1 + below(20);
    const int64_t usage = below(40);
    const int64_t hours = 1 + below(100);
    const int64_t start = below(entitlement * 60) - 30;
    CreditAccount account = Account(rules, entitlement, usage, std::to_string(start));
    const double limit = static_cast<double>(entitlement) * absl::ToDoubleHours(rules.max_bank);
    const double floor = -static_cast<double>(entitlement) * absl::ToDoubleHours(rules.max_debt);
    const double from = Number(account.balance());
    account.Settle(At(Hours(hours)));
    const double expected = Slow(from, static_cast<double>(entitlement - usage), limit, floor,
                                 absl::ToDoubleHours(rules.half_life), static_cast<double>(hours));
    INFO(i << " entitlement " << entitlement << " usage " << usage << " from " << from);
    CHECK(Number(account.balance()) == Approx(expected).margin(0.02));
  }
}

TEST_CASE("it does not matter how often an account is settled") {
  std::mt19937_64 random(11);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int i = 0; i < 40; ++i) {
    CreditRules rules = Rules(Hours(below(3) == 0 ? 0 : 1 + below(200)), Hours(below(10)));
    rules.max_bank = Hours(1 + below(60));
    CreditAccount once = Account(rules, 1 + below(20), below(30), std::to_string(below(100)));
    CreditAccount often = once;
    absl::Time now = At(Hours(0));
    for (int change = 0; change < 20; ++change) {
      const absl::Duration length = absl::Milliseconds(1 + below(20 * 3'600'000));
      for (int64_t settle = below(200); settle > 0; --settle) {
        often.Settle(now + absl::Nanoseconds(below(absl::ToInt64Nanoseconds(length))));
      }
      now += length;
      const int64_t entitlement = 1 + below(20);
      const int64_t usage = below(30);
      const bool earns = below(5) > 0;
      once.SetRates(Units(entitlement), Units(usage), earns, now);
      often.SetRates(Units(entitlement), Units(usage), earns, now);
      REQUIRE(Number(once.balance()) == Approx(Number(often.balance())).margin(1.01e-6));
      REQUIRE(once.balance() <= once.BankLimit());
      // Nothing is lost: what was earned is spent, expired, or there.
      const CreditAccount::Totals& t = often.totals();
      REQUIRE(Number(t.earned) == Approx(Number(once.totals().earned)).margin(1e-5));
      REQUIRE(Number(t.spent) == Approx(Number(once.totals().spent)).margin(1e-5));
      REQUIRE(Number(t.expired) == Approx(Number(once.totals().expired)).margin(1e-5));
    }
  }
}

TEST_CASE("the instant at which a bank is empty is exact to the nanosecond") {
  std::mt19937_64 random(13);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  // From 1 to 2^bits, every magnitude alike.
  const auto wide = [&](int64_t bits) { return 1 + below(int64_t{1} << below(bits)); };
  for (int i = 0; i < 3000; ++i) {
    CreditRules rules;
    rules.half_life = absl::Nanoseconds(wide(57));  // up to more than four years
    rules.max_bank = Hours(80'000);
    rules.max_debt = Hours(1);
    const int64_t entitlement = 1'000'000 * wide(30);
    const int64_t rate = wide(40);  // down to a millionth of a unit
    const auto start = Credits::Of(Credits::Value{wide(60)} * wide(45));
    CreditAccount account(rules, At(Hours(0)), start);
    account.SetRates(entitlement, entitlement + rate, true, At(Hours(0)));
    INFO(i << " half-life " << rules.half_life << " rate " << rate);
    const auto empty = account.EmptyAt();
    if (!empty) continue;  // later than anybody asks
    CreditAccount then = account;
    then.Settle(*empty);
    REQUIRE(then.balance() >= Credits());
    CreditAccount after = account;
    after.Settle(*empty + absl::Nanoseconds(2));
    REQUIRE(after.balance() < Credits());
  }
}

TEST_CASE("absurd amounts are capped") {
  CreditRules rules = Rules(Hours(1'000'000), Hours(1'000'000));
  rules.max_bank = Hours(1'000'000);
  const auto huge = Quantity::Nanos{1} << 100;
  CreditAccount account(rules, At(Hours(0)));
  account.SetRates(huge, 0, true, At(Hours(0)));
  account.Settle(At(Hours(2'000'000)));
  CHECK(account.balance() == account.BankLimit());
  account.SetRates(0, huge, true, At(Hours(2'000'000)));
  account.Settle(At(Hours(4'000'000)));
  CHECK(account.balance() == Credits());
}

}  // namespace
}  // namespace sluice::quota
