// The kinds of sluice.dev: fair-share credits.
//
// A CreditPolicy governs a quota subtree; every ClusterQueue and Cohort of it has a CreditAccount.
// Plain values with value equality. Durations are what they are, amounts of credits are texts with
// six decimal places (credit-hours), as the ledger reads and writes them.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_types.h"
#include "resource/resource.h"

namespace sluice::api {

inline constexpr char kSluiceVersion[] = "v1alpha1";

// On a CreditAccount: credit-hours to grant, or to take with a minus sign. Removed once it was
// done; the other one counts how often it was.
inline constexpr char kCreditAdjust[] = "sluice.dev/adjust";
inline constexpr char kCreditAdjustments[] = "sluice.dev/adjustments";
// On a Workload whose queue has an account: when it got its quota, to the millisecond, and what it
// held since the accounts were last settled.
inline constexpr char kReservedAt[] = "sluice.dev/reserved-at";
inline constexpr char kReservations[] = "sluice.dev/reservations";

struct CreditResource {
  ResourceName name;
  Quantity weight = Quantity::FromInt(1);
  bool operator==(const CreditResource&) const = default;
};
struct BurstLimit {
  FlavorName flavor;
  ResourceName resource;
  Quantity limit;
  bool operator==(const BurstLimit&) const = default;
};
struct CreditPolicySpec {
  std::string cohort;  // selector.cohort
  std::vector<CreditResource> resources;
  absl::Duration horizon = absl::Hours(1);
  absl::Duration half_life = absl::Hours(168);
  absl::Duration max_bank = absl::Hours(24);
  absl::Duration max_debt = absl::ZeroDuration();
  std::string effect;  // Order, Protect
  absl::Duration max_lender_delay = absl::Minutes(15);
  std::vector<BurstLimit> burst_limit;
  bool operator==(const CreditPolicySpec&) const = default;
};
struct CreditPolicyStatus {
  Conditions conditions;
  bool operator==(const CreditPolicyStatus&) const = default;
};
struct CreditPolicy {
  ObjectMeta metadata;
  CreditPolicySpec spec;
  CreditPolicyStatus status;
};

// Of the policy, as they were when the status was written.
struct CreditAccountRules {
  std::vector<CreditResource> resources;
  absl::Duration half_life;
  absl::Duration max_bank;
  absl::Duration max_debt;
  bool operator==(const CreditAccountRules&) const = default;
};
struct CreditAccountStatus {
  std::string balance;
  std::string entitlement;
  std::string usage;
  std::string rate;
  std::string bank_limit;
  std::optional<absl::Time> empty_at;
  std::optional<absl::Time> last_settled;
  std::string lifetime_earned;
  std::string lifetime_spent;
  std::string lifetime_expired;
  int64_t adjustments = 0;
  std::string last_adjustment;
  std::optional<CreditAccountRules> rules;
  Conditions conditions;
  bool operator==(const CreditAccountStatus&) const = default;
};
struct CreditAccount {
  ObjectMeta metadata;
  CreditAccountStatus status;
};

}  // namespace sluice::api
