// Credits: a team that uses less than it is entitled to banks the difference, and spends it later
// by using more.
//
// One credit-hour is one weighted unit held for one hour. While entitlement and usage stay as they
// are, the balance changes at the rate r = entitlement - usage. A positive balance halves with
// every half-life, so that with the half-life H and after the time d
//   B(d) = B q + r (H / ln 2) (1 - q),  q = 2^(-d / H),
// and without one B(d) = B + r d; a balance below zero does not decay. It stays between -max_debt
// and max_bank hours of the entitlement. A step is split where it crosses zero or a limit, so the
// result does not depend on how often an account is settled.
//
// Rounding: amounts of use are whole micro-units, times whole nanoseconds, and the balance is an
// exact integer of micro-units times nanoseconds. What remains of a balance after a decay is
// rounded down to such a unit; the share that decayed is that of half_life.h, the equilibrium r H /
// ln 2 has 63 binary places. There is no floating point.
//
// Contract: plain values, no clock, thread-compatible. An instant before the last one counts as no
// time elapsed. Entitlements and usages are at most 10^14 units (larger ones are capped), durations
// at most ten years. Under 2 us a settle.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>

#include "resource/quantity.h"

namespace sluice::quota {

// An amount of credits: micro-units times nanoseconds.
class Credits {
 public:
  using Value = Quantity::Nanos;  // a 128-bit integer
  constexpr Credits() = default;
  static constexpr Credits Of(Value value) { return Credits(value); }
  static Credits FromHours(int64_t unit_hours);
  // A decimal number of credit-hours with an optional sign, "-12.5". InvalidArgument for anything
  // else, and for more than 10^15.
  static absl::StatusOr<Credits> Parse(const std::string& text);

  constexpr Value value() const { return value_; }
  // Credit-hours with six places, rounded to the nearest.
  std::string ToString() const;

  friend constexpr auto operator<=>(Credits a, Credits b) = default;
  Credits& operator+=(Credits other) { return value_ += other.value_, *this; }
  Credits& operator-=(Credits other) { return value_ -= other.value_, *this; }
  friend Credits operator+(Credits a, Credits b) { return a += b; }
  friend Credits operator-(Credits a, Credits b) { return a -= b; }
  Credits operator-() const { return Credits(-value_); }

 private:
  constexpr explicit Credits(Value value) : value_(value) {}
  Value value_ = 0;
};

struct CreditRules {
  absl::Duration horizon = absl::Hours(1);      // over which a bank is meant to be spent; > 0
  absl::Duration half_life = absl::Hours(168);  // zero: no decay
  absl::Duration max_bank = absl::Hours(24);
  absl::Duration max_debt = absl::ZeroDuration();
  bool operator==(const CreditRules&) const = default;
};

class CreditAccount {
 public:
  using Micros = Quantity::Nanos;  // micro-units in a 128-bit integer

  struct Totals {
    Credits earned;   // also what was granted
    Credits spent;    // what a limit of the debt forgave is not counted
    Credits expired;  // decayed, or above the limit of the bank
    bool operator==(const Totals&) const = default;
  };

  // Begins with nothing, or with what was known at `now`.
  CreditAccount(const CreditRules& rules, absl::Time now, Credits balance = {}, Totals totals = {});

  // From `now` on. A limit that became smaller takes effect at once.
  void SetRules(const CreditRules& rules, absl::Time now);
  // Weighted units, in micro-units, from `now` on. `earns`: false while its queue is stopped; then
  // the entitlement only pays for what is used. `withheld`: so much of the entitlement earns
  // nothing, though it counts for the limits; of a cohort, what its stopped queues do not use.
  void SetRates(Micros entitlement, Micros usage, bool earns, absl::Time now, Micros withheld = 0);
  void Settle(absl::Time now);
  // Grants (or takes, when negative), within the limits.
  void Adjust(Credits amount, absl::Time now);

  // At the last settle.
  Credits balance() const { return balance_; }
  const Totals& totals() const { return totals_; }
  absl::Time last_settled() const { return last_settled_; }
  Micros entitlement() const { return entitlement_; }
  Micros usage() const { return usage_; }
  // Micro-units; positive while it earns.
  Micros Rate() const;
  Credits BankLimit() const;
  // Entitlement and what may be spent beyond it if the bank is to last for the horizon.
  Micros StandingEntitlement() const;
  // When the balance reaches zero if nothing changes.
  std::optional<absl::Time> EmptyAt() const;

 private:
  void Step(int64_t nanoseconds);
  int64_t Decay(int64_t nanoseconds);
  int64_t Line(int64_t nanoseconds);
  Credits::Value After(int64_t nanoseconds) const;
  int64_t UntilZero(int64_t at_most) const;
  Credits::Value Floor() const;
  void Clamp();

  CreditRules rules_;
  Micros entitlement_ = 0;
  Micros usage_ = 0;
  Micros withheld_ = 0;
  bool earns_ = true;
  Credits balance_;
  Totals totals_;
  absl::Time last_settled_;
};

}  // namespace sluice::quota
