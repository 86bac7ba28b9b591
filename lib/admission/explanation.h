// Explanation: why a workload was admitted or waits, as data, rendered in one place.
//
// Conditions, events, logs and the command line all show the texts made here, so a user reads the
// same sentence everywhere and can search for it. The texts are those that users of Kueue know.
// Thread-compatible values; rendering is pure and deterministic.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "flavor/assigner.h"

namespace sluice::admission {

struct Explanation {
  enum class Verdict {
    kFits,
    kNoFit,             // no flavor fits; `pod_sets` say why
    kNoCandidates,      // would need a preemption, and nothing can be preempted
    kProtected,         // credits protect what it would reclaim, until `protected_until`
    kNoLongerFits,      // fitted alone, not after `rivals` of the same cycle; `problems` names the
                        // CreditPolicy by which those came first, if one did that
    kPreempting,        // fits when the workloads named in `preempting` are gone
    kPreemptionFailed,  // none of them could be evicted
    kDeferredFit,       // fits when the victims of another workload, in `rivals`, are gone
    kOverlappingTargets,  // another workload of the cycle, in `rivals`, preempts the same ones
    kBetterVariant,       // a variant with a better flavor is admitted
    kNotAcceptable,       // its flavor is worse than the last one that is worth a move
    kMigrating,           // fits when the variant in `preempting` has gone
    kPreemptionGated,     // would have to preempt, and a preemption gate of it is closed
    kOthersNotReady,      // blockAdmission: others start first
    kReserved,            // would delay the start of `held_by`, which comes before it
    kChecksFailed,        // an admission check is in state Retry or Rejected
    kQueueInactive,
    kQueueNotFound,
    kNamespaceMismatch,
    kNamespaceGone,
    kInvalidResources,  // `problems` say why
  };
  Verdict verdict = Verdict::kFits;
  std::string cluster_queue;
  flavor::Cause cause = flavor::Cause::kNone;
  std::vector<flavor::PodSetAssignment> pod_sets;
  std::vector<std::string> problems;
  // "namespace/name" of the workloads to be preempted, in the order of their choice.
  std::vector<std::string> preempting;
  // Another workload that was decided about in the same cycle before this one. It may be another
  // one in the next cycle, so no condition names it.
  struct Rival {
    struct Amount {
      FlavorResource cell;
      int64_t amount = 0;
      bool operator==(const Amount&) const = default;
    };
    std::string workload;  // "namespace/name"
    std::string cluster_queue;
    // What it took of what this one needs; empty where both would preempt the same workloads.
    std::vector<Amount> amounts{};
    bool waits = false;   // it does not have it yet: it is kept for it
    bool places = false;  // not the quota was contested, but places on nodes
    bool operator==(const Rival&) const = default;
  };
  std::vector<Rival> rivals{};
  std::optional<absl::Time> protected_until{};
  // kReserved: "namespace/name" of the workload before it, and the time that is reserved for it;
  // none: nobody knows when that one can start.
  std::string held_by{};
  std::optional<absl::Time> held_until{};
};

// One observation: "insufficient unused quota for cpu in flavor spot, 4 more needed".
std::string RenderFinding(const flavor::Finding& finding);
// Who took what in the same cycle: "ns/a of ClusterQueue x took 4 cpu of flavor f"; "" without
// rivals. Without names: "a workload of ClusterQueue x took ...", for those who may not see it.
enum class Naming { kWorkloads, kQueuesOnly };
std::string RenderRivals(const Explanation& explanation, Naming naming = Naming::kWorkloads);
// The message of the QuotaReserved=False condition.
std::string RenderMessage(const Explanation& explanation);
// Its reason in the granular scheme: "WaitingForQuota", "NoMatchingFlavor", ...
std::string ReasonOf(const Explanation& explanation);
// The flavors that were looked at, except those that simply fit, for the QuotaReserved event:
// "main: on-demand(preemptionMode=NoCandidates;...), spot(Fit;borrow=1)". May be empty.
std::string RenderConsidered(const Explanation& explanation);

}  // namespace sluice::admission
