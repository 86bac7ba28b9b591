// Backfill: what the annotations of ClusterQueues and jobs say about starting out of order.
//
// A ClusterQueue with the annotation sluice.dev/backfill keeps strict order, whatever its
// queueingStrategy says, except that workloads behind a head that waits may start where they do not
// delay it. How long a workload runs at most follows from its own bound: the maximum execution time
// where it has one (that is enforced), else the annotation sluice.dev/expected-runtime, else it has
// none and may run for ever.
//
// Contract: pure. A value that cannot be read counts as absent: an unreadable sluice.dev/backfill
// leaves the ClusterQueue as it is without it. The webhook refuses such values, and the reconcilers
// say so where they come another way.
#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"

namespace sluice::queueing {

// Annotations of a ClusterQueue.
inline constexpr char kBackfill[] = "sluice.dev/backfill";                 // EASY, Conservative
inline constexpr char kBackfillDepth[] = "sluice.dev/backfill-depth";      // 1 to 10000
inline constexpr char kBackfillUnknown[] = "sluice.dev/backfill-unknown";  // Allow, Deny
// Annotation of a job, its pod template, or a Workload: a duration above zero.
inline constexpr char kExpectedRuntime[] = "sluice.dev/expected-runtime";

enum class BackfillMode { kOff, kEasy, kConservative };

struct BackfillPolicy {
  BackfillMode mode = BackfillMode::kOff;
  // EASY: how many behind the head may be tried. Conservative: how many, the head included, get a
  // reservation; nothing behind them is tried.
  size_t depth = 32;
  // Whether others may start before a head of which nobody knows when it can.
  bool allow_unknown = false;

  bool on() const { return mode != BackfillMode::kOff; }
  bool operator==(const BackfillPolicy&) const = default;
};
BackfillPolicy BackfillOf(const api::ClusterQueue& cluster_queue);

// The annotations of a ClusterQueue, in the order of reports.
const std::vector<std::string>& BackfillAnnotations();
// Why the value of one of the annotations above is refused; nullopt when it can be read.
std::optional<std::string> BackfillProblem(const std::string& annotation, const std::string& value);

// How long the workload runs at most from its next start on; nullopt without a bound.
std::optional<absl::Duration> BoundOf(const api::Workload& workload);
// When it ends by its bound if it is admitted at that time, in whole seconds and never earlier than
// it could.
absl::Time EndOf(const api::Workload& workload, absl::Time admitted_at);
// When a workload that holds quota ends by its bound, in whole seconds as the API keeps times.
// InfiniteFuture: it has no bound, or has not started yet. InfinitePast: it is on its way out.
absl::Time DeadlineOf(const api::Workload& workload, absl::Time started_at, bool evicted);

}  // namespace sluice::queueing
