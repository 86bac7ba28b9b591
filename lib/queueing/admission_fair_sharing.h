// Admission fair sharing: which LocalQueue of a ClusterQueue used least lately, so that its
// workloads go first.
//
// consumed resources: what the admitted workloads of a LocalQueue used, averaged over time with
// weights that halve with every half-life. Sampling at any instants gives the same average as long
// as the usage did not change between them (up to rounding).
// entry penalty: what one sampling interval with the workload will add to the consumed resources,
// counted from the moment its admission is decided. Without it a LocalQueue could admit any number
// of workloads before the next sample shows them.
// usage: (sum over resources of weight * (consumed + pending entry penalties)) / LocalQueue weight.
//
// Rounding: amounts are exact decimals with 9 places (nano-units: below a thousandth of a cpu
// nothing is lost). The share alpha = 1 - 0.5^(elapsed / half-life) is that of half_life.h; each
// product with it is exact and rounded down to 9 places. Usages are compared exactly, by cross
// multiplication. There is no floating point: equal inputs give equal orders everywhere.
//
// Contract: plain values without clock, thread-compatible. O(log n) per call plus the number of
// resources. Instants must not go back; an earlier one counts as no time elapsed. Only consumed
// resources are not in the API between samples; the rest follows from the objects.
// Source: KEP-4136 "Admission Fair Sharing" of Kueue and its documentation.
//
//   UsageLedger ledger({.half_life = absl::Minutes(10)});
//   ledger.Start(local_queue, std::nullopt, now);
//   ledger.PushEntryPenalty(workload, local_queue, {{"cpu", 4000}});    // decided
//   ledger.SettleEntryPenalty(workload, local_queue, usage, now);       // Admitted
//   if (ledger.Usage(a) < ledger.Usage(b)) ...                          // workloads of a go first
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>

#include "api/kueue_types.h"
#include "base/object_key.h"
#include "resource/half_life.h"
#include "resource/resource.h"

namespace sluice::queueing {

struct AdmissionFairSharingOptions {
  absl::Duration half_life = absl::ZeroDuration();  // zero: nothing is remembered
  absl::Duration sampling_interval = absl::Minutes(5);
  absl::btree_map<ResourceName, Quantity> resource_weights{};  // 1 where absent; not negative
};

// Resource -> nano-units; never zero, never negative.
using NanoAmounts = absl::btree_map<ResourceName, Quantity::Nanos>;
NanoAmounts NanosOf(const Requests& requests);
ResourceList QuantitiesOf(const NanoAmounts& amounts);
// consumed * (1 - alpha) + usage * alpha.
NanoAmounts Decayed(const NanoAmounts& consumed, const NanoAmounts& usage, Share63 alpha);
// requests * alpha(sampling interval).
NanoAmounts EntryPenalty(const Requests& requests, const AdmissionFairSharingOptions& options);

// The usage of a LocalQueue as an exact fraction, or infinite (weight zero): that sorts last.
class UsageValue {
 public:
  UsageValue() = default;  // zero
  static UsageValue Infinite();
  // Divided by the weight; infinite unless it is positive.
  static UsageValue Of(const NanoAmounts& amounts,
                       const absl::btree_map<ResourceName, Quantity>& resource_weights,
                       const Quantity& weight);

  bool IsInfinite() const { return weight_ == 0; }
  // In units of 10^-9, rounded down; not for an infinite one.
  Quantity::Nanos ToNanos() const;

  friend std::strong_ordering operator<=>(const UsageValue& a, const UsageValue& b);
  friend bool operator==(const UsageValue& a, const UsageValue& b) { return (a <=> b) == 0; }

 private:
  // Unsigned, least significant first. Amounts and weights take at most 94 bits each, a sum over
  // less than 2^16 resources 204, times a weight 298.
  using Wide = std::array<uint64_t, 5>;
  __extension__ typedef unsigned __int128 Factor;
  static Wide Times(const Wide& value, Factor factor);

  Wide weighted_sum_{};             // in units of 10^-18
  Factor weight_ = 1'000'000'000u;  // in units of 10^-9; zero: infinite
};

// The history of all LocalQueues and the pending entry penalties.
class UsageLedger {
 public:
  struct Sample {
    ResourceList consumed_resources;
    absl::Time time;
  };

  explicit UsageLedger(AdmissionFairSharingOptions options);
  const AdmissionFairSharingOptions& options() const { return options_; }

  // Begins the history of a LocalQueue with what its status says, if anything; replaces what was
  // known. Time before now is not decayed. Its weight and pending penalties stay.
  void Start(const ObjectKey& local_queue,
             const std::optional<api::AdmissionFairSharingStatus>& persisted, absl::Time now);
  // Of a LocalQueue whose history has begun; 1 before.
  void SetWeight(const ObjectKey& local_queue, const Quantity& weight);
  // Drops its history and its pending penalties.
  void Forget(const ObjectKey& local_queue);
  bool Knows(const ObjectKey& local_queue) const { return histories_.contains(local_queue); }

  // The admission of the workload was decided. Replaces an earlier penalty of the same workload.
  void PushEntryPenalty(const ObjectKey& workload, const ObjectKey& local_queue,
                        const Requests& requests);
  bool HasEntryPenalty(const ObjectKey& workload) const { return penalties_.contains(workload); }
  // The LocalQueue whose pending penalty it is.
  std::optional<ObjectKey> LocalQueueOfPenalty(const ObjectKey& workload) const;
  // The admission did not happen, or the workload will not come back.
  void DropEntryPenalty(const ObjectKey& workload);
  // The workload became Admitted: the history is decayed to now with `usage` (of all admitted
  // workloads of the LocalQueue, this one included) and the pending penalty is moved into it.
  void SettleEntryPenalty(const ObjectKey& workload, const ObjectKey& local_queue,
                          const Requests& usage, absl::Time now);

  // Decays the history to now; `usage` is that of all admitted workloads of the LocalQueue. Without
  // a half-life the history is emptied.
  void TakeSample(const ObjectKey& local_queue, const Requests& usage, absl::Time now);
  // When the next sample is due: an interval after the last one, at once when a penalty was pushed
  // or settled since. InfiniteFuture for an unknown LocalQueue.
  absl::Time NextSample(const ObjectKey& local_queue) const;
  // The last sample, or what Start found; nullptr when there is none.
  const Sample* LastSample(const ObjectKey& local_queue) const;

  UsageValue Usage(const ObjectKey& local_queue) const;
  // Now, penalties not included.
  ResourceList ConsumedResources(const ObjectKey& local_queue) const;
  // Of the LocalQueue's workloads together.
  ResourceList PendingPenalties(const ObjectKey& local_queue) const;

 private:
  struct History {
    NanoAmounts consumed;
    absl::Time decayed_to = absl::InfinitePast();
    absl::Time sampled_at = absl::InfinitePast();
    bool sample_now = false;
    std::optional<Sample> sample;
    Quantity weight = Quantity::FromInt(1);
  };
  struct Penalty {
    ObjectKey local_queue;
    NanoAmounts amounts;
  };
  struct Pending {  // of one LocalQueue
    NanoAmounts sum;
    absl::btree_set<ObjectKey> workloads;
  };

  void DecayTo(History& history, const Requests& usage, absl::Time now) const;

  AdmissionFairSharingOptions options_;
  absl::btree_map<ObjectKey, History> histories_;
  absl::btree_map<ObjectKey, Penalty> penalties_;  // by workload
  absl::btree_map<ObjectKey, Pending> pending_;    // by LocalQueue
};

}  // namespace sluice::queueing
