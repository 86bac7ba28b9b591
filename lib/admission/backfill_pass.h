// BackfillPass: who gets which reservation, and who may start before it (private to this room).
//
// Made when nothing can be decided in order any more, for ClusterQueues with backfill whose head
// waits and that have to do with each other: those of one cohort tree and, where pods get places on
// nodes, of all trees with places. First the head of each queue gets its reservation, in the order
// of their workloads. Then, queue by queue, those behind the heads follow in order: each is a
// candidate where its quota is free from now to its end beside all reservations. Under Conservative
// one that cannot start gets a reservation itself.
//
// A workload that could not start even with everything idle has no reservation and holds nobody
// up. One of which nobody knows when it can start keeps from starting what uses any quota that it
// could use, unless its ClusterQueue allows it.
//
// Places: a workload that needs some is reserved the first time at which there are places for it
// too, beside those of all reservations before it, for as long as it runs. Which places it gets in
// the end is decided when it starts. Looks at the nodes cost time, so after so much of it the
// reservations behind the heads count quota only. A candidate that gets places must end before
// every reservation that needs some: whether it would stand in the way then cannot be told by
// counting.
//
// Contract: pure but for the quota tree, which is as before after every call, and the nodes, which
// are so after Next and when this goes out of scope.
// `ends_at` of a candidate holds if it starts now; workloads of ClusterQueues with admission checks
// start nobody knows when, and so count as unbounded.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admission/backfill_places.h"
#include "admission/backfill_profile.h"
#include "admission/backfill_search.h"
#include "admission/cycle.h"
#include "admission/nominator.h"
#include "queueing/backfill.h"

namespace sluice::admission {

class BackfillPass {
 public:
  // For `cluster_queue` and all that have to do with it.
  BackfillPass(Snapshot& snapshot, const queueing::QueueManager& queues, Places& places,
               absl::Time now, const std::string& cluster_queue);

  // ClusterQueues with a plan.
  const absl::btree_set<std::string>& queues() const { return names_; }

  struct Candidate {
    queueing::WorkloadInfoPtr info;
    const flavor::Assignment* option = nullptr;
    Decision::Backfill note;
    size_t plan = 0;
    size_t item = 0;
  };
  // The next one that may start now; it must be followed by Started or Refused.
  std::optional<Candidate> Next();
  // Whether what it gets in the end, with or without places, still delays nobody.
  bool Allows(const Candidate& candidate, const quota::CellAmounts& usage) const;
  void Started(const Candidate& candidate, const quota::CellAmounts& usage);
  void Refused(const Candidate& candidate);

  // What was found so far; complete after Next has returned nothing.
  void Report(Reservations* reservations) const;
  // Decisions about those that would fit now but for a reservation.
  std::vector<Decision> TakeHeld() { return std::exchange(held_, {}); }

 private:
  struct Item {
    queueing::WorkloadInfoPtr info;
    const std::vector<flavor::Assignment>* options = nullptr;  // never null
    std::vector<quota::CellAmounts> requests;                  // of the options
    bool needs_place = false;
    absl::Time ends_at;  // if it starts now
    std::optional<Reservation> reservation;
  };
  struct Plan {
    std::string name;
    queueing::BackfillPolicy policy;
    quota::Node* queue = nullptr;
    std::vector<Item> items;  // only those that could ever start, in order
    bool checks = false;      // its ClusterQueue has admission checks
    std::string top;          // the workload that stands first, whether it could start or not
    // Of the items: the first that waits. None: the one that stands first could never start.
    std::optional<size_t> head;
  };
  // When a workload can start, and what it takes on nodes then.
  struct Start {
    BackfillProfile::Fit fit;
    std::vector<topology::LeafUsage> taken;
  };
  // What is known of the places of an option of workloads that ask for the same.
  struct Wish {
    bool possible = true;
    BackfillSearch::Question* question = nullptr;  // null: it needs none
    absl::Time not_before = absl::InfinitePast();  // the more is reserved, the later
  };
  using WishKey = std::pair<const std::vector<flavor::Assignment>*, size_t>;
  // So many times the placer is asked, and leaves changed, for all reservations together.
  static constexpr size_t kMostAsked = 256;
  static constexpr size_t kMostChanges = 1'000'000;

  std::vector<std::string> Concerned(const std::string& cluster_queue) const;
  void AddPlan(const std::string& name);
  void FindOptions();
  void BuildProfile();
  void ListPlaces();
  absl::Duration BoundFrom(const Item& item) const;
  bool Reserve(Plan& plan, Item& item);
  void Stays(Plan& plan, size_t item);
  void ReserveUnknown(Plan& plan, Item& item);
  std::optional<Start> FindStart(const Plan& plan, const Item& item);
  std::optional<Start> FindPlace(const Plan& plan, const Item& item, size_t option, size_t before);
  Wish& WishOf(const Item& item, size_t option);
  bool LookedEnough() const;
  bool CouldBePlaced(const Item& item);
  bool Passes(const Plan& plan, const Item& item, const quota::CellAmounts& usage) const;
  void Hold(const Plan& plan, const Item& item);
  std::optional<Candidate> CandidateOf(const Plan& plan) const;
  std::optional<Candidate> Advance();

  Snapshot& snapshot_;
  const queueing::QueueManager& queues_;
  Nominator nominator_;
  Places& places_;
  const absl::Time now_;
  absl::btree_set<const quota::Node*> roots_;
  absl::btree_set<std::string> names_;
  std::vector<Plan> plans_;
  std::deque<std::vector<flavor::Assignment>> options_;
  BackfillProfile profile_;
  // Where places matter.
  std::optional<BackfillPlaces> nodes_;
  std::optional<BackfillSearch> search_;
  absl::btree_map<WishKey, Wish> wishes_;
  // Cells that a workload of unknown start may need, with its name.
  absl::btree_map<quota::CellId, std::string> unknown_;
  absl::Time places_until_ = absl::InfiniteFuture();  // a reservation that needs places begins
  size_t plan_ = 0;
  size_t item_ = 0;
  std::vector<Decision> held_;
};

}  // namespace sluice::admission
