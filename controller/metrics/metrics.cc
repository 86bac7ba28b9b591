#include "metrics/metrics.h"

#include <absl/container/btree_set.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <locale>
#include <mutex>
#include <sstream>

#include "metrics/gauges.h"
#include "metrics/process.h"
#include "metrics/series.h"

namespace sluice::metrics {
namespace {

constexpr size_t kShortWait = 14;  // buckets up to 10240 s
constexpr size_t kLongWait = 16;   // buckets up to 40960 s

std::string RoleName(ReplicaRole role) {
  switch (role) {
    case ReplicaRole::kLeader:
      return "leader";
    case ReplicaRole::kFollower:
      return "follower";
    case ReplicaRole::kStandalone:
      break;
  }
  return "standalone";
}

double Seconds(absl::Duration duration) { return std::max(0.0, absl::ToDoubleSeconds(duration)); }

const LabelNames kResult = {"result", "replica_role"};
const LabelNames kQueue = {"cluster_queue", "priority_class", "replica_role"};
const LabelNames kEviction = {"cluster_queue", "reason", "underlying_cause", "priority_class",
                              "replica_role"};
const LabelNames kEvictionWait = {"cluster_queue", "reason", "underlying_cause", "replica_role"};
const LabelNames kLocal = {"name", "namespace", "priority_class", "replica_role"};
const LabelNames kLocalEviction = {"name",           "namespace",   "reason", "underlying_cause",
                                   "priority_class", "replica_role"};

// A metric that exists once for ClusterQueues and once for LocalQueues. The names differ in a
// prefix.
template <typename Family>
struct Twin {
  Family cluster;
  Family local;
};

Twin<CounterFamily> QueueCounter(const std::string& name, const std::string& help) {
  return {CounterFamily({"kueue_" + name, help + ", by ClusterQueue", kQueue}),
          CounterFamily({"kueue_local_queue_" + name, help + ", by LocalQueue", kLocal})};
}

Twin<HistogramFamily> QueueHistogram(const std::string& name, const std::string& help,
                                     size_t cluster_buckets, size_t local_buckets) {
  return {HistogramFamily({"kueue_" + name, help + ", by ClusterQueue", kQueue},
                          WaitBuckets(cluster_buckets)),
          HistogramFamily({"kueue_local_queue_" + name, help + ", by LocalQueue", kLocal},
                          WaitBuckets(local_buckets))};
}

}  // namespace

struct Metrics::Impl {
  MetricsOptions options;
  ViewSource view;

  std::mutex mutex;  // guards everything below
  std::string role;
  absl::btree_set<std::string> shown_cluster_queues;
  absl::btree_set<ObjectKey> shown_local_queues;

  CounterFamily attempts{
      {"kueue_admission_attempts_total", "Scheduling cycles with work, by result", kResult}};
  HistogramFamily attempt_duration{{"kueue_admission_attempt_duration_seconds",
                                    "Duration of scheduling cycles with work, by result", kResult},
                                   LatencyBuckets()};
  Twin<CounterFamily> reserved =
      QueueCounter("quota_reserved_workloads_total", "Quota reservations");
  Twin<HistogramFamily> reserved_wait =
      QueueHistogram("quota_reserved_wait_time_seconds", "Time from queueing to quota reservation",
                     kShortWait, kShortWait);
  Twin<CounterFamily> admitted = QueueCounter("admitted_workloads_total", "Admissions");
  Twin<HistogramFamily> admission_wait = QueueHistogram(
      "admission_wait_time_seconds", "Time from queueing to admission", kLongWait, kShortWait);
  Twin<HistogramFamily> checks_wait =
      QueueHistogram("admission_checks_wait_time_seconds",
                     "Time from quota reservation to admission", kShortWait, kShortWait);
  Twin<HistogramFamily> ready_wait =
      QueueHistogram("ready_wait_time_seconds", "Time from queueing until all pods are ready",
                     kShortWait, kShortWait);
  Twin<HistogramFamily> admitted_until_ready =
      QueueHistogram("admitted_until_ready_wait_time_seconds",
                     "Time from admission until all pods are ready", kShortWait, kShortWait);
  Twin<CounterFamily> finished = QueueCounter("finished_workloads_total", "Finished workloads");
  Twin<HistogramFamily> execution = QueueHistogram(
      "execution_time_seconds", "Time a finished workload was admitted", kLongWait, kLongWait);
  Twin<CounterFamily> evicted{
      CounterFamily({"kueue_evicted_workloads_total", "Evictions, by ClusterQueue", kEviction}),
      CounterFamily({"kueue_local_queue_evicted_workloads_total", "Evictions, by LocalQueue",
                     kLocalEviction})};
  CounterFamily evicted_once{{"kueue_evicted_workloads_once_total",
                              "Workloads evicted for the first time for a reason, by ClusterQueue",
                              kEviction}};
  HistogramFamily ready_to_evicted{{"kueue_pods_ready_to_evicted_time_seconds",
                                    "Time from ready pods to eviction", kEvictionWait},
                                   WaitBuckets(kShortWait)};
  HistogramFamily eviction_latency{{"kueue_workload_eviction_latency_seconds",
                                    "Time from eviction until the quota is free again",
                                    {"cluster_queue", "reason", "replica_role"}},
                                   WaitBuckets(kShortWait)};
  HistogramFamily creation_latency{{"kueue_workload_creation_latency_seconds",
                                    "Time from the creation of a job to that of its workload",
                                    {"job_kind", "replica_role"}},
                                   DoublingBuckets(0.01, 11)};
  HistogramFamily gate_removal{{"kueue_pod_scheduling_gate_removal_seconds",
                                "Time from admission to the removal of a scheduling gate of a pod",
                                {"name", "cluster_queue", "is_group", "replica_role"}},
                               LatencyBuckets()};
  CounterFamily lost_work{{"sluice_preemption_lost_work_resource_seconds_total",
                           "Work lost by preemptions in seconds of what the CreditPolicy weighs; "
                           "without one in GPU-seconds, or CPU-seconds of workloads without GPUs",
                           {"cluster_queue", "replica_role"}}};
  CounterFamily evictions_avoided{{"sluice_preemption_evictions_avoided_total",
                                   "Workloads that were to be preempted and were not needed any "
                                   "more when they were given time for a checkpoint",
                                   {"cluster_queue", "replica_role"}}};
  CounterFamily checkpoint_requests{{"sluice_checkpoint_requests_total",
                                     "Ended requests for a checkpoint, by result (answered, "
                                     "timed_out, withdrawn)",
                                     {"cluster_queue", "result", "replica_role"}}};
  CounterFamily backfilled{{"sluice_backfilled_workloads_total",
                            "Workloads that were given quota before others that come before them",
                            {"cluster_queue", "replica_role"}}};
  HistogramFamily questions_hold{{"sluice_questions_hold_seconds",
                                  "Time for which decisions waited until questions (what-if) were "
                                  "answered, each time that there were some",
                                  {"replica_role"}},
                                 DoublingBuckets(0.00025, 12)};
  CounterFamily rejected{{"sluice_rejected_objects_total",
                          "Objects that could not be decoded and were left out, by kind",
                          {"kind"}}};
  CounterFamily api_requests{{"rest_client_requests_total",
                              "Requests to the API server, by method and status code",
                              {"code", "method"}}};
  HistogramFamily api_duration{{"rest_client_request_duration_seconds",
                                "Duration of requests to the API server, by method",
                                {"verb"}},
                               LatencyBuckets()};
  CounterFamily webhook_requests{{"controller_runtime_webhook_requests_total",
                                  "Answered webhook requests, by path and status code",
                                  {"webhook", "code"}}};
  HistogramFamily webhook_latency{{"controller_runtime_webhook_latency_seconds",
                                   "Time to answer a webhook request, by path",
                                   {"webhook"}},
                                  LatencyBuckets()};

  // One list of all families, so that collecting and forgetting cannot miss one.
  template <typename Visit>
  void ForEachFamily(Visit visit) {
    for (auto* twin : {&reserved, &admitted, &finished, &evicted}) {
      visit(twin->cluster);
      visit(twin->local);
    }
    for (auto* twin : {&reserved_wait, &admission_wait, &checks_wait, &ready_wait,
                       &admitted_until_ready, &execution}) {
      visit(twin->cluster);
      visit(twin->local);
    }
    for (auto* family : {&attempts, &evicted_once, &rejected, &api_requests, &webhook_requests,
                         &lost_work, &evictions_avoided, &checkpoint_requests, &backfilled}) {
      visit(*family);
    }
    for (auto* family : {&attempt_duration, &ready_to_evicted, &eviction_latency, &creation_latency,
                         &gate_removal, &questions_hold, &api_duration, &webhook_latency}) {
      visit(*family);
    }
  }

  bool LocalWanted(const QueueLabels& queue) const {
    // A workload that is in no ClusterQueue counts there under "" and not at all for its
    // LocalQueue.
    return options.local_queues && queue.local_queue.has_value() && !queue.cluster_queue.empty();
  }
  void Increment(Twin<CounterFamily>& twin, const QueueLabels& queue) {
    twin.cluster.Increment({queue.cluster_queue, queue.priority_class, role});
    if (!LocalWanted(queue)) return;
    twin.local.Increment(
        {queue.local_queue->name, queue.local_queue->ns, queue.priority_class, role});
  }
  void Observe(Twin<HistogramFamily>& twin, const QueueLabels& queue, absl::Duration duration) {
    const double seconds = Seconds(duration);
    twin.cluster.Observe({queue.cluster_queue, queue.priority_class, role}, seconds);
    if (!LocalWanted(queue)) return;
    twin.local.Observe({queue.local_queue->name, queue.local_queue->ns, queue.priority_class, role},
                       seconds);
  }

  void ForgetClusterQueue(const std::string& name) {
    ForEachFamily([&](auto& family) { family.Forget({{"cluster_queue", name}}); });
  }
  void ForgetLocalQueue(const ObjectKey& key) {
    ForEachFamily([&](auto& family) {
      family.Forget({{"name", key.name}, {"namespace", key.ns}});
    });
  }
  void ForgetVanished(const MetricsView& current);
  prometheus::MetricFamily Build() const;
};

// Only a queue that an earlier view showed can vanish: a decision may be recorded a moment before
// the view that first shows its queue is published.
void Metrics::Impl::ForgetVanished(const MetricsView& current) {
  absl::btree_set<std::string> cluster_queues;
  for (const ClusterQueueView& queue : current.cluster_queues) cluster_queues.insert(queue.name);
  absl::btree_set<ObjectKey> local_queues;
  for (const LocalQueueView& queue : current.local_queues)
    local_queues.insert({queue.ns, queue.name});
  for (const std::string& name : shown_cluster_queues) {
    if (!cluster_queues.contains(name)) ForgetClusterQueue(name);
  }
  for (const ObjectKey& key : shown_local_queues) {
    if (!local_queues.contains(key)) ForgetLocalQueue(key);
  }
  shown_cluster_queues = std::move(cluster_queues);
  shown_local_queues = std::move(local_queues);
}

prometheus::MetricFamily Metrics::Impl::Build() const {
  const FamilyInfo info = {
      "kueue_build_info",
      "Always 1; the labels say what was built",
      {"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"}};
  const BuildInfo& build = options.build;
  prometheus::MetricFamily family = EmptyFamily(info, prometheus::MetricType::Gauge);
  // go_version stays empty: the label is kept for queries that name it.
  family.metric.push_back(WithLabels(
      info.labels,
      {build.git_version, build.git_commit, build.build_date, "", build.compiler, build.platform}));
  family.metric.back().gauge.value = 1;
  return family;
}

Metrics::Metrics(MetricsOptions options, ViewSource view) : impl_(std::make_unique<Impl>()) {
  impl_->role = RoleName(options.role);
  impl_->options = std::move(options);
  impl_->view = std::move(view);
}
Metrics::~Metrics() = default;

void Metrics::SetRole(ReplicaRole role) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->role = RoleName(role);
}

void Metrics::AdmissionAttempt(bool success, absl::Duration duration) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const LabelValues labels = {success ? "success" : "inadmissible", impl_->role};
  impl_->attempts.Increment(labels);
  impl_->attempt_duration.Observe(labels, Seconds(duration));
}

void Metrics::Observe(const QuotaReservedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->Increment(impl_->reserved, record.queue);
  impl_->Observe(impl_->reserved_wait, record.queue, record.wait);
}

void Metrics::Observe(const AdmittedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->Increment(impl_->admitted, record.queue);
  impl_->Observe(impl_->admission_wait, record.queue, record.wait);
  if (record.checks_wait.has_value()) {
    impl_->Observe(impl_->checks_wait, record.queue, *record.checks_wait);
  }
}

void Metrics::Observe(const PodsReadyRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->Observe(impl_->ready_wait, record.queue, record.since_queued);
  impl_->Observe(impl_->admitted_until_ready, record.queue, record.since_admitted);
}

void Metrics::Observe(const EvictedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const QueueLabels& queue = record.queue;
  const LabelValues labels = {queue.cluster_queue, record.reason, record.underlying_cause,
                              queue.priority_class, impl_->role};
  impl_->evicted.cluster.Increment(labels);
  if (record.first) impl_->evicted_once.Increment(labels);
  if (impl_->LocalWanted(queue)) {
    impl_->evicted.local.Increment({queue.local_queue->name, queue.local_queue->ns, record.reason,
                                    record.underlying_cause, queue.priority_class, impl_->role});
  }
  if (record.since_pods_ready.has_value()) {
    impl_->ready_to_evicted.Observe(
        {queue.cluster_queue, record.reason, record.underlying_cause, impl_->role},
        Seconds(*record.since_pods_ready));
  }
}

void Metrics::Observe(const EvictionCompletedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->eviction_latency.Observe({record.cluster_queue, record.reason, impl_->role},
                                  Seconds(record.latency));
}

void Metrics::Observe(const FinishedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->Increment(impl_->finished, record.queue);
  if (record.execution_time.has_value()) {
    impl_->Observe(impl_->execution, record.queue, *record.execution_time);
  }
}

void Metrics::Observe(const LostWorkRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->lost_work.Add({record.cluster_queue, impl_->role},
                       static_cast<double>(record.resource_seconds));
}

void Metrics::Observe(const GateRemovedRecord& record) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->gate_removal.Observe(
      {record.gate, record.cluster_queue, record.of_group ? "true" : "false", impl_->role},
      Seconds(record.since_admitted));
}

void Metrics::HeldByQuestions(absl::Duration duration) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->questions_hold.Observe({impl_->role}, Seconds(duration));
}

void Metrics::Backfilled(const std::string& cluster_queue) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->backfilled.Increment({cluster_queue, impl_->role});
}

void Metrics::Observe(const CheckpointRequestRecord& record) {
  using Result = CheckpointRequestRecord::Result;
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const char* result = record.result == Result::kAnswered   ? "answered"
                       : record.result == Result::kTimedOut ? "timed_out"
                                                            : "withdrawn";
  impl_->checkpoint_requests.Increment({record.cluster_queue, result, impl_->role});
  if (record.result == Result::kWithdrawn) {
    impl_->evictions_avoided.Increment({record.cluster_queue, impl_->role});
  }
}

void Metrics::WorkloadCreated(const std::string& job_kind, absl::Duration since_job) {
  if (!impl_->options.creation_latency) return;
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->creation_latency.Observe({job_kind, impl_->role}, Seconds(since_job));
}

void Metrics::ObjectRejected(const std::string& kind) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->rejected.Increment({kind});
}

void Metrics::ApiRequest(const std::string& method, const std::string& code,
                         absl::Duration duration) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->api_requests.Increment({code, method});
  impl_->api_duration.Observe({method}, Seconds(duration));
}

void Metrics::WebhookRequest(const std::string& path, int code, absl::Duration duration) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->webhook_requests.Increment({path, std::to_string(code)});
  impl_->webhook_latency.Observe({path}, Seconds(duration));
}

void Metrics::ForgetClusterQueue(const std::string& name) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->ForgetClusterQueue(name);
}

void Metrics::ForgetLocalQueue(const ObjectKey& key) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->ForgetLocalQueue(key);
}

std::string Metrics::Text() {
  const std::shared_ptr<const MetricsView> view = impl_->view ? impl_->view() : nullptr;
  std::vector<prometheus::MetricFamily> families;
  std::string role;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    if (view != nullptr) impl_->ForgetVanished(*view);
    role = impl_->role;
    impl_->ForEachFamily([&](const auto& family) { families.push_back(family.Collect()); });
  }
  families.push_back(impl_->Build());
  const auto append = [&](std::vector<prometheus::MetricFamily> more) {
    for (auto& family : more) families.push_back(std::move(family));
  };
  if (view != nullptr) append(CollectGauges(*view, impl_->options, role));
  if (impl_->options.process) append(CollectProcess());
  std::erase_if(families, [](const auto& family) { return family.metric.empty(); });
  std::sort(families.begin(), families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::ostringstream out;
  out.imbue(std::locale::classic());
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace sluice::metrics
