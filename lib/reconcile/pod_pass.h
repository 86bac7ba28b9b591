// PodPass: one look at a plain pod, or at a group of pods, and its Workload. Private to this room.
//
// A single pod is a job of one pod that is started by taking its gate off and stopped by deleting
// it. A group is a job of the pods that name it; which of them count is decided first (jobs/
// pod_group.h), and from then on the others do not exist. The steps are tried in the order of Run;
// the first that plans a write ends the pass, and each step answers true when it ended it.
//
// Every order of writes is safe at a crash between any two of them:
//   start   the admission is on the Workload before the first gate goes; contradictions are found
//           before the first write; a group half released is released in full by whoever comes
//           next; the PodGroup of a gang is there before the first gate goes
//   stop    quota is kept until no pod runs; a pod that was marked but not deleted is deleted next
//   end     the Workload is finished before the first finalizer of a pod goes
//   excess  the pod to go is chosen by what the API shows, and choosing again chooses the same
//
// Contract: pure; lives as long as the World and the pods it was made from.
// Source: Kueue documentation, "Run Plain Pods"; KEP 976.
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "admission/conditions.h"
#include "jobs/construct.h"
#include "jobs/pod_group.h"
#include "reconcile/pod_gang.h"
#include "reconcile/pod_places.h"
#include "reconcile/reconcilers.h"

namespace sluice::reconcile {

class PodPass {
 public:
  // `group` is "" for a single pod, and then `pods` has one element. `pods` is not empty.
  PodPass(const state::World& world, jobs::Pods pods, std::string group, absl::Time now);

  Plan Run();

 private:
  bool IsGroup() const { return !group_.empty(); }
  const state::ManagedPod& First() const { return *all_.front(); }
  // The one that says which queue and priority the group has: the first, unless it has ended and
  // its label has been taken off since.
  const state::ManagedPod& Speaker() const;

  // pod_find.cc: the one Workload of the pod.
  bool FindSingle();
  bool FindPrebuilt();
  bool PodSetsMatch(const api::Workload& workload) const;
  bool DropSurplus(const std::vector<std::shared_ptr<const api::Workload>>& surplus);
  bool UpdateInPlace(const api::Workload& workload);
  void DeleteWorkload(const api::Workload& workload);
  bool NoWorkload();
  bool Create(absl::StatusOr<jobs::NewWorkload> created);
  bool ComposeFailed(const absl::Status& status);
  // The gang that the pods are in cannot be admitted (yet).
  bool Refused();

  // pod_group.cc: which pods are the group.
  bool FindGroup();
  bool BlockedByStranger(const api::Workload& workload);
  bool TakeAssembly(std::shared_ptr<const api::Workload> workload, jobs::Assembly assembly);
  bool CreateGroup();
  bool Replacements();
  void DropExcess(const jobs::Pods& excess);

  // pod_pass.cc: what happens to them.
  bool WorkloadEnded();
  bool JobEnded();
  bool SyncFromJob();
  bool SyncPriority();
  bool Held();
  // What the pods say of their checkpoints, and the request for one.
  bool Checkpoints();
  bool Reclaimable();
  bool PodsReady();
  bool Evicted();
  bool Expired(const api::Condition& evicted);
  void StartOrStop();
  void Start();
  bool ReadyToRelease();
  void ReleaseGroup(const std::vector<jobs::PodSetInfo>& infos);
  void Release(const state::ManagedPod& pod, api::Json patch, const PodPlaces& places);
  void FailStart(const absl::Status& status);
  void SyncQueueName();
  void NotePendingChecks();
  // Deletes every pod that runs (`all_of_them`: that waits, too). True when there was one.
  bool Stop(const std::string& reason, const std::string& message, bool all_of_them = false);
  // Takes the finalizer off. True when there was one.
  bool Finalize(const jobs::Pods& pods);

  bool Suspended() const;
  bool Active() const;
  std::optional<jobs::JobFinish> Finished() const;
  bool Room() const;
  void PatchPod(const state::ManagedPod& pod, api::Json body, const char* reason,
                std::string message);
  void PatchWorkload(api::Json body);
  Write& WriteWorkload(api::Workload next);
  Note PodNote(const state::ManagedPod& pod, bool warning, std::string reason,
               std::string message) const;
  bool Enabled(const char* name) const { return world_.settings().gates.Enabled(name); }

  const state::World& world_;
  Plan plan_;
  jobs::Pods all_;   // as they are
  jobs::Pods pods_;  // those that count
  std::string group_;
  absl::Time now_;
  admission::StatusOptions options_;
  std::string prebuilt_;
  PodGang gang_;
  int64_t absent_ = 0;
  std::shared_ptr<const api::Workload> workload_;
};

}  // namespace sluice::reconcile
