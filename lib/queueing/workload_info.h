// WorkloadInfo: a pending workload with everything that order and assignment need, computed once.
//
// Immutable after MakeWorkloadInfo and shared by pointer. It must be made anew when the workload,
// its LocalQueue's ClusterQueue, a LimitRange of its namespace or its RuntimeClass changes.
#pragma once

#include <absl/time/time.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "queueing/requests.h"

namespace sluice::queueing {

// Two workloads of one ClusterQueue with the same class get the same answer from the assignment, at
// the same state of the cluster. 128 bits of hash over what the answer depends on.
struct EquivalenceClass {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const EquivalenceClass&) const = default;
  bool operator==(const EquivalenceClass&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const EquivalenceClass& value) {
    return H::combine(std::move(h), value.high, value.low);
  }
};

struct OrderOptions {
  // waitForPodsReady.requeuingStrategy.timestamp is Eviction (else Creation).
  bool order_by_eviction = true;
  bool priority_boost = false;                 // gate PriorityBoost
  bool priority_sorting_within_cohort = true;  // gate PrioritySortingWithinCohort
  bool admission_gated_by = true;              // gate AdmissionGatedBy
  bool equivalence_hashing = true;             // gate SchedulingEquivalenceHashing
  // Gate ConcurrentAdmission or MultiKueueOrchestratedPreemption: preemption gates are honoured.
  bool preemption_gates = false;
  bool concurrent_admission = false;  // gate ConcurrentAdmission
};

struct WorkloadInfo {
  std::shared_ptr<const api::Workload> workload;
  std::string cluster_queue;
  ObjectKey local_queue;
  int64_t priority = 0;  // effective: base plus boost
  absl::Time queue_order_time;
  std::vector<PodSetRequests> requests;
  std::vector<std::string> problems;  // of ValidateResources
  EquivalenceClass equivalence;
  bool preemption_gated = false;  // it has a closed preemption gate

  ObjectKey Key() const { return workload->metadata.Key(); }
};
using WorkloadInfoPtr = std::shared_ptr<const WorkloadInfo>;

WorkloadInfoPtr MakeWorkloadInfo(std::shared_ptr<const api::Workload> workload,
                                 std::string cluster_queue, const RequestContext& context,
                                 const OrderOptions& options = {});

// spec.priority plus the boost of the annotation kueue.x-k8s.io/priority-boost.
int64_t EffectivePriority(const api::Workload& workload, bool priority_boost = false);
// The instant that orders workloads of equal priority.
absl::Time QueueOrderTime(const api::Workload& workload, const OrderOptions& options = {});
// Whether the workload may wait in a queue at all: active, not finished, no reservation, not on
// hold, no admission gate, no pods to be replaced first.
bool IsAdmissible(const api::Workload& workload, const OrderOptions& options = {});
// Requeued is not False and requeueAt is absent or not later than now.
bool BackoffOver(const api::Workload& workload, absl::Time now);
// A gate of the spec is not open. One without a state is closed.
bool HasClosedPreemptionGate(const api::Workload& workload);
// The workload whose place this one takes when it is admitted (a slice of an elastic job after the
// first), in the same namespace; nullopt for others.
std::optional<ObjectKey> ReplacedSlice(const api::Workload& workload);
// Namespace and spec.queueName.
ObjectKey LocalQueueKey(const api::Workload& workload);
// "a sorts before b" within a ClusterQueue: priority, then time, then UID, then name.
bool OrderedBefore(const WorkloadInfo& a, const WorkloadInfo& b, bool by_priority = true);

}  // namespace sluice::queueing
