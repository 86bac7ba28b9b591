#include "jobs/pod_construct.h"

#include <set>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "jobs/workload_name.h"

namespace sluice::jobs {
namespace {

using api::Json;
using state::ManagedPod;
using state::ManagedPodPtr;

constexpr size_t kMaxLabelValue = 63;

Json OwnerOf(const ManagedPod& pod) {
  return Json::MakeObject({{"apiVersion", kPodApiVersion},
                           {"kind", kPodKind},
                           {"name", pod.metadata.name},
                           {"uid", pod.metadata.uid}});
}

// Labels of the pods that the Workload receives. Pods that disagree make it impossible.
absl::StatusOr<Json> CopiedLabels(const state::World& world, const Pods& pods) {
  Json labels = Json::MakeObject();
  for (const std::string& key : world.settings().integrations.label_keys_to_copy) {
    for (const ManagedPodPtr& pod : pods) {
      const auto found = pod->metadata.labels.find(key);
      if (found == pod->metadata.labels.end()) continue;
      const Json* known = labels.Find(key);
      if (known != nullptr && known->AsString() != found->second) {
        return absl::FailedPreconditionError(
            fmt::format("the pods of the group have different values for the label {}: \"{}\" and "
                        "\"{}\"",
                        key, known->AsString(), found->second));
      }
      labels.Set(key, found->second);
    }
  }
  return labels;
}

Json Annotations(const state::World& world, const ManagedPod& pod) {
  Json annotations = Json::MakeObject();
  for (const auto& [key, value] : pod.metadata.annotations) {
    if (key.starts_with(api::kProvReqPrefix)) annotations.Set(key, value);
  }
  const std::string gates = pod.metadata.Annotation(api::kAdmissionGatedBy);
  if (!gates.empty() && world.settings().gates.Enabled("AdmissionGatedBy")) {
    annotations.Set(api::kAdmissionGatedBy, gates);
  }
  return annotations;
}

struct Parts {
  Json labels;
  Json annotations;
  Json owners;
  Json spec;
};

NewWorkload Build(ObjectKey key, Parts parts) {
  Json metadata = Json::MakeObject({{"name", key.name},
                                    {"namespace", key.ns},
                                    {"finalizers", Json::MakeArray({api::kResourceInUse})},
                                    {"ownerReferences", std::move(parts.owners)}});
  if (!parts.labels.AsObject().empty()) metadata.Set("labels", std::move(parts.labels));
  if (!parts.annotations.AsObject().empty()) {
    metadata.Set("annotations", std::move(parts.annotations));
  }
  Json body = Json::MakeObject({{"apiVersion", api::ApiVersionOf(api::Kind::kWorkload)},
                                {"kind", "Workload"},
                                {"metadata", std::move(metadata)},
                                {"spec", std::move(parts.spec)}});
  return {std::move(key), std::move(body)};
}

TopologyOptions TopologyOf(const state::World& world) {
  return PodTopologyOf(world.settings().gates);
}

}  // namespace

absl::StatusOr<NewWorkload> ConstructPodWorkload(const state::World& world, const ManagedPod& pod) {
  Parts parts;
  ASSIGN_OR_RETURN(api::PodSet pod_set, PodSetOf(pod, "main", 1, TopologyOf(world)));
  ASSIGN_OR_RETURN(parts.spec,
                   WorkloadSpec(world, pod.metadata, {std::move(pod_set)}, std::nullopt));
  ASSIGN_OR_RETURN(parts.labels, CopiedLabels(world, {std::make_shared<const ManagedPod>(pod)}));
  const std::string& uid = pod.metadata.uid;
  if (uid.size() <= kMaxLabelValue) parts.labels.Set(api::kJobUidLabel, uid);
  parts.annotations = Annotations(world, pod);
  parts.owners = Json::MakeArray({ControllerReference(kPodApiVersion, kPodKind, pod.metadata)});
  const size_t longest = world.settings().gates.Enabled("ShortWorkloadNames") ? 63 : 253;
  const std::string name = WorkloadName({kPodKind, "", pod.metadata.name, uid, ""}, longest);
  return Build({pod.metadata.ns, name}, std::move(parts));
}

absl::StatusOr<NewWorkload> ConstructGroupWorkload(const state::World& world, const Pods& kept) {
  const ManagedPod& first = *kept.front();
  Parts parts;
  ASSIGN_OR_RETURN(const std::vector<api::PodSet> pod_sets, GroupPodSets(kept, TopologyOf(world)));
  ASSIGN_OR_RETURN(parts.spec, WorkloadSpec(world, first.metadata, pod_sets, std::nullopt));
  ASSIGN_OR_RETURN(parts.labels, CopiedLabels(world, kept));
  parts.annotations = Annotations(world, first);
  parts.annotations.Set(api::kIsGroupWorkload, "true");
  parts.owners = Json::MakeArray();
  for (const ManagedPodPtr& pod : kept) parts.owners.Append(OwnerOf(*pod));
  return Build({first.metadata.ns, first.group}, std::move(parts));
}

Json::Array MissingOwners(const api::Workload& workload, const Pods& kept) {
  std::set<std::string> known;
  for (const api::OwnerReference& owner : workload.metadata.owner_references) {
    known.insert(owner.uid);
  }
  Json::Array missing;
  for (const ManagedPodPtr& pod : kept) {
    if (!known.contains(pod->metadata.uid)) missing.push_back(OwnerOf(*pod));
  }
  return missing;
}

}  // namespace sluice::jobs
