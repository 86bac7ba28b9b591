// Names on pods that are managed one by one or in groups.
// Source: the public Kueue documentation ("Run Plain Pods", "Labels and annotations").
#pragma once

namespace sluice::api {

// Label in older manifests, annotation in newer ones.
inline constexpr char kPodGroupName[] = "kueue.x-k8s.io/pod-group-name";
inline constexpr char kPodGroupPodIndex[] = "kueue.x-k8s.io/pod-group-pod-index";

inline constexpr char kPodGroupTotalCount[] = "kueue.x-k8s.io/pod-group-total-count";
inline constexpr char kPodGroupFastAdmission[] = "kueue.x-k8s.io/pod-group-fast-admission";
inline constexpr char kPodGroupServing[] = "kueue.x-k8s.io/pod-group-serving";
inline constexpr char kPodGroupPodIndexLabel[] = "kueue.x-k8s.io/pod-group-pod-index-label";
inline constexpr char kRetriableInGroup[] = "kueue.x-k8s.io/retriable-in-group";
inline constexpr char kRoleHash[] = "kueue.x-k8s.io/role-hash";
inline constexpr char kPodSuspendingParent[] = "kueue.x-k8s.io/pod-suspending-parent";

// Ours: on a pod of a PodGroup, the UID of a member with a gate that is about to go.
inline constexpr char kGangWaker[] = "sluice.dev/gang-waits-for";

inline constexpr char kAdmissionGate[] = "kueue.x-k8s.io/admission";
inline constexpr char kTopologyGate[] = "kueue.x-k8s.io/topology";
// The finalizer; the label of the same name is kManagedLabel.
inline constexpr char kManagedFinalizer[] = "kueue.x-k8s.io/managed";

// Pod condition set just before a pod is deleted to stop it.
inline constexpr char kTerminationTarget[] = "TerminationTarget";
inline constexpr char kStopManager[] = "kueue";
inline constexpr char kPodFramework[] = "pod";

}  // namespace sluice::api
