#include "quota/credits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "resource/half_life.h"

namespace sluice::quota {
namespace {

using Value = Credits::Value;

constexpr Value kNanosecondsPerHour = 3'600'000'000'000;
constexpr Value kHour = kNanosecondsPerHour * 1'000'000;  // one credit-hour
constexpr Value kMostMicros = Value{100'000'000'000'000} * 1'000'000;
constexpr Value kMostHours = 1'000'000'000'000'000;
constexpr absl::Duration kMostTime = absl::Hours(87'660);
constexpr uint64_t kInverseLn2 = 13'306'513'097'844'322'491u;  // 1 / ln 2 in units of 2^-63

int64_t Nanoseconds(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(std::clamp(duration, absl::ZeroDuration(), kMostTime));
}

Value Divided(Value value, Value by) {  // rounded up; both positive
  return (value + by - 1) / by;
}

Value Signed(Value value, uint64_t share) {
  return value < 0 ? -PartOf(-value, share) : PartOf(value, share);
}

// How far it is from where the balance is as given to where the tangent there meets zero; negative
// when the balance is. The curve falls towards -E, with the slope (B + E) ln 2 / H, where E is
// |rate| H / ln 2.
Value TangentLength(Value balance, Value equilibrium, Value half_life) {
  constexpr Value kRoom = Value{1} << 62;
  while (equilibrium + (balance < 0 ? -balance : balance) >= kRoom) {
    equilibrium >>= 1;
    balance /= 2;
  }
  const Value all = equilibrium + balance;
  return all <= 0 ? 0 : balance * PartOf(half_life, kInverseLn2) / all;
}

// About how long a bank lasts: the half-lives after which B + E has fallen to E, with x in the
// place of log2(1 + x) for the last part of one. Not longer, but for rounding.
Value RoughlyEmpty(Value balance, Value equilibrium, Value half_life) {
  constexpr Value kRoom = Value{1} << 62;
  Value whole = 0;
  Value all = balance + equilibrium;
  for (; all > 0 && (all >> 1) >= equilibrium; all >>= 1) ++whole;
  Value rest = all - equilibrium;
  for (; equilibrium >= kRoom; equilibrium >>= 1) rest >>= 1;
  return whole * half_life + (equilibrium == 0 ? 0 : rest * half_life / equilibrium);
}

}  // namespace

Credits Credits::FromHours(int64_t unit_hours) { return Credits(kHour * unit_hours); }

absl::StatusOr<Credits> Credits::Parse(const std::string& text) {
  const auto refuse = [&] {
    return InvalidArgument("\"{}\" is no decimal number of credit-hours, such as 12.5 or -3", text);
  };
  size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) at = 1;
  Value value = 0;
  Value place = 0;  // of the digit after the point; zero before it
  bool digits = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && place == 0) {
      place = kHour;
      continue;
    }
    if (c < '0' || c > '9') return refuse();
    digits = true;
    if (place == 0) {
      value = value * 10 + (c - '0') * kHour;
      if (value > kMostHours * kHour) return refuse();
    } else {
      place /= 10;
      value += (c - '0') * place;
    }
  }
  if (!digits) return refuse();
  return Credits(negative ? -value : value);
}

std::string Credits::ToString() const {
  constexpr Value kPlace = kHour / 1'000'000;
  const Value magnitude = ((value_ < 0 ? -value_ : value_) + kPlace / 2) / kPlace;
  const auto whole = static_cast<int64_t>(magnitude / 1'000'000);
  const auto rest = static_cast<int64_t>(magnitude % 1'000'000);
  return fmt::format("{}{}.{:06}", value_ < 0 && magnitude > 0 ? "-" : "", whole, rest);
}

CreditAccount::CreditAccount(const CreditRules& rules, absl::Time now, Credits balance,
                             Totals totals)
    : rules_(rules), balance_(balance), totals_(totals), last_settled_(now) {
  SLUICE_CHECK(rules.horizon > absl::ZeroDuration(), "a credit horizon of zero");
}

void CreditAccount::SetRules(const CreditRules& rules, absl::Time now) {
  SLUICE_CHECK(rules.horizon > absl::ZeroDuration(), "a credit horizon of zero");
  Settle(now);
  rules_ = rules;
  Clamp();
}

void CreditAccount::SetRates(Micros entitlement, Micros usage, bool earns, absl::Time now,
                             Micros withheld) {
  Settle(now);
  entitlement_ = std::clamp<Micros>(entitlement, 0, kMostMicros);
  usage_ = std::clamp<Micros>(usage, 0, kMostMicros);
  withheld_ = std::clamp<Micros>(withheld, 0, entitlement_);
  earns_ = earns;
  Clamp();
}

CreditAccount::Micros CreditAccount::Rate() const {
  const Micros rate = entitlement_ - withheld_ - usage_;
  return earns_ ? rate : std::min<Micros>(rate, 0);
}

Credits CreditAccount::BankLimit() const {
  return Credits::Of(entitlement_ * Nanoseconds(rules_.max_bank));
}

Credits::Value CreditAccount::Floor() const {
  return -(entitlement_ * Nanoseconds(rules_.max_debt));
}

void CreditAccount::Clamp() {
  if (balance_ > BankLimit()) {
    totals_.expired += balance_ - BankLimit();
    balance_ = BankLimit();
  }
  balance_ = std::max(balance_, Credits::Of(Floor()));
}

void CreditAccount::Adjust(Credits amount, absl::Time now) {
  Settle(now);
  balance_ += amount;
  totals_.earned += amount;
  Clamp();
}

void CreditAccount::Settle(absl::Time now) {
  if (now <= last_settled_) return;
  for (absl::Duration rest = now - last_settled_; rest > absl::ZeroDuration();) {
    const absl::Duration step = std::min(rest, kMostTime);
    Step(Nanoseconds(step));
    rest -= step;
  }
  last_settled_ = now;
}

// Each part of a step ends at the latest where the balance crosses zero.
void CreditAccount::Step(int64_t nanoseconds) {
  while (nanoseconds > 0) {
    const bool decays = rules_.half_life > absl::ZeroDuration() &&
                        (balance_ > Credits() || (balance_ == Credits() && Rate() > 0));
    nanoseconds -= decays ? Decay(nanoseconds) : Line(nanoseconds);
  }
}

// A straight line, up to a limit and then along it. Returns how long it took.
int64_t CreditAccount::Line(int64_t nanoseconds) {
  const Micros rate = Rate();
  if (rate < 0) {
    // What it would owe beyond its limit is forgiven.
    const Value change = std::min(-rate * nanoseconds, balance_.value() - Floor());
    balance_ -= Credits::Of(change);
    totals_.spent += Credits::Of(change);
    return nanoseconds;
  }
  if (balance_ < Credits() && rules_.half_life > absl::ZeroDuration() && rate > 0) {
    const Value zero = Divided(-balance_.value(), rate);
    if (zero < nanoseconds) nanoseconds = static_cast<int64_t>(zero);
  }
  const Credits earned = Credits::Of(rate * nanoseconds);
  balance_ += earned;
  totals_.earned += earned;
  Clamp();
  return nanoseconds;
}

// The balance after that time, of a positive one.
Value CreditAccount::After(int64_t nanoseconds) const {
  const Share63 gone = Alpha(absl::Nanoseconds(nanoseconds), rules_.half_life);
  const Value half_life = Nanoseconds(rules_.half_life);
  // Below 2^67 micro-units times 2^59 ns.
  const Value equilibrium = Signed(Rate() * half_life, kInverseLn2);
  return PartOf(balance_.value(), kWhole - gone) + Signed(equilibrium, gone);
}

// The last whole nanosecond before the balance, which falls, is below zero. A search between `low`,
// where it is not below, and `high`, behind which it is (or nobody asks): first where the curve
// should be, then along its tangents, which meet zero a little too early as the curve bends away
// from them. Where that does not bring the ends together, the middle does.
int64_t CreditAccount::UntilZero(int64_t at_most) const {
  const Value half_life = Nanoseconds(rules_.half_life);
  const Value equilibrium = PartOf(-Rate() * half_life, kInverseLn2);
  int64_t low = 0;
  int64_t high = at_most;
  Value next = RoughlyEmpty(balance_.value(), equilibrium, half_life);
  for (int look = 0; low < high; ++look) {
    constexpr int kMostTangents = 12;
    if (look >= kMostTangents) next = low + (high - low + 1) / 2;
    const auto at = static_cast<int64_t>(std::clamp<Value>(next, Value{low} + 1, high));
    const Value balance = After(at);
    if (balance >= 0) {
      low = at;
    } else {
      high = at - 1;
    }
    next = at + TangentLength(balance, equilibrium, half_life);
  }
  return low;
}

int64_t CreditAccount::Decay(int64_t nanoseconds) {
  const Micros rate = Rate();
  Value next = After(nanoseconds);
  if (next < 0) {
    nanoseconds = std::max<int64_t>(1, UntilZero(nanoseconds));
    next = 0;
  }
  const Credits change = Credits::Of(rate * nanoseconds);
  (rate > 0 ? totals_.earned : totals_.spent) += rate > 0 ? change : -change;
  next = std::min(next, BankLimit().value());
  // Whatever is missing has decayed, or was above the limit.
  totals_.expired += std::max(Credits(), balance_ + change - Credits::Of(next));
  balance_ = Credits::Of(next);
  return nanoseconds;
}

CreditAccount::Micros CreditAccount::StandingEntitlement() const {
  const Value bank = std::max(balance_, Credits()).value();
  return entitlement_ + bank / std::max<int64_t>(1, Nanoseconds(rules_.horizon));
}

std::optional<absl::Time> CreditAccount::EmptyAt() const {
  const Micros rate = Rate();
  if (balance_ <= Credits() || rate >= 0) return std::nullopt;
  // At the latest when there is no decay.
  const Value latest = Divided(balance_.value(), -rate);
  if (latest > Nanoseconds(kMostTime)) return std::nullopt;
  auto until = static_cast<int64_t>(latest);
  if (rules_.half_life > absl::ZeroDuration()) until = UntilZero(until);
  return last_settled_ + absl::Nanoseconds(until);
}

}  // namespace sluice::quota
