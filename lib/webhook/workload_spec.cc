// The rules of a Workload's spec that hold at creation and at every update.
#include <fmt/format.h>

#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

void CheckResourceList(const Path& path, const ResourceList& list, const View& view,
                       FieldErrors* errors) {
  for (const auto& [name, quantity] : list) {
    if (name == kPods) {
      errors->push_back(FieldError::Invalid(path.Key(name), name,
                                            "this resource is counted by the controller itself"));
    }
    if (quantity.Sign() < 0 && view.GateOn("WorkloadValidateResourcesAreNonNegative")) {
      errors->push_back(
          FieldError::Invalid(path.Key(name), quantity.ToString(), "must not be negative"));
    }
  }
}

void CheckResources(const Path& path, const api::ResourceRequirements& resources, const View& view,
                    FieldErrors* errors) {
  CheckResourceList(path.Child("requests"), resources.requests, view, errors);
  CheckResourceList(path.Child("limits"), resources.limits, view, errors);
}

void CheckContainers(const Path& path, const std::vector<api::Container>& containers,
                     const View& view, FieldErrors* errors) {
  for (size_t i = 0; i < containers.size(); ++i) {
    const api::ResourceRequirements& resources = containers[i].resources;
    if (resources.requests.empty() && resources.limits.empty()) continue;
    CheckResources(path.Index(i).Child("resources"), resources, view, errors);
  }
}

void CheckSlices(const Path& path, const api::PodSetTopologyRequest& request, const View& view,
                 FieldErrors* errors) {
  if (!view.GateOn("TASValidateWorkloadSliceSize")) return;
  const Path size = path.Child("podSetSliceSize");
  const bool level = request.pod_set_slice_required_topology.has_value();
  if (level && !request.pod_set_slice_size) {
    errors->push_back(FieldError::Required(size, "podSetSliceRequiredTopology needs it"));
  } else if (!level && request.pod_set_slice_size) {
    errors->push_back(FieldError::Forbidden(size, "needs podSetSliceRequiredTopology"));
  } else if (level && *request.pod_set_slice_size <= 0) {
    errors->push_back(
        FieldError::Invalid(size, *request.pod_set_slice_size, "must be greater than 0"));
  }
  const Path constraints = path.Child("podsetSliceRequiredTopologyConstraints");
  for (size_t i = 0; i < request.pod_set_slice_required_topology_constraints.size(); ++i) {
    const int32_t layer = request.pod_set_slice_required_topology_constraints[i].size;
    if (layer > 0) continue;
    errors->push_back(
        FieldError::Invalid(constraints.Index(i).Child("size"), layer, "must be greater than 0"));
  }
}

void CheckPodSet(const Path& path, const api::PodSet& pod_set, const View& view,
                 FieldErrors* errors) {
  const api::PodTemplate& pod_template = pod_set.pod_template;
  if (view.GateOn("WorkloadValidationForPodSetMetadata")) {
    const Path metadata = path.Child("template", "metadata");
    CheckLabels(metadata.Child("labels"), pod_template.labels, errors);
    CheckAnnotations(metadata.Child("annotations"), pod_template.annotations, errors);
  }
  const Path spec = path.Child("template", "spec");
  CheckContainers(spec.Child("initContainers"), pod_template.spec->init_containers, view, errors);
  CheckContainers(spec.Child("containers"), pod_template.spec->containers, view, errors);
  if (pod_template.spec->resources) {
    CheckResources(spec.Child("resources"), *pod_template.spec->resources, view, errors);
  }
  if (pod_set.topology_request) {
    CheckSlices(path.Child("topologyRequest"), *pod_set.topology_request, view, errors);
  }
}

}  // namespace

void CheckWorkloadSpec(const WorkloadContext& context, FieldErrors* errors) {
  const Path path = Path("spec").Child("podSets");
  int32_t variable = 0;
  for (size_t i = 0; i < context.workload.spec.pod_sets.size(); ++i) {
    const api::PodSet& pod_set = context.workload.spec.pod_sets[i];
    CheckPodSet(path.Index(i), pod_set, context.view, errors);
    if (pod_set.min_count) ++variable;
  }
  if (variable > 1) {
    errors->push_back(FieldError::Invalid(path, variable, "at most one podSet may have minCount"));
  }
  if (variable > 0 && context.elastic) {
    errors->push_back(
        FieldError::Invalid(path, variable, "an elastic workload must not have minCount"));
  }
}

}  // namespace sluice::webhook
