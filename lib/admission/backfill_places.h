// BackfillPlaces: which places on nodes are free from now on, as far as bounds tell (private to
// this room).
//
// What holds places gives them back at its deadline; a reservation takes some for a stretch of
// time. A place for a stretch is one that is free beside everything that holds places in any part
// of it, so it stays free whichever of those starts or ends first.
//
// Contract: pure; a Look changes the inventory for as long as it lives and leaves it as it was. No
// workload, node or flavor of the inventory may change while this lives. A look costs O(what ends
// and is reserved); nothing is looked up again that was once.
//
//   BackfillPlaces places(*snapshot.topology);
//   places.AddRunning(deadline, booking);         // all that hold places
//   { const auto look = places.LookAt(from, until); ... ask a Placer ... }
//   places.Reserve(usage, from, until);
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <vector>

#include "topology/inventory.h"

namespace sluice::admission {

class BackfillPlaces {
 public:
  explicit BackfillPlaces(topology::Inventory& inventory) : inventory_(inventory) {}
  BackfillPlaces(const BackfillPlaces&) = delete;
  BackfillPlaces& operator=(const BackfillPlaces&) = delete;

  // Holds places in the inventory until that time, InfiniteFuture: for ever.
  void AddRunning(absl::Time end, const topology::Booking& booking);
  // Takes places from then on until that time.
  void Reserve(const topology::WorkloadUsage& usage, absl::Time from, absl::Time until);

  // The deadlines of what holds places, each once, in order; without InfiniteFuture.
  std::vector<absl::Time> Endings() const;

  // While it lives: nodes without what has ended at `from`, and with all that is reserved for a
  // part of the time until `until`.
  using Look = std::unique_ptr<topology::Overlay>;
  Look LookAt(absl::Time from, absl::Time until) const;
  // Nodes without what has ended at that time, and without any reservation.
  Look LookWithoutReservations(absl::Time at) const;

 private:
  struct Running {
    absl::Time end;
    topology::Booking booking;
  };
  struct Reserved {
    absl::Time from;
    absl::Time until;
    topology::Booking booking;
  };

  topology::Inventory& inventory_;
  std::vector<Running> running_;  // by end
  std::vector<Reserved> reserved_;
};

}  // namespace sluice::admission
