// JobGang: what one pass over a Job does for its gang. Private to this room.
//
// Before the start: the PodGroup exists with the right minimum, then one patch releases the Job, so
// that at every instant either nothing runs or all may. While it runs: the minimum follows what is
// left to complete, and a gang that lost pods is repaired, requeued, shrunk or left alone, as its
// annotation sluice.dev/on-gang-broken says.
//
// Whether a gang is whole is read from the Job's status (ready pods), so that no pod needs to be
// watched: the pods of a lost node are not ready long before they are deleted.
//
// Contract: pure; lives as long as the World and the Job it was made from.
// Source: KEP-4671 "Gang Scheduling" (a group's minimum holds at its first placement only).
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

#include "jobs/gang.h"
#include "reconcile/gang_integrity.h"
#include "reconcile/plan.h"
#include "state/world.h"

namespace sluice::reconcile {

class JobGang {
 public:
  JobGang(const state::World& world, const api::Job& job, absl::Time now);

  // Why the Job must neither get quota nor start; "" when nothing is against it. `reason`: of the
  // event that says so.
  std::string Refusal(const char*& reason) const;
  // Nothing can be said before the PodGroups are known: then wait.
  bool Unknown(Plan& plan) const;
  // The pods are in a PodGroup of somebody else.
  bool Foreign() const { return gang_.form == jobs::GangForm::kForeign; }
  // A Job that may start with fewer pods starts with no fewer than that PodGroup needs.
  void RaiseMinimum(std::vector<api::PodSet>& pod_sets) const;
  // Before a start with that many pods. True when something has to happen first.
  bool Prepare(int32_t count, Plan& plan) const;
  // What belongs into the patch that starts the Job.
  void AddToStart(int32_t count, api::Json& body) const;
  // What a user should know who sees the Job of this Workload start.
  std::vector<Note> StartNotes(const api::Workload& workload) const;

  // Of a Job that runs what this Workload has quota for. True when a write was planned.
  bool Watch(const api::Workload& workload, Plan& plan) const;
  // Pods of an elastic Job that wait for their quota keep kube-scheduler from placing the others,
  // and when they are deleted it does not look again. So one of the others is marked as long as
  // there are any, and loses the mark, which wakes the gang, when the one that it names is gone.
  bool Wake(Plan& plan) const;
  // Before pods of an elastic Job are let go. True when something has to happen first.
  bool Grow(const api::Workload& slice, Plan& plan) const;
  // It was whole, has shrunk, and what runs is enough.
  bool Enough(const api::Workload& workload) const;
  // Of a Job that gave its quota back.
  bool Rest(const api::Workload& workload, Plan& plan) const;

 private:
  bool IsGang() const;
  bool JobControllerIsRefused() const;
  int32_t Minimum(int32_t live) const;
  int32_t Live(const api::Workload& workload) const;
  GangState State(const api::Workload& workload) const;
  bool KeepMinimum(const api::Workload& workload, Plan& plan) const;
  std::string RefusalOfForeign(const api::PodGroup* group) const;
  bool KeepOwnGroup(int32_t wanted, bool exact, Plan& plan) const;
  bool KeepExplicit(int32_t wanted, Plan& plan) const;
  Note MakeNote(bool warning, std::string reason, std::string message) const;

  const state::World& world_;
  const api::Job& job_;
  absl::Time now_;
  jobs::Gang gang_;
  std::shared_ptr<const api::PodGroup> group_;  // of the forms kOwn and kForeign, when it is there
};

}  // namespace sluice::reconcile
