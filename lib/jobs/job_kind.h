// A kind of job, as the reconciler sees it.
//
// Each kind answers the same questions (what pods, suspended, active, finished, ready) and knows
// how it is started and stopped. Everything else about jobs is common and lies in reconcile/job.h.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core_types.h"
#include "api/kueue_types.h"
#include "jobs/pod_set_info.h"

namespace sluice::jobs {

struct JobFinish {
  bool success = false;
  std::string message;
};

// One step of a start or stop: a JSON merge patch of the job or of its status.
struct JobPatch {
  std::string subresource;  // "" or "status"
  api::Json body;           // without metadata.resourceVersion; the caller adds it
};

// batch/v1 Job. Source: Kubernetes documentation, "Jobs"; Kueue documentation, "Run A Kubernetes
// Job". All functions are pure.
class BatchJob {
 public:
  static constexpr char kKind[] = "Job";
  static constexpr char kGroup[] = "batch";
  static constexpr char kApiVersion[] = "batch/v1";
  static constexpr char kFramework[] = "batch/job";
  // Reporting controller of events on the job.
  static constexpr char kEventSource[] = "batch/job-kueue-controller";

  // Suspended, and not in the middle of a stop.
  static bool Suspended(const api::Job& job);
  // Pods that have not ended yet.
  static bool Active(const api::Job& job) { return job.status.active != 0; }
  static std::optional<JobFinish> Finished(const api::Job& job);
  // The single pod set "main", its template cleaned of the labels that the Job controller adds and
  // of repeated environment variables. InvalidArgument for topology annotations that cannot be
  // read.
  static absl::StatusOr<std::vector<api::PodSet>> PodSets(const api::Job& job,
                                                          const TopologyOptions& topology);
  static int32_t PodCount(const api::Job& job);
  static bool PodsReady(const api::Job& job);
  // Pods whose quota is no longer needed, or nothing.
  static std::vector<api::ReclaimablePod> Reclaimable(const api::Job& job);

  // The patch that starts the job with the admitted infos; FailedPrecondition when it never can.
  static absl::StatusOr<JobPatch> Start(const api::Job& job, const std::vector<PodSetInfo>& infos);
  // The next step of stopping, in order: suspend with a mark, reset status.startTime, restore the
  // template from the Workload (when given) and take the mark off. nullopt when nothing can be done
  // now: pods still run (then Suspended stays false), or nothing is left.
  static std::optional<JobPatch> NextStop(const api::Job& job, const api::Workload* workload);
};

}  // namespace sluice::jobs
