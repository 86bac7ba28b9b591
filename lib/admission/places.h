// Places: where on nodes the workloads of one call of the cycle go, beside their quota (private to
// this room).
//
// Decide turns an assignment by quota into one that has places too; what is admitted, or expected
// to be, is booked in the inventory through overlays, so that nothing else of the call gets the
// same room. All of it is undone when the Places go out of scope.
//
// Contract: does nothing where the snapshot has no topology, or the ClusterQueue no flavor with
// one. Not to be mixed with other changes of the inventory. Source: Kueue's concept page "Topology
// Aware Scheduling"; KEP-2724.
#pragma once

#include <absl/container/btree_map.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admission/snapshot.h"
#include "flavor/assigner.h"
#include "preemption/topology_room.h"
#include "queueing/workload_info.h"
#include "topology/placer.h"

namespace sluice::admission {

// What one workload asks of the nodes, and what it got.
struct Place {
  topology::WorkloadRequest request;  // no pod sets: it needs no place now
  topology::WorkloadPlacement placement;
  topology::Booking held;            // of it, what the slice that it replaces has already
  std::vector<std::string> delayed;  // pod sets that get theirs when the checks are Ready

  bool wanted() const { return !request.pod_sets.empty(); }
  // Whether any pod set got a place.
  bool placed() const;
  topology::WorkloadUsage Usage() const { return topology::Placer::UsageOf(request, placement); }
};

class Places {
 public:
  Places(const Snapshot& snapshot, absl::Time now);
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  bool on() const { return placer_.has_value(); }
  // Whether pods of the ClusterQueue can get places at all.
  bool Concern(const std::string& cluster_queue) const;

  // What the assignment asks of the nodes; without pod sets where it needs no place now. One that
  // cannot have any becomes one that does not fit.
  Place Ask(const queueing::WorkloadInfo& info, const preemption::ReservedWorkload* replaced,
            flavor::Assignment& assignment) const;
  // Whether there are places for such a request.
  bool Fits(const topology::WorkloadRequest& request) { return placer_->Fits(request); }
  // Looks for places for the assignment, and turns it into one that has to preempt, or does not
  // fit, where there are none. `replaced`: the slice whose place is taken, nullptr for none.
  Place Decide(const queueing::WorkloadInfo& info, const preemption::ReservedWorkload* replaced,
               flavor::Assignment& assignment);
  // The room that a search for victims has to make.
  std::unique_ptr<preemption::TopologyRoom> RoomFor(const Place& place);
  // While it lives, nodes are as they will be when `gone` are; nullptr when places are off.
  std::unique_ptr<topology::Overlay> Without(const std::vector<preemption::Target>& gone) const;
  // Places as they will be when `gone` are.
  void PlaceWithout(const std::vector<preemption::Target>& gone, Place& place);

  // Whether the places are still free: with `gone` out, or (also) as things are without what is
  // only expected.
  bool HoldsWithout(const std::vector<preemption::Target>& gone, const Place& place);
  bool HoldsNow(const Place& place);

  // Books what is admitted, until the end.
  void Admit(const ObjectKey& key, const Place& place);
  // Books what others must leave alone, until EndCycle; nullptr: nothing.
  std::shared_ptr<const topology::Booking> Expect(const Place& place);
  void Expect(std::shared_ptr<const topology::Booking> place);
  void EndCycle();

  // What it takes on nodes, nullptr for nothing; valid until the next Admit.
  const topology::Booking* UsageOf(const preemption::ReservedWorkload& workload) const;

  // Writes places and what is delayed into the admission.
  void Write(const Place& place, api::Admission& admission) const;

 private:
  void Remove(topology::Overlay& overlay, const std::vector<preemption::Target>& gone) const;
  bool Holds(const Place& place) const;
  void AskResize(const preemption::ReservedWorkload& replaced, Place& place) const;
  void Delay(const queueing::WorkloadInfo& info, Place& place) const;

  const Snapshot& snapshot_;
  const absl::Time now_;
  // `expected_` points to them.
  std::vector<std::shared_ptr<const topology::Booking>> expectations_;
  // Three things that exist only where the snapshot has a topology.
  std::optional<topology::Placer> placer_;
  std::optional<topology::Overlay> admitted_;
  std::optional<topology::Overlay> expected_;
  // Of what was admitted in this call.
  absl::btree_map<ObjectKey, std::unique_ptr<topology::Booking>> usages_;
  // What UsageOf answered: a search asks for the same few workloads again and again. Their objects
  // stay where they are until the call ends.
  mutable absl::btree_map<const api::Workload*, const topology::Booking*> known_;
};

}  // namespace sluice::admission
