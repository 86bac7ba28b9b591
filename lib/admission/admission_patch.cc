#include <algorithm>
#include <array>
#include <string>

#include "admission/conditions.h"
#include "admission/reservation.h"
#include "api/codec.h"
#include "api/kind.h"
#include "api/names.h"
#include "preemption/checkpoint.h"

namespace sluice::admission {
namespace {

// The conditions that the manager kueue-admission owns.
bool OwnsCondition(const std::string& type) {
  static const std::array<std::string, 12> kOwned = {api::kQuotaReserved,
                                                     api::kBlockedOnPreemptionGates,
                                                     api::kEvicted,
                                                     api::kAdmitted,
                                                     api::kPreempted,
                                                     api::kRequeued,
                                                     api::kFinished,
                                                     api::kDeactivationTarget,
                                                     api::kPodsReady,
                                                     preemption::kCheckpointRequested,
                                                     preemption::kPreemptedOften,
                                                     kReservedCondition};
  return std::find(kOwned.begin(), kOwned.end(), type) != kOwned.end();
}

}  // namespace

api::Json AdmissionPatch(const api::Workload& workload, bool strict) {
  api::WorkloadStatus owned = workload.status;
  owned.reclaimable_pods.clear();  // another manager's
  std::erase_if(owned.conditions,
                [](const api::Condition& condition) { return !OwnsCondition(condition.type); });
  if (owned.requeue_state.has_value() && !owned.requeue_state->count.has_value() &&
      !owned.requeue_state->requeue_at.has_value()) {
    owned.requeue_state.reset();
  }
  api::Json status = api::Encode(owned);
  if (status.IsNull()) status = api::Json::MakeObject();
  // An empty list takes over the field, so that requests shown before are cleared.
  if (owned.admission.has_value()) status.Set("resourceRequests", api::Json::MakeArray());

  api::Json metadata = api::Json::MakeObject();
  metadata.Set("name", workload.metadata.name);
  metadata.Set("namespace", workload.metadata.ns);
  if (!workload.metadata.uid.empty()) metadata.Set("uid", workload.metadata.uid);
  if (strict && !workload.metadata.resource_version.empty()) {
    metadata.Set("resourceVersion", workload.metadata.resource_version);
  }
  api::Json body = api::Json::MakeObject();
  body.Set("apiVersion", api::ApiVersionOf(api::Kind::kWorkload));
  body.Set("kind", "Workload");
  body.Set("metadata", std::move(metadata));
  body.Set("status", std::move(status));
  return body;
}

}  // namespace sluice::admission
