// Nominator: what a head would get, on the quota tree as it is now (private to this room).
//
// Flavors, mode, borrowing level and, where room has to be made, the workloads to preempt. The tree
// is what it was when a call returns.
#pragma once

#include <absl/container/btree_map.h>

#include <string>
#include <utility>
#include <vector>

#include "admission/cycle.h"
#include "admission/places.h"
#include "preemption/preemption.h"

namespace sluice::admission {

// A head in a cycle.
struct Entry {
  Decision decision;
  bool nominated = false;  // it was assigned at all
  flavor::Assignment assignment;
  quota::Node* queue = nullptr;
  quota::CellAmounts usage;  // of the assignment
  Place place;               // on nodes
  std::vector<preemption::Target> targets;
  // The slice of the same elastic job whose place it takes; it is no candidate for preemption.
  const preemption::ReservedWorkload* replaced = nullptr;
  // The variant of the same workload that is admitted in a worse flavor.
  const preemption::ReservedWorkload* migrates = nullptr;
  bool is_preemptor = false;  // its preemptions were issued before
  // Workloads are on their way out for it, or it fits now that they have gone: nobody of the cohort
  // tree may take that room before it, or evictions would go on without end.
  bool claims_room = false;

  const queueing::WorkloadInfo& info() const { return *decision.info; }
  bool Works() const {
    return assignment.mode == flavor::Mode::kFit ||
           (assignment.mode == flavor::Mode::kPreempt && !targets.empty());
  }
};

// Lower priority of a decision's texts than its data: sets kind, verdict, reason, message and how
// it goes back to the queue.
void Wait(Decision& decision, Explanation::Verdict verdict, queueing::RequeueReason requeue);

// Whether the workload of `target` is one of the others.
bool IsAmong(const preemption::Target& target, const std::vector<preemption::Target>& others);

class Nominator {
 public:
  // `queues` tells what is remembered of a head; may be null. `places` must outlive it.
  Nominator(const Snapshot& snapshot, const queueing::QueueManager* queues, Places& places);

  Entry Nominate(const queueing::WorkloadInfoPtr& info) const;
  // The same within the flavors of `option`, with all its pods and without preempting anybody.
  Entry NominateWithin(const queueing::WorkloadInfoPtr& info,
                       const flavor::Assignment& option) const;
  // Whether something keeps it from being assigned at all, whatever there is room for.
  bool Barred(const queueing::WorkloadInfo& info) const;
  // What it could get in an idle tree, which the caller sees to: an assignment for each choice of
  // flavors with which its quota fits, in the order of the ClusterQueue. All pod sets get the same
  // flavor of a group of resources. Places are not looked at.
  std::vector<flavor::Assignment> Options(const queueing::WorkloadInfoPtr& info) const;
  // What such an option asks of the nodes; without pod sets where it needs no place. nullopt: it
  // cannot have one, whatever is free.
  std::optional<topology::WorkloadRequest> PlacesAskedBy(const queueing::WorkloadInfo& info,
                                                         flavor::Assignment option) const;
  // Whether there is what it asks, on nodes as they are now.
  bool HasPlaces(const queueing::WorkloadInfo& info, flavor::Assignment option) const;
  // Assigns it again with `gone` removed from the tree, within the flavors that it was nominated
  // for first.
  void Recompute(Entry& entry, const std::vector<preemption::Target>& gone);
  // Whether the entry's request fits once `gone` and its own targets are.
  bool FitsWithout(const Entry& entry, const std::vector<preemption::Target>& gone) const;
  // The same of its places on nodes.
  bool PlaceHoldsWithout(const Entry& entry, const std::vector<preemption::Target>& gone) const;
  // Its place was taken in this cycle: what it holds stays booked, and nobody can preempt it.
  void MarkReplaced(const preemption::ReservedWorkload* workload) { replaced_.insert(workload); }

 private:
  struct Attempt {
    flavor::Assignment assignment;
    quota::CellAmounts usage;
    Place place;
    std::vector<preemption::Target> targets;

    bool Works() const {
      return assignment.mode == flavor::Mode::kFit ||
             (assignment.mode == flavor::Mode::kPreempt && !targets.empty());
    }
  };

  // The searches for victims of one try, in a tree that stays as it is. The last answer is kept: a
  // workload that asks for one resource asks for the same victims for a flavor and as a whole.
  class Search {
   public:
    Search(preemption::Preemptor one, const preemption::Context& context)
        : preemptor(std::move(one)), context_(context) {}
    preemption::Preemptor preemptor;

    void SetRoom(preemption::Room* room) {
      preemptor.room = room;
      found_ = false;
    }
    const std::vector<preemption::Target>& Find(const quota::CellAmounts& requests,
                                                const std::vector<quota::CellId>& contested);
    // Somebody was spared for what the workload went through itself.
    bool spared() const { return spared_; }

   private:
    const preemption::Context& context_;
    bool found_ = false;
    bool spared_ = false;
    std::vector<preemption::Target> targets_;
  };

  bool Inadmissible(const queueing::WorkloadInfo& info, Decision& decision) const;
  // `counts`: pods per pod set in place of those that count; empty: all of them. `first`: only the
  // flavors of that assignment.
  flavor::AssignContext ContextOf(const queueing::WorkloadInfo& info) const;
  Attempt Try(const Entry& entry, const std::vector<int32_t>& counts,
              const flavor::Assignment* first) const;
  bool LimitFlavors(const flavor::Assignment* first, flavor::AssignContext& context) const;
  // What it holds by the slice whose place it takes; empty without one.
  std::vector<flavor::PodSetHolding> HoldingsOf(const Entry& entry) const;
  // False when another variant of the workload makes this one pointless.
  bool LookAtSiblings(Entry& entry) const;
  const preemption::ReservedWorkload* FindReplaced(const queueing::WorkloadInfo& info) const;
  // Nothing works, and only credits of others are in the way: remembers until when.
  void LookAtProtection(Entry& entry, const Attempt& attempt) const;
  // What a search for targets of this entry looks at; `own` is where it is kept when it differs.
  const preemption::Context& ContextFor(const Entry& entry, preemption::Context& own) const;
  bool TryPartly(const Entry& entry, Attempt& attempt) const;
  void Adopt(Entry& entry, Attempt attempt) const;
  flavor::PreemptionOutcome Simulate(Search& search, const FlavorResource& cell,
                                     int64_t request) const;
  void ResumeScan(const Entry& entry, flavor::AssignContext& context) const;
  // What each pod set asks of topology; empty where none does and no flavor has one.
  std::vector<flavor::TopologyAsk> TopologyAsks(const queueing::WorkloadInfo& info) const;
  void FindTargets(Search& search, Attempt& attempt) const;
  static bool ClaimsRoom(const Entry& entry);

  const Snapshot& snapshot_;
  const queueing::QueueManager* queues_;
  Places& places_;
  preemption::Context context_;
  absl::btree_set<const preemption::ReservedWorkload*> replaced_;
  mutable bool ignore_protection_ = false;  // for the time of a question
  // For the time of Options and NominateWithin: nobody is preempted.
  mutable bool spare_all_ = false;
  // For the time of Options: the flavor that each resource gets.
  mutable const absl::btree_map<ResourceName, FlavorName>* only_ = nullptr;
  // Whether a place that was not there had a part in the answer.
  mutable bool places_matter_ = false;
  // Whether others were spared for what it went through itself, so that the answer is its own.
  mutable bool spared_others_ = false;
};

// How the conditions of a victim name the workload that needs its room.
std::string PreemptorText(const api::Workload& preemptor);

// What every search for workloads to preempt looks at. The snapshot must outlive it.
preemption::Context PreemptionContext(const Snapshot& snapshot);

// The entry as a preemptor, without what it requests.
preemption::Preemptor PreemptorOf(const Snapshot& snapshot, const Entry& entry);

}  // namespace sluice::admission
