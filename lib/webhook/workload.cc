#include <fmt/format.h>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

void CheckPriorityBoost(const WorkloadContext& context, FieldErrors* errors) {
  if (!context.view.GateOn("PriorityBoost")) return;
  const api::StringMap& annotations = context.workload.metadata.annotations;
  const auto found = annotations.find(api::kPriorityBoost);
  if (found == annotations.end() || ParseInt32(found->second)) return;
  errors->push_back(
      FieldError::Invalid(Path("metadata").Child("annotations").Key(api::kPriorityBoost),
                          found->second, "must be a decimal integer of 32 bits"));
}

}  // namespace

absl::StatusOr<PatchOps> DefaultWorkload(const Request& request, const View& view) {
  PatchOps ops;
  if (view.GateOn("PartialAdmission")) return ops;
  const api::Json* pod_sets = request.object->Find("spec", "podSets");
  if (pod_sets == nullptr) return ops;
  for (size_t i = 0; i < pod_sets->AsArray().size(); ++i) {
    if (!pod_sets->AsArray()[i].Has("minCount")) continue;
    ops.push_back(RemoveOp(fmt::format("/spec/podSets/{}/minCount", i)));
  }
  return ops;
}

absl::StatusOr<FieldErrors> ValidateWorkload(const Request& request, const View& view) {
  ASSIGN_OR_RETURN(const api::Workload workload, api::Decode<api::Workload>(*request.object));
  std::optional<api::Workload> old_workload;
  if (request.old_object != nullptr) {
    ASSIGN_OR_RETURN(old_workload, api::Decode<api::Workload>(*request.old_object));
  }
  const WorkloadContext context = {
      .view = view,
      .workload = workload,
      .old_workload = old_workload ? &*old_workload : nullptr,
      .elastic = view.GateOn("ElasticJobsViaWorkloadSlices") &&
                 workload.metadata.Annotation(api::kElasticJob) == "true"};
  FieldErrors errors;
  CheckWorkloadSpec(context, &errors);
  CheckWorkloadStatus(context, &errors);
  if (view.GateOn("AdmissionGatedBy")) {
    CheckAdmissionGatedBy(workload.metadata, old_workload ? &old_workload->metadata : nullptr,
                          &errors);
  }
  CheckPriorityBoost(context, &errors);
  CheckCheckpointAnnotations(Path("metadata"), workload.metadata.annotations,
                             old_workload ? &old_workload->metadata.annotations : nullptr, &errors);
  if (old_workload) CheckWorkloadUpdate(context, *request.object, *request.old_object, &errors);
  return errors;
}

}  // namespace sluice::webhook
