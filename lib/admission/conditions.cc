#include "admission/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "admission/pods_ready.h"
#include "api/names.h"
#include "preemption/checkpoint.h"

namespace sluice::admission {
namespace {

using api::Condition;
using api::ConditionStatus;

bool ChecksReady(const api::Workload& workload) {
  const auto& checks = workload.status.admission_checks;
  return std::all_of(checks.begin(), checks.end(),
                     [](const api::AdmissionCheckState& check) { return check.state == "Ready"; });
}

bool ListsAll(const api::Workload& workload, const std::vector<std::string>& required) {
  const auto& checks = workload.status.admission_checks;
  return std::all_of(required.begin(), required.end(), [&](const std::string& name) {
    return std::any_of(checks.begin(), checks.end(),
                       [&](const auto& check) { return check.name == name; });
  });
}

bool TopologyDelayed(const api::Workload& workload) {
  if (!workload.status.admission.has_value()) return false;
  const auto& assignments = workload.status.admission->pod_set_assignments;
  return std::any_of(assignments.begin(), assignments.end(), [](const auto& assignment) {
    return assignment.delayed_topology_request == "Pending" &&
           !assignment.topology_assignment.has_value();
  });
}

struct ReasonText {
  std::string reason;
  std::string message;
};

ReasonText WhyNotAdmitted(bool reserved, bool checks_ready, const StatusOptions& options) {
  if (!reserved) {
    if (!options.granular_reasons && !checks_ready) {
      return {"NoReservationUnsatisfiedChecks",
              "The workload has no reservation and not all checks ready"};
    }
    return {"NoReservation", "The workload has no reservation"};
  }
  if (!checks_ready) {
    return {options.granular_reasons ? "UnsatisfiedAdmissionChecks" : "UnsatisfiedChecks",
            "The workload has not all checks ready"};
  }
  return {"PendingDelayedTopologyRequests", "There are pending delayed topology requests"};
}

// `complete`: the list of checks has every check that is needed.
bool SyncAdmittedTo(api::Workload& workload, bool complete, absl::Time now,
                    const StatusOptions& options) {
  const api::Conditions& conditions = workload.status.conditions;
  const Condition* current = api::FindCondition(conditions, api::kAdmitted);
  const bool reserved = api::IsTrue(conditions, api::kQuotaReserved);
  const bool checks_ready = complete && ChecksReady(workload);
  const bool admitted = reserved && checks_ready && !TopologyDelayed(workload);
  const bool was_admitted = current != nullptr && current->status == ConditionStatus::kTrue;
  if (options.granular_reasons) {
    const bool silent = current == nullptr && !options.explicit_status &&
                        api::FindCondition(conditions, api::kQuotaReserved) == nullptr;
    if (silent) return false;
  } else if (admitted == was_admitted) {
    return false;
  }
  if (was_admitted && !admitted) {
    const absl::Duration ran = now - current->last_transition_time.value_or(now);
    const int64_t before = workload.status.accumulated_past_execution_time_seconds.value_or(0);
    const int64_t total = before + std::max<int64_t>(0, absl::ToInt64Seconds(ran));
    workload.status.accumulated_past_execution_time_seconds =
        static_cast<int32_t>(std::min<int64_t>(total, std::numeric_limits<int32_t>::max()));
  }
  if (admitted) {
    return SetWorkloadCondition(workload, api::kAdmitted, ConditionStatus::kTrue, "Admitted",
                                "The workload is admitted", now);
  }
  const ReasonText why = WhyNotAdmitted(reserved, checks_ready, options);
  return SetWorkloadCondition(workload, api::kAdmitted, ConditionStatus::kFalse, why.reason,
                              why.message, now);
}

bool TurnFalse(api::Workload& workload, const std::string& type, const std::string& reason,
               const std::string& message, absl::Time now) {
  if (!api::IsTrue(workload.status.conditions, type)) return false;
  return SetWorkloadCondition(workload, type, ConditionStatus::kFalse, reason, message, now);
}

void ResetChecks(api::Workload& workload, absl::Time now) {
  for (api::AdmissionCheckState& check : workload.status.admission_checks) {
    if (check.state == "Pending") continue;
    check.message = "Reset to Pending after eviction. Previously: " + check.state;
    check.retry_count = check.state == "Retry"
                            ? std::optional<int32_t>(check.retry_count.value_or(0) + 1)
                            : std::nullopt;
    check.state = "Pending";
    check.last_transition_time = now;
    check.pod_set_updates.clear();
  }
}

void CountEviction(api::Workload& workload, const std::string& reason, const std::string& cause) {
  if (!workload.status.scheduling_stats.has_value()) workload.status.scheduling_stats.emplace();
  for (api::EvictionStat& stat : workload.status.scheduling_stats->evictions) {
    if (stat.reason == reason && stat.underlying_cause == cause) {
      ++stat.count;
      return;
    }
  }
  api::EvictionStat stat;
  stat.reason = reason;
  stat.underlying_cause = cause;
  stat.count = 1;
  workload.status.scheduling_stats->evictions.push_back(stat);
}

}  // namespace

std::string PendingReason(const std::string& granular, bool by_scheduler,
                          const StatusOptions& options) {
  if (options.granular_reasons || granular == kOnHold || granular == kGangRefused) {
    return granular;
  }
  if (granular == kWaitingForPodsReady) return "Waiting";
  if (granular == kAdmissionGated && !by_scheduler) return granular;
  const bool inadmissible = granular == kMisconfigured || granular == kSuspended;
  return inadmissible && !by_scheduler ? "Inadmissible" : "Pending";
}

bool SetWorkloadCondition(api::Workload& workload, const std::string& type, ConditionStatus status,
                          const std::string& reason, const std::string& message, absl::Time now) {
  Condition condition;
  condition.type = type;
  condition.status = status;
  condition.reason = reason;
  condition.message = message;
  condition.observed_generation = type == api::kPreempted ? 0 : workload.metadata.generation;
  return api::SetCondition(workload.status.conditions, std::move(condition), now);
}

bool SetQuotaReservation(api::Workload& workload, api::Admission admission,
                         const std::vector<std::string>& required_checks, absl::Time now,
                         const StatusOptions& options) {
  const api::WorkloadStatus before = workload.status;
  const std::string message = "Quota reserved in ClusterQueue " + admission.cluster_queue;
  workload.status.admission = std::move(admission);
  workload.status.resource_requests.clear();
  SetWorkloadCondition(workload, api::kQuotaReserved, ConditionStatus::kTrue, "QuotaReserved",
                       message, now);
  for (const char* type : {api::kEvicted, api::kPreempted, api::kBlockedOnPreemptionGates,
                           preemption::kCheckpointRequested}) {
    const Condition* condition = api::FindCondition(workload.status.conditions, type);
    if (condition == nullptr) continue;
    TurnFalse(workload, type, "QuotaReserved", "Previously: " + condition->message, now);
  }
  SyncAdmittedTo(workload, ListsAll(workload, required_checks), now, options);
  return workload.status != before;
}

bool SetPending(api::Workload& workload, const std::string& reason, const std::string& message,
                const std::vector<queueing::PodSetRequests>* requests, absl::Time now,
                const StatusOptions& options) {
  const api::WorkloadStatus before = workload.status;
  SetWorkloadCondition(workload, api::kQuotaReserved, ConditionStatus::kFalse, reason, message,
                       now);
  workload.status.admission.reset();
  if (requests != nullptr) {
    workload.status.resource_requests = queueing::StatusRequests(*requests);
  }
  SyncAdmittedTo(workload, true, now, options);
  return workload.status != before;
}

std::string EvictedReason(const std::string& reason, const std::string& underlying_cause) {
  if (reason != kDeactivated || underlying_cause.empty()) return reason;
  return "DeactivatedDueTo" + underlying_cause;
}

std::string DeactivationMessage(const api::Workload& workload) {
  const Condition* target =
      api::FindCondition(workload.status.conditions, api::kDeactivationTarget);
  if (target == nullptr || target->status != ConditionStatus::kTrue) return kDeactivatedMessage;
  return fmt::format("{} due to {}", kDeactivatedMessage, target->message);
}

bool SetEvicted(api::Workload& workload, const std::string& reason,
                const std::string& underlying_cause, const std::string& message, absl::Time now) {
  const std::string full_reason = EvictedReason(reason, underlying_cause);
  api::WorkloadStatus& status = workload.status;
  const Condition* evicted = api::FindCondition(status.conditions, api::kEvicted);
  const bool again = evicted != nullptr && evicted->status == ConditionStatus::kTrue &&
                     evicted->reason == full_reason;
  if (again) return false;  // one eviction is counted once
  SetWorkloadCondition(workload, api::kEvicted, ConditionStatus::kTrue, full_reason, message, now);
  status.cluster_name.reset();
  status.nominated_cluster_names.clear();
  status.unhealthy_nodes.clear();
  ResetChecks(workload, now);
  TurnFalse(workload, api::kBlockedOnPreemptionGates, full_reason, message, now);
  TurnFalse(workload, preemption::kCheckpointRequested, full_reason, message, now);
  for (api::PreemptionGateState& gate : status.preemption_gates) {
    gate.position = "Closed";
    gate.last_transition_time = now;
  }
  if (reason == kDeactivated) {
    api::RemoveCondition(status.conditions, api::kDeactivationTarget);
    status.requeue_state.reset();
  }
  CountEviction(workload, reason, underlying_cause);
  return true;
}

std::optional<api::EvictionStat> NewEviction(const api::Workload& before,
                                             const api::Workload& after) {
  if (!after.status.scheduling_stats.has_value()) return std::nullopt;
  for (const api::EvictionStat& stat : after.status.scheduling_stats->evictions) {
    int32_t known = 0;
    if (before.status.scheduling_stats.has_value()) {
      for (const api::EvictionStat& old : before.status.scheduling_stats->evictions) {
        if (old.reason == stat.reason && old.underlying_cause == stat.underlying_cause) {
          known = old.count;
        }
      }
    }
    if (stat.count > known) return stat;
  }
  return std::nullopt;
}

bool SetPreempted(api::Workload& workload, const std::string& reason, const std::string& message,
                  absl::Time now) {
  return SetWorkloadCondition(workload, api::kPreempted, ConditionStatus::kTrue, reason, message,
                              now);
}

bool ReleaseQuota(api::Workload& workload, absl::Time now, const StatusOptions& options,
                  bool never_requeue) {
  const Condition* found = api::FindCondition(workload.status.conditions, api::kEvicted);
  if (found == nullptr || found->status != ConditionStatus::kTrue) return false;
  if (!api::IsTrue(workload.status.conditions, api::kQuotaReserved)) return false;
  const Condition evicted = *found;
  const bool requeued =
      !never_requeue &&
      (evicted.reason == kEvictedPreempted || evicted.reason == kEvictedNodeFailures ||
       evicted.reason == kEvictedFlavorMigration || evicted.reason == kEvictedGangBroken);
  SetRequeued(workload, requeued, evicted.reason, evicted.message, now);
  // The next admission starts from nothing, even when it comes before the Job is looked at again.
  if (api::FindCondition(workload.status.conditions, api::kPodsReady) != nullptr) {
    SetWorkloadCondition(workload, api::kPodsReady, ConditionStatus::kFalse, kWaitForStart,
                         kWaitForStartMessage, now);
  }
  return SetPending(workload, PendingReason(kPendingEvaluation, false, options), evicted.message,
                    nullptr, now, options);
}

bool SyncAdmitted(api::Workload& workload, absl::Time now, const StatusOptions& options) {
  return SyncAdmittedTo(workload, true, now, options);
}

bool SetRequeued(api::Workload& workload, bool requeued, const std::string& reason,
                 const std::string& message, absl::Time now) {
  return SetWorkloadCondition(workload, api::kRequeued,
                              requeued ? ConditionStatus::kTrue : ConditionStatus::kFalse, reason,
                              message, now);
}

bool SetBlockedOnPreemptionGates(api::Workload& workload, absl::Time now) {
  return SetWorkloadCondition(workload, api::kBlockedOnPreemptionGates, ConditionStatus::kTrue,
                              "PreemptionGated", kPreemptionGatedMessage, now);
}

bool SyncPreemptionGates(api::Workload& workload, absl::Time now) {
  std::vector<api::PreemptionGateState> states;
  for (const std::string& gate : workload.spec.preemption_gates) {
    const auto& known = workload.status.preemption_gates;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const auto& state) { return state.name == gate; });
    if (same != known.end()) {
      states.push_back(*same);
      continue;
    }
    api::PreemptionGateState& closed = states.emplace_back();
    closed.name = gate;
    closed.position = "Closed";
    closed.last_transition_time = now;
  }
  if (states == workload.status.preemption_gates) return false;
  workload.status.preemption_gates = std::move(states);
  return true;
}

bool SetFinished(api::Workload& workload, const std::string& reason, const std::string& message,
                 absl::Time now) {
  if (api::IsTrue(workload.status.conditions, api::kFinished)) return false;  // final
  return SetWorkloadCondition(workload, api::kFinished, ConditionStatus::kTrue, reason, message,
                              now);
}

bool SetDeactivationTarget(api::Workload& workload, const std::string& cause,
                           const std::string& message, absl::Time now) {
  return SetWorkloadCondition(workload, api::kDeactivationTarget, ConditionStatus::kTrue, cause,
                              message, now);
}

std::vector<std::string> RequiredChecks(const api::ClusterQueue& cluster_queue,
                                        const api::Admission* admission) {
  std::vector<std::string> names;
  if (!cluster_queue.spec.admission_checks_strategy.has_value()) return names;
  absl::btree_map<FlavorName, bool> used;  // every flavor, and whether the admission has it
  for (const api::ResourceGroup& group : cluster_queue.spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) used[flavor.name] = false;
  }
  if (admission != nullptr) {
    for (const api::PodSetAssignment& assignment : admission->pod_set_assignments) {
      for (const auto& [resource, flavor] : assignment.flavors) used[flavor] = true;
    }
  }
  for (const auto& rule : cluster_queue.spec.admission_checks_strategy->admission_checks) {
    const auto lists = [&rule = rule](const FlavorName& flavor) {
      return std::find(rule.on_flavors.begin(), rule.on_flavors.end(), flavor) !=
             rule.on_flavors.end();
    };
    const bool needed =
        rule.on_flavors.empty() ||
        (admission == nullptr
             ? std::all_of(used.begin(), used.end(), [&](const auto& e) { return lists(e.first); })
             : std::any_of(used.begin(), used.end(),
                           [&](const auto& entry) { return entry.second && lists(entry.first); }));
    if (needed) names.push_back(rule.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool SyncAdmissionChecks(api::Workload& workload, const std::vector<std::string>& required,
                         absl::Time now) {
  std::vector<api::AdmissionCheckState> next;
  for (const std::string& name : required) {
    const auto& checks = workload.status.admission_checks;
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const auto& check) { return check.name == name; });
    if (found != checks.end()) {
      next.push_back(*found);
      continue;
    }
    api::AdmissionCheckState check;
    check.name = name;
    check.state = "Pending";
    check.last_transition_time = now;
    next.push_back(std::move(check));
  }
  std::sort(next.begin(), next.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (next == workload.status.admission_checks) return false;
  workload.status.admission_checks = std::move(next);
  return true;
}

}  // namespace sluice::admission
