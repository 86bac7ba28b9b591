#include "state/placements.h"

#include <algorithm>

#include "api/names.h"
#include "api/pod_names.h"
#include "queueing/topology_inputs.h"
#include "state/store.h"

namespace sluice::state {
namespace {

constexpr char kPlacementMark[] = "places/";
constexpr char kIndexOffset[] = "kueue.x-k8s.io/pod-index-offset";

api::StringMap MapOf(const api::Json* json) {
  api::StringMap map;
  if (json == nullptr || !json->IsObject()) return map;
  for (const auto& [key, value] : json->AsObject()) map[key] = value.AsString();
  return map;
}

// nullptr for a pod that is not placed by us.
PlacedPodPtr Read(const api::Json& object) {
  // Every pod of the cluster comes here, and most are of no workload: nothing is copied for them.
  std::string chain = object.GetString("metadata", "annotations", api::kWorkloadSliceName);
  if (chain.empty()) chain = object.GetString("metadata", "annotations", api::kWorkloadAnnotation);
  if (chain.empty()) return nullptr;
  const api::StringMap annotations = MapOf(object.Find("metadata", "annotations"));
  if (!queueing::AnnotatedForTopology(annotations)) return nullptr;
  const auto pod = std::make_shared<PlacedPod>();
  pod->chain = std::move(chain);
  pod->key = {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
  pod->uid = object.GetString("metadata", "uid");
  pod->resource_version = object.GetString("metadata", "resourceVersion");
  pod->labels = MapOf(object.Find("metadata", "labels"));
  if (const auto set = pod->labels.find(api::kPodSetLabel); set != pod->labels.end()) {
    pod->pod_set = set->second;
  }
  if (const auto offset = annotations.find(kIndexOffset); offset != annotations.end()) {
    pod->index_offset = offset->second;
  }
  if (const api::Json* gates = object.Find("spec", "schedulingGates")) {
    for (const api::Json& gate : gates->AsArray()) pod->gates.push_back(gate.GetString("name"));
  }
  pod->node_selector = MapOf(object.Find("spec", "nodeSelector"));
  pod->node_name = object.GetString("spec", "nodeName");
  pod->phase = object.GetString("status", "phase");
  pod->deleting = !object.GetString("metadata", "deletionTimestamp").empty();
  return pod;
}

bool SameState(const topology::NodeState& a, const topology::NodeState& b) {
  return a.known == b.known && a.ready == b.ready && a.not_ready_since == b.not_ready_since &&
         a.taints == b.taints;
}

std::optional<std::string> HostOf(const api::Node* node) {
  if (node == nullptr) return std::nullopt;
  const auto found = node->metadata.labels.find(topology::kHostname);
  if (found == node->metadata.labels.end()) return std::nullopt;
  return found->second;
}

std::string ChainOf(const api::Workload& workload) {
  const std::string name = workload.metadata.Annotation(api::kWorkloadSliceName);
  return name.empty() ? workload.metadata.name : name;
}

// It holds places.
bool IsPlaced(const api::Workload* workload) {
  return workload != nullptr && workload->status.admission &&
         !api::IsTrue(workload->status.conditions, api::kFinished) &&
         queueing::HasPlaces(*workload->status.admission);
}

bool SameAssignments(const api::Workload& a, const api::Workload& b) {
  const auto& one = a.status.admission->pod_set_assignments;
  const auto& other = b.status.admission->pod_set_assignments;
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const api::PodSetAssignment& x, const api::PodSetAssignment& y) {
                      return x.topology_assignment == y.topology_assignment;
                    });
}

std::vector<std::string> HostsOf(const api::Workload& workload) {
  std::vector<std::string> hosts;
  for (const queueing::PlacedPodSet& placed : queueing::PlacedPodSets(workload)) {
    if (!placed.places.ok() || !topology::EndsInHosts(placed.places->levels)) continue;
    for (const topology::AssignedDomain& domain : placed.places->domains) {
      hosts.push_back(domain.values.back());
    }
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

template <typename Index, typename Key, typename Value>
void RemoveFrom(Index& index, const Key& key, const Value& value) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  found->second.erase(value);
  if (found->second.empty()) index.erase(found);
}

}  // namespace

ObjectKey PlacementKey(const std::string& ns, const std::string& chain) {
  return {ns, kPlacementMark + chain};
}

std::optional<std::string> ChainOfKey(const ObjectKey& key) {
  if (!key.name.starts_with(kPlacementMark)) return std::nullopt;
  return key.name.substr(sizeof(kPlacementMark) - 1);
}

topology::NodeState HealthOf(const api::Node* node) {
  topology::NodeState state;
  if (node == nullptr) return state;
  const api::Condition* ready = api::FindCondition(node->conditions, "Ready");
  state.known = ready != nullptr;
  state.ready = ready != nullptr && ready->status == api::ConditionStatus::kTrue;
  if (!state.ready && ready != nullptr && ready->last_transition_time.has_value()) {
    state.not_ready_since = absl::ToUnixSeconds(*ready->last_transition_time);
  }
  for (const api::Taint& taint : node->taints) {
    if (taint.effect == "NoSchedule" || taint.effect == "NoExecute") {
      state.taints.push_back({taint.key, taint.value, taint.effect});
    }
  }
  return state;
}

bool PlacedPod::Gated() const {
  return std::find(gates.begin(), gates.end(), api::kTopologyGate) != gates.end();
}

void Placements::PodEvent(const ObjectEvent& event, Keys& touched) {
  using Type = ObjectEvent::Type;
  if (event.type == Type::kListBegin) {
    listing_.emplace();
    return;
  }
  if (event.type == Type::kListEnd) return FinishList(event, touched);
  const ObjectKey key{event.object.GetString("metadata", "namespace"),
                      event.object.GetString("metadata", "name")};
  const auto known = pods_.find(key);
  if (listing_) listing_->Note(key, event);
  const std::string version = event.object.GetString("metadata", "resourceVersion");
  if (known != pods_.end() && NewerVersion(known->second->resource_version, version)) return;
  PlacedPodPtr pod = event.type == Type::kDelete ? nullptr : Read(event.object);
  if (pod == nullptr) return Erase(key, touched);
  Put(std::move(pod), touched);
}

void Placements::FinishList(const ObjectEvent& end, Keys& touched) {
  if (!listing_) return;
  listing_->End(end);
  std::vector<ObjectKey> gone;
  for (const auto& [key, pod] : pods_) {
    if (!listing_->Has(key) && !listing_->IsNewer(pod->resource_version)) gone.push_back(key);
  }
  for (const ObjectKey& key : gone) Erase(key, touched);
  listing_.reset();
}

void Placements::Put(PlacedPodPtr pod, Keys& touched) {
  const ObjectKey key = pod->key;
  const ObjectKey chain{key.ns, pod->chain};
  if (const auto known = pods_.find(key); known != pods_.end()) {
    if (known->second->chain != pod->chain) Erase(key, touched);
  }
  touched.insert(chain);
  pods_by_chain_[chain].insert(key.name);
  pods_[key] = std::move(pod);
}

void Placements::Erase(const ObjectKey& key, Keys& touched) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  const ObjectKey chain{key.ns, found->second->chain};
  touched.insert(chain);
  RemoveFrom(pods_by_chain_, chain, key.name);
  pods_.erase(found);
}

void Placements::NodeChanged(const api::Node* before, const api::Node* after, Keys& touched) {
  const std::optional<std::string> was = HostOf(before);
  const std::optional<std::string> is = HostOf(after);
  if (was != is) {
    if (was) RemoveFrom(node_names_, *was, before->metadata.name);
    if (is) node_names_[*is].insert(after->metadata.name);
  } else if (SameState(HealthOf(before), HealthOf(after))) {
    return;
  }
  for (const std::optional<std::string>& host : {was, is}) {
    const auto users = host ? by_host_.find(*host) : by_host_.end();
    if (users == by_host_.end()) continue;
    for (const ObjectKey& workload : users->second) {
      touched.insert({workload.ns, workloads_.at(workload).chain});
    }
  }
}

std::vector<std::string> Placements::NodesOf(const std::string& host) const {
  const auto found = node_names_.find(host);
  if (found == node_names_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Placements::Drop(const ObjectKey& workload) {
  const auto found = workloads_.find(workload);
  if (found == workloads_.end()) return;
  for (const std::string& host : found->second.hosts) RemoveFrom(by_host_, host, workload);
  RemoveFrom(by_chain_, ObjectKey{workload.ns, found->second.chain}, workload.name);
  workloads_.erase(found);
}

void Placements::WorkloadChanged(const ObjectKey& key, const api::Workload* before,
                                 const api::Workload* after, Keys& touched) {
  const bool was = IsPlaced(before);
  const bool is = IsPlaced(after);
  if (was) touched.insert({key.ns, ChainOf(*before)});
  if (is) touched.insert({key.ns, ChainOf(*after)});
  if (was && is && workloads_.contains(key) && ChainOf(*before) == ChainOf(*after) &&
      SameAssignments(*before, *after)) {
    return;
  }
  Drop(key);
  if (!is) return;
  PlacedWorkload placed{ChainOf(*after), HostsOf(*after)};
  for (const std::string& host : placed.hosts) by_host_[host].insert(key);
  by_chain_[{key.ns, placed.chain}].insert(key.name);
  workloads_[key] = std::move(placed);
}

std::vector<PlacedPodPtr> Placements::PodsOf(const std::string& ns,
                                             const std::string& chain) const {
  std::vector<PlacedPodPtr> pods;
  const auto found = pods_by_chain_.find(ObjectKey{ns, chain});
  if (found == pods_by_chain_.end()) return pods;
  for (const std::string& name : found->second) pods.push_back(pods_.at({ns, name}));
  return pods;
}

std::vector<ObjectKey> Placements::WorkloadsOf(const std::string& ns,
                                               const std::string& chain) const {
  std::vector<ObjectKey> workloads;
  const auto found = by_chain_.find(ObjectKey{ns, chain});
  if (found == by_chain_.end()) return workloads;
  for (const std::string& name : found->second) workloads.push_back({ns, name});
  return workloads;
}

std::vector<ObjectKey> Placements::Chains() const {
  std::vector<ObjectKey> chains;
  for (const auto& [chain, names] : by_chain_) chains.push_back(chain);
  return chains;
}

}  // namespace sluice::state
