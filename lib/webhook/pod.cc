#include "webhook/pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"
#include "jobs/pod.h"
#include "jobs/role_hash.h"
#include "preemption/checkpoint.h"
#include "state/managed_pod.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

using api::Json;
using state::ManagedPod;

Path LabelPath(const char* key) { return Path("metadata").Child("labels").Key(key); }
Path AnnotationPath(const char* key) { return Path("metadata").Child("annotations").Key(key); }

bool Enabled(const View& view) { return view.settings->integrations.Enabled(api::kPodFramework); }

// The pod as it is to be; every change is one operation, and members that are missing are made.
class Draft {
 public:
  explicit Draft(const Json& object) : object_(object) {}

  void SetLabel(const char* key, const std::string& value) { SetIn("labels", key, value); }
  void SetAnnotation(const char* key, const std::string& value) {
    SetIn("annotations", key, value);
  }

  void AddGate(const char* gate) {
    Json& gates = object_["spec"]["schedulingGates"];
    const auto same = [&](const Json& item) { return item.GetString("name") == gate; };
    if (gates.IsArray() && std::any_of(gates.AsArray().begin(), gates.AsArray().end(), same)) {
      return;
    }
    const Json item = Json::MakeObject({{"name", gate}});
    if (gates.IsArray()) {
      ops_.push_back(AddOp("/spec/schedulingGates/-", item));
    } else {
      gates = Json::MakeArray();
      ops_.push_back(AddOp("/spec/schedulingGates", Json::MakeArray({item})));
    }
    gates.Append(item);
  }

  void SetPodGroup(const std::string& name) {
    const Json group = Json::MakeObject({{"podGroupName", name}});
    ops_.push_back(AddOp("/spec/schedulingGroup", group));
    object_["spec"].Set("schedulingGroup", group);
  }

  void AddFinalizer(const char* finalizer) { webhook::AddFinalizer(object_, finalizer, &ops_); }
  PatchOps Take() { return std::move(ops_); }

 private:
  void SetIn(const char* map, const char* key, const std::string& value) {
    Json& metadata = object_["metadata"];
    Json& members = metadata[map];
    if (const Json* old = members.Find(key); old != nullptr && *old == Json(value)) return;
    if (members.IsObject()) {
      ops_.push_back(AddOp(fmt::format("/metadata/{}/{}", map, PointerPart(key)), value));
    } else {
      members = Json::MakeObject();
      ops_.push_back(AddOp(fmt::format("/metadata/{}", map), Json::MakeObject({{key, value}})));
    }
    members.Set(key, value);
  }

  Json object_;
  PatchOps ops_;
};

// The label of the pod's rank is copied from the label that the annotation names.
void CopyIndex(const api::ObjectMeta& metadata, Draft& draft) {
  const std::string from = metadata.Annotation(api::kPodGroupPodIndexLabel);
  if (!from.empty()) draft.SetLabel(api::kPodGroupPodIndex, metadata.Label(from));
}

// What every pod that waits gets.
void Hold(const Request& request, const View& view, const api::ObjectMeta& metadata, Draft& draft) {
  draft.AddGate(api::kAdmissionGate);
  if (view.GateOn("TopologyAwareScheduling")) {
    CopyIndex(metadata, draft);
    draft.AddGate(api::kTopologyGate);
  }
  if (metadata.Annotation(api::kRoleHash).empty()) {
    const Json* spec = request.object->Find("spec");
    draft.SetAnnotation(api::kRoleHash, jobs::RoleHash(spec == nullptr ? Json() : *spec));
  }
}

// The place where the group's name stands, or should stand.
Path GroupPath(const View& view, const api::ObjectMeta& metadata) {
  const bool annotation = view.GateOn("WorkloadIdentifierAnnotations") &&
                          !metadata.Annotation(api::kPodGroupName).empty();
  return annotation ? AnnotationPath(api::kPodGroupName) : LabelPath(api::kPodGroupName);
}

std::string GroupOf(const View& view, const api::ObjectMeta& metadata) {
  return state::PodGroupNameOf(metadata, view.GateOn("WorkloadIdentifierAnnotations"));
}

void CheckTotalCount(const api::ObjectMeta& metadata, FieldErrors* errors) {
  const auto found = metadata.annotations.find(api::kPodGroupTotalCount);
  if (found == metadata.annotations.end()) return;
  const std::optional<int32_t> count = ParseInt32(found->second);
  if (count && *count >= 1) return;
  errors->push_back(FieldError::Invalid(AnnotationPath(api::kPodGroupTotalCount), found->second,
                                        "must be an integer of at least 1"));
}

void CheckGroup(const View& view, const api::ObjectMeta& metadata, FieldErrors* errors) {
  const std::string group = GroupOf(view, metadata);
  const Path path = GroupPath(view, metadata);
  const bool counted = metadata.annotations.contains(api::kPodGroupTotalCount);
  if (group.empty()) {
    if (counted) {
      errors->push_back(FieldError::Required(
          path, fmt::format("annotation {} needs a pod group", api::kPodGroupTotalCount)));
    }
    return;
  }
  CheckDnsSubdomain(path, group, errors);
  if (!counted) {
    errors->push_back(FieldError::Required(AnnotationPath(api::kPodGroupTotalCount),
                                           "a pod of a group must say how many pods it has"));
  }
  CheckTotalCount(metadata, errors);
  for (const auto& [prebuilt, where] : {std::make_pair(metadata.Annotation(api::kPrebuiltWorkload),
                                                       AnnotationPath(api::kPrebuiltWorkload)),
                                        std::make_pair(metadata.Label(api::kPrebuiltWorkload),
                                                       LabelPath(api::kPrebuiltWorkload))}) {
    if (prebuilt.empty() || prebuilt == group) continue;
    errors->push_back(FieldError::Invalid(
        where, prebuilt, fmt::format("must be the name of the pod group, {}", Quote(group))));
  }
}

// Other values say that we only watch the pod: its Job is elastic, or tells of its checkpoints.
bool MayBeManaged(const ManagedPod& pod) {
  const std::string value = pod.metadata.Label(api::kManagedLabel);
  if (value == "true") return true;
  return pod.metadata.Controller() != nullptr &&
         (value == api::kManagedElastic || value == preemption::kManagedCheckpoint);
}

void CheckAlways(const View& view, const ManagedPod& pod, FieldErrors* errors) {
  const api::ObjectMeta& metadata = pod.metadata;
  if (metadata.labels.contains(api::kManagedLabel) && !MayBeManaged(pod)) {
    errors->push_back(FieldError::Forbidden(LabelPath(api::kManagedLabel),
                                            "the value of a managed pod is \"true\""));
  }
  CheckGroup(view, metadata, errors);
  // How many pods share the pod set is not known from one of them.
  CheckTopologyAnnotations(view, Path("metadata"), metadata.annotations,
                           std::numeric_limits<int64_t>::max(), errors);
}

JobFacts FactsOf(const ManagedPod& pod) {
  return {.metadata = pod.metadata, .suspended = jobs::IsGated(pod) || jobs::IsTerminated(pod)};
}

void CheckUpdate(const View& view, const ManagedPod& pod, const ManagedPod& old_pod,
                 FieldErrors* errors) {
  const std::string group = GroupOf(view, pod.metadata);
  const std::string old_group = GroupOf(view, old_pod.metadata);
  if (!old_group.empty() && group != old_group) {
    errors->push_back(FieldError::Invalid(GroupPath(view, old_pod.metadata), group, kImmutable));
  }
  const bool was_final = old_pod.metadata.Annotation(api::kRetriableInGroup) == "false";
  if (!group.empty() && was_final && pod.metadata.Annotation(api::kRetriableInGroup) != "false") {
    errors->push_back(
        FieldError::Forbidden(AnnotationPath(api::kRetriableInGroup),
                              "an unretriable pod group cannot become retriable again"));
  }
  // Without the label nobody looks after the pod, and it would run on without quota.
  if (old_pod.metadata.Label(api::kManagedLabel) == "true" &&
      !pod.metadata.labels.contains(api::kManagedLabel) &&
      pod.metadata.HasFinalizer(api::kManagedFinalizer)) {
    errors->push_back(FieldError::Forbidden(
        LabelPath(api::kManagedLabel),
        fmt::format("must not be removed before the finalizer {}", api::kManagedFinalizer)));
  }
}

void WarnAboutOwner(const Request& request, const View& view, const ManagedPod& pod) {
  const bool parent = !pod.metadata.Annotation(api::kPodSuspendingParent).empty();
  if (pod.metadata.Label(api::kManagedLabel) != "true" || !OwnerKindIsManaged(view, pod.metadata) ||
      (request.old_object != nullptr && parent)) {
    return;
  }
  request.warnings->push_back(fmt::format(
      "pod owner is managed by kueue, label '{}=true' might lead to unexpected behaviour",
      api::kManagedLabel));
}

}  // namespace

absl::StatusOr<PatchOps> DefaultPod(const Request& request, const View& view) {
  if (!Enabled(view)) return PatchOps{};
  ASSIGN_OR_RETURN(const ManagedPod pod, state::DecodeManagedPod(*request.object));
  Draft draft(*request.object);
  // The parent has decided already, and looks after its pods itself.
  if (pod.metadata.annotations.contains(api::kPodSuspendingParent)) {
    Hold(request, view, pod.metadata, draft);
    return draft.Take();
  }
  const NamespaceView* home = view.FindNamespace(request.ns);
  if (home == nullptr) {
    // A namespace this young has no default queue that anybody could know of.
    const bool wanted = !pod.metadata.Label(api::kQueueNameLabel).empty() ||
                        view.settings->manage_jobs_without_queue_name;
    if (!wanted) return PatchOps{};
    return NotFound("namespace {} is not known", Quote(request.ns));
  }
  if (!view.settings->managed_jobs_namespace_selector.Matches(home->labels)) return PatchOps{};
  ASSIGN_OR_RETURN(const bool has_ancestor, HasManagedAncestor(view, pod.metadata, request.ns));
  if (has_ancestor) return PatchOps{};
  std::string queue = pod.metadata.Label(api::kQueueNameLabel);
  if (queue.empty() && home->has_default_queue) {
    queue = api::kDefaultQueueName;
    draft.SetLabel(api::kQueueNameLabel, queue);
  }
  const bool hold = !queue.empty() || view.settings->manage_jobs_without_queue_name;
  if (!hold) return PatchOps{};
  if (view.GateOn("WorkloadPriorityClassDefaulting") && view.has_default_priority_class &&
      !OwnerKindIsManaged(view, pod.metadata) &&
      pod.metadata.Label(api::kPriorityClassLabel).empty()) {
    draft.SetLabel(api::kPriorityClassLabel, "default");
  }
  draft.SetLabel(api::kManagedLabel, "true");
  draft.AddFinalizer(api::kManagedFinalizer);
  Hold(request, view, pod.metadata, draft);
  const PodGangChoice gang = ChoosePodGang(view, pod, request.ns);
  if (!gang.pod_group.empty()) draft.SetPodGroup(gang.pod_group);
  if (gang.mode != nullptr) draft.SetAnnotation(api::kGangMode, gang.mode);
  return draft.Take();
}

absl::StatusOr<FieldErrors> ValidatePod(const Request& request, const View& view) {
  FieldErrors errors;
  if (!Enabled(view)) return errors;
  ASSIGN_OR_RETURN(const ManagedPod pod, state::DecodeManagedPod(*request.object));
  // Whatever is wrong with a pod that goes away, its finalizers must be removable.
  if (pod.metadata.Deleting()) return errors;
  CheckAlways(view, pod, &errors);
  WarnAboutOwner(request, view, pod);
  const bool gates = view.GateOn("AdmissionGatedBy");
  if (request.old_object == nullptr) {
    CheckJobCreate(view, FactsOf(pod), &errors);
    CheckPodGang(request, view, pod, nullptr, &errors);
    CheckCheckpointAnnotations(Path("metadata"), pod.metadata.annotations, nullptr, &errors);
    if (gates) CheckAdmissionGatedBy(pod.metadata, nullptr, &errors);
    return errors;
  }
  ASSIGN_OR_RETURN(const ManagedPod old_pod, state::DecodeManagedPod(*request.old_object));
  CheckUpdate(view, pod, old_pod, &errors);
  CheckPodGang(request, view, pod, &old_pod, &errors);
  CheckJobUpdate(view, FactsOf(pod), FactsOf(old_pod), request.ns, &errors);
  CheckCheckpointAnnotations(Path("metadata"), pod.metadata.annotations,
                             &old_pod.metadata.annotations, &errors);
  if (gates) CheckAdmissionGatedBy(pod.metadata, &old_pod.metadata, &errors);
  return errors;
}

}  // namespace sluice::webhook
