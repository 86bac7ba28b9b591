#include "state/pod_index.h"

#include <utility>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "state/store.h"

namespace sluice::state {
namespace {

constexpr char kGroupMark[] = "group/";

ObjectKey KeyOf(const api::Json& object) {
  return {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
}

bool IsManaged(const api::Json& object) {
  return object.GetString("metadata", "labels", api::kManagedLabel) == "true";
}

}  // namespace

absl::StatusOr<ManagedPod> DecodeManagedPod(const api::Json& object) {
  api::Json head = api::Json::MakeObject();
  api::Json body = api::Json::MakeObject();
  if (const api::Json* metadata = object.Find("metadata")) head.Set("metadata", *metadata);
  if (const api::Json* status = object.Find("status")) head.Set("status", *status);
  if (const api::Json* spec = object.Find("spec")) body.Set("spec", *spec);
  absl::StatusOr<api::Pod> decoded = api::Decode<api::Pod>(head);
  if (!decoded.ok()) return decoded.status();
  absl::StatusOr<api::PodTemplate> pod_template = api::Decode<api::PodTemplate>(body);
  if (!pod_template.ok()) return pod_template.status();
  ManagedPod pod;
  pod.metadata = std::move(decoded->metadata);
  pod.phase = std::move(decoded->phase);
  pod.conditions = std::move(decoded->conditions);
  pod.pod_template = *std::move(pod_template);
  pod.message = object.GetString("status", "message");
  if (const api::Json* grace = object.Find("metadata", "deletionGracePeriodSeconds")) {
    if (grace->IsInt()) pod.deletion_grace_period_seconds = grace->AsInt();
  }
  return pod;
}

std::string PodGroupNameOf(const api::ObjectMeta& metadata, bool annotations) {
  const std::string annotation =
      annotations ? metadata.Annotation(api::kPodGroupName) : std::string();
  return annotation.empty() ? metadata.Label(api::kPodGroupName) : annotation;
}

ObjectKey GroupKey(const std::string& ns, const std::string& group) {
  return {ns, kGroupMark + group};
}

std::optional<std::string> GroupOfKey(const ObjectKey& key) {
  if (!key.name.starts_with(kGroupMark)) return std::nullopt;
  return key.name.substr(sizeof(kGroupMark) - 1);
}

PodIndex::PodIndex(const Settings& settings)
    : group_annotations_(settings.gates.Enabled("WorkloadIdentifierAnnotations")) {}

ObjectKey PodIndex::WorkKey(const ManagedPod& pod) {
  return pod.group.empty() ? pod.metadata.Key() : GroupKey(pod.metadata.ns, pod.group);
}

ManagedPodPtr PodIndex::Find(const ObjectKey& key) const {
  const auto found = pods_.find(key);
  return found == pods_.end() ? nullptr : found->second;
}

std::vector<ManagedPodPtr> PodIndex::Group(const std::string& ns, const std::string& group) const {
  std::vector<ManagedPodPtr> pods;
  const auto found = groups_.find({ns, group});
  if (found == groups_.end()) return pods;
  for (const std::string& name : found->second) pods.push_back(pods_.at({ns, name}));
  return pods;
}

std::optional<std::string> PodIndex::Apply(const ObjectEvent& event, api::TemplatePool& templates,
                                           absl::btree_set<ObjectKey>& touched) {
  using Type = ObjectEvent::Type;
  if (event.type == Type::kListBegin) {
    listing_.emplace();
    return std::nullopt;
  }
  if (event.type == Type::kListEnd) {
    FinishList(event, touched);
    return std::nullopt;
  }
  const ObjectKey key = KeyOf(event.object);
  if (listing_) listing_->Note(key, event);
  const ManagedPodPtr before = Find(key);
  const std::string version = event.object.GetString("metadata", "resourceVersion");
  // Our own write's reply and the watch bring the same object in any order.
  if (before != nullptr && !NewerVersion(version, before->metadata.resource_version)) {
    const bool same = version == before->metadata.resource_version;
    if (event.type == Type::kUpsert || !same) return std::nullopt;
  }
  if (event.type == Type::kDelete || !IsManaged(event.object)) {
    unreadable_.erase(key);
    Erase(key, touched);
    return std::nullopt;
  }
  absl::StatusOr<ManagedPod> decoded = DecodeManagedPod(event.object);
  if (!decoded.ok()) {
    unreadable_.insert(key);
    if (before != nullptr) touched.insert(WorkKey(*before));
    return std::string(decoded.status().message());
  }
  unreadable_.erase(key);
  decoded->group = PodGroupNameOf(decoded->metadata, group_annotations_);
  templates.Share(decoded->pod_template);
  Put(key, std::make_shared<const ManagedPod>(*std::move(decoded)), touched);
  return std::nullopt;
}

void PodIndex::Put(const ObjectKey& key, ManagedPodPtr pod, absl::btree_set<ObjectKey>& touched) {
  const ManagedPodPtr before = Find(key);
  if (before != nullptr && before->group != pod->group) Erase(key, touched);
  touched.insert(WorkKey(*pod));
  if (const ManagedPodPtr same = Find(key)) CountInPodGroup(*same, -1, touched);
  CountInPodGroup(*pod, 1, touched);
  if (!pod->group.empty()) groups_[{key.ns, pod->group}].insert(key.name);
  pods_.insert_or_assign(key, std::move(pod));
}

void PodIndex::Erase(const ObjectKey& key, absl::btree_set<ObjectKey>& touched) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  touched.insert(WorkKey(*found->second));
  CountInPodGroup(*found->second, -1, touched);
  if (const auto group = groups_.find({key.ns, found->second->group}); group != groups_.end()) {
    group->second.erase(key.name);
    if (group->second.empty()) groups_.erase(group);
  }
  pods_.erase(found);
}

void PodIndex::CountInPodGroup(const ManagedPod& pod, int64_t by,
                               absl::btree_set<ObjectKey>& touched) {
  const std::string& name = pod.spec().scheduling_group;
  if (name.empty()) return;
  const ObjectKey key{pod.metadata.ns, name};
  Units& units = pod_groups_[key];
  for (const auto& [unit, count] : units) touched.insert(unit);
  const ObjectKey unit = WorkKey(pod);
  if ((units[unit] += by) == 0) units.erase(unit);
  if (units.empty()) pod_groups_.erase(key);
}

void PodIndex::FinishList(const ObjectEvent& end, absl::btree_set<ObjectKey>& touched) {
  if (!listing_) return;
  Listing list = *std::move(listing_);
  listing_.reset();
  list.End(end);
  std::vector<ObjectKey> gone;
  for (const auto& [key, pod] : pods_) {
    if (!list.Has(key) && !list.IsNewer(pod->metadata.resource_version)) gone.push_back(key);
  }
  for (const ObjectKey& key : gone) Erase(key, touched);
  absl::erase_if(unreadable_, [&](const ObjectKey& key) { return !list.Has(key); });
}

}  // namespace sluice::state
