// BackfillPlaces: which places on nodes are free from now on, as far as bounds tell (private to
// this room).
//
// What holds places gives them back at its deadline; a reservation takes some for a stretch of
// time. A place for a stretch is one that is free beside everything that holds places in any part
// of it, so it stays free whichever of those starts or ends first.
//
// Contract: pure. Show changes the inventory until Restore, or the end of this; only what differs
// from what was shown before is changed, so that looks one after the other in time are cheap. No
// workload, node or flavor of the inventory may change while this lives, and nobody else may use it
// while something is shown.
//
//   BackfillPlaces places(*snapshot.topology);
//   places.AddRunning(deadline, booking);         // all that hold places
//   places.Show(from, until);
//   ... ask a Placer ...
//   places.Reserve(leaves, from, until);
#pragma once

#include <absl/time/time.h>

#include <vector>

#include "topology/inventory.h"

namespace sluice::admission {

class BackfillPlaces {
 public:
  explicit BackfillPlaces(topology::Inventory& inventory) : inventory_(inventory) {}
  ~BackfillPlaces() { Restore(); }
  BackfillPlaces(const BackfillPlaces&) = delete;
  BackfillPlaces& operator=(const BackfillPlaces&) = delete;

  // Holds places in the inventory until that time, InfiniteFuture: for ever. The booking must
  // outlive this. Restores.
  void AddRunning(absl::Time end, const topology::Booking& booking);
  // Takes that from then on until that time.
  void Reserve(std::vector<topology::LeafUsage> taken, absl::Time from, absl::Time until);

  // The deadlines of what holds places, each once, in order; without InfiniteFuture.
  std::vector<absl::Time> Endings();

  // Nodes are without what has ended at `from`, and with all that is reserved for a part of the
  // time until `until`.
  void Show(absl::Time from, absl::Time until);
  // Nodes are without what has ended at that time, and without any reservation.
  void ShowWithoutReservations(absl::Time at) { Show(at, absl::InfinitePast()); }
  // Nodes are as they were.
  void Restore();
  // The time of the last Show; InfinitePast after Restore.
  absl::Time shown_at() const { return shown_at_; }

  // How often a leaf was changed, as a measure of the work.
  size_t changes() const { return changes_; }

 private:
  struct Running {
    absl::Time end;
    const std::vector<topology::LeafUsage>* leaves;
  };
  struct Reserved {
    absl::Time from;
    absl::Time until;
    std::vector<topology::LeafUsage> leaves;
    bool shown = false;
  };
  void Sort();
  void Apply(const std::vector<topology::LeafUsage>& leaves, int64_t sign);

  topology::Inventory& inventory_;
  std::vector<Running> running_;  // by end, when sorted
  bool sorted_ = true;
  size_t ended_ = 0;  // so many of the first are not shown
  absl::Time shown_at_ = absl::InfinitePast();
  std::vector<Reserved> reserved_;
  size_t changes_ = 0;
};

}  // namespace sluice::admission
