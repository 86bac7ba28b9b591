#include "queueing/admission_fair_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace sluice::queueing {
namespace {

using Nanos = Quantity::Nanos;
__extension__ typedef unsigned __int128 Wide128;

constexpr Nanos kNanosPerUnit = 1'000'000'000;
constexpr Nanos kNanosPerMilli = 1'000'000;

Nanos NanosPerAmount(const ResourceName& resource) {
  return resource == kCpu ? kNanosPerMilli : kNanosPerUnit;
}

void Add(NanoAmounts& target, const NanoAmounts& amounts) {
  for (const auto& [resource, nanos] : amounts) target[resource] += nanos;
}

void Subtract(NanoAmounts& target, const NanoAmounts& amounts) {
  for (const auto& [resource, nanos] : amounts) {
    const auto found = target.find(resource);
    SLUICE_CHECK(found != target.end() && found->second >= nanos, "penalty of {}", resource);
    found->second -= nanos;
    if (found->second == 0) target.erase(found);
  }
}

// The API keeps whole seconds.
absl::Time WholeSeconds(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
}

}  // namespace

NanoAmounts NanosOf(const Requests& requests) {
  NanoAmounts amounts;
  for (const auto& [resource, amount] : requests) {
    if (amount > 0) amounts[resource] = amount * NanosPerAmount(resource);
  }
  return amounts;
}

ResourceList QuantitiesOf(const NanoAmounts& amounts) {
  ResourceList quantities;
  for (const auto& [resource, nanos] : amounts) {
    const Nanos unit = NanosPerAmount(resource);
    // Finer than the unit in which the resource is counted, it is shown as a decimal.
    const bool exact = nanos % unit == 0 && nanos / unit <= std::numeric_limits<int64_t>::max();
    quantities[resource] = exact ? QuantityOf(resource, static_cast<int64_t>(nanos / unit))
                                 : Quantity::Parse(fmt::format("{}n", nanos)).value();
  }
  return quantities;
}

NanoAmounts Decayed(const NanoAmounts& consumed, const NanoAmounts& usage, Share63 alpha) {
  NanoAmounts result;
  for (const auto& [resource, nanos] : consumed) result[resource] = PartOf(nanos, kWhole - alpha);
  for (const auto& [resource, nanos] : usage) result[resource] += PartOf(nanos, alpha);
  absl::erase_if(result, [](const auto& entry) { return entry.second == 0; });
  return result;
}

NanoAmounts EntryPenalty(const Requests& requests, const AdmissionFairSharingOptions& options) {
  const Share63 alpha = Alpha(options.sampling_interval, options.half_life);
  return Decayed({}, NanosOf(requests), alpha);
}

UsageValue UsageValue::Infinite() {
  UsageValue value;
  value.weight_ = 0;
  return value;
}

UsageValue UsageValue::Of(const NanoAmounts& amounts,
                          const absl::btree_map<ResourceName, Quantity>& resource_weights,
                          const Quantity& weight) {
  if (weight.Sign() <= 0) return Infinite();
  UsageValue value;
  value.weight_ = static_cast<Wide128>(weight.nanos());
  for (const auto& [resource, nanos] : amounts) {
    const auto found = resource_weights.find(resource);
    const Nanos factor = found == resource_weights.end() ? kNanosPerUnit : found->second.nanos();
    const auto amount = static_cast<Wide128>(nanos);
    const Wide product = Times({static_cast<uint64_t>(amount), static_cast<uint64_t>(amount >> 64)},
                               static_cast<Wide128>(std::max<Nanos>(factor, 0)));
    Wide128 carry = 0;
    for (size_t i = 0; i < product.size(); ++i) {
      carry += Wide128{value.weighted_sum_[i]} + product[i];
      value.weighted_sum_[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }
  return value;
}

UsageValue::Wide UsageValue::Times(const Wide& value, Factor factor) {
  const std::array<uint64_t, 2> parts = {static_cast<uint64_t>(factor),
                                         static_cast<uint64_t>(factor >> 64)};
  Wide result{};
  for (size_t part = 0; part < parts.size(); ++part) {
    Wide128 carry = 0;
    for (size_t i = 0; i + part < result.size(); ++i) {
      carry += Wide128{value[i]} * parts[part] + result[i + part];
      result[i + part] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    SLUICE_CHECK(carry == 0, "a usage beyond 320 bits");
  }
  return result;
}

Nanos UsageValue::ToNanos() const {
  SLUICE_CHECK(!IsInfinite(), "an infinite usage is no number");
  constexpr Wide128 kMost = static_cast<Wide128>(std::numeric_limits<Nanos>::max());
  Wide128 quotient = 0;
  Wide128 rest = 0;
  for (size_t digit = weighted_sum_.size() * 64; digit-- > 0;) {
    rest = rest << 1 | (weighted_sum_[digit / 64] >> (digit % 64) & 1);
    if (quotient > kMost >> 1) return std::numeric_limits<Nanos>::max();
    quotient <<= 1;
    if (rest >= weight_) {
      rest -= weight_;
      quotient |= 1;
    }
  }
  return static_cast<Nanos>(quotient);
}

std::strong_ordering operator<=>(const UsageValue& a, const UsageValue& b) {
  if (a.IsInfinite() || b.IsInfinite()) return a.IsInfinite() <=> b.IsInfinite();
  const auto compare = [](const UsageValue::Wide& left, const UsageValue::Wide& right) {
    return std::lexicographical_compare_three_way(left.rbegin(), left.rend(), right.rbegin(),
                                                  right.rend());
  };
  if (a.weight_ == b.weight_) return compare(a.weighted_sum_, b.weighted_sum_);
  return compare(UsageValue::Times(a.weighted_sum_, b.weight_),
                 UsageValue::Times(b.weighted_sum_, a.weight_));
}

UsageLedger::UsageLedger(AdmissionFairSharingOptions options) : options_(std::move(options)) {}

void UsageLedger::Start(const ObjectKey& local_queue,
                        const std::optional<api::AdmissionFairSharingStatus>& persisted,
                        absl::Time now) {
  History& history = histories_[local_queue];
  history.consumed.clear();
  history.decayed_to = now;
  history.sampled_at = now;
  history.sample.reset();
  // The first sample shows that the history has begun.
  history.sample_now = !persisted.has_value() || pending_.contains(local_queue);
  if (!persisted) return;
  for (const auto& [resource, quantity] : persisted->consumed_resources) {
    if (quantity.Sign() > 0) history.consumed[resource] = quantity.nanos();
  }
  history.sample = {persisted->consumed_resources, persisted->last_update.value_or(now)};
}

void UsageLedger::SetWeight(const ObjectKey& local_queue, const Quantity& weight) {
  const auto found = histories_.find(local_queue);
  if (found != histories_.end()) found->second.weight = weight;
}

void UsageLedger::Forget(const ObjectKey& local_queue) {
  histories_.erase(local_queue);
  const auto pending = pending_.find(local_queue);
  if (pending == pending_.end()) return;
  for (const ObjectKey& workload : pending->second.workloads) penalties_.erase(workload);
  pending_.erase(pending);
}

void UsageLedger::PushEntryPenalty(const ObjectKey& workload, const ObjectKey& local_queue,
                                   const Requests& requests) {
  Penalty next{local_queue, EntryPenalty(requests, options_)};
  const auto found = penalties_.find(workload);
  if (found != penalties_.end()) {
    const bool same =
        found->second.local_queue == local_queue && found->second.amounts == next.amounts;
    if (same) return;
    DropEntryPenalty(workload);
  }
  Pending& pending = pending_[local_queue];
  Add(pending.sum, next.amounts);
  pending.workloads.insert(workload);
  const auto history = histories_.find(local_queue);
  if (history != histories_.end() && !next.amounts.empty()) history->second.sample_now = true;
  penalties_.emplace(workload, std::move(next));
}

std::optional<ObjectKey> UsageLedger::LocalQueueOfPenalty(const ObjectKey& workload) const {
  const auto found = penalties_.find(workload);
  if (found == penalties_.end()) return std::nullopt;
  return found->second.local_queue;
}

void UsageLedger::DropEntryPenalty(const ObjectKey& workload) {
  const auto found = penalties_.find(workload);
  if (found == penalties_.end()) return;
  const auto pending = pending_.find(found->second.local_queue);
  Subtract(pending->second.sum, found->second.amounts);
  pending->second.workloads.erase(workload);
  if (pending->second.workloads.empty()) pending_.erase(pending);
  penalties_.erase(found);
}

void UsageLedger::SettleEntryPenalty(const ObjectKey& workload, const ObjectKey& local_queue,
                                     const Requests& usage, absl::Time now) {
  const auto found = histories_.find(local_queue);
  const auto penalty = penalties_.find(workload);
  if (found != histories_.end()) {
    DecayTo(found->second, usage, now);
    if (penalty != penalties_.end() && !penalty->second.amounts.empty()) {
      Add(found->second.consumed, penalty->second.amounts);
      found->second.sample_now = true;
    }
  }
  DropEntryPenalty(workload);
}

void UsageLedger::DecayTo(History& history, const Requests& usage, absl::Time now) const {
  const Share63 alpha = Alpha(now - history.decayed_to, options_.half_life);
  history.consumed = Decayed(history.consumed, NanosOf(usage), alpha);
  history.decayed_to = std::max(history.decayed_to, now);
}

void UsageLedger::TakeSample(const ObjectKey& local_queue, const Requests& usage, absl::Time now) {
  const auto found = histories_.find(local_queue);
  if (found == histories_.end()) return;
  History& history = found->second;
  DecayTo(history, usage, now);
  if (options_.half_life <= absl::ZeroDuration()) history.consumed.clear();
  history.sampled_at = now;
  history.sample_now = false;
  history.sample = {QuantitiesOf(history.consumed), WholeSeconds(now)};
}

absl::Time UsageLedger::NextSample(const ObjectKey& local_queue) const {
  const auto found = histories_.find(local_queue);
  if (found == histories_.end()) return absl::InfiniteFuture();
  const History& history = found->second;
  return history.sample_now ? history.sampled_at : history.sampled_at + options_.sampling_interval;
}

const UsageLedger::Sample* UsageLedger::LastSample(const ObjectKey& local_queue) const {
  const auto found = histories_.find(local_queue);
  if (found == histories_.end() || !found->second.sample) return nullptr;
  return &*found->second.sample;
}

UsageValue UsageLedger::Usage(const ObjectKey& local_queue) const {
  NanoAmounts amounts;
  Quantity weight = Quantity::FromInt(1);
  if (const auto found = histories_.find(local_queue); found != histories_.end()) {
    amounts = found->second.consumed;
    weight = found->second.weight;
  }
  const auto pending = pending_.find(local_queue);
  if (pending != pending_.end()) Add(amounts, pending->second.sum);
  return UsageValue::Of(amounts, options_.resource_weights, weight);
}

ResourceList UsageLedger::ConsumedResources(const ObjectKey& local_queue) const {
  const auto found = histories_.find(local_queue);
  return found == histories_.end() ? ResourceList() : QuantitiesOf(found->second.consumed);
}

ResourceList UsageLedger::PendingPenalties(const ObjectKey& local_queue) const {
  const auto found = pending_.find(local_queue);
  return found == pending_.end() ? ResourceList() : QuantitiesOf(found->second.sum);
}

}  // namespace sluice::queueing
