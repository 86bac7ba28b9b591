#include "quota/credit_timeline.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::quota {
namespace {

constexpr CreditTimeline::Picos kPicosPerMicro = 1'000'000;

bool Near(Credits a, Credits b) {
  constexpr Credits::Value kMillionth = Credits::Value{3'600'000'000'000};
  const Credits::Value difference = (a - b).value();
  return difference <= kMillionth && difference >= -kMillionth;
}

}  // namespace

void CreditTimeline::Step::SetRates(absl::Time at) {
  account.SetRates(entitlement, usage / kPicosPerMicro, earns, at, withheld / kPicosPerMicro);
}

CreditTimeline::CreditTimeline(const CreditRules& rules, const Checkpoint& checkpoint,
                               Micros entitlement, bool earns, Picos usage, Picos withheld) {
  Step step{{checkpoint.at, 0, {}, {}, {}},
            usage,
            withheld,
            entitlement,
            earns,
            rules,
            CreditAccount(rules, checkpoint.at, checkpoint.balance, checkpoint.totals)};
  step.SetRates(checkpoint.at);
  steps_.push_back(std::move(step));
}

void CreditTimeline::ComputeFrom(size_t index) {
  for (size_t i = index; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const Step& before = steps_[i - 1];
    const Change& change = step.change;
    step.usage = before.usage + change.usage;
    step.withheld = before.withheld + change.withheld;
    step.entitlement = change.entitlement.value_or(before.entitlement);
    step.earns = change.earns.value_or(before.earns);
    step.rules = change.rules.value_or(before.rules);
    step.account = before.account;
    if (change.rules.has_value()) step.account.SetRules(step.rules, change.at);
    step.SetRates(change.at);
  }
}

void CreditTimeline::Add(const Change& change) {
  Change placed = change;
  placed.at = std::max(change.at, checkpoint());
  const auto place =
      std::upper_bound(steps_.begin(), steps_.end(), placed.at,
                       [](absl::Time at, const Step& step) { return at < step.change.at; });
  const auto index = static_cast<size_t>(place - steps_.begin());
  Step step = steps_[index - 1];
  step.change = placed;
  steps_.insert(place, std::move(step));
  ComputeFrom(index);
  if (steps_.size() <= kMostSteps) return;
  // Nothing was written down for long. What comes late from now on counts from here.
  steps_.erase(steps_.begin(), steps_.begin() + kMostSteps / 2);
}

void CreditTimeline::Rebase(const Checkpoint& checkpoint) {
  if (checkpoint.at < steps_.front().change.at) return;
  size_t last = 0;  // of those that the checkpoint contains
  while (last + 1 < steps_.size() && steps_[last + 1].change.at <= checkpoint.at) ++last;
  Step base = steps_[last];
  base.account.Settle(checkpoint.at);
  const CreditAccount::Totals& totals = base.account.totals();
  const bool known = Near(base.account.balance(), checkpoint.balance) &&
                     Near(totals.earned, checkpoint.totals.earned) &&
                     Near(totals.spent, checkpoint.totals.spent) &&
                     Near(totals.expired, checkpoint.totals.expired);
  if (!known) {
    base.account = CreditAccount(base.rules, checkpoint.at, checkpoint.balance, checkpoint.totals);
    base.SetRates(checkpoint.at);
  }
  base.change = {checkpoint.at, 0, {}, {}, {}};
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(last));
  steps_.front() = std::move(base);
  ComputeFrom(1);
}

CreditAccount CreditTimeline::At(absl::Time now) const {
  CreditAccount account = steps_.back().account;
  account.Settle(now);
  return account;
}

CreditAccount CreditTimeline::AsOf(absl::Time then) const {
  const auto after =
      std::upper_bound(steps_.begin() + 1, steps_.end(), then,
                       [](absl::Time at, const Step& step) { return at < step.change.at; });
  CreditAccount account = std::prev(after)->account;
  account.Settle(then);
  return account;
}

}  // namespace sluice::quota
