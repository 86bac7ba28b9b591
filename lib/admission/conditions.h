// How the status of a Workload changes when something is decided about it.
//
// Each function turns the status of `workload` (a copy that the caller owns) into the next one and
// returns whether anything changed; when nothing did, nothing needs to be written. Conditions keep
// their transition time while their status stays, and carry the workload's generation.
//
// An eviction has two phases, and the quota is held until the second: SetEvicted while the pods
// still run, ReleaseQuota when the job has no active pod any more.
//
// Contract: pure. Names and texts are those of the public Kueue API reference (Workload status).
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"
#include "queueing/requests.h"

namespace sluice::admission {

// Reasons of QuotaReserved=False (granular scheme).
inline constexpr char kPendingEvaluation[] = "PendingEvaluation";
inline constexpr char kWaitingForQuota[] = "WaitingForQuota";
inline constexpr char kExceedsMaxQuota[] = "ExceedsMaxQuota";
inline constexpr char kNoMatchingFlavor[] = "NoMatchingFlavor";
inline constexpr char kTopologyPlacementFailed[] = "TopologyPlacementFailed";
inline constexpr char kWaitingForPreemptedWorkloads[] = "WaitingForPreemptedWorkloads";
inline constexpr char kWaitingForPodsReady[] = "WaitingForPodsReady";
inline constexpr char kMisconfigured[] = "Misconfigured";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kAdmissionGated[] = "AdmissionGated";
inline constexpr char kOnHold[] = "OnHold";
// Its gang can not be placed as things are: it stays out of its queue until that is mended.
inline constexpr char kGangRefused[] = "GangRefused";

// Reasons of Evicted=True.
inline constexpr char kEvictedPreempted[] = "Preempted";
inline constexpr char kEvictedPodsReadyTimeout[] = "PodsReadyTimeout";
inline constexpr char kEvictedAdmissionCheck[] = "AdmissionCheck";
inline constexpr char kEvictedClusterQueueStopped[] = "ClusterQueueStopped";
inline constexpr char kEvictedLocalQueueStopped[] = "LocalQueueStopped";
inline constexpr char kEvictedNodeFailures[] = "NodeFailures";
inline constexpr char kEvictedFlavorMigration[] = "FlavorMigration";
inline constexpr char kEvictedVariantEvicted[] = "VariantEvicted";  // of a parent
// Pods of a running gang were lost and not replaced in time; it comes back in front of its
// priority.
inline constexpr char kEvictedGangBroken[] = "GangBroken";
// The pods of a gang did not all start in time; it comes back after a pause.
inline constexpr char kEvictedGangIncomplete[] = "GangIncomplete";
// It was to start when its gang could not be placed any more; it comes back after a pause. The same
// word as above.
inline constexpr char kEvictedGangRefused[] = "GangRefused";
inline constexpr char kDeactivated[] = "Deactivated";  // also a reason of QuotaReserved=False

// A reason of Finished=True: a later slice of the same elastic job has its place.
inline constexpr char kWorkloadSliceReplaced[] = "WorkloadSliceReplaced";

// Causes of a deactivation, the reasons of DeactivationTarget.
inline constexpr char kCauseRequeuingLimitExceeded[] = "RequeuingLimitExceeded";
inline constexpr char kCauseMaximumExecutionTimeExceeded[] = "MaximumExecutionTimeExceeded";
inline constexpr char kCauseAdmissionCheck[] = "AdmissionCheck";

// Texts.
inline constexpr char kDeactivatedMessage[] = "The workload is deactivated";
inline constexpr char kPendingEvaluationMessage[] =
    "Workload is pending evaluation in the scheduling queue";
inline constexpr char kRequeuingLimitExceededMessage[] =
    "exceeding the maximum number of re-queuing retries";
inline constexpr char kMaximumExecutionTimeExceededMessage[] =
    "exceeding the maximum execution time";
inline constexpr char kPreemptionGatedMessage[] = "Workload requires preemption, but it's gated";
inline constexpr char kLocalQueueStoppedMessage[] = "The LocalQueue is stopped";
inline constexpr char kClusterQueueStoppedMessage[] = "The ClusterQueue is stopped";

struct StatusOptions {
  bool granular_reasons = true;  // gate UnadmittedWorkloadsObservability
  bool explicit_status = false;  // gate UnadmittedWorkloadsExplicitStatus
};

// The condition reason that is written for a granular reason. `by_scheduler`: the cycle writes it.
std::string PendingReason(const std::string& granular, bool by_scheduler,
                          const StatusOptions& options);

// A condition of that type with the workload's generation (none for Preempted).
bool SetWorkloadCondition(api::Workload& workload, const std::string& type,
                          api::ConditionStatus status, const std::string& reason,
                          const std::string& message, absl::Time now);

// QuotaReserved=True with the admission; Admitted=True too unless a required check is missing from
// the workload's list or a listed one is not Ready. Evicted, Preempted and BlockedOnPreemptionGates
// turn False ("Previously: ..."); resourceRequests are emptied.
bool SetQuotaReservation(api::Workload& workload, api::Admission admission,
                         const std::vector<std::string>& required_checks, absl::Time now,
                         const StatusOptions& options = {});

// QuotaReserved=False with that reason and text (as they are written), no admission; Admitted
// follows. `requests` (nullptr: unchanged) goes to status.resourceRequests.
bool SetPending(api::Workload& workload, const std::string& reason, const std::string& message,
                const std::vector<queueing::PodSetRequests>* requests, absl::Time now,
                const StatusOptions& options = {});

// Phase 1 of an eviction. `reason` is the base reason; with Deactivated and a cause the condition
// says DeactivatedDueTo<cause>, and DeactivationTarget and requeueState are removed. For
// PodsReadyTimeout the cause appears in the statistics only.
bool SetEvicted(api::Workload& workload, const std::string& reason,
                const std::string& underlying_cause, const std::string& message, absl::Time now);
// The entry of the statistics that counts an eviction more in `after` than in `before`: its reason
// and cause, and whether it was the first of them. nullopt when none does.
std::optional<api::EvictionStat> NewEviction(const api::Workload& before,
                                             const api::Workload& after);
bool SetPreempted(api::Workload& workload, const std::string& reason, const std::string& message,
                  absl::Time now);
// "The workload is deactivated" or "The workload is deactivated due to <target message>".
std::string DeactivationMessage(const api::Workload& workload);
// "DeactivatedDueTo<cause>" or the reason itself.
std::string EvictedReason(const std::string& reason, const std::string& underlying_cause);

// Phase 2: QuotaReserved=False (PendingEvaluation, the eviction's message), no admission, Requeued
// according to the eviction's reason, Admitted=False, PodsReady (where it is known) False as before
// a start. Does nothing when it is not evicted.
// `never_requeue`: Requeued is False in any case (a workload owned by exactly one plain pod).
bool ReleaseQuota(api::Workload& workload, absl::Time now, const StatusOptions& options = {},
                  bool never_requeue = false);

// Admitted according to reservation, checks and delayed topology; time spent admitted is added up
// when it ends.
bool SyncAdmitted(api::Workload& workload, absl::Time now, const StatusOptions& options = {});

// A preemption gate of it is closed, and it could start only by preempting others.
bool SetBlockedOnPreemptionGates(api::Workload& workload, absl::Time now);
// status.preemptionGates has one entry for each gate of the spec: new ones are Closed, and those
// that the spec no longer names go.
bool SyncPreemptionGates(api::Workload& workload, absl::Time now);
bool SetRequeued(api::Workload& workload, bool requeued, const std::string& reason,
                 const std::string& message, absl::Time now);
bool SetFinished(api::Workload& workload, const std::string& reason, const std::string& message,
                 absl::Time now);
bool SetDeactivationTarget(api::Workload& workload, const std::string& cause,
                           const std::string& message, absl::Time now);

// The names of the ClusterQueue's admission checks that the workload needs, sorted: with an
// admission those of the flavors it uses, without one those that apply to all flavors.
std::vector<std::string> RequiredChecks(const api::ClusterQueue& cluster_queue,
                                        const api::Admission* admission);
// Adds missing required checks as Pending and removes others; sorted by name.
bool SyncAdmissionChecks(api::Workload& workload, const std::vector<std::string>& required,
                         absl::Time now);

// The body of the server-side apply of the status subresource by the manager kueue-admission, with
// the full set of fields that this manager owns. `strict`: with the resourceVersion, so that a
// write in between is a conflict.
api::Json AdmissionPatch(const api::Workload& workload, bool strict = false);

}  // namespace sluice::admission
