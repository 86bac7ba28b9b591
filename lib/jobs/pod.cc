#include "jobs/pod.h"

#include <algorithm>
#include <charconv>

#include "api/codec.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"
#include "base/time.h"
#include "jobs/pod_template.h"
#include "queueing/topology_inputs.h"

namespace sluice::jobs {

using api::Json;
using state::ManagedPod;

namespace {

bool HasGate(const std::vector<std::string>& gates, const char* gate) {
  return std::find(gates.begin(), gates.end(), gate) != gates.end();
}

// Members of `wanted` that differ from those of `now`, as a merge patch; nothing is removed.
Json MapPatch(const api::StringMap& now, const Json* wanted) {
  Json patch = Json::MakeObject();
  if (wanted == nullptr) return patch;
  for (const auto& [key, value] : wanted->AsObject()) {
    const auto found = now.find(key);
    if (found == now.end() || found->second != value.AsString()) patch.Set(key, value);
  }
  return patch;
}

Json MapJson(const api::StringMap& map) {
  Json json = Json::MakeObject();
  for (const auto& [key, value] : map) json.Set(key, value);
  return json;
}

}  // namespace

bool IsGated(const ManagedPod& pod) {
  return HasGate(pod.spec().scheduling_gates, api::kAdmissionGate);
}
bool IsSucceeded(const ManagedPod& pod) { return pod.phase == "Succeeded"; }
bool IsFailed(const ManagedPod& pod) { return pod.phase == "Failed"; }
bool IsTerminated(const ManagedPod& pod) { return IsSucceeded(pod) || IsFailed(pod); }

bool IsReleased(const ManagedPod& pod) {
  return !IsGated(pod) && !IsTerminated(pod) && !pod.metadata.Deleting();
}

bool IsRunnableOrSucceeded(const ManagedPod& pod) {
  return !IsFailed(pod) && !(pod.metadata.Deleting() && pod.spec().node_name.empty());
}

bool IsActive(const ManagedPod& pod, bool fast_release, absl::Time now) {
  if (pod.phase != "Running") return false;
  if (!pod.metadata.Deleting()) return true;
  const int64_t grace = pod.deletion_grace_period_seconds.value_or(0);
  return !fast_release && now < *pod.metadata.deletion_timestamp + absl::Seconds(grace);
}

bool IsPodReady(const ManagedPod& pod) { return api::IsTrue(pod.conditions, "Ready"); }
bool IsServing(const ManagedPod& pod) {
  return pod.metadata.Annotation(api::kPodGroupServing) == "true";
}
bool IsFastAdmission(const ManagedPod& pod) {
  return pod.metadata.Annotation(api::kPodGroupFastAdmission) == "true";
}
std::string RoleOf(const ManagedPod& pod) { return pod.metadata.Annotation(api::kRoleHash); }

std::optional<int32_t> TotalCount(const ManagedPod& pod) {
  const std::string text = pod.metadata.Annotation(api::kPodGroupTotalCount);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

absl::StatusOr<api::PodSet> PodSetOf(const ManagedPod& pod, std::string name, int32_t count,
                                     const TopologyOptions& topology) {
  api::PodSet pod_set;
  pod_set.name = std::move(name);
  pod_set.count = count;
  pod_set.pod_template = pod.pod_template;
  Json json = TemplateJson(pod.pod_template);
  RemoveDuplicateEnv(json);
  // Read where the pods are placed, long after this pod may have gone.
  const auto& annotations = pod.metadata.annotations;
  if (const auto placement = annotations.find(queueing::kPlacement);
      placement != annotations.end()) {
    pod_set.pod_template.annotations[queueing::kPlacement] = placement->second;
    json["metadata"]["annotations"].Set(queueing::kPlacement, placement->second);
  }
  pod_set.pod_template.raw = std::make_shared<const std::string>(json.Text());
  auto request = TopologyRequestOf(pod.metadata.annotations, api::kPodGroupPodIndex, topology);
  if (!request.ok()) return Annotate(request.status(), "pod " + pod.metadata.name);
  pod_set.topology_request = *std::move(request);
  return pod_set;
}

std::optional<JobFinish> PodFinished(const ManagedPod& pod) {
  if (!IsTerminated(pod)) return std::nullopt;
  return JobFinish{IsSucceeded(pod), pod.message};
}

absl::StatusOr<Json> UngatePatch(const ManagedPod& pod, const PodSetInfo& info) {
  Json wanted = TemplateJson(pod.pod_template);
  if (!pod.metadata.labels.empty()) {
    wanted["metadata"].Set("labels", MapJson(pod.metadata.labels));
  }
  if (!pod.metadata.annotations.empty()) {
    wanted["metadata"].Set("annotations", MapJson(pod.metadata.annotations));
  }
  PodSetInfo given = info;
  given.scheduling_gates.clear();  // no gate can be added to a pod
  RETURN_IF_ERROR(MergeIntoTemplate(wanted, given));
  Json patch = Json::MakeObject();
  Json labels = MapPatch(pod.metadata.labels, wanted.Find("metadata", "labels"));
  Json annotations = MapPatch(pod.metadata.annotations, wanted.Find("metadata", "annotations"));
  if (!labels.AsObject().empty()) patch["metadata"].Set("labels", std::move(labels));
  if (!annotations.AsObject().empty()) patch["metadata"].Set("annotations", std::move(annotations));
  Json selector = MapPatch(pod.spec().node_selector, wanted.Find("spec", "nodeSelector"));
  if (!selector.AsObject().empty()) patch["spec"].Set("nodeSelector", std::move(selector));
  const Json* tolerations = wanted.Find("spec", "tolerations");
  if (tolerations != nullptr && tolerations->AsArray().size() != pod.spec().tolerations.size()) {
    patch["spec"].Set("tolerations", *tolerations);
  }
  const bool placed = HasGate(info.scheduling_gates, api::kTopologyGate);
  Json gates = Json::MakeArray();
  for (const std::string& gate : pod.spec().scheduling_gates) {
    if (gate == api::kAdmissionGate || (gate == api::kTopologyGate && !placed)) continue;
    gates.Append(Json::MakeObject({{"name", gate}}));
  }
  patch["spec"].Set("schedulingGates", std::move(gates));
  return patch;
}

Json TerminationTargetPatch(const ManagedPod& pod, const std::string& reason,
                            const std::string& message, absl::Time now) {
  Json condition =
      Json::MakeObject({{"type", api::kTerminationTarget},
                        {"status", "True"},
                        {"lastTransitionTime", sluice::FormatTime(now)},
                        {"reason", reason},
                        {"message", api::TruncateMessage(message, api::kMaxConditionMessage)}});
  return Json::MakeObject(
      {{"apiVersion", kPodApiVersion},
       {"kind", kPodKind},
       {"metadata", Json::MakeObject({{"name", pod.metadata.name},
                                      {"namespace", pod.metadata.ns},
                                      {"uid", pod.metadata.uid}})},
       {"status", Json::MakeObject({{"conditions", Json::MakeArray({std::move(condition)})}})}});
}

}  // namespace sluice::jobs
