// The rules of a Workload's status that hold at creation and at every update.
#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

const api::PodSet* FindPodSet(const api::Workload& workload, const std::string& name) {
  for (const api::PodSet& pod_set : workload.spec.pod_sets) {
    if (pod_set.name == name) return &pod_set;
  }
  return nullptr;
}

std::vector<std::string> PodSetNames(const api::Workload& workload) {
  std::vector<std::string> names;
  for (const api::PodSet& pod_set : workload.spec.pod_sets) names.push_back(pod_set.name);
  return names;
}

bool HoldsQuota(const api::Workload& workload) {
  return api::IsTrue(workload.status.conditions, api::kQuotaReserved);
}

void CheckAssignment(const Path& path, const api::PodSetAssignment& assignment,
                     const api::Workload& workload, FieldErrors* errors) {
  if (FindPodSet(workload, assignment.name) == nullptr) {
    errors->push_back(FieldError::NotFound(path.Child("name"), assignment.name));
  }
  const int32_t count = assignment.count.value_or(0);
  if (count <= 0) return;
  for (const auto& [resource, quantity] : assignment.resource_usage) {
    if (AmountOf(resource, quantity) % count == 0) continue;
    errors->push_back(
        FieldError::Invalid(path.Child("resourceUsage").Key(resource), quantity.ToString(),
                            fmt::format("must be a multiple of the count {}", count)));
  }
}

void CheckAdmission(const WorkloadContext& context, FieldErrors* errors) {
  if (!HoldsQuota(context.workload)) return;
  const Path path = Path("status").Child("admission");
  const auto& admission = context.workload.status.admission;
  if (!admission) {
    // An object that is already in this state must stay editable, or nobody could repair it or
    // remove its finalizer.
    const bool was_broken = context.old_workload != nullptr && HoldsQuota(*context.old_workload) &&
                            !context.old_workload->status.admission;
    if (!was_broken) {
      errors->push_back(
          FieldError::Required(path, "must be set while the condition QuotaReserved is true"));
    }
    return;
  }
  for (size_t i = 0; i < admission->pod_set_assignments.size(); ++i) {
    CheckAssignment(path.Child("podSetAssignments").Index(i), admission->pod_set_assignments[i],
                    context.workload, errors);
  }
}

// An entry that was right before an elastic workload shrank stays acceptable until it is rewritten.
bool IsStaleEntry(const WorkloadContext& context, const api::ReclaimablePod& entry) {
  if (!context.elastic || context.old_workload == nullptr) return false;
  const auto& old_entries = context.old_workload->status.reclaimable_pods;
  return std::find(old_entries.begin(), old_entries.end(), entry) != old_entries.end();
}

void CheckReclaimablePods(const WorkloadContext& context, FieldErrors* errors) {
  const Path path = Path("status").Child("reclaimablePods");
  for (const api::ReclaimablePod& entry : context.workload.status.reclaimable_pods) {
    const Path item = path.Key(entry.name);
    const api::PodSet* pod_set = FindPodSet(context.workload, entry.name);
    if (pod_set == nullptr) {
      errors->push_back(
          FieldError::NotSupported(item.Child("name"), entry.name, PodSetNames(context.workload)));
    } else if (entry.count > pod_set->count && !IsStaleEntry(context, entry)) {
      errors->push_back(FieldError::Invalid(
          item.Child("count"), entry.count,
          fmt::format("must not exceed the podSet's count {}", pod_set->count)));
    }
  }
}

void CheckPodSetUpdate(const Path& path, const api::PodSetUpdate& update,
                       const api::Workload& workload, FieldErrors* errors) {
  if (FindPodSet(workload, update.name) == nullptr) {
    errors->push_back(
        FieldError::NotSupported(path.Child("name"), update.name, PodSetNames(workload)));
  }
  for (size_t i = 0; i < update.tolerations.size(); ++i) {
    const std::string& key = update.tolerations[i].key;
    if (!key.empty()) CheckLabelName(path.Child("tolerations").Index(i).Child("key"), key, errors);
  }
  CheckAnnotations(path.Child("annotations"), update.annotations, errors);
  CheckLabels(path.Child("nodeSelector"), update.node_selector, errors);
  CheckLabels(path.Child("labels"), update.labels, errors);
}

}  // namespace

void CheckWorkloadStatus(const WorkloadContext& context, FieldErrors* errors) {
  const api::WorkloadStatus& status = context.workload.status;
  CheckConditions(Path("status").Child("conditions"), status.conditions, errors);
  CheckAdmission(context, errors);
  CheckReclaimablePods(context, errors);
  const Path checks = Path("status").Child("admissionChecks");
  for (size_t i = 0; i < status.admission_checks.size(); ++i) {
    const std::vector<api::PodSetUpdate>& updates = status.admission_checks[i].pod_set_updates;
    for (size_t j = 0; j < updates.size(); ++j) {
      CheckPodSetUpdate(checks.Index(i).Child("podSetUpdates").Index(j), updates[j],
                        context.workload, errors);
    }
  }
}

}  // namespace sluice::webhook
