#include "admission/places.h"

#include <algorithm>

#include "admission/topology_request.h"
#include "flavor/topology_match.h"
#include "queueing/topology_inputs.h"

namespace sluice::admission {
namespace {

using flavor::Mode;
using preemption::Target;

flavor::PodSetAssignment* FindPodSet(flavor::Assignment& assignment, const std::string& name) {
  const auto found = std::find_if(assignment.pod_sets.begin(), assignment.pod_sets.end(),
                                  [&](const auto& one) { return one.name == name; });
  return found == assignment.pod_sets.end() ? nullptr : &*found;
}

// What a place makes necessary: room has to be made for all that the pod sets with places ask for,
// also where quota is enough.
void MustPreempt(flavor::Assignment& assignment, const topology::WorkloadRequest& request) {
  assignment.mode = Mode::kPreempt;
  for (const topology::PodSetRequest& placed : request.pod_sets) {
    flavor::PodSetAssignment* pod_set = FindPodSet(assignment, placed.name);
    if (pod_set == nullptr) continue;
    for (auto& [resource, choice] : pod_set->flavors) choice.mode = Mode::kPreempt;
  }
}

// Both of the pod set and of the attempt with its flavor: quota was enough there.
void Complain(flavor::PodSetAssignment& pod_set, const topology::WorkloadRequest& request,
              const flavor::TopologyOutcome& outcome) {
  flavor::Finding finding;
  finding.kind = flavor::Finding::Kind::kNoPlace;
  finding.text = outcome.reason;
  finding.place = outcome.failure;
  for (const topology::PodSetRequest& one : request.pod_sets) {
    if (one.name == pod_set.name) finding.flavor = one.flavor;
  }
  for (flavor::FlavorAttempt& attempt : pod_set.attempts) {
    if (attempt.flavor != finding.flavor) continue;
    attempt.findings.push_back(finding);
    if (outcome.mode != Mode::kNoFit) continue;
    attempt.rank = flavor::Rank::kNoFit;
    attempt.cause = flavor::Cause::kTopologyPlacementFailed;
  }
  pod_set.findings.push_back(std::move(finding));
}

void DoesNotFit(flavor::Assignment& assignment, flavor::PodSetAssignment& pod_set) {
  assignment.mode = Mode::kNoFit;
  pod_set.cause = std::max(pod_set.cause, flavor::Cause::kTopologyPlacementFailed);
  assignment.cause = std::max(assignment.cause, flavor::Cause::kTopologyPlacementFailed);
}

constexpr char kFixedCannotGrow[] =
    "pods that must be kept together, or are if possible, cannot be placed in several steps: an "
    "elastic workload changes its size only with an unconstrained topology";

// The pod set of a slice whose pods cannot be told where the ones that run are.
flavor::PodSetAssignment* FindFixed(flavor::Assignment& assignment,
                                    const topology::WorkloadRequest& request) {
  for (const topology::PodSetRequest& one : request.pod_sets) {
    const bool fixed = !one.topology.required.empty() || !one.topology.preferred.empty();
    if (one.previous_kind == topology::Previous::kResize && fixed) {
      return FindPodSet(assignment, one.name);
    }
  }
  return nullptr;
}

// What a pod set takes beside what the slice before it has already where its pods stay.
topology::Assignment Beyond(const topology::PodSetRequest& asked,
                            const topology::Assignment& assignment) {
  topology::Assignment more = assignment;
  for (const topology::AssignedDomain& own : asked.previous.domains) {
    for (topology::AssignedDomain& domain : more.domains) {
      if (domain.values == own.values) domain.count -= std::min(domain.count, own.count);
    }
  }
  return more;
}

// Net of what its slice before has.
topology::WorkloadUsage MoreOf(const Place& place) {
  topology::WorkloadUsage usage = place.Usage();
  for (size_t i = 0, next = 0; i < place.request.pod_sets.size(); ++i) {
    if (!place.placement.pod_sets[i].assignment.has_value()) continue;
    topology::Assignment& assignment = usage[next++].assignment;
    assignment = Beyond(place.request.pod_sets[i], assignment);
  }
  return usage;
}

}  // namespace

bool Place::placed() const {
  return std::any_of(placement.pod_sets.begin(), placement.pod_sets.end(),
                     [](const auto& one) { return one.assignment.has_value(); });
}

Places::Places(const Snapshot& snapshot, absl::Time now)
    : snapshot_(snapshot), now_(std::max(now, absl::UnixEpoch())) {
  if (snapshot.topology == nullptr) return;
  placer_.emplace(*snapshot.topology);
  admitted_.emplace(*snapshot.topology);
  expected_.emplace(*snapshot.topology);
}

bool Places::Concern(const std::string& cluster_queue) const {
  if (!placer_) return false;
  const ClusterQueueSnapshot* queue = snapshot_.FindClusterQueue(cluster_queue);
  return queue != nullptr && queue->has_topology;
}

Place Places::Ask(const queueing::WorkloadInfo& info, const preemption::ReservedWorkload* replaced,
                  flavor::Assignment& assignment) const {
  Place place;
  if (assignment.mode == Mode::kNoFit || !Concern(info.cluster_queue)) return place;
  TopologyQuestion question = AskTopology(
      TopologySourcesOf(snapshot_, info.cluster_queue, info.workload->metadata.ns, now_),
      *info.workload, assignment);
  if (!question.error.empty()) {
    flavor::PodSetAssignment& pod_set = *FindPodSet(assignment, question.failed_pod_set);
    pod_set.error = std::move(question.error);
    DoesNotFit(assignment, pod_set);
    return place;
  }
  place.request = std::move(question.request);
  Delay(info, place);
  if (!place.wanted() || replaced == nullptr) return place;
  AskResize(*replaced, place);
  if (flavor::PodSetAssignment* pod_set = FindFixed(assignment, place.request)) {
    pod_set->error = kFixedCannotGrow;
    DoesNotFit(assignment, *pod_set);
    place.request.pod_sets.clear();
  }
  return place;
}

Place Places::Decide(const queueing::WorkloadInfo& info,
                     const preemption::ReservedWorkload* replaced, flavor::Assignment& assignment) {
  Place place = Ask(info, replaced, assignment);
  if (!place.wanted()) return place;
  flavor::TopologyOutcome outcome =
      flavor::DecideTopology(*placer_, place.request, assignment.mode);
  flavor::PodSetAssignment* failed = FindPodSet(assignment, outcome.failed_pod_set);
  if (failed != nullptr) Complain(*failed, place.request, outcome);
  if (outcome.mode == Mode::kPreempt) MustPreempt(assignment, place.request);
  if (outcome.mode == Mode::kNoFit) {
    DoesNotFit(assignment, failed != nullptr ? *failed : assignment.pod_sets.front());
    return place;
  }
  place.placement = std::move(outcome.placement);
  return place;
}

// Nodes that an admission check has yet to bring, or those of another cluster, are not known.
void Places::Delay(const queueing::WorkloadInfo& info, Place& place) const {
  const ClusterQueueSnapshot& queue = *snapshot_.FindClusterQueue(info.cluster_queue);
  if (!queue.places_elsewhere && queue.provisioned.empty()) return;
  std::erase_if(place.request.pod_sets, [&](const topology::PodSetRequest& pod_set) {
    if (!queue.places_elsewhere && !queue.provisioned.contains(pod_set.flavor)) return false;
    place.delayed.push_back(pod_set.name);
    return true;
  });
}

// Pods of the slice before run, and nobody can move them: whatever the gate
// ElasticJobsViaWorkloadSlicesWithTAS says, they stay where they are and count once, there.
void Places::AskResize(const preemption::ReservedWorkload& replaced, Place& place) const {
  if (const topology::Booking* booking = UsageOf(replaced)) place.held = *booking;
  for (topology::PodSetRequest& pod_set : place.request.pod_sets) {
    for (const api::PodSetAssignment& old :
         replaced.workload->status.admission->pod_set_assignments) {
      if (old.name != pod_set.name || !old.topology_assignment.has_value()) continue;
      auto previous = queueing::DecodeAssignment(*old.topology_assignment);
      if (!previous.ok()) continue;
      pod_set.previous_kind = topology::Previous::kResize;
      pod_set.previous = *std::move(previous);
    }
  }
}

const topology::Booking* Places::UsageOf(const preemption::ReservedWorkload& workload) const {
  const auto [entry, added] = known_.try_emplace(workload.workload.get(), nullptr);
  if (!added) return entry->second;
  const ObjectKey key = workload.Key();
  const auto found = usages_.find(key);
  entry->second = found != usages_.end() ? found->second.get()
                                         : snapshot_.topology->FindWorkload(key.ToString());
  return entry->second;
}

std::unique_ptr<preemption::TopologyRoom> Places::RoomFor(const Place& place) {
  return std::make_unique<preemption::TopologyRoom>(
      *snapshot_.topology, *placer_, place.request,
      [this](const preemption::ReservedWorkload& workload) { return UsageOf(workload); });
}

void Places::Remove(topology::Overlay& overlay, const std::vector<Target>& gone) const {
  for (const Target& target : gone) {
    if (const topology::Booking* booking = UsageOf(*target.workload)) overlay.Remove(*booking);
  }
}

std::unique_ptr<topology::Overlay> Places::Without(const std::vector<Target>& gone) const {
  if (!placer_) return nullptr;
  auto overlay = std::make_unique<topology::Overlay>(*snapshot_.topology);
  Remove(*overlay, gone);
  return overlay;
}

void Places::PlaceWithout(const std::vector<Target>& gone, Place& place) {
  topology::Overlay overlay(*snapshot_.topology);
  Remove(overlay, gone);
  topology::WorkloadPlacement placement = placer_->Place(place.request);
  if (!placement.fits()) return;
  place.placement = std::move(placement);
}

// Pods of the slice before stay where they are, and its usage is in the inventory: only what comes
// beside them needs room, and nodes that take new pods.
bool Places::Holds(const Place& place) const {
  topology::Overlay overlay(*snapshot_.topology);
  const size_t pod_sets = place.request.pod_sets.size();
  for (size_t i = 0; i < pod_sets; ++i) {
    const topology::PodSetPlacement& placed = place.placement.pod_sets[i];
    if (!placed.assignment.has_value()) continue;
    const topology::PodSetRequest& asked = place.request.pod_sets[i];
    if (placer_->Check(asked, *placed.assignment, &asked.previous)) return false;
    // A leader and its workers may share a node.
    if (i + 1 < pod_sets) {
      overlay.Add({{asked.flavor, asked.per_pod, Beyond(asked, *placed.assignment)}});
    }
  }
  return true;
}

// Whoever goes only leaves more room, so that mostly nobody has to be taken out to know.
bool Places::HoldsWithout(const std::vector<Target>& gone, const Place& place) {
  if (!place.placed() || Holds(place)) return true;
  topology::Overlay overlay(*snapshot_.topology);
  Remove(overlay, gone);
  return Holds(place);
}

bool Places::HoldsNow(const Place& place) {
  if (!place.placed() || Holds(place)) return true;
  topology::Overlay overlay(*snapshot_.topology);
  for (const auto& expectation : expectations_) overlay.Remove(*expectation);
  return Holds(place);
}

void Places::Admit(const ObjectKey& key, const Place& place) {
  if (!place.placed()) return;
  auto booking = std::make_unique<topology::Booking>(topology::Booking::Of(place.Usage()));
  admitted_->Remove(place.held.usage());
  admitted_->Add(booking->usage());
  usages_[key] = std::move(booking);
  for (auto& [workload, known] : known_) {
    if (workload->metadata.ns == key.ns && workload->metadata.name == key.name) {
      known = usages_[key].get();
    }
  }
}

std::shared_ptr<const topology::Booking> Places::Expect(const Place& place) {
  if (!place.placed()) return nullptr;
  auto booking = std::make_shared<const topology::Booking>(topology::Booking::Of(MoreOf(place)));
  Expect(booking);
  return booking;
}

void Places::Expect(std::shared_ptr<const topology::Booking> place) {
  expectations_.push_back(std::move(place));
  expected_->Add(*expectations_.back());
}

void Places::EndCycle() {
  if (!expected_) return;
  expected_->Rollback(0);
  expectations_.clear();
}

void Places::Write(const Place& place, api::Admission& admission) const {
  AddAssignments(admission, place.placement, snapshot_.options.hostname_prefixes);
  for (api::PodSetAssignment& assigned : admission.pod_set_assignments) {
    if (std::find(place.delayed.begin(), place.delayed.end(), assigned.name) !=
        place.delayed.end()) {
      assigned.delayed_topology_request = "Pending";
    }
  }
}

}  // namespace sluice::admission
