// Explain: everything about why one workload waits, as a small tree of data.
//
// The condition of a Workload says in one line what is missing. This says where: which node of the
// quota tree refused and by which limit, how much is short there and who holds it; every flavor
// that was tried and its obstacle; why preempting was no way out; who stands before it in the
// queue; and what would make the controller look again.
//
// It is made when somebody asks, from the state at that moment, by the code that decides; a
// decision never pays for it. All lists are bounded by kMostNamed, so the size depends on the pod
// sets and flavors of the workload only. Rendering is in explain_text.h and is pure.
//
// Contract: pure; the quota tree is as before on return. Cost: Depth::kQuota is one assignment
// without preemption and a walk over its cohort tree for each cell that lacks; Depth::kAll adds the
// searches for preemption and O(workloads pending in the ClusterQueue).
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "admission/explanation.h"
#include "admission/snapshot.h"
#include "preemption/diagnosis.h"
#include "queueing/queue_manager.h"
#include "quota/refusal.h"
#include "topology/types.h"

namespace sluice::admission {

inline constexpr size_t kMostNamed = 3;

// An object of the quota tree, or a workload, by name.
struct Named {
  enum class Kind { kClusterQueue, kCohort, kWorkload };
  Kind kind = Kind::kClusterQueue;
  std::string name;
};

struct QuotaHolder {
  Named who;
  int64_t amount = 0;     // that counts at the refusing node
  int64_t usage = 0;      // in all; the rest is of what it never lends
  int64_t workloads = 0;  // of a ClusterQueue: how many hold the cell
};

struct QuotaRefusal {
  Named node;
  quota::Refusal::Limit limit = quota::Refusal::Limit::kCapacity;
  std::string lender;  // kLendingLimit
  bool lender_is_cohort = false;
  std::optional<int64_t> limit_value;  // of the borrowing or lending limit
  int64_t quota = 0;                   // of the node with all below it
  int64_t used = 0;
  int64_t room = 0;                  // the largest request that passes, below 0 when overused
  int64_t missing = 0;               // the limit must grow by exactly that
  std::vector<QuotaHolder> holders;  // the largest; empty when it can never fit
};

// One resource in one flavor that lacks.
struct CellTrial {
  FlavorResource cell;
  int64_t requested = 0;
  int64_t previously = 0;  // of pod sets of the same workload that come before
  bool never = false;      // more than could be there with everything else idle
  std::vector<QuotaRefusal> refusals;
  // No search was made: it needs more than its nominal quota where nothing can be reclaimed, and
  // may not preempt while it borrows.
  bool borrows_too_far = false;
  int64_t nominal = 0;
  std::optional<preemption::Diagnosis> preemption;  // Depth::kAll, unless it never fits
};

struct FlavorTrial {
  flavor::FlavorAttempt attempt;
  std::vector<CellTrial> cells;
};

struct PodSetTrial {
  std::string name;
  int32_t count = 0;
  std::string error;
  std::vector<flavor::Finding> not_covered;
  std::vector<FlavorTrial> flavors;  // in the order in which they were tried
};

// What keeps the workload from being judged at all.
struct Blocker {
  std::string reason;  // a word for programs: "LocalQueueStopped"
  std::string text;    // a sentence
};

struct WakeUp {
  enum class Kind {
    kQuotaReleased,  // in the tree of `object`
    kQuotaGrows,     // in the tree of `object`
    kFlavorChanges,  // `object`: a ResourceFlavor
    kQueueChanges,   // `object`: a ClusterQueue
    kHeadLeaves,     // `object`: the workload before it
    kVictimsGone,
    kPodsReady,
    kNamespaceChanges,  // `object`: a Namespace
    kWorkloadChanges,
    kCheckChanges,
    kTime,   // at `at`
    kOther,  // `object` is the sentence
  };
  Kind kind = Kind::kOther;
  std::string object;
  absl::Time at = absl::InfiniteFuture();
};

struct QueuePosition {
  bool strict = false;  // StrictFIFO
  int64_t ahead = 0;    // workloads that come before it
  std::string head;     // the first of them, "" when there is none
};

// Where the pods of a pod set would go, of a flavor with a topology.
struct PlacedPods {
  std::string pod_set;
  topology::Assignment assignment;
};

struct ExplanationTree {
  ObjectKey workload;
  std::string cluster_queue;
  std::string path;  // of the ClusterQueue in the quota tree: "/org/team"
  // What a cycle that looked at this workload alone would say now.
  Explanation verdict;
  bool judged = false;  // `verdict` holds; false where `blockers` kept it from being judged
  std::vector<Blocker> blockers;
  std::vector<PodSetTrial> pod_sets;
  // Room could be made for each resource alone, but not for all of them at once.
  bool not_together = false;
  // On nodes: now, or when what would be preempted is gone. Empty where no topology counts.
  std::vector<PlacedPods> places;
  std::vector<std::string> not_ready;  // kOthersNotReady: some that are not ready
  int64_t not_ready_count = 0;
  std::optional<QueuePosition> position;
  std::vector<WakeUp> wake_ups;
};

enum class Depth { kQuota, kAll };

struct ExplainInput {
  const Snapshot& snapshot;
  const queueing::QueueManager* queues = nullptr;  // may be null: no position
  // The Cohort of that name, nullptr for an implicit one; may be empty.
  std::function<const api::Cohort*(const std::string&)> cohort;
};

ExplanationTree Explain(const ExplainInput& input, const queueing::WorkloadInfoPtr& info,
                        Depth depth = Depth::kAll);

}  // namespace sluice::admission
