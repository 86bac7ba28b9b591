// The rules of a Workload that compare the new object with the old one.
#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

constexpr char kSliceReplacementFor[] = "kueue.x-k8s.io/workload-slice-replacement-for";

bool HoldsQuota(const api::Workload& workload) {
  return api::IsTrue(workload.status.conditions, api::kQuotaReserved);
}

const api::Json& PodSetJson(const api::Json& object, size_t index) {
  static const api::Json kNull;
  const api::Json* pod_sets = object.Find("spec", "podSets");
  if (pod_sets == nullptr || index >= pod_sets->AsArray().size()) return kNull;
  return pod_sets->AsArray()[index];
}

bool SameTemplate(const api::Json& pod_set, const api::Json& old_pod_set) {
  static const api::Json kNull;
  const api::Json* now = pod_set.Find("template");
  const api::Json* before = old_pod_set.Find("template");
  return SamePodTemplate(now == nullptr ? kNull : *now, before == nullptr ? kNull : *before);
}

// With elastic workloads possible, shrinking a podSet gives quota back and is always allowed;
// growing needs a new reservation and is not.
bool MayBecome(const WorkloadContext& context, const api::PodSet& pod_set,
               const api::PodSet& old_pod_set) {
  const bool count_ok =
      pod_set.count == old_pod_set.count ||
      (pod_set.count < old_pod_set.count && context.view.GateOn("ElasticJobsViaWorkloadSlices"));
  return count_ok && pod_set.name == old_pod_set.name &&
         pod_set.min_count == old_pod_set.min_count &&
         pod_set.topology_request == old_pod_set.topology_request;
}

void CheckPodSets(const WorkloadContext& context, const api::Json& object,
                  const api::Json& old_object, FieldErrors* errors) {
  if (!HoldsQuota(*context.old_workload)) return;
  const std::vector<api::PodSet>& pod_sets = context.workload.spec.pod_sets;
  const std::vector<api::PodSet>& old_pod_sets = context.old_workload->spec.pod_sets;
  const Path path = Path("spec").Child("podSets");
  if (pod_sets.size() != old_pod_sets.size()) {
    errors->push_back(FieldError::Invalid(path, static_cast<int64_t>(pod_sets.size()),
                                          "the number of podSets is immutable while quota is "
                                          "reserved"));
    return;
  }
  for (size_t i = 0; i < pod_sets.size(); ++i) {
    const api::Json& now = PodSetJson(object, i);
    if (MayBecome(context, pod_sets[i], old_pod_sets[i]) &&
        SameTemplate(now, PodSetJson(old_object, i))) {
      continue;
    }
    errors->push_back(FieldError::Invalid(path.Child(std::to_string(i)), now,
                                          "field is immutable while quota is reserved"));
  }
}

const api::ReclaimablePod* FindEntry(const api::Workload& workload, const std::string& name) {
  for (const api::ReclaimablePod& entry : workload.status.reclaimable_pods) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// Whether fewer pods are asked for now than were admitted.
bool ScaledDown(const WorkloadContext& context, const std::string& name) {
  if (!context.elastic) return false;
  const auto& admission = context.workload.status.admission
                              ? context.workload.status.admission
                              : context.old_workload->status.admission;
  if (!admission) return false;
  for (const api::PodSetAssignment& assignment : admission->pod_set_assignments) {
    if (assignment.name != name || !assignment.count) continue;
    for (const api::PodSet& pod_set : context.workload.spec.pod_sets) {
      if (pod_set.name == name) return *assignment.count > pod_set.count;
    }
  }
  return false;
}

void CheckReclaimableOnlyGrows(const WorkloadContext& context, FieldErrors* errors) {
  if (!HoldsQuota(context.workload) || !HoldsQuota(*context.old_workload)) return;
  const Path path = Path("status").Child("reclaimablePods");
  for (const api::ReclaimablePod& old_entry : context.old_workload->status.reclaimable_pods) {
    if (ScaledDown(context, old_entry.name)) continue;
    const Path item = path.Key(old_entry.name);
    const api::ReclaimablePod* entry = FindEntry(context.workload, old_entry.name);
    if (entry == nullptr) {
      errors->push_back(FieldError::Required(item, "must not be removed while quota is reserved"));
    } else if (entry->count < old_entry.count) {
      errors->push_back(FieldError::Invalid(
          item.Child("count"), entry->count,
          fmt::format("must not fall below {} while quota is reserved", old_entry.count)));
    }
  }
}

bool SameAssignment(const View& view, api::PodSetAssignment now, api::PodSetAssignment before) {
  if (view.GateOn("TopologyAwareScheduling")) {
    // A failed node is replaced, and a delayed request answered, without a new admission.
    for (api::PodSetAssignment* each : {&now, &before}) {
      each->topology_assignment.reset();
      each->delayed_topology_request.clear();
    }
  }
  return now == before;
}

void CheckAdmissionUnchanged(const WorkloadContext& context, const api::Json& object,
                             FieldErrors* errors) {
  const auto& now = context.workload.status.admission;
  const auto& before = context.old_workload->status.admission;
  if (!now || !before || *now == *before) return;
  const auto same = [&](const api::PodSetAssignment& a, const api::PodSetAssignment& b) {
    return SameAssignment(context.view, a, b);
  };
  if (now->cluster_queue == before->cluster_queue &&
      std::equal(now->pod_set_assignments.begin(), now->pod_set_assignments.end(),
                 before->pod_set_assignments.begin(), before->pod_set_assignments.end(), same)) {
    return;
  }
  const api::Json* shown = object.Find("status", "admission");
  errors->push_back(FieldError::Invalid(Path("status").Child("admission"),
                                        shown == nullptr ? api::Json() : *shown, kImmutable));
}

void CheckPodSetUpdatesUnchanged(const WorkloadContext& context, FieldErrors* errors) {
  const Path path = Path("status").Child("admissionChecks");
  const auto& old_checks = context.old_workload->status.admission_checks;
  for (size_t i = 0; i < old_checks.size(); ++i) {
    if (old_checks[i].state != "Ready") continue;
    for (const api::AdmissionCheckState& check : context.workload.status.admission_checks) {
      if (check.name != old_checks[i].name || check.state != "Ready") continue;
      if (check.pod_set_updates == old_checks[i].pod_set_updates) continue;
      errors->push_back(FieldError::Invalid(path.Index(i).Child("podSetUpdates"), check.name,
                                            "field is immutable while the check is Ready"));
    }
  }
}

void CheckClusterName(const WorkloadContext& context, FieldErrors* errors) {
  const api::WorkloadStatus& status = context.workload.status;
  const api::WorkloadStatus& old_status = context.old_workload->status;
  if (!status.cluster_name || old_status.cluster_name) return;
  // The replacement of a slice runs where the slice ran.
  if (context.view.GateOn("ElasticJobsViaWorkloadSlices") &&
      context.workload.metadata.annotations.count(kSliceReplacementFor) > 0) {
    return;
  }
  const std::vector<std::string>& nominated = old_status.nominated_cluster_names;
  if (std::find(nominated.begin(), nominated.end(), *status.cluster_name) != nominated.end()) {
    return;
  }
  errors->push_back(FieldError::Invalid(Path("status").Child("clusterName"), *status.cluster_name,
                                        "must be one of the nominatedClusterNames before"));
}

}  // namespace

void CheckWorkloadUpdate(const WorkloadContext& context, const api::Json& object,
                         const api::Json& old_object, FieldErrors* errors) {
  CheckPodSets(context, object, old_object, errors);
  CheckReclaimableOnlyGrows(context, errors);
  CheckAdmissionUnchanged(context, object, errors);
  CheckPodSetUpdatesUnchanged(context, errors);
  CheckClusterName(context, errors);
}

}  // namespace sluice::webhook
