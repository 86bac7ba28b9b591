#include "jobs/pod_set_info.h"

#include <algorithm>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "queueing/topology_inputs.h"

namespace sluice::jobs {
namespace {

absl::Status MergeMap(api::StringMap& target, const api::StringMap& update, const char* what) {
  for (const auto& [key, value] : update) {
    const auto [found, inserted] = target.emplace(key, value);
    if (!inserted && found->second != value) {
      return absl::FailedPreconditionError(
          fmt::format("conflict for {}: key {} has the values \"{}\" and \"{}\"", what, key,
                      found->second, value));
    }
  }
  return absl::OkStatus();
}

api::StringMap ReadMap(const api::Json* json) {
  api::StringMap map;
  if (json == nullptr) return map;
  for (const auto& [key, value] : json->AsObject()) map[key] = value.AsString();
  return map;
}

api::Json WriteMap(const api::StringMap& map) {
  api::Json json = api::Json::MakeObject();
  for (const auto& [key, value] : map) json.Set(key, value);
  return json;
}

std::string OperatorOf(const api::Toleration& toleration) {
  return toleration.op.empty() ? "Equal" : toleration.op;
}

// Merges a map of the template that lies at parent[key].
absl::Status MergeAt(api::Json& pod_template, const char* parent, const char* key,
                     const api::StringMap& update) {
  if (update.empty()) return absl::OkStatus();
  api::StringMap merged = ReadMap(pod_template.Find(parent, key));
  RETURN_IF_ERROR(MergeMap(merged, update, key));
  pod_template[parent].Set(key, WriteMap(merged));
  return absl::OkStatus();
}

void CopyOrErase(api::Json& target, const api::Json* original, const char* key) {
  const api::Json* value = original == nullptr ? nullptr : original->Find(key);
  if (value == nullptr) {
    target.Erase(key);
  } else {
    target.Set(key, *value);
  }
}

}  // namespace

TopologyOptions PodTopologyOf(const state::FeatureGates& gates) {
  return {gates.Enabled("TopologyAwareScheduling"), gates.Enabled("TASMultiLayerTopology")};
}

absl::StatusOr<std::optional<api::PodSetTopologyRequest>> TopologyRequestOf(
    const api::StringMap& annotations, const char* index_label, const TopologyOptions& options) {
  if (!options.aware) return std::optional<api::PodSetTopologyRequest>();
  ASSIGN_OR_RETURN(std::optional<api::PodSetTopologyRequest> request,
                   queueing::RequestOfAnnotations(annotations, options.multi_layer));
  if (!request.has_value()) request.emplace();
  request->pod_index_label = index_label;
  return request;
}

bool SameToleration(const api::Toleration& a, const api::Toleration& b) {
  return a.key == b.key && OperatorOf(a) == OperatorOf(b) && a.value == b.value &&
         a.effect == b.effect;
}

absl::Status Merge(PodSetInfo& info, const PodSetInfo& update) {
  RETURN_IF_ERROR(MergeMap(info.annotations, update.annotations, "annotations"));
  RETURN_IF_ERROR(MergeMap(info.labels, update.labels, "labels"));
  RETURN_IF_ERROR(MergeMap(info.node_selector, update.node_selector, "nodeSelector"));
  for (const api::Toleration& toleration : update.tolerations) {
    const bool known =
        std::any_of(info.tolerations.begin(), info.tolerations.end(),
                    [&](const api::Toleration& t) { return SameToleration(t, toleration); });
    if (!known) info.tolerations.push_back(toleration);
  }
  for (const std::string& gate : update.scheduling_gates) {
    if (std::find(info.scheduling_gates.begin(), info.scheduling_gates.end(), gate) ==
        info.scheduling_gates.end()) {
      info.scheduling_gates.push_back(gate);
    }
  }
  return absl::OkStatus();
}

absl::Status MergeIntoTemplate(api::Json& pod_template, const PodSetInfo& info) {
  RETURN_IF_ERROR(MergeAt(pod_template, "metadata", "labels", info.labels));
  // The names of Workloads change from slice to slice of an elastic job.
  if (info.annotations.contains(api::kWorkloadSliceName)) {
    for (const char* name : {api::kWorkloadSliceName, api::kWorkloadAnnotation}) {
      if (api::Json* annotations = pod_template["metadata"].Find("annotations")) {
        annotations->Erase(name);
      }
    }
  }
  RETURN_IF_ERROR(MergeAt(pod_template, "metadata", "annotations", info.annotations));
  RETURN_IF_ERROR(MergeAt(pod_template, "spec", "nodeSelector", info.node_selector));
  api::Json& spec = pod_template["spec"];
  if (!info.tolerations.empty()) {
    std::vector<api::Toleration> present;
    if (const api::Json* list = spec.Find("tolerations")) {
      for (const api::Json& item : list->AsArray()) {
        ASSIGN_OR_RETURN(api::Toleration toleration, api::Decode<api::Toleration>(item));
        present.push_back(std::move(toleration));
      }
    }
    for (const api::Toleration& toleration : info.tolerations) {
      const bool known = std::any_of(present.begin(), present.end(), [&](const api::Toleration& t) {
        return SameToleration(t, toleration);
      });
      if (!known) spec["tolerations"].Append(api::Encode(toleration));
    }
  }
  for (const std::string& gate : info.scheduling_gates) {
    api::Json& gates = spec["schedulingGates"];
    const bool known = std::any_of(gates.AsArray().begin(), gates.AsArray().end(),
                                   [&](const api::Json& g) { return g.GetString("name") == gate; });
    if (!known) gates.Append(api::Json::MakeObject({{"name", gate}}));
  }
  return absl::OkStatus();
}

void RestoreTemplate(api::Json& pod_template, const api::Json& original) {
  const api::Json* metadata = original.Find("metadata");
  for (const char* key : {"labels", "annotations"}) {
    CopyOrErase(pod_template["metadata"], metadata, key);
  }
  const api::Json* spec = original.Find("spec");
  for (const char* key : {"nodeSelector", "tolerations", "schedulingGates"}) {
    CopyOrErase(pod_template["spec"], spec, key);
  }
}

}  // namespace sluice::jobs
