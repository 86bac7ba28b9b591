// Well-known names of the API: labels, annotations, finalizers, condition types and reasons.
// Source: the public Kueue documentation ("Labels and annotations", API reference).
#pragma once

namespace sluice::api {

inline constexpr char kQueueNameLabel[] = "kueue.x-k8s.io/queue-name";
inline constexpr char kPriorityClassLabel[] = "kueue.x-k8s.io/priority-class";
inline constexpr char kPrebuiltWorkload[] = "kueue.x-k8s.io/prebuilt-workload-name";
inline constexpr char kMaxExecTimeLabel[] = "kueue.x-k8s.io/max-exec-time-seconds";
inline constexpr char kJobUidLabel[] = "kueue.x-k8s.io/job-uid";
inline constexpr char kManagedLabel[] = "kueue.x-k8s.io/managed";
// Its value on pods of elastic jobs, by which they are found among all pods of a cluster.
inline constexpr char kManagedElastic[] = "elastic";
inline constexpr char kPodSetLabel[] = "kueue.x-k8s.io/podset";
inline constexpr char kClusterQueueNameLabel[] = "kueue.x-k8s.io/cluster-queue-name";
inline constexpr char kLocalQueueNameLabel[] = "kueue.x-k8s.io/local-queue-name";
inline constexpr char kConcurrentAdmissionParent[] = "kueue.x-k8s.io/concurrent-admission-parent";
inline constexpr char kMultiKueueOrigin[] = "kueue.x-k8s.io/multikueue-origin";

inline constexpr char kAdmissionGatedBy[] = "kueue.x-k8s.io/admission-gated-by";
inline constexpr char kPriorityBoost[] = "kueue.x-k8s.io/priority-boost";
inline constexpr char kWorkloadAnnotation[] = "kueue.x-k8s.io/workload";
inline constexpr char kElasticJob[] = "kueue.x-k8s.io/elastic-job";
inline constexpr char kWorkloadSliceName[] = "kueue.x-k8s.io/workload-slice-name";
inline constexpr char kWorkloadSliceReplacementFor[] =
    "kueue.x-k8s.io/workload-slice-replacement-for";
inline constexpr char kAllowedResourceFlavors[] =
    "kueue.x-k8s.io/workload-allowed-resource-flavors";
inline constexpr char kJobMinParallelism[] = "kueue.x-k8s.io/job-min-parallelism";
inline constexpr char kJobCompletionsEqualParallelism[] =
    "kueue.x-k8s.io/job-completions-equal-parallelism";
inline constexpr char kStopping[] = "kueue.x-k8s.io/stopping";
inline constexpr char kIsGroupWorkload[] = "kueue.x-k8s.io/is-group-workload";

// What Jobs say about gangs, and what is said about them.
inline constexpr char kNativeGang[] = "sluice.dev/native-gang";  // "true" or "false"
inline constexpr char kGangMode[] = "sluice.dev/gang-mode";      // written at creation
inline constexpr char kOnGangBroken[] = "sluice.dev/on-gang-broken";
inline constexpr char kRepairTimeout[] = "sluice.dev/repair-timeout";

inline constexpr char kProvReqPrefix[] = "provreq.kueue.x-k8s.io/";

inline constexpr char kResourceInUse[] = "kueue.x-k8s.io/resource-in-use";
inline constexpr char kDefaultQueueName[] = "default";

// Preemption gates.
inline constexpr char kConcurrentAdmissionGate[] = "kueue.x-k8s.io/concurrent-admission";

// Field managers of server-side apply.
inline constexpr char kAdmissionManager[] = "kueue-admission";
inline constexpr char kReclaimablePodsManager[] = "kueue-reclaimable-pods";
inline constexpr char kPodsReadyManager[] = "kueue-job-controller-PodsReady";
inline constexpr char kGangManager[] = "sluice-gang";

// Workload condition types.
inline constexpr char kQuotaReserved[] = "QuotaReserved";
inline constexpr char kAdmitted[] = "Admitted";
inline constexpr char kEvicted[] = "Evicted";
inline constexpr char kPreempted[] = "Preempted";
inline constexpr char kBlockedOnPreemptionGates[] = "BlockedOnPreemptionGates";
inline constexpr char kRequeued[] = "Requeued";
inline constexpr char kPodsReady[] = "PodsReady";
inline constexpr char kFinished[] = "Finished";
inline constexpr char kDeactivationTarget[] = "DeactivationTarget";
inline constexpr char kWaitingForReplacementPods[] = "WaitingForReplacementPods";
inline constexpr char kActive[] = "Active";
inline constexpr char kGangIntact[] = "GangIntact";

}  // namespace sluice::api
