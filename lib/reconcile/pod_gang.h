// PodGang: what one pass over a pod, or a group of pods, does for the gang that they are in.
// Private to this room.
//
// Before the start: the PodGroup is there and asks for all pods, then the gates go. kube-scheduler
// places nothing while one member has a gate, so the last gate is the point at which the gang
// starts, and a crash before it leaves nothing running. While the gang runs its minimum comes down
// when a pod has to be replaced after others have ended, and a gang that lost pods is treated as
// its annotation sluice.dev/on-gang-broken says.
//
// kube-scheduler does not look again at a gang when a member with a gate is deleted, though nothing
// holds the others back any more. So before we let such a member go, we mark one of the others; the
// mark is taken off when the member is gone, and that change wakes the gang.
//
// Contract: pure; lives as long as the World and the pods it was made from.
// Source: KEP-4671 "Gang Scheduling"; Kubernetes documentation, "Pod Scheduling Readiness".
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>

#include "jobs/pod_gang.h"
#include "reconcile/gang_integrity.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

class PodGang {
 public:
  // `all`: every pod of the unit, `group`: its name, "" for a single pod.
  PodGang(const state::World& world, const jobs::Pods& all, const std::string& group,
          absl::Time now);

  // Why the pods must neither get quota nor start; "" when nothing is against it. `reason`: of the
  // event that says so.
  std::string Refusal(const char*& reason) const;
  // Nothing can be said before the PodGroups are known: then wait.
  bool Unknown(Plan& plan) const;

  // Pods of a gang are still missing after its timeout: says so.
  void SayIncomplete(const std::string& what, Plan& plan) const;

  // Before gates go. True when something has to happen first.
  bool Prepare(const api::Workload& workload, const jobs::Pods& kept, Plan& plan) const;
  // What a user should know who sees the pods start; "" for nothing.
  std::string StartWarning() const;
  // Of pods that have all been released. True when a write was planned.
  bool Watch(const api::Workload& workload, const jobs::Pods& kept, Plan& plan) const;
  // Of pods that gave their quota back.
  bool Rest(const api::Workload& workload, Plan& plan) const;

  // Before these pods are let go, or deleted. True when a mark has to be written first.
  bool Mark(const jobs::Pods& leaving, const jobs::Pods& kept, Plan& plan) const;
  // Takes off the marks of those that are gone.
  bool Wake(const jobs::Pods& kept, Plan& plan) const;

 private:
  bool IsGang() const;
  bool Named() const { return !gang_.pod_group.name.empty(); }
  GangState State(const api::Workload& workload, const jobs::Pods& kept) const;
  bool KeepMinimum(const api::Workload& workload, int32_t wanted, bool first, Plan& plan) const;
  state::Action Patch(const state::ManagedPod& pod, api::Json mark) const;

  const state::World& world_;
  const jobs::Pods& all_;
  const std::string& group_name_;
  absl::Time now_;
  jobs::Gang gang_;
  std::shared_ptr<const api::PodGroup> group_;  // when there is one
  Note about_;
};

}  // namespace sluice::reconcile
