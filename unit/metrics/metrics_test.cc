#include "metrics/metrics.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

#include "unit/catch.h"

namespace sluice::metrics {
namespace {

MetricsOptions Quiet() {
  MetricsOptions options;
  options.build = {"v1.2.3", "abc", "2026-08-22T10:00:00Z", "g++ 12", "linux/amd64"};
  options.process = false;
  return options;
}

// The lines of one family, without its help.
std::string Family(const std::string& text, const std::string& name) {
  std::string result;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) == 0) inside = line.rfind("# TYPE " + name + " ", 0) == 0;
    if (line.rfind("# HELP ", 0) == 0) inside = false;
    if (inside) result += line + "\n";
  }
  return result;
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

// A view that a test can replace.
struct Published {
  std::shared_ptr<const MetricsView> view = std::make_shared<MetricsView>();
  Metrics::ViewSource Source() {
    return [this] { return view; };
  }
};

const QueueLabels kLabels = {"cq", ObjectKey{"ns", "lq"}, ""};

TEST_CASE("a fresh process shows its build and nothing else") {
  Metrics metrics(Quiet(), nullptr);
  CHECK(metrics.Text() ==
        "# HELP kueue_build_info Always 1; the labels say what was built\n"
        "# TYPE kueue_build_info gauge\n"
        "kueue_build_info{build_date=\"2026-08-22T10:00:00Z\",compiler=\"g++ 12\","
        "git_commit=\"abc\",git_version=\"v1.2.3\",go_version=\"\",platform=\"linux/amd64\"} 1\n");
}

TEST_CASE("a wait histogram has the published bounds") {
  Metrics metrics(Quiet(), nullptr);
  metrics.Observe(QuotaReservedRecord{kLabels, absl::Seconds(3)});
  metrics.Observe(QuotaReservedRecord{kLabels, absl::Seconds(16)});
  const std::string labels = "cluster_queue=\"cq\",priority_class=\"\",replica_role=\"standalone\"";
  std::string expected = "# TYPE kueue_quota_reserved_wait_time_seconds histogram\n";
  expected += "kueue_quota_reserved_wait_time_seconds_count{" + labels + "} 2\n";
  expected += "kueue_quota_reserved_wait_time_seconds_sum{" + labels + "} 19\n";
  const std::vector<std::pair<std::string, int>> buckets = {
      {"1", 0},    {"2.5", 0},  {"5", 1},    {"10", 1},    {"20", 2},
      {"40", 2},   {"80", 2},   {"160", 2},  {"320", 2},   {"640", 2},
      {"1280", 2}, {"2560", 2}, {"5120", 2}, {"10240", 2}, {"+Inf", 2}};
  for (const auto& [bound, count] : buckets) {
    expected += "kueue_quota_reserved_wait_time_seconds_bucket{" + labels + ",le=\"" + bound +
                "\"} " + std::to_string(count) + "\n";
  }
  CHECK(Family(metrics.Text(), "kueue_quota_reserved_wait_time_seconds") == expected);
}

TEST_CASE("the ClusterQueue's admission wait reaches 40960 s, the LocalQueue's 10240 s") {
  Metrics metrics(Quiet(), nullptr);
  metrics.Observe(AdmittedRecord{kLabels, absl::Seconds(33), absl::Seconds(30)});
  const std::string text = metrics.Text();
  const std::string cluster = Family(text, "kueue_admission_wait_time_seconds");
  const std::string local = Family(text, "kueue_local_queue_admission_wait_time_seconds");
  CHECK(cluster.find("le=\"40960\"} 1\n") != std::string::npos);
  CHECK(std::count(cluster.begin(), cluster.end(), '\n') == 1 + 2 + 17);
  CHECK(local.find("le=\"40960\"") == std::string::npos);
  CHECK(
      local.find("name=\"lq\",namespace=\"ns\",priority_class=\"\",replica_role=\"standalone\"") !=
      std::string::npos);
  CHECK(std::count(local.begin(), local.end(), '\n') == 1 + 2 + 15);
}

TEST_CASE("counters of one workload's life") {
  Metrics metrics(Quiet(), nullptr);
  const QueueLabels queue = {"cq", ObjectKey{"ns", "lq"}, "high"};
  metrics.AdmissionAttempt(true, absl::Milliseconds(3));
  metrics.AdmissionAttempt(false, absl::Milliseconds(7));
  metrics.AdmissionAttempt(false, absl::Milliseconds(7));
  metrics.Observe(QuotaReservedRecord{queue, absl::Seconds(3)});
  metrics.Observe(AdmittedRecord{queue, absl::Seconds(33), absl::Seconds(30)});
  metrics.Observe(PodsReadyRecord{queue, absl::Seconds(50), absl::Seconds(17)});
  metrics.Observe(
      EvictedRecord{queue, "Deactivated", "MaximumExecutionTimeExceeded", true, absl::Seconds(50)});
  metrics.Observe(EvictedRecord{queue, "Deactivated", "MaximumExecutionTimeExceeded", false, {}});
  metrics.Observe(EvictionCompletedRecord{"cq", "ClusterQueueStopped", absl::Seconds(4)});
  metrics.Observe(FinishedRecord{queue, absl::Seconds(77)});
  metrics.WorkloadCreated("Job", absl::Milliseconds(20));
  const std::string text = metrics.Text();
  const std::string cluster =
      "{cluster_queue=\"cq\",priority_class=\"high\",replica_role=\"standalone\"}";
  const std::string local =
      "{name=\"lq\",namespace=\"ns\",priority_class=\"high\",replica_role=\"standalone\"}";
  const std::string evicted =
      "{cluster_queue=\"cq\",priority_class=\"high\",reason=\"Deactivated\",replica_role="
      "\"standalone\","
      "underlying_cause=\"MaximumExecutionTimeExceeded\"}";
  for (const std::string& line : std::vector<std::string>{
           "kueue_admission_attempts_total{replica_role=\"standalone\",result=\"success\"} 1",
           "kueue_admission_attempts_total{replica_role=\"standalone\",result=\"inadmissible\"} 2",
           "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"standalone\","
           "result=\"inadmissible\",le=\"0.005\"} 0",
           "kueue_admission_attempt_duration_seconds_bucket{replica_role=\"standalone\","
           "result=\"inadmissible\",le=\"0.01\"} 2",
           "kueue_quota_reserved_workloads_total" + cluster + " 1",
           "kueue_local_queue_quota_reserved_workloads_total" + local + " 1",
           "kueue_admitted_workloads_total" + cluster + " 1",
           "kueue_local_queue_admitted_workloads_total" + local + " 1",
           "kueue_admission_checks_wait_time_seconds_sum" + cluster + " 30",
           "kueue_ready_wait_time_seconds_sum" + cluster + " 50",
           "kueue_admitted_until_ready_wait_time_seconds_sum" + cluster + " 17",
           "kueue_local_queue_admitted_until_ready_wait_time_seconds_sum" + local + " 17",
           "kueue_evicted_workloads_total" + evicted + " 2",
           "kueue_evicted_workloads_once_total" + evicted + " 1",
           "kueue_local_queue_evicted_workloads_total{name=\"lq\",namespace=\"ns\","
           "priority_class=\"high\",reason=\"Deactivated\",replica_role=\"standalone\","
           "underlying_cause=\"MaximumExecutionTimeExceeded\"} 2",
           "kueue_pods_ready_to_evicted_time_seconds_count{cluster_queue=\"cq\",reason="
           "\"Deactivated\","
           "replica_role=\"standalone\",underlying_cause=\"MaximumExecutionTimeExceeded\"} 1",
           "kueue_workload_eviction_latency_seconds_sum{cluster_queue=\"cq\","
           "reason=\"ClusterQueueStopped\",replica_role=\"standalone\"} 4",
           "kueue_finished_workloads_total" + cluster + " 1",
           "kueue_execution_time_seconds_sum" + cluster + " 77",
           "kueue_local_queue_execution_time_seconds_sum" + local + " 77",
           "kueue_workload_creation_latency_seconds_bucket{job_kind=\"Job\","
           "replica_role=\"standalone\",le=\"0.01\"} 0",
           "kueue_workload_creation_latency_seconds_bucket{job_kind=\"Job\","
           "replica_role=\"standalone\",le=\"0.02\"} 1",
           "kueue_workload_creation_latency_seconds_bucket{job_kind=\"Job\","
           "replica_role=\"standalone\",le=\"10.24\"} 1"}) {
    INFO(text);
    CHECK(Has(text, line));
  }
}

TEST_CASE("an admission without checks records no checks wait, a negative wait counts as 0") {
  Metrics metrics(Quiet(), nullptr);
  metrics.Observe(AdmittedRecord{kLabels, absl::Seconds(-5), {}});
  const std::string text = metrics.Text();
  CHECK(Family(text, "kueue_admission_checks_wait_time_seconds").empty());
  CHECK(text.find("kueue_admission_wait_time_seconds_sum{cluster_queue=\"cq\",priority_class=\"\","
                  "replica_role=\"standalone\"} 0\n") != std::string::npos);
}

TEST_CASE("a workload that finishes without a ClusterQueue counts under the empty name") {
  Metrics metrics(Quiet(), nullptr);
  metrics.Observe(FinishedRecord{{"", ObjectKey{"ns", "lq"}, ""}, {}});
  const std::string text = metrics.Text();
  CHECK(Has(text,
            "kueue_finished_workloads_total{cluster_queue=\"\",priority_class=\"\","
            "replica_role=\"standalone\"} 1"));
  CHECK(Family(text, "kueue_local_queue_finished_workloads_total").empty());
  CHECK(Family(text, "kueue_execution_time_seconds").empty());
}

MetricsView OneQueue() {
  MetricsView view;
  ClusterQueueView queue;
  queue.name = "cq";
  queue.status = ClusterQueueView::Status::kActive;
  queue.pending_active = 2;
  queue.pending_inadmissible = 3;
  queue.reserving = 4;
  queue.admitted = 1;
  queue.finished = 9;
  queue.resources = {{"f", "cpu", 10.5, {}, 2, 4, 1.25}};
  queue.pending_resources = {{"cpu", 4}};
  queue.reservations = 2;
  queue.unadmitted = {{"NoReservation", "WaitingForQuota", 5}, {"NoReservation", "Suspended", 0}};
  view.cluster_queues = {queue};
  LocalQueueView local;
  local.ns = "ns";
  local.name = "lq";
  local.cluster_queue = "cq";
  local.active = LocalQueueView::Active::kTrue;
  local.pending_active = 2;
  local.resources = {{"f", "cpu", 0, {}, {}, 4, 1.25}};
  local.unadmitted = {{"NoReservation", "WaitingForQuota", 5}};
  local.fair_sharing_usage = 2.5;
  view.local_queues = {local};
  view.pod_groups = true;
  view.credit_accounts = {{"cq-team", "p", -1.5, 24, 4, 6, -2}};
  return view;
}

TEST_CASE("backfill: reservations as a gauge where there is backfill, starts as a counter") {
  Published published;
  MetricsView view = OneQueue();
  view.cluster_queues.push_back(view.cluster_queues.front());
  view.cluster_queues.back().name = "plain";
  view.cluster_queues.back().reservations.reset();
  published.view = std::make_shared<MetricsView>(view);
  Metrics metrics(Quiet(), published.Source());
  metrics.Backfilled("cq");
  metrics.Backfilled("cq");
  const std::string text = metrics.Text();
  CHECK(Family(text, "sluice_backfill_reservations") ==
        "# TYPE sluice_backfill_reservations gauge\n"
        "sluice_backfill_reservations{cluster_queue=\"cq\",replica_role=\"standalone\"} 2\n");
  CHECK(Family(text, "sluice_backfilled_workloads_total") ==
        "# TYPE sluice_backfilled_workloads_total counter\n"
        "sluice_backfilled_workloads_total{cluster_queue=\"cq\",replica_role=\"standalone\"} 2\n");
  metrics.ForgetClusterQueue("cq");
  CHECK(Family(metrics.Text(), "sluice_backfilled_workloads_total").find("cq") ==
        std::string::npos);
}

TEST_CASE("gauges show the view") {
  Published published;
  published.view = std::make_shared<MetricsView>(OneQueue());
  MetricsOptions options = Quiet();
  options.cluster_queue_resources = true;
  Metrics metrics(options, published.Source());
  const std::string text = metrics.Text();
  CHECK(Family(text, "kueue_pending_workloads") ==
        "# TYPE kueue_pending_workloads gauge\n"
        "kueue_pending_workloads{cluster_queue=\"cq\",replica_role=\"standalone\",status="
        "\"active\"} 2\n"
        "kueue_pending_workloads{cluster_queue=\"cq\",replica_role=\"standalone\","
        "status=\"inadmissible\"} 3\n");
  CHECK(Family(text, "kueue_cluster_queue_status") ==
        "# TYPE kueue_cluster_queue_status gauge\n"
        "kueue_cluster_queue_status{cluster_queue=\"cq\",replica_role=\"standalone\","
        "status=\"active\"} 1\n"
        "kueue_cluster_queue_status{cluster_queue=\"cq\",replica_role=\"standalone\","
        "status=\"pending\"} 0\n"
        "kueue_cluster_queue_status{cluster_queue=\"cq\",replica_role=\"standalone\","
        "status=\"terminating\"} 0\n");
  CHECK(Family(text, "kueue_unadmitted_workloads") ==
        "# TYPE kueue_unadmitted_workloads gauge\n"
        "kueue_unadmitted_workloads{cluster_queue=\"cq\",reason=\"NoReservation\","
        "replica_role=\"standalone\",underlying_cause=\"WaitingForQuota\"} 5\n");
  const std::string cell =
      "{cluster_queue=\"cq\",cohort=\"\",flavor=\"f\",replica_role=\"standalone\",resource="
      "\"cpu\"}";
  const std::string queue = "{cluster_queue=\"cq\",replica_role=\"standalone\"}";
  const std::string account = "{account=\"cq-team\",policy=\"p\",replica_role=\"standalone\"}";
  const std::string local = "{name=\"lq\",namespace=\"ns\",replica_role=\"standalone\"}";
  for (const std::string& line : std::vector<std::string>{
           "sluice_native_gangs{form=\"PodGroup\",replica_role=\"standalone\"} 1",
           "sluice_native_gangs{form=\"JobScheduling\",replica_role=\"standalone\"} 0",
           "sluice_credit_balance" + account + " -1.5",
           "sluice_credit_bank_limit" + account + " 24",
           "sluice_credit_entitlement" + account + " 4",
           "sluice_credit_usage" + account + " 6",
           "sluice_credit_rate" + account + " -2",
           "kueue_reserving_active_workloads" + queue + " 4",
           "kueue_local_queue_admission_fair_sharing_usage{cluster_queue=\"cq\",name=\"lq\","
           "namespace=\"ns\",replica_role=\"standalone\"} 2.5",
           "kueue_admitted_active_workloads" + queue + " 1",
           "kueue_finished_workloads" + queue + " 9",
           "kueue_cluster_queue_info{cluster_queue=\"cq\",parent_cohort=\"\","
           "replica_role=\"standalone\",root_cohort=\"\"} 1",
           "kueue_cluster_queue_resource_reservation" + cell + " 4",
           "kueue_cluster_queue_resource_usage" + cell + " 1.25",
           "kueue_cluster_queue_nominal_quota" + cell + " 10.5",
           "kueue_cluster_queue_borrowing_limit" + cell + " +Inf",
           "kueue_cluster_queue_lending_limit" + cell + " 2",
           "kueue_cluster_queue_resource_pending{cluster_queue=\"cq\",replica_role=\"standalone\","
           "resource=\"cpu\"} 4",
           "kueue_local_queue_pending_workloads{name=\"lq\",namespace=\"ns\","
           "replica_role=\"standalone\",status=\"active\"} 2",
           "kueue_local_queue_reserving_active_workloads" + local + " 0",
           "kueue_local_queue_status{active=\"True\",name=\"lq\",namespace=\"ns\","
           "replica_role=\"standalone\"} 1",
           "kueue_local_queue_resource_usage{flavor=\"f\",name=\"lq\",namespace=\"ns\","
           "replica_role=\"standalone\",resource=\"cpu\"} 1.25",
           "kueue_local_queue_unadmitted_workloads{cluster_queue=\"cq\",name=\"lq\","
           "namespace=\"ns\",reason=\"NoReservation\",replica_role=\"standalone\","
           "underlying_cause=\"WaitingForQuota\"} 5"}) {
    INFO(text);
    CHECK(Has(text, line));
  }
  // Shapes are not tracked in this view.
  CHECK(Family(text, "kueue_pending_scheduling_hashes").empty());
}

TEST_CASE("gauges show how broken up the free capacity is") {
  Published published;
  auto view = std::make_shared<MetricsView>();
  view->fragmentation = {{"f", "rack", "cpu", 10, 4}, {"f", "rack", "memory", 0, 0}};
  published.view = view;
  Metrics metrics(Quiet(), published.Source());
  const std::string text = metrics.Text();
  const std::string cpu =
      "{flavor=\"f\",level=\"rack\",replica_role=\"standalone\",resource=\"cpu\"}";
  const std::string memory =
      "{flavor=\"f\",level=\"rack\",replica_role=\"standalone\",resource=\"memory\"}";
  for (const std::string& line :
       {"sluice_topology_free" + cpu + " 10", "sluice_topology_largest_free" + cpu + " 4",
        "sluice_topology_fragmentation_ratio" + cpu + " 0.6",
        "sluice_topology_fragmentation_ratio" + memory + " 0"}) {
    INFO(text);
    CHECK(Has(text, line));
  }
}

TEST_CASE("the time from admission to the removal of a gate") {
  Metrics metrics(Quiet(), nullptr);
  metrics.Observe(
      GateRemovedRecord{"kueue.x-k8s.io/topology", "cq", true, absl::Milliseconds(200)});
  const std::string labels =
      "{cluster_queue=\"cq\",is_group=\"true\",name=\"kueue.x-k8s.io/topology\","
      "replica_role=\"standalone\"}";
  const std::string text = metrics.Text();
  INFO(text);
  CHECK(Has(text, "kueue_pod_scheduling_gate_removal_seconds_count" + labels + " 1"));
  CHECK(Has(text, "kueue_pod_scheduling_gate_removal_seconds_sum" + labels + " 0.2"));
  metrics.ForgetClusterQueue("cq");
  CHECK(Family(metrics.Text(), "kueue_pod_scheduling_gate_removal_seconds").empty());
}

TEST_CASE("switches leave families out") {
  Published published;
  published.view = std::make_shared<MetricsView>(OneQueue());
  MetricsOptions options = Quiet();
  options.local_queues = false;
  options.cohorts = false;
  options.unadmitted_workloads = false;
  options.creation_latency = false;
  Metrics metrics(options, published.Source());
  metrics.Observe(AdmittedRecord{kLabels, absl::Seconds(1), {}});
  metrics.WorkloadCreated("Job", absl::Seconds(1));
  const std::string text = metrics.Text();
  CHECK(text.find("kueue_local_queue_") == std::string::npos);
  CHECK(text.find("kueue_cluster_queue_info") == std::string::npos);
  CHECK(text.find("unadmitted_workloads") == std::string::npos);
  CHECK(text.find("kueue_cluster_queue_resource") == std::string::npos);
  CHECK(text.find("kueue_workload_creation") == std::string::npos);
  CHECK(text.find("kueue_admitted_workloads_total") != std::string::npos);
}

TEST_CASE("a deleted queue takes all its series with it") {
  Published published;
  published.view = std::make_shared<MetricsView>(OneQueue());
  Metrics metrics(Quiet(), published.Source());
  metrics.Observe(AdmittedRecord{kLabels, absl::Seconds(1), absl::Seconds(1)});
  metrics.Observe(EvictedRecord{kLabels, "Preempted", "", true, absl::Seconds(1)});
  metrics.Observe(AdmittedRecord{{"other", ObjectKey{"ns", "other"}, ""}, absl::Seconds(1), {}});
  metrics.Observe(FinishedRecord{{"", {}, ""}, {}});
  REQUIRE(metrics.Text().find("\"cq\"") != std::string::npos);

  auto next = std::make_shared<MetricsView>(OneQueue());
  SECTION("the LocalQueue alone") {
    next->local_queues.clear();
    published.view = next;
    const std::string text = metrics.Text();
    CHECK(text.find("\"lq\"") == std::string::npos);
    CHECK(text.find("kueue_admitted_workloads_total{cluster_queue=\"cq\"") != std::string::npos);
  }
  SECTION("both") {
    published.view = std::make_shared<MetricsView>();
    const std::string text = metrics.Text();
    CHECK(text.find("\"cq\"") == std::string::npos);
    CHECK(text.find("\"lq\"") == std::string::npos);
    // Queues that no view has shown yet, and workloads without a queue, keep theirs.
    CHECK(text.find("kueue_admitted_workloads_total{cluster_queue=\"other\"") != std::string::npos);
    CHECK(text.find("kueue_finished_workloads_total{cluster_queue=\"\"") != std::string::npos);
  }
  SECTION("by hand") {
    metrics.ForgetClusterQueue("other");
    metrics.ForgetLocalQueue({"ns", "other"});
    CHECK(metrics.Text().find("\"other\"") == std::string::npos);
  }
}

TEST_CASE("a new role moves the gauges and keeps the counters") {
  Published published;
  published.view = std::make_shared<MetricsView>(OneQueue());
  MetricsOptions options = Quiet();
  options.role = ReplicaRole::kFollower;
  Metrics metrics(options, published.Source());
  metrics.AdmissionAttempt(true, absl::Seconds(1));
  CHECK(metrics.Text().find("kueue_reserving_active_workloads{cluster_queue=\"cq\","
                            "replica_role=\"follower\"} 4\n") != std::string::npos);
  metrics.SetRole(ReplicaRole::kLeader);
  metrics.AdmissionAttempt(true, absl::Seconds(1));
  const std::string text = metrics.Text();
  CHECK(Family(text, "kueue_reserving_active_workloads") ==
        "# TYPE kueue_reserving_active_workloads gauge\n"
        "kueue_reserving_active_workloads{cluster_queue=\"cq\",replica_role=\"leader\"} 4\n");
  CHECK(Family(text, "kueue_admission_attempts_total") ==
        "# TYPE kueue_admission_attempts_total counter\n"
        "kueue_admission_attempts_total{replica_role=\"follower\",result=\"success\"} 1\n"
        "kueue_admission_attempts_total{replica_role=\"leader\",result=\"success\"} 1\n");
}

TEST_CASE("label values are escaped") {
  Metrics metrics(Quiet(), nullptr);
  metrics.ObjectRejected("a\"b\\c\nd");
  CHECK(Has(metrics.Text(), "sluice_rejected_objects_total{kind=\"a\\\"b\\\\c\\nd\"} 1"));
}

TEST_CASE("requests of the client and of the webhooks") {
  Metrics metrics(Quiet(), nullptr);
  metrics.ApiRequest("PATCH", "200", absl::Milliseconds(4));
  metrics.WebhookRequest("/convert", 200, absl::Milliseconds(30));
  const std::string text = metrics.Text();
  CHECK(Has(text, "rest_client_requests_total{code=\"200\",method=\"PATCH\"} 1"));
  CHECK(Has(text, "rest_client_request_duration_seconds_bucket{verb=\"PATCH\",le=\"0.005\"} 1"));
  CHECK(
      Has(text, "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/convert\"} 1"));
  CHECK(Has(
      text,
      "controller_runtime_webhook_latency_seconds_bucket{webhook=\"/convert\",le=\"0.025\"} 0"));
}

TEST_CASE("how long decisions waited for questions") {
  Metrics metrics(Quiet(), nullptr);
  metrics.HeldByQuestions(absl::Milliseconds(3));
  const std::string text = metrics.Text();
  const std::string bucket = "sluice_questions_hold_seconds_bucket{replica_role=\"standalone\",le=";
  CHECK(Has(text, bucket + "\"0.002\"} 0"));
  CHECK(Has(text, bucket + "\"0.004\"} 1"));
  CHECK(Has(text, "sluice_questions_hold_seconds_sum{replica_role=\"standalone\"} 0.003"));
}

TEST_CASE("process metrics are plausible") {
  MetricsOptions options = Quiet();
  options.process = true;
  Metrics metrics(options, nullptr);
  const std::string text = metrics.Text();
  const auto value = [&](const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + name.size() + 2));
  };
  CHECK(value("process_resident_memory_bytes") > 1e6);
  CHECK(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
  CHECK(value("process_open_fds") >= 3);
  CHECK(value("process_max_fds") >= value("process_open_fds"));
  const double started = value("process_start_time_seconds");
  CHECK(started <= absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1);
  CHECK(started > absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - 3600);
  CHECK(value("process_cpu_seconds_total") >= 0);
}

TEST_CASE("recording and reading at the same time") {
  Published published;
  published.view = std::make_shared<MetricsView>(OneQueue());
  Metrics metrics(Quiet(), published.Source());
  constexpr int kRecords = 2000;
  std::thread writer([&] {
    for (int i = 0; i < kRecords; ++i)
      metrics.Observe(AdmittedRecord{kLabels, absl::Seconds(1), {}});
  });
  for (int i = 0; i < 20; ++i) metrics.Text();
  writer.join();
  CHECK(Has(metrics.Text(),
            "kueue_admitted_workloads_total{cluster_queue=\"cq\",priority_class=\"\","
            "replica_role=\"standalone\"} 2000"));
}

}  // namespace
}  // namespace sluice::metrics
