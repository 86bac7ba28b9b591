// ExplainWorkload: why a Workload does not run, from everything the World knows.
//
// What stands before the cycle (a stopped queue, a backoff, a gate, no LocalQueue) is told as
// blockers; everything else is admission::Explain. For the command line, the simulator and whoever
// else asks; never called by a decision. Pure; the World is as before on return, but for the clock
// of its history, which moves to `now`: in a World that never decided it stands still.
#pragma once

#include <absl/time/time.h>

#include <string>

#include "admission/explain.h"
#include "state/world.h"

namespace sluice::reconcile {

admission::ExplanationTree ExplainWorkload(state::World& world, const ObjectKey& key,
                                           absl::Time now);

// The same of a Workload that does not exist, as if it had just been created.
admission::ExplanationTree ExplainAsIf(state::World& world, const api::Workload& workload,
                                       absl::Time now);

// Of one that would start now (or after preempting) if it were alone, and has nobody before it in
// its queue: whether it still would in a cycle with the heads of other ClusterQueues. With all of
// them (at most kMostHeadsOfLost) where its condition says that it lost a cycle, else with those
// (at most kMostHeads) of which this World knows that they wait for room. Replaces the verdict of
// the tree where it would not.
inline constexpr size_t kMostHeads = 32;
inline constexpr size_t kMostHeadsOfLost = 1000;
void LookAtRivals(state::World& world, const queueing::WorkloadInfoPtr& info,
                  admission::ExplanationTree& tree);

// How the sentence about an eviction begins that was not written and is tried again.
inline constexpr char kRefusedEviction[] = "The eviction of workload ";

// What an event says after the text of the condition: which node of the quota tree refuses, what is
// short there and who holds it. "" when the quota is not what lacks, or when things have changed
// since that text was made.
std::string QuotaDetail(state::World& world, const ObjectKey& key, const std::string& message);

}  // namespace sluice::reconcile
