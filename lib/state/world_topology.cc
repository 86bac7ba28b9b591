// The part of World that follows what is free on nodes: nodes, pods that are not ours, topologies
// and the places of workloads that hold quota.
#include <algorithm>
#include <utility>

#include "api/codec.h"
#include "api/pod_names.h"
#include "queueing/topology_inputs.h"
#include "state/world.h"

namespace sluice::state {
namespace {

ObjectKey KeyOf(const api::Json& object) {
  return {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
}

// Most pods take no room by themselves: not bound yet, ended, or placed by us. Nothing more of them
// needs to be read.
bool MayTakePlace(const api::Json& pod) {
  if (pod.GetString("spec", "nodeName").empty()) return false;
  const std::string phase = pod.GetString("status", "phase");
  return phase != "Succeeded" && phase != "Failed";
}

}  // namespace

std::optional<Rejection> World::TakePod(const ObjectEvent& event, absl::Time now, Refs& touched) {
  using Type = ObjectEvent::Type;
  if (event.type == Type::kListBegin) all_pods_ = event.object.IsNull();
  const bool outdated = OutdatedPod(event);
  absl::btree_set<ObjectKey> jobs;
  slice_pods_.Apply(event, jobs);
  for (const ObjectKey& job : jobs) touched.insert({api::Kind::kJob, job});
  if (topology_ != nullptr) {
    Placements::Keys chains;
    placements_.PodEvent(event, chains);
    TouchPlaces(chains, touched);
  }
  std::optional<std::string> error;
  if (settings_.integrations.Enabled(api::kPodFramework)) {
    absl::btree_set<ObjectKey> keys;
    error = pods_.Apply(event, templates_, keys);
    for (const ObjectKey& key : keys) touched.insert({api::Kind::kPod, key});
  }
  if (topology_ != nullptr && all_pods_ && !outdated) {
    std::optional<std::string> unread = TakePlace(event, now);
    if (!error) error = std::move(unread);
  }
  if (event.type == Type::kListEnd) {
    MarkSynced(api::Kind::kPod);
    if (all_pods_ && !std::exchange(pods_listed_, true)) NoteNodesListed(touched);
  }
  if (!error) return std::nullopt;
  return Rejection{
      {api::Kind::kPod, KeyOf(event.object)}, event.object.GetString("metadata", "uid"), *error};
}

// The answer to our own write may come after the watch has shown a newer pod. We write to no other
// pods than those whose version is kept.
bool World::OutdatedPod(const ObjectEvent& event) const {
  if (event.type != ObjectEvent::Type::kUpsert) return false;
  const ManagedPodPtr known = pods_.Find(KeyOf(event.object));
  return known != nullptr && NewerVersion(known->metadata.resource_version,
                                          event.object.GetString("metadata", "resourceVersion"));
}

std::optional<std::string> World::TakePlace(const ObjectEvent& event, absl::Time now) {
  using Type = ObjectEvent::Type;
  if (event.type == Type::kListBegin) {
    pod_listing_.emplace();
    return std::nullopt;
  }
  if (event.type == Type::kListEnd) {
    if (pod_listing_) {
      pod_listing_->End(event);
      Wake(topology_->KeepPods(pod_listing_->Keys()), now);
    }
    pod_listing_.reset();
    return std::nullopt;
  }
  const ObjectKey key = KeyOf(event.object);
  if (event.type == Type::kDelete || !MayTakePlace(event.object)) {
    Wake(topology_->PodChanged(key, nullptr), now);
    return std::nullopt;
  }
  if (pod_listing_) pod_listing_->Note(key, event);
  const absl::StatusOr<api::Pod> pod = api::Decode<api::Pod>(event.object);
  // What it took before still counts: nobody can tell what it takes now.
  if (!pod.ok()) return std::string(pod.status().message());
  Wake(topology_->PodChanged(key, &*pod), now);
  return std::nullopt;
}

void World::FollowFlavor(const std::string& name, const api::ResourceFlavor* now) {
  if (topology_ == nullptr) return;
  topology_->FlavorChanged(name, now);  // its users are released for any change of its spec
}

void World::FollowTopology(const std::string& name, const api::Topology* now, absl::Time time) {
  if (topology_ == nullptr) return;
  const TopologyFeed::Wake wake = topology_->TopologyChanged(name, now);
  Wake(wake, time);
  // Which flavors can serve a workload at all depends on the levels.
  for (const FlavorName& flavor : wake.flavors) {
    if (const auto users = by_flavor_.find(flavor); users != by_flavor_.end()) {
      releases_.insert(users->second.begin(), users->second.end());
    }
  }
}

void World::FollowPlaces(const ObjectKey& key, const api::Workload* counted) {
  if (topology_ == nullptr) return;
  const bool has_place = counted != nullptr && counted->status.admission.has_value() &&
                         queueing::HasPlaces(*counted->status.admission);
  if (!has_place && topology_->inventory().FindWorkload(key.ToString()) == nullptr) return;
  Wake(topology_->WorkloadChanged(key, counted, RequestContextFor(key.ns)), absl::InfinitePast());
}

void World::Wake(const TopologyFeed::Wake& wake, absl::Time now) {
  for (const FlavorName& flavor : wake.flavors) {
    const auto users = by_flavor_.find(flavor);
    if (users == by_flavor_.end()) continue;
    snapshot_.history.NoteEvent();
    for (const std::string& queue : users->second) {
      if (wake.delay == absl::ZeroDuration()) {
        place_releases_.insert(queue);
      } else {
        const auto [entry, added] = later_.emplace(queue, now + wake.delay);
        if (!added) entry->second = std::min(entry->second, now + wake.delay);
      }
    }
  }
}

void World::NodeChanged(const std::string& name, const api::Node* before, const api::Node* after,
                        absl::Time now, Refs& touched) {
  if (topology_ == nullptr) return;
  Wake(topology_->NodeChanged(name, after), now);
  Placements::Keys chains;
  placements_.NodeChanged(before, after, chains);
  TouchPlaces(chains, touched);
}

void World::TouchTopology(const api::ResourceFlavor* flavor, Refs& touched) {
  if (flavor == nullptr || flavor->spec.topology_name.empty()) return;
  touched.insert({api::Kind::kTopology, {"", flavor->spec.topology_name}});
}

void World::TouchPlaces(const Placements::Keys& chains, Refs& touched) {
  for (const ObjectKey& chain : chains) {
    touched.insert({api::Kind::kPod, PlacementKey(chain.ns, chain.name)});
  }
}

void World::NoteNodesListed(Refs& touched) {
  if (!NodesKnown()) return;
  for (const ObjectKey& chain : placements_.Chains()) TouchPlaces({chain}, touched);
  for (const auto& [flavor, users] : by_flavor_) {
    if (HasTopology(flavor)) RefreshUsers(by_flavor_, flavor, touched);
  }
}

bool World::HasTopology(const std::string& flavor) const {
  if (topology_ == nullptr) return false;
  const std::shared_ptr<const api::ResourceFlavor> object = flavors_.Find({"", flavor});
  return object != nullptr && !object->spec.topology_name.empty();
}

}  // namespace sluice::state
