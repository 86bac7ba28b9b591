// Reservation: when a workload that waits at the head of its queue is going to start.
//
// A ClusterQueue with the annotation sluice.dev/backfill gives its blocked head (EASY), or each of
// the first so many workloads (Conservative), the earliest time at which it fits, computed from the
// bounds of what runs. Others start before it only where that does not move the time. The Workload
// tells of it in the condition Reserved, which is written anew only when the time moved by enough
// to matter to a reader.
// Sources: D. Lifka, "The ANL/IBM SP Scheduling System" (EASY backfilling, 1995); A. Mu'alem and
// D. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling
// the IBM SP2 with Backfilling" (2001).
//
// Pure values; conditions are rendered here and nowhere else.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <optional>
#include <string>

#include "api/kueue_types.h"

namespace sluice::admission {

// The condition type. True: the message begins with the time. Unknown: what it needs is held by
// workloads without a bound. False: it has no reservation (any more).
inline constexpr char kReservedCondition[] = "Reserved";
// Its reasons, and those of what it causes.
inline constexpr char kEarliestStart[] = "EarliestStart";
inline constexpr char kNoBound[] = "NoBound";
inline constexpr char kWithdrawn[] = "Withdrawn";
// Of QuotaReserved=False of one that would delay a reservation.
inline constexpr char kWaitsForReservation[] = "Reserved";
// Of the event about one that started before others.
inline constexpr char kBackfilled[] = "Backfilled";

struct Reservation {
  std::string cluster_queue;
  // None: nobody knows when. In the past: what it waits for should have ended by then.
  std::optional<absl::Time> at;
  bool operator==(const Reservation&) const = default;
};

// What one call of Schedule found.
struct Reservations {
  // ClusterQueues for which reservations were computed: no other workload of theirs has one.
  absl::btree_map<std::string, size_t> queues;  // with how many reservations
  absl::btree_map<ObjectKey, Reservation> by_workload;
};

// The time that the condition of the Workload shows; nullopt where it shows none.
std::optional<absl::Time> ReservedTime(const api::Workload& workload);
// Whether the condition is True or Unknown.
bool ShowsReservation(const api::Workload& workload);

// Brings the condition up to date. A time is replaced when it is off by more than 10 seconds and by
// more than a twentieth of the time that is left. False when nothing changed.
bool SetReserved(api::Workload& workload, const Reservation& reservation, absl::Time now);
// It started, or has no reservation any more. Does nothing without the condition.
bool ClearReserved(api::Workload& workload, const std::string& reason, const std::string& message,
                   absl::Time now);

}  // namespace sluice::admission
