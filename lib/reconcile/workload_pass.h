// WorkloadPass: one look at one Workload, step by step. Private to this room.
//
// The steps are tried in the order of Run; the first that plans a write ends the pass. Each step
// answers true when it ended the pass. The order matters: an earlier step may rely on the later
// ones not to act (a backoff keeps everything behind it from happening).
//
// Contract: pure; lives as long as the World and the Workload it was made from.
// Source: Kueue documentation, "Workload" (conditions, eviction, requeueState) and "Setup All-or-
// nothing with ready Pods".
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>

#include "admission/conditions.h"
#include "queueing/variants.h"
#include "reconcile/reconcilers.h"
#include "state/spec_defaults.h"

namespace sluice::reconcile {

using state::IsStopped;

inline bool IsActive(const api::Workload& workload) { return workload.spec.active.value_or(true); }

class WorkloadPass {
 public:
  WorkloadPass(const state::World& world, const api::Workload& workload, absl::Time now);

  Plan Run();

 private:
  // workload.cc: what it is, and what admission checks say.
  bool Orphan();
  bool Finished();
  bool Replaced();
  bool Priority();
  bool Checks();
  bool PreemptionGates();
  bool CheckResults();
  bool Admit();

  // workload_eviction.cc: how it loses its quota and comes back.
  bool Backoff();
  bool Requeue();
  bool Deactivate();
  bool StopPolicies();
  bool ExecutionTime();

  // workload_checkpoint.cc: one that is to be preempted may write a checkpoint first.
  bool Checkpoint();
  bool WithdrawRequest(const std::string& message);
  bool PreemptNow(const api::Workload& preemptor, const char* reason, const std::string& message);

  // workload_pods_ready.cc: pods that do not become ready in time.
  bool PodsNotReady();

  // workload_waiting.cc: the reason why it waits, where it is not the cycle that says it.
  bool Waiting();

  // One of several that try different flavors for the same job; its parent is looked at elsewhere.
  bool IsVariant() const {
    return world_.order_options().concurrent_admission && queueing::IsVariant(workload_);
  }
  bool Reserved() const { return api::IsTrue(workload_.status.conditions, api::kQuotaReserved); }
  bool Admitted() const { return api::IsTrue(workload_.status.conditions, api::kAdmitted); }
  bool Evicted() const { return api::IsTrue(workload_.status.conditions, api::kEvicted); }

  Write& WriteStatus(api::Workload next);
  bool PatchSpec(const char* field, api::Json value);
  // Phase 1 of an eviction. `requeue_state` replaces the one of the status when given.
  bool Evict(const std::string& reason, const std::string& cause, const std::string& message,
             std::optional<api::RequeueState> requeue_state = std::nullopt);
  bool ClearRequeueState(bool keep_count);
  bool TargetDeactivation(const char* cause, const std::string& message);

  bool QueueUsable() const;
  std::string ChecksText(const std::string& state) const;
  std::optional<absl::Time> RetryTime() const;
  bool LoseReservation(const char* reason, const std::string& message);
  bool ReadyInFact() const;
  bool SayWaiting(const std::string& granular, const std::string& message);
  bool WaitingInQueue(const api::Condition* current);
  void LookAgain(const api::Condition* current);
  bool HasProblems() const;

  const state::World& world_;
  const api::Workload& workload_;
  absl::Time now_;
  admission::StatusOptions options_;
  std::shared_ptr<const api::LocalQueue> local_queue_;
  std::string cluster_queue_name_;
  std::shared_ptr<const api::ClusterQueue> cluster_queue_;
  Plan plan_;
};

}  // namespace sluice::reconcile
