// Metrics: counters and histograms fed by decision records, gauges taken from the published view,
// and the Prometheus text of all of them.
//
// Names, labels and buckets are those of Kueue (https://kueue.sigs.k8s.io/docs/reference/metrics/),
// so that dashboards and alerts go on working; names of our own start with "sluice_".
//
// Contract: thread-safe; one short lock covers the counters, and the view is read without it.
// Text() is deterministic: families by name, counters and histograms by label values, gauges in the
// order of the view. Durations are recorded in seconds and negative ones (clock skew) as 0. A queue
// that leaves the view takes its counters with it at the next Text(); ForgetClusterQueue and
// ForgetLocalQueue do it at once.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/object_key.h"
#include "metrics/snapshot_view.h"

namespace sluice::metrics {

// The replica_role label.
enum class ReplicaRole { kStandalone, kLeader, kFollower };

struct BuildInfo {
  std::string git_version;
  std::string git_commit;
  std::string build_date;
  std::string compiler;
  std::string platform;
};

struct MetricsOptions {
  BuildInfo build;
  ReplicaRole role = ReplicaRole::kStandalone;
  bool cluster_queue_resources = false;  // metrics.enableClusterQueueResources
  bool local_queues = true;          // gate LocalQueueMetrics and metrics.localQueueMetrics.enable
  bool cohorts = true;               // gate MetricsForCohorts
  bool unadmitted_workloads = true;  // gate UnadmittedWorkloadsObservability
  bool creation_latency = true;      // gate MetricForWorkloadCreationLatency
  bool process = true;               // process_* from /proc/self
};

// Whose workload it was. local_queue is set only when that queue reports metrics (it exists and the
// configuration's selector matches it).
struct QueueLabels {
  std::string cluster_queue;
  std::optional<ObjectKey> local_queue;
  std::string priority_class;  // name in spec.priorityClassRef, or empty
};

// Quota was reserved. wait: since creation, or since the last transition of condition Requeued.
struct QuotaReservedRecord {
  QueueLabels queue;
  absl::Duration wait;
};

// Admitted turned True. wait as above; checks_wait from reservation to admission, set only for a
// workload with at least one admission check.
struct AdmittedRecord {
  QueueLabels queue;
  absl::Duration wait;
  std::optional<absl::Duration> checks_wait;
};

// PodsReady turned True for the first time after an admission.
struct PodsReadyRecord {
  QueueLabels queue;
  absl::Duration since_queued;
  absl::Duration since_admitted;
};

// A workload that had status.admission was evicted.
struct EvictedRecord {
  QueueLabels queue;
  std::string reason;            // without a cause suffix: "Deactivated"
  std::string underlying_cause;  // "MaximumExecutionTimeExceeded", or empty
  bool first = false;            // the first of this reason and cause for the workload
  std::optional<absl::Duration> since_pods_ready;  // set when PodsReady was True
};

// An evicted workload gave its quota back and waits again.
struct EvictionCompletedRecord {
  std::string cluster_queue;
  std::string reason;  // of the Evicted condition
  absl::Duration latency;
};

// Finished turned True. cluster_queue is empty for one that held no quota then.
struct FinishedRecord {
  QueueLabels queue;
  std::optional<absl::Duration>
      execution_time;  // sum over its admissions; unset when never admitted
};

// A workload was preempted: what that cost it.
struct LostWorkRecord {
  std::string cluster_queue;
  int64_t resource_seconds = 0;  // GPU-seconds, or CPU-seconds where it held no GPU
};

// A request for a checkpoint ended.
struct CheckpointRequestRecord {
  enum class Result {
    kAnswered,   // in time, and the workload was preempted then
    kTimedOut,   // it was preempted without
    kWithdrawn,  // nobody needed its room any more: it was not preempted
  };
  std::string cluster_queue;
  Result result = Result::kAnswered;
};

// A scheduling gate of ours was taken off a pod.
struct GateRemovedRecord {
  std::string gate;
  std::string cluster_queue;
  bool of_group = false;  // the pod belongs to a group of plain pods
  absl::Duration since_admitted;
};

class Metrics {
 public:
  using ViewSource = std::function<std::shared_ptr<const MetricsView>()>;
  // `view` is called on the thread of Text() and may give null (no gauges then).
  Metrics(MetricsOptions options, ViewSource view);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Gauges follow at once; counters and histograms keep the series of the former role.
  void SetRole(ReplicaRole role);

  // A cycle that had heads. success: at least one head got quota or was itself evicted.
  void AdmissionAttempt(bool success, absl::Duration duration);
  void Observe(const QuotaReservedRecord& record);
  void Observe(const AdmittedRecord& record);
  void Observe(const PodsReadyRecord& record);
  void Observe(const EvictedRecord& record);
  void Observe(const EvictionCompletedRecord& record);
  void Observe(const FinishedRecord& record);
  void Observe(const LostWorkRecord& record);
  void Observe(const CheckpointRequestRecord& record);
  void Observe(const GateRemovedRecord& record);
  // A workload was given quota before others that come before it in the ClusterQueue.
  void Backfilled(const std::string& cluster_queue);
  // Decisions waited for that long until questions were answered.
  void HeldByQuestions(absl::Duration duration);
  // job_kind is the bare kind ("Job"); only for jobs of generation 1.
  void WorkloadCreated(const std::string& job_kind, absl::Duration since_job);

  // An object that could not be decoded and was left out.
  void ObjectRejected(const std::string& kind);
  // A request of our client: code "200", or "<error>" when no answer came; method "PATCH".
  void ApiRequest(const std::string& method, const std::string& code, absl::Duration duration);
  // An admission or conversion review that this process answered.
  void WebhookRequest(const std::string& path, int code, absl::Duration duration);

  void ForgetClusterQueue(const std::string& name);
  void ForgetLocalQueue(const ObjectKey& key);

  std::string Text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::metrics
