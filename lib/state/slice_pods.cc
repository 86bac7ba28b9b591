#include "state/slice_pods.h"

#include <algorithm>

#include "api/names.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "state/store.h"

namespace sluice::state {
namespace {

api::StringMap MapOf(const api::Json* json) {
  api::StringMap map;
  if (json == nullptr) return map;
  for (const auto& [key, value] : json->AsObject()) map[key] = value.AsString();
  return map;
}

bool NotReady(const api::Json& object) {
  const api::Json* conditions = object.Find("status", "conditions");
  if (conditions == nullptr) return false;
  const auto& list = conditions->AsArray();
  return std::any_of(list.begin(), list.end(), [](const api::Json& condition) {
    return condition.GetString("type") == "Ready" && condition.GetString("status") != "True";
  });
}

SlicePodPtr Read(const api::Json& object) {
  const auto pod = std::make_shared<SlicePod>();
  pod->key = {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
  pod->uid = object.GetString("metadata", "uid");
  pod->resource_version = object.GetString("metadata", "resourceVersion");
  pod->annotations = MapOf(object.Find("metadata", "annotations"));
  pod->node_selector = MapOf(object.Find("spec", "nodeSelector"));
  pod->pod_set = object.GetString("metadata", "labels", api::kPodSetLabel);
  for (const char* name : {api::kWorkloadSliceName, api::kWorkloadAnnotation}) {
    const auto found = pod->annotations.find(name);
    if (pod->chain.empty() && found != pod->annotations.end()) pod->chain = found->second;
  }
  if (const api::Json* owners = object.Find("metadata", "ownerReferences")) {
    for (const api::Json& owner : owners->AsArray()) {
      const api::Json* controller = owner.Find("controller");
      if (controller != nullptr && controller->AsBool()) {
        pod->job = {pod->key.ns, owner.GetString("name")};
      }
    }
  }
  if (const api::Json* gates = object.Find("spec", "schedulingGates")) {
    for (const api::Json& gate : gates->AsArray()) pod->gates.push_back(gate.GetString("name"));
  }
  pod->pod_group = object.GetString("spec", "schedulingGroup", "podGroupName");
  pod->node = object.GetString("spec", "nodeName");
  const std::string phase = object.GetString("status", "phase");
  pod->ended = phase == "Succeeded" || phase == "Failed";
  pod->not_ready = NotReady(object);
  if (const std::string text = object.GetString("metadata", "deletionTimestamp"); !text.empty()) {
    const absl::StatusOr<absl::Time> time = sluice::ParseTime(text);
    pod->deletion_timestamp = time.ok() ? *time : absl::InfiniteFuture();
  }
  return pod;
}

}  // namespace

bool SlicePod::Gated() const {
  return std::find(gates.begin(), gates.end(), api::kElasticJob) != gates.end();
}

void SlicePods::Apply(const ObjectEvent& event, absl::btree_set<ObjectKey>& jobs) {
  using Type = ObjectEvent::Type;
  if (event.type == Type::kListBegin) {
    list_ = {};
    listing_ = true;
    return;
  }
  if (event.type == Type::kListEnd) {
    if (listing_) FinishList(event, jobs);
    // What could not be done before the list was complete can be done now.
    if (!synced_) {
      for (const auto& [key, pod] : pods_) jobs.insert(pod->job);
    }
    synced_ = true;
    return;
  }
  const ObjectKey key{event.object.GetString("metadata", "namespace"),
                      event.object.GetString("metadata", "name")};
  if (listing_) list_.Note(key, event);
  const auto known = pods_.find(key);
  const std::string version = event.object.GetString("metadata", "resourceVersion");
  if (known != pods_.end() && NewerVersion(known->second->resource_version, version)) return;
  const std::string label = event.object.GetString("metadata", "labels", api::kManagedLabel);
  const bool ours = label == api::kManagedElastic || label == preemption::kManagedCheckpoint;
  if (event.type == Type::kDelete || !ours) return Erase(key, jobs);
  Put(key, Read(event.object), jobs);
}

void SlicePods::FinishList(const ObjectEvent& end, absl::btree_set<ObjectKey>& jobs) {
  list_.End(end);
  std::vector<ObjectKey> gone;
  for (const auto& [key, pod] : pods_) {
    if (!list_.Has(key) && !list_.IsNewer(pod->resource_version)) gone.push_back(key);
  }
  for (const ObjectKey& key : gone) Erase(key, jobs);
  list_ = {};
  listing_ = false;
}

void SlicePods::Put(const ObjectKey& key, SlicePodPtr pod, absl::btree_set<ObjectKey>& jobs) {
  Erase(key, jobs);
  jobs.insert(pod->job);
  chains_[{key.ns, pod->chain}].insert(key);
  by_job_[pod->job].insert(key);
  pods_[key] = std::move(pod);
}

void SlicePods::Erase(const ObjectKey& key, absl::btree_set<ObjectKey>& jobs) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  jobs.insert(found->second->job);
  const auto chain = chains_.find({key.ns, found->second->chain});
  chain->second.erase(key);
  if (chain->second.empty()) chains_.erase(chain);
  const auto job = by_job_.find(found->second->job);
  job->second.erase(key);
  if (job->second.empty()) by_job_.erase(job);
  pods_.erase(found);
}

std::vector<SlicePodPtr> SlicePods::Of(const std::string& ns, const std::string& chain) const {
  std::vector<SlicePodPtr> pods;
  const auto found = chains_.find({ns, chain});
  if (found == chains_.end()) return pods;
  for (const ObjectKey& key : found->second) pods.push_back(pods_.at(key));
  return pods;
}

std::vector<SlicePodPtr> SlicePods::OfJob(const ObjectKey& job) const {
  std::vector<SlicePodPtr> pods;
  const auto found = by_job_.find(job);
  if (found == by_job_.end()) return pods;
  for (const ObjectKey& key : found->second) pods.push_back(pods_.at(key));
  return pods;
}

}  // namespace sluice::state
