// WhatIf: what would happen to a job or Workload if it were created now; nothing is created.
//
// Answered by the code that decides, from the World as it is at that moment: one assignment with
// its searches for preemption and, where that would let it start, the next cycles with those that
// wait (reconcile/next_cycles.h). Only usage in the quota tree is changed, through an overlay that
// is undone before the answer is given. Credits and the usage of LocalQueues count as they were
// prepared last.
//
// Contract: pure; the World is as before on return, but for the clock of its history, which moves
// to `now`. InvalidArgument for an object that cannot be a workload, NotFound for a queue that does
// not exist. O(workloads that can be popped from the ClusterQueue) beside the assignments, of which
// Effort::kQuick makes a few dozen at most.
//
//   ASSIGN_OR_RETURN(const WhatIf answer, AskWhatIf(world, job, "team-a", now));
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admission/explain.h"
#include "api/json.h"
#include "reconcile/explain_reason.h"
#include "reconcile/next_cycles.h"
#include "state/world.h"

namespace sluice::reconcile {

struct WhatIfVictim {
  ObjectKey workload;
  std::string cluster_queue;
  absl::Duration ran = absl::ZeroDuration();
  // What it would have to do again: since its last checkpoint as far as one is known, and the time
  // to start again.
  absl::Duration lost = absl::ZeroDuration();
  // Of those that the CreditPolicy weighs the one that weighs most; else GPUs of whatever vendor
  // where it has some, else CPUs.
  ResourceName resource;
  int64_t amount = 0;  // of that resource, in quota units
};

// When one that would wait could start, as far as the bounds of what runs tell.
struct WhatIfForecast {
  std::optional<absl::Time> start;
  std::string unknown;  // why there is no start
  std::string assumption;
};

struct WhatIf {
  ObjectKey workload;  // the name that it would have
  std::shared_ptr<const api::Workload> made;
  std::string cluster_queue;
  ObjectKey local_queue;
  bool admitted = false;  // at once, without anybody's harm
  // It would hold quota at once, and wait for these admission checks before it is admitted; they
  // come after the preemption where there is one.
  bool reserved = false;
  std::vector<std::string> checks;
  std::string passes;             // "namespace/name" that it would start before, by backfill
  bool after_preemption = false;  // when the victims are gone
  std::vector<WhatIfVictim> victims;
  admission::ExplanationTree tree;
  Why why;                                 // where it would have to wait
  std::optional<WhatIfForecast> forecast;  // where it was asked for
  size_t judged = 0;   // how many looks at workloads the answer took, beside the one at it
  int64_t unseen = 0;  // too many wait: of those before it so many were not looked at
  bool enters() const { return admitted || after_preemption; }
};

// Brings what nobody but a leader keeps up to the instant in a World that decides nothing: credits,
// and the usage of LocalQueues, which the leader writes into their status. O(accounts +
// LocalQueues).
void PrepareToAsk(state::World& world, absl::Time now);

// A batch/v1 Job or a Workload, or an object whose spec is one of these. `cluster_queue`: where it
// would go; "" is where its LocalQueue points to. The forecast is that of
// admission/earliest_start.h.
enum class WithForecast { kNo, kYes };
absl::StatusOr<WhatIf> AskWhatIf(state::World& world, const api::Json& object,
                                 const std::string& cluster_queue, absl::Time now,
                                 WithForecast with_forecast = WithForecast::kNo,
                                 Effort effort = Effort::kQuick);

// The `status` of an answer.
api::Json WhatIfJson(const WhatIf& answer);
std::string WhatIfText(const WhatIf& answer);

// What a workload that is evicted now has to do again: the time since its last checkpoint or, where
// none is known, since its start; annotations sluice.dev/last-checkpoint,
// sluice.dev/checkpoint-interval and sluice.dev/restart-cost. A checkpoint in the future counts as
// none.
absl::Duration LostTime(const api::Workload& workload, absl::Time start, absl::Time now);

}  // namespace sluice::reconcile
