// Checkpoints: what the eviction of a workload would cost, as its owner tells it.
//
// A training job that is evicted loses the work since its last checkpoint, and the time that it
// takes to get going again. Annotations of the Workload say how much that is (they are copied from
// the job, its pod template and its pods). Lost time is `now - max(last checkpoint, start) +
// restart cost`; with only an interval the last checkpoint is taken to be the last multiple of it
// since the start, with neither it is the start. Lost work is lost time times what is held: the
// weighted sum of the CreditPolicy that governs the ClusterQueue, else GPUs, or CPUs where there
// are none.
//
// Contract: pure; all numbers are exact integers, rounded down to whole milliseconds and
// saturating. A value that cannot be read counts as absent; the webhook refuses such values, and
// the reconcilers say so where they come another way.
#pragma once

#include <absl/time/time.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "quota/credit_standing.h"
#include "quota/tree.h"

namespace sluice::preemption {

// Annotations.
inline constexpr char kLastCheckpoint[] = "sluice.dev/last-checkpoint";             // RFC 3339
inline constexpr char kCheckpointInterval[] = "sluice.dev/checkpoint-interval";     // a duration
inline constexpr char kRestartCost[] = "sluice.dev/restart-cost";                   // a duration
inline constexpr char kCheckpointOnRequest[] = "sluice.dev/checkpoint-on-request";  // true, false
inline constexpr char kMinRuntime[] = "sluice.dev/min-runtime";                     // a duration
// On a job and its pods: write a checkpoint now. RFC 3339; the answer is a last-checkpoint that is
// not earlier.
inline constexpr char kCheckpointRequestedAt[] = "sluice.dev/checkpoint-requested-at";

// The label value (of kueue.x-k8s.io/managed) by which the pods of such jobs are watched.
inline constexpr char kManagedCheckpoint[] = "checkpoint";

// Condition types of a Workload.
// True: it is to be preempted, and was asked for a checkpoint at the time of the transition.
inline constexpr char kCheckpointRequested[] = "CheckpointRequested";
// Holds the times of its preemptions; True when they are as many as are allowed.
inline constexpr char kPreemptedOften[] = "PreemptedOften";

// Reasons of CheckpointRequested=False.
inline constexpr char kAnswered[] = "Answered";
inline constexpr char kTimedOut[] = "TimedOut";
inline constexpr char kWithdrawn[] = "Withdrawn";

// All annotations of an owner, in the order of reports.
const std::vector<std::string>& CheckpointAnnotations();
// Why the value of that annotation is refused; nullopt when it can be read.
std::optional<std::string> CheckpointProblem(const std::string& annotation,
                                             const std::string& value);

struct Checkpoints {
  std::optional<absl::Time> last;
  absl::Duration interval;  // zero: not declared
  absl::Duration restart_cost;
  absl::Duration min_runtime;
  bool on_request = false;
  std::vector<absl::Time> preemptions;  // the last ones, oldest first
};
// nullopt for a workload that carries none of the annotations.
std::optional<Checkpoints> CheckpointsOf(const api::Workload& workload);

// Since when it runs: Admitted is True since then. InfiniteFuture for one that does not.
absl::Time StartOf(const api::Workload& workload);

// What would be lost now by an eviction; zero for one that has not started. `checkpoints` may be
// null.
absl::Duration LostTime(const Checkpoints* checkpoints, absl::Time start, absl::Time now);

// Resource-seconds in millionths: milliseconds times thousandths of a GPU or CPU.
__extension__ typedef __int128 LostWork;
// Thousandths of what counts by these weights (null: there are none). Where that is nothing, of
// GPUs (resources named <vendor>/gpu), or of CPUs where there are none.
int64_t WeightedMillis(const FlavorResourceAmounts& amounts,
                       const quota::CreditWeights* weights = nullptr);
int64_t WeightedMillis(const quota::Tree& tree, const quota::CellAmounts& amounts,
                       const quota::CreditWeights* weights = nullptr);
LostWork LostWorkOf(absl::Duration lost_time, int64_t weighted_millis);
// In whole resource-seconds, rounded down.
int64_t ResourceSeconds(LostWork work);

// From the configuration.
struct CheckpointRules {
  // A workload with annotations is not preempted more than so many times in the window while any
  // other candidate will do. 0: no bound.
  int max_per_workload = 3;
  absl::Duration window = absl::Hours(1);
};
// Whether it was preempted as often as the rules allow.
bool PreemptedOften(const Checkpoints& checkpoints, const CheckpointRules& rules, absl::Time now);
// Adds a preemption at `now` to the condition kPreemptedOften, which is written together with the
// eviction and so can be neither lost nor counted twice. Only times within the window are kept.
void NotePreemption(api::Workload& workload, const CheckpointRules& rules, absl::Time now);

}  // namespace sluice::preemption
