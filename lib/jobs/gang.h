// Gangs of kube-scheduler: which form a Job's gang has, how many pods it needs, and what to do when
// it falls apart.
//
// A gang is a PodGroup with a minimum: kube-scheduler binds none of its pods unless so many of them
// fit. Who makes the PodGroup depends on the cluster. Where the API server keeps spec.scheduling of
// a Job, the Job controller makes one and keeps its minimum at the Job's parallelism. Where only
// PodGroups are served, the pod template names one that we make before the Job starts. A Job that
// names the PodGroup of somebody else is left with it.
//
// Contract: pure. Source: KEP-4671 "Gang Scheduling", KEP-5547 "Integrate Workload APIs with Job",
// Kubernetes documentation, "Workload-aware scheduling".
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core_types.h"

namespace sluice::jobs {

// Values of the annotation sluice.dev/gang-mode: how a new Job was made a gang.
inline constexpr char kModeJobScheduling[] = "JobScheduling";
inline constexpr char kModePodGroup[] = "PodGroup";
inline constexpr char kModeFallback[] = "Fallback";  // the cluster has no native gangs
// No gang: its pods are in a PodGroup of ours only because the Job controller could not make one.
inline constexpr char kModeBasicPodGroup[] = "BasicPodGroup";

enum class GangForm {
  kNone,
  kJobController,  // by spec.scheduling
  kOwn,            // in a PodGroup of ours
  kForeign,        // in a PodGroup of somebody else
  kFallback,       // it should be one, but nothing makes kube-scheduler treat it so
};

struct Gang {
  GangForm form = GangForm::kNone;
  // We asked for it; else the user did.
  bool ours = false;
  bool basic = false;  // kOwn: a PodGroup without a minimum, for pods that are no gang
  // The least number of pods that the user's own spec.scheduling asks for; the minimum of any other
  // gang follows what we decide.
  std::optional<int32_t> minimum;
  ObjectKey pod_group;  // kOwn and kForeign
  // The API server has dropped what was asked for; "" when it has not.
  std::string lost;
};
Gang GangOf(const api::Job& job);

// Pods that the Job runs at a time from now on: its parallelism, or what is left to complete.
int32_t PodsToRun(const api::Job& job);
// Of these, those that are ready or have just succeeded.
int32_t PodsRunning(const api::Job& job);
// spec.scheduling.schedulingPolicy.gang.minCount
std::optional<int32_t> ExplicitMinCount(const api::Job& job);
// The least that the user declares to be enough: the Job's partial admission annotation, else the
// minimum of a gang that is the user's own; nullopt: nothing below all pods.
std::optional<int32_t> DeclaredMinimum(const api::Job& job);

enum class OnGangBroken { kRepair, kRequeue, kShrink, kIgnore };
// nullopt for a text that is none of the four; an empty one is Repair.
std::optional<OnGangBroken> ParseOnGangBroken(const std::string& text);
inline constexpr absl::Duration kDefaultRepairTimeout = absl::Minutes(5);
// A positive duration in Go's form; nullopt for any other text; an empty one is the default.
std::optional<absl::Duration> ParseRepairTimeout(const std::string& text);
// What the annotations of a Job or pod say; the defaults where they say nothing that can be read.
OnGangBroken OnGangBrokenOf(const api::ObjectMeta& metadata);
absl::Duration RepairTimeoutOf(const api::ObjectMeta& metadata);

// The Job controller derives the name of a DNS label from the Job's name; with another name the Job
// never gets its PodGroup, and no pods.
bool NameFitsJobController(const std::string& name);
// A name for the PodGroup of a new Job: its name (or the prefix of one that will be generated), and
// a part made from `seed`, which differs between any two requests.
std::string PodGroupName(const std::string& base, const std::string& seed);

// Why no member of this PodGroup can be admitted by itself: it is a part of a larger whole. "" when
// it is not.
std::string RefusalOfParent(const api::PodGroup& group);

// The PodGroup of a gang, to be created.
struct NewPodGroup {
  ObjectKey key;
  std::optional<int32_t> min_count = 1;  // nullopt: its pods are no gang
  std::vector<api::TopologyConstraint> topology;
  // A part of a gang is of no use, so kube-scheduler must not take a part of it away either.
  std::optional<api::DisruptionMode> disruption_mode =
      api::DisruptionMode{std::nullopt, api::Marker{}};
  // The group's priority must be that of its pods, and is resolved from the class by the server.
  std::string priority_class_name;
  // What the class says about preemption, as jobs::PreemptionPolicyOf gives it. It has to be said:
  // the server fills in the default before it looks at the class, and then refuses the difference.
  std::string preemption_policy;
  api::OwnerReference owner;
};
api::Json PodGroupBody(const NewPodGroup& group);
// A merge patch that changes only the minimum.
api::Json MinCountPatch(int32_t min_count);

}  // namespace sluice::jobs
