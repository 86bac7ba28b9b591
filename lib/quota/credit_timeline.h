// CreditTimeline: a credit account that can be told late what happened.
//
// It begins at a checkpoint, a balance that was written down, and keeps the changes of entitlement
// and usage since then in the order of their times. A change may come in any order: one that lies
// before others is put in its place and the balances after it are computed anew, so the result
// depends on the times alone. What is older than the checkpoint counts from the checkpoint on.
// Therefore an account that is rebuilt after a crash, from the checkpoint and the times that
// Workloads carry, is equal to one that was kept all the time.
//
// Usage is kept in units of 10^-12 (an amount times a weight), exactly; an account sees whole
// micro-units of it. Thread-compatible, no clock. A change costs a settle for every change after
// it, a question one settle.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <vector>

#include "quota/credits.h"

namespace sluice::quota {

// Whole milliseconds, as they are written down.
inline absl::Time FloorMilli(absl::Time time) {
  return absl::FromUnixMillis(absl::ToUnixMillis(time));
}
// Whole seconds, as the times of conditions have it. A checkpoint is at a whole second too: then
// what a condition shows is never older than a checkpoint that was made before.
inline absl::Time FloorSecond(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
}

class CreditTimeline {
 public:
  using Micros = CreditAccount::Micros;
  using Picos = Quantity::Nanos;  // 10^-12 units in a 128-bit integer

  struct Checkpoint {
    absl::Time at;
    Credits balance;
    CreditAccount::Totals totals;
  };
  struct Change {
    absl::Time at;
    Picos usage = 0;  // more, or less
    std::optional<Micros> entitlement{};
    std::optional<bool> earns{};
    std::optional<CreditRules> rules{};
    Picos withheld = 0;  // more, or less
  };

  // `usage`: what was in use at the checkpoint. `withheld`: how much of the entitlement earned
  // nothing.
  CreditTimeline(const CreditRules& rules, const Checkpoint& checkpoint, Micros entitlement,
                 bool earns, Picos usage, Picos withheld = 0);

  void Add(const Change& change);
  // The account was written down. Kept is what is known here to a higher precision, unless it
  // differs by more than a millionth: then what was written counts. An older one is ignored.
  void Rebase(const Checkpoint& checkpoint);

  // As it is at that instant with everything known now.
  CreditAccount At(absl::Time now) const;
  // As it was then; at the checkpoint for an earlier instant.
  CreditAccount AsOf(absl::Time then) const;
  Picos usage() const { return steps_.back().usage; }
  Picos withheld() const { return steps_.back().withheld; }
  Micros entitlement() const { return steps_.back().account.entitlement(); }
  bool earns() const { return steps_.back().earns; }
  const CreditRules& rules() const { return steps_.back().rules; }
  absl::Time checkpoint() const { return steps_.front().change.at; }
  size_t size() const { return steps_.size(); }

 private:
  // The account after a change; the first is the checkpoint.
  struct Step {
    Change change;
    Picos usage = 0;
    Picos withheld = 0;
    Micros entitlement = 0;
    bool earns = true;
    CreditRules rules;
    CreditAccount account;

    void SetRates(absl::Time at);
  };
  static constexpr size_t kMostSteps = 4096;

  void ComputeFrom(size_t index);

  std::vector<Step> steps_;
};

}  // namespace sluice::quota
