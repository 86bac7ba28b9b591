#include <fmt/format.h>

#include "sim/report.h"
#include "sim/swf.h"
#include "sim/trace_stats.h"
#include "sim/trace_text.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

// One flavor; ClusterQueues "a" and "b" of 4 CPUs each with a LocalQueue "q" in the namespace of
// the same name. `extra` goes into both specs.
std::string ClusterText(const std::string& extra = "") {
  std::string text = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
)";
  for (const char* name : {"a", "b"}) {
    text += fmt::format(R"(---
apiVersion: v1
kind: Namespace
metadata: {{name: {0}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {0}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - name: cpu
        nominalQuota: 4
{1}---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: q, namespace: {0}}}
spec: {{clusterQueue: {0}}}
)",
                        name, extra);
  }
  return text;
}
constexpr char kCohort[] = R"(  cohortName: all
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
)";

std::unique_ptr<TraceCluster> MakeCluster(const std::string& text = ClusterText()) {
  auto cluster = TraceCluster::Load({{"cluster.yaml", text}}, state::Settings{});
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

std::string LoadError(const std::string& text) {
  const auto cluster = TraceCluster::Load({{"c.yaml", text}}, state::Settings{});
  if (cluster.ok()) return "";
  return std::string(cluster.status().message());
}

struct Outcome {
  std::string timeline;
  TraceResult result;
  std::string workloads;
};

Outcome Play(TraceCluster& cluster, const Trace& trace, const TraceOptions& options = {}) {
  Outcome outcome;
  TraceEngine engine(cluster, trace, options);
  TraceStats stats(cluster, trace, engine);
  TimelineWriter writer(cluster, trace, TimelineWriter::Format::kText,
                        [&](const std::string& line) { outcome.timeline += line; });
  engine.AddListener(&stats);
  engine.AddListener(&writer);
  const absl::Status status = engine.Run();
  INFO(status.ToString());
  REQUIRE(status.ok());
  outcome.result = stats.Result();
  outcome.workloads = RenderWorkloadsCsv(cluster, trace, engine);
  return outcome;
}

Trace Csv(const TraceCluster& cluster, const std::string& text) {
  TraceBuilder builder(cluster);
  const absl::Status status = ReadCsvTrace({"t.csv", text}, builder);
  INFO(status.ToString());
  REQUIRE(status.ok());
  absl::StatusOr<Trace> trace = builder.Finish();
  INFO(trace.status().ToString());
  REQUIRE(trace.ok());
  return *std::move(trace);
}

Outcome PlayCsv(const std::string& cluster_text, const std::string& csv,
                const TraceOptions& options = {}) {
  const auto cluster = MakeCluster(cluster_text);
  return Play(*cluster, Csv(*cluster, csv), options);
}

template <typename Read>
std::string ReadError(Read read) {
  const auto cluster = MakeCluster();
  TraceBuilder builder(*cluster);
  absl::Status status = read(builder);
  if (status.ok()) status = builder.Finish().status();
  return std::string(status.message());
}
std::string CsvError(const std::string& text) {
  return ReadError([&](TraceBuilder& builder) { return ReadCsvTrace({"t.csv", text}, builder); });
}
std::string JsonError(const std::string& text) {
  return ReadError([&](TraceBuilder& builder) {
    return ReadJsonTrace({"t.jsonl", text}, builder);
  });
}

constexpr char kHeader[] = "name,submit,run,queue,cpu,priority\n";

TEST_CASE("workloads run while there is quota, others wait for the first to end") {
  const Outcome outcome = PlayCsv(ClusterText(), std::string(kHeader) +
                                                     "one,0,10,a/q,3,\n"
                                                     "two,1,10,a/q,3,\n"
                                                     "small,2.5,1m,a/q,1,\n"
                                                     "other,3,5,b/q,4,\n");
  CHECK(outcome.timeline ==
        "         0 submit  a/one to q\n"
        "         0 admit   a/one default cpu=3\n"
        "         1 submit  a/two to q\n"
        "       2.5 submit  a/small to q\n"
        "       2.5 admit   a/small default cpu=1\n"
        "         3 submit  b/other to q\n"
        "         3 admit   b/other default cpu=4\n"
        "         8 finish  b/other\n"
        "        10 finish  a/one\n"
        "        10 admit   a/two default cpu=3\n"
        "        20 finish  a/two\n"
        "      62.5 finish  a/small\n");
  CHECK(outcome.workloads ==
        "namespace,name,local_queue,cluster_queue,priority,submit,start,finish,wait,preemptions,"
        "lost,state\n"
        "a,one,q,a,0,0,0,10,0,0,0,Finished\n"
        "a,two,q,a,0,1,10,20,9,0,0,Finished\n"
        "a,small,q,a,0,2.5,2.5,62.5,0,0,0,Finished\n"
        "b,other,q,b,0,3,3,8,0,0,0,Finished\n");
}

TEST_CASE("waits, usage and shares are those of the timeline") {
  const Outcome outcome = PlayCsv(ClusterText(), std::string(kHeader) +
                                                     "one,0,10,a/q,4,\n"
                                                     "two,0,10,a/q,4,\n"
                                                     "idle,0,5,b/q,1,\n");
  const TraceResult& result = outcome.result;
  REQUIRE(result.cluster_queues.size() == 2);
  const QueueResult& a = result.cluster_queues[0];
  CHECK(result.end == 20 * kSecond);
  CHECK(a.wait.count == 2);
  CHECK(a.wait.mean == 5e6);
  CHECK(a.wait.p50 == 0);
  CHECK(a.wait.p95 == 10 * kSecond);
  CHECK(a.wait.max == 10 * kSecond);
  CHECK(a.slowdown == Approx((1.0 + 2.0) / 2));
  // All of the quota all of the time.
  CHECK(*a.used == Approx(1));
  CHECK(*a.share == Approx(1));
  // A queue that asks for less than its quota is not treated unfairly.
  CHECK(*result.cluster_queues[1].used == Approx(1.0 * 5 / (4 * 20)));
  CHECK(*result.cluster_queues[1].share == Approx(1));
  CHECK(*result.fairness == Approx(1));
  REQUIRE(result.cells.size() == 1);
  CHECK(result.cells[0].nominal == 8000);
  CHECK(result.cells[0].peak == 5000);
  CHECK(result.cells[0].mean == Approx((4000.0 * 20 + 1000.0 * 5) / 20));
}

TEST_CASE("a workload that can never run is told with its reason") {
  const Outcome outcome = PlayCsv(ClusterText(), std::string(kHeader) +
                                                     "big,0,10,a/q,5,\n"
                                                     "big2,0,10,a/q,5,\n"
                                                     "fits,0,,a/q,1,\n");
  const TraceResult& result = outcome.result;
  REQUIRE(result.waiting.size() == 1);
  CHECK(result.waiting[0].count == 2);
  CHECK(result.waiting[0].example == "a/big");
  CHECK(result.waiting[0].reason.find("cpu") != std::string::npos);
  CHECK(result.total.running == 1);
  CHECK(RenderReport(result).find("2 in a, such as a/big: ") != std::string::npos);
}

TEST_CASE("a preempted workload waits again and starts over, or goes on where it saved its work") {
  const std::string csv = std::string(kHeader) +
                          "borrower,0,100,a/q,8,\n"
                          "owner,30,10,b/q,4,\n";
  TraceOptions options;
  SECTION("from scratch, quota free at once") {
    const Outcome outcome = PlayCsv(ClusterText(kCohort), csv, options);
    CHECK(outcome.timeline ==
          "         0 submit  a/borrower to q\n"
          "         0 admit   a/borrower default cpu=8\n"
          "        30 submit  b/owner to q\n"
          "        30 preempt a/borrower: for b/owner (InCohortReclamation)\n"
          "        30 requeue a/borrower\n"
          "        30 admit   b/owner default cpu=4\n"
          "        40 finish  b/owner\n"
          "        40 admit   a/borrower default cpu=8\n"
          "       140 finish  a/borrower\n");
    CHECK(outcome.result.total.preemptions == 1);
    CHECK(outcome.result.total.lost == 30 * kSecond);
    // It waited nothing until its first start.
    CHECK(outcome.result.cluster_queues[0].wait.max == 0);
  }
  SECTION("the quota is held while the pods stop") {
    options.stop_time = 5 * kSecond;
    const Outcome outcome = PlayCsv(ClusterText(kCohort), csv, options);
    CHECK(outcome.timeline.find("35 admit   b/owner") != std::string::npos);
    CHECK(outcome.timeline.find("145 finish  a/borrower") != std::string::npos);
  }
  SECTION("nothing is lost") {
    options.checkpoint = 0;
    const Outcome outcome = PlayCsv(ClusterText(kCohort), csv, options);
    CHECK(outcome.timeline.find("110 finish  a/borrower") != std::string::npos);
    CHECK(outcome.result.total.lost == 0);
  }
  SECTION("it saved its work at 20 s") {
    options.checkpoint = 20 * kSecond;
    const Outcome outcome = PlayCsv(ClusterText(kCohort), csv, options);
    CHECK(outcome.timeline.find("120 finish  a/borrower") != std::string::npos);
    CHECK(outcome.result.total.lost == 10 * kSecond);
  }
}

TEST_CASE("priority decides within a queue, and preempts where the queue says so") {
  const Outcome outcome = PlayCsv(ClusterText(kCohort), std::string(kHeader) +
                                                            "filler,0,50,b/q,4,\n"
                                                            "low,0,50,a/q,4,1\n"
                                                            "high,10,5,a/q,4,10\n");
  CHECK(outcome.timeline.find("10 preempt a/low: for a/high (InClusterQueue)") !=
        std::string::npos);
  CHECK(outcome.timeline.find("15 admit   a/low") != std::string::npos);
}

TEST_CASE("nothing that happens after the end is played") {
  TraceOptions options;
  options.until = 15 * kSecond;
  const Outcome outcome = PlayCsv(ClusterText(),
                                  std::string(kHeader) +
                                      "one,0,10,a/q,4,\ntwo,5,10,a/q,4,\n"
                                      "late,16,1,a/q,1,\n",
                                  options);
  CHECK(outcome.result.total.finished == 1);
  CHECK(outcome.result.total.running == 1);
  CHECK(outcome.workloads.find("a,late,q,a,0,16,,,,0,0,NotSubmitted") != std::string::npos);
}

TEST_CASE("the same trace gives the same bytes") {
  std::string csv = kHeader;
  for (int i = 0; i < 300; ++i) {
    csv += fmt::format("w{},{},{},{}/q,{},{}\n", i, i * 7 % 90, 5 + i * 13 % 40,
                       i % 3 == 0 ? "a" : "b", 1 + i % 4, i % 5);
  }
  const std::string cluster = ClusterText(kCohort);
  const Outcome first = PlayCsv(cluster, csv);
  const Outcome second = PlayCsv(cluster, csv);
  CHECK(first.timeline == second.timeline);
  CHECK(first.result.total.finished == 300);
  CHECK(RenderHtml(first.result, "t") == RenderHtml(second.result, "t"));
  CHECK(RenderReport(first.result) == RenderReport(second.result));
  CHECK(RenderCsv(first.result) == RenderCsv(second.result));
}

TEST_CASE("Jobs and Workloads of manifests are part of the trace") {
  const auto cluster = MakeCluster(ClusterText() + R"(---
apiVersion: batch/v1
kind: Job
metadata:
  name: waves
  namespace: a
  labels: {kueue.x-k8s.io/queue-name: q}
  annotations: {sluice.dev/submit-seconds: "3"}
spec:
  parallelism: 2
  completions: 5
  template:
    metadata:
      annotations: {sluice.dev/run-seconds: "10"}
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: 500m}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata:
  name: direct
  namespace: b
spec:
  queueName: q
  podSets:
  - name: main
    count: 3
    template:
      spec:
        containers:
        - {name: main, image: busybox, resources: {requests: {cpu: 1}}}
)");
  TraceBuilder builder(*cluster);
  const absl::Status status = cluster->AddManifestWorkloads(builder);
  INFO(status.ToString());
  REQUIRE(status.ok());
  const Outcome outcome = Play(*cluster, *builder.Finish());
  // Two pods at a time, five pods: three waves. The other one says no time and never ends.
  CHECK(outcome.timeline ==
        "         0 submit  b/direct to q\n"
        "         0 admit   b/direct default cpu=3\n"
        "         3 submit  a/waves to q\n"
        "         3 admit   a/waves default cpu=1\n"
        "        33 finish  a/waves\n");
}

TEST_CASE("JSON lines say the same as CSV") {
  const auto cluster = MakeCluster();
  TraceBuilder builder(*cluster);
  const absl::Status status = ReadJsonTrace(
      {"t.jsonl",
       "# comment\n"
       R"({"submit": 1.5, "run": "1m", "queue": "a/q", "pods": 2, "requests": {"cpu": "500m"}})"
       "\n"
       R"({"submit": 0, "run": 3, "namespace": "b", "queue": "q", "name": "x", "priority": -2,)"
       R"( "requests": {"cpu": 1}})"
       "\n"},
      builder);
  INFO(status.ToString());
  REQUIRE(status.ok());
  const Outcome outcome = Play(*cluster, *builder.Finish());
  CHECK(outcome.timeline ==
        "         0 submit  b/x to q\n"
        "         0 admit   b/x default cpu=1\n"
        "       1.5 submit  a/job-1 to q\n"
        "       1.5 admit   a/job-1 default cpu=1\n"
        "         3 finish  b/x\n"
        "      61.5 finish  a/job-1\n");
}

TEST_CASE("CSV values may be quoted") {
  const auto cluster = MakeCluster();
  const Trace trace = Csv(*cluster, "name,submit,run,queue,cpu\r\n\"a,\"\"b\",0,1, a/q ,\"1\"\r\n");
  REQUIRE(trace.jobs.size() == 1);
  CHECK(trace.jobs[0].name == "a,\"b");
}

TEST_CASE("a mistake in a trace is told with file, line and field") {
  const std::string head = "submit,run,queue,cpu\n";
  CHECK(CsvError("") == "t.csv:1: there is no header line");
  CHECK(CsvError("submit,run\n") == "t.csv:1: the header has no column \"queue\"");
  CHECK(CsvError("submit,run,queue,prio\n") ==
        "t.csv:1: \"prio\" is neither a column nor a resource");
  CHECK(CsvError("submit,run,queue,run\n") == "t.csv:1: the column \"run\" is there twice");
  CHECK(CsvError(head + "0,1,a/q\n") == "t.csv:2: 3 values for 4 columns");
  CHECK(CsvError(head + "# c\n\n0,x,a/q,1\n") ==
        "t.csv:4: run: \"x\" is neither a number of seconds nor a duration");
  CHECK(CsvError(head + "-1s,1,a/q,1\n") == "t.csv:2: submit: \"-1s\" is negative");
  CHECK(CsvError(head + ",1,a/q,1\n") == "t.csv:2: submit: missing");
  CHECK(CsvError(head + "0,1,,1\n") == "t.csv:2: queue: missing");
  CHECK(CsvError(head + "0,1,q,1\n") ==
        "t.csv:2: queue: \"q\" has no namespace (write NAMESPACE/NAME)");
  CHECK(CsvError(head + "0,1,a/zz,1\n") == "t.csv:2: queue: LocalQueue a/zz does not exist");
  CHECK(CsvError(head + "0,1,a/q,1x\n").starts_with("t.csv:2: cpu: "));
  CHECK(CsvError(head + "0,1,a/q,-1\n") == "t.csv:2: cpu: \"-1\" is negative");
  CHECK(CsvError(head + "0,1,a/q,\"1\n") == "t.csv:2: a quote is not closed");
  CHECK(CsvError("submit,run,queue,priority_class\n0,1,a/q,high\n") ==
        "t.csv:2: priority_class: WorkloadPriorityClass high does not exist");
  CHECK(CsvError("submit,run,queue,pods\n0,1,a/q,0\n") == "t.csv:2: pods: 0 is less than 1");
  CHECK(CsvError("submit,run,queue,name\n0,1,a/q,x\n1,1,b/q,x\n2,1,a/q,x\n") ==
        "t.csv:4: name: \"x\" is the name of the workload at t.csv:2 already");
  CHECK(JsonError("{}\n") == "t.jsonl:1: submit: missing");
  CHECK(JsonError("[1]\n") == "t.jsonl:1: the line is no JSON object");
  CHECK(JsonError("\n{\"submit\": tru}\n").starts_with("t.jsonl:2: "));
  CHECK(JsonError(R"({"submit":0,"queue":"a/q","cpu":1})") == "t.jsonl:1: cpu: no such field");
  CHECK(JsonError(R"({"submit":0,"queue":"a/q","requests":{"cpu":[]}})") ==
        "t.jsonl:1: requests[cpu]: [] is neither a text nor a number");
  CHECK(JsonError(R"({"submit":0,"queue":"a/q","pods":"many"})") ==
        "t.jsonl:1: pods: \"many\" is no integer of 32 bits");
}

TEST_CASE("a mistake in a manifest is told with file, line and field") {
  CHECK(LoadError("a: [") != "");
  CHECK(LoadError("a: [").starts_with("c.yaml:1: the YAML cannot be read: "));
  CHECK(LoadError("kind: Job\n") == "c.yaml:1: a manifest needs apiVersion and kind");
  CHECK(LoadError("apiVersion: v1\nkind: ConfigMap\n") ==
        "c.yaml:2: kind: ConfigMap of v1 has no meaning in a trace simulation");
  CHECK(LoadError("apiVersion: batch/v2\nkind: Job\n") ==
        "c.yaml:1: apiVersion: Job of batch/v2 is not known, only batch/v1");
  std::string text = ClusterText();
  const size_t quota = text.find("nominalQuota: 4");
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(quota), '\n');
  text.replace(quota, 15, "nominalQuota: x");
  const std::string error = LoadError(text);
  CHECK(error.starts_with(fmt::format("c.yaml:{}: ", line)));
  CHECK(error.find("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota") !=
        std::string::npos);
  CHECK(LoadError(ClusterText("  admissionChecksStrategy: {admissionChecks: [{name: c}]}\n"))
            .find("spec.admissionChecksStrategy: admission checks cannot be simulated") !=
        std::string::npos);
  CHECK(LoadError(ClusterText() + "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n"
                                  "metadata: {name: z, namespace: a}\nspec:\n"
                                  "  clusterQueue: gone\n")
            .find("spec.clusterQueue: ClusterQueue gone does not exist") != std::string::npos);
}

TEST_CASE("ClusterQueues that cannot admit are told") {
  std::string text = ClusterText();
  text = text.substr(text.find("---"));  // without the flavor
  const auto cluster = MakeCluster(text);
  const Outcome outcome = Play(*cluster, Csv(*cluster, std::string(kHeader) + "x,0,1,a/q,1,\n"));
  REQUIRE(outcome.result.notes.size() == 2);
  CHECK(outcome.result.notes[0].find("missing ResourceFlavor(s): default") != std::string::npos);
  REQUIRE(outcome.result.waiting.size() == 1);
  CHECK(outcome.result.waiting[0].reason.find("missing ResourceFlavor") != std::string::npos);
}

// Number, submit, wait, run, allocated, cpu time, used memory, requested processors, time and
// memory, status, user, group, executable, queue, partition, preceding job, think time.
constexpr char kSwf[] =
    "; Version: 2\n"
    "; UnixStartTime: 1000000000\n"
    "  1   0  -1  10   2  -1  -1   2  60 1024  1  1 1 -1 1 -1 -1 -1\n"
    "  2   5  -1  20   1  -1  -1  -1  60   -1  1  2 1 -1 2 -1 -1 -1\n"
    "  3   6  -1  -1   2  -1  -1   2  -1   -1  5  2 1 -1 2 -1 -1 -1\n"
    "  4   7  -1  30  -1  -1  -1  -1  60   -1  1  2 1 -1 2 -1 -1 -1\n"
    "  5   8  -1  30   1  -1  -1   1  60   -1  2  2 1 -1 2 -1 -1 -1\n"
    "  6   9  -1  -1   1  -1  -1   4  15   -1  1  7 1 -1 1 -1 -1 -1\n";

absl::StatusOr<Trace> ReadSwf(const TraceCluster& cluster, const SwfOptions& options,
                              const std::string& text = kSwf) {
  TraceBuilder builder(cluster);
  if (absl::Status status = ReadSwfTrace({"t.swf", text}, options, builder); !status.ok()) {
    return status;
  }
  return builder.Finish();
}

TEST_CASE("a log in the Standard Workload Format") {
  const auto cluster = MakeCluster();
  SwfOptions options;
  options.queues = {{1, {"a", "q"}}, {2, {"b", "q"}}};
  options.priorities = {{2, 7}};
  const absl::StatusOr<Trace> trace = ReadSwf(*cluster, options);
  INFO(trace.status().ToString());
  REQUIRE(trace.ok());
  CHECK(trace->start == absl::FromUnixSeconds(1000000000));
  CHECK(trace->notes ==
        std::vector<std::string>{"t.swf: 1 jobs without run time were left out",
                                 "t.swf: 1 jobs without processors were left out",
                                 "t.swf: 1 lines about parts of jobs were left out"});
  const Outcome outcome = Play(*cluster, *trace);
  // Job 6 says no run time, so the time it asked for counts; job 2 says what it got only.
  CHECK(outcome.timeline ==
        "         0 submit  a/1 to q\n"
        "         0 admit   a/1 default cpu=2\n"
        "         5 submit  b/2 to q\n"
        "         5 admit   b/2 default cpu=1\n"
        "         9 submit  a/6 to q\n"
        "        10 finish  a/1\n"
        "        10 admit   a/6 default cpu=4\n"
        "        25 finish  b/2\n"
        "        25 finish  a/6\n");
  CHECK(outcome.workloads.find("b,2,q,b,7,") != std::string::npos);
}

TEST_CASE("processors of a log become what the options say") {
  const auto cluster = MakeCluster();
  SwfOptions options;
  options.queue_by = SwfOptions::Field::kUser;
  options.queues = {{1, {"a", "q"}}};
  options.other = ObjectKey{"b", "q"};
  options.resource = "nvidia.com/gpu";
  options.per_processor = Quantity::FromInt(2);
  options.pod_per_processor = true;
  options.memory = true;
  const absl::StatusOr<Trace> trace = ReadSwf(*cluster, options);
  REQUIRE(trace.ok());
  const TraceShape& shape = trace->shapes[trace->jobs[0].shape];
  REQUIRE(shape.pod_sets.size() == 1);
  CHECK(shape.pod_sets[0].count == 2);
  const ResourceList& requests =
      shape.pod_sets[0].pod_template.spec->containers[0].resources.requests;
  CHECK(requests.at("nvidia.com/gpu").Value() == 2);
  CHECK(requests.at("memory").Value() == 1024 * 1024);
  const auto queue_of = [&](size_t job) {
    return cluster->local_queues()[trace->shapes[trace->jobs[job].shape].local_queue].key.ns;
  };
  CHECK(queue_of(0) == "a");
  CHECK(queue_of(1) == "b");
}

TEST_CASE("a mistake in a log is told with file, line and field") {
  const auto cluster = MakeCluster();
  const auto error = [&](const std::string& text, SwfOptions options = {}) {
    if (!options.spread) options.other = ObjectKey{"a", "q"};
    return std::string(ReadSwf(*cluster, options, text).status().message());
  };
  CHECK(error(";c\n1 2 3\n") == "t.swf:2: 3 of 18 fields");
  CHECK(error("1 0 -1 x 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n") ==
        "t.swf:1: field 4 (run time): \"x\" is no number");
  CHECK(error("1 0 -1 1 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1 9\n") == "t.swf:1: more than 18 fields");
  CHECK(error("1 -3 -1 1 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n") ==
        "t.swf:1: field 2 (submit time): -3 is negative");
  CHECK(error("1 1e300 -1 1 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n") ==
        "t.swf:1: field 2 (submit time): 1e300 is too large");
  CHECK(error("; UnixStartTime: then\n") == "t.swf:1: UnixStartTime: \"then\" is no time");
  CHECK(std::string(ReadSwf(*cluster, {}, "1 0 -1 1 1 -1 -1 1 -1 -1 1 1 1 1 9 1 -1 -1\n")
                        .status()
                        .message()) == "t.swf:1: field 15 (queue): 9 is mapped to no LocalQueue");
  SwfOptions spread;
  spread.spread = true;
  CHECK(error("1 0 -1 1 1 -1 -1 1 -1 -1 1 1 1 1 -1 1 -1 -1\n", spread) == "");
}

TEST_CASE("curves keep exact means over any length of time") {
  Curve curve;
  curve.Set(0, 10);
  curve.Set(100 * kSecond, 30);
  curve.Set(150 * kSecond, 0);
  CHECK(curve.peak() == 30);
  const Micros end = 200 * kSecond;
  CHECK(curve.Sum(end) == Integral{10} * 100 * kSecond + Integral{30} * 50 * kSecond);
  const std::vector<double> means = curve.Means(end);
  CHECK(means.size() <= Curve::kMost);
  const Micros step = Curve::StepFor(end);
  double sum = 0;
  for (size_t i = 0; i < means.size(); ++i) {
    sum += means[i] * static_cast<double>(std::min(step, end - static_cast<Micros>(i) * step));
  }
  CHECK(sum == Approx(static_cast<double>(curve.Sum(end))));
  CHECK(means.front() == 10);
  CHECK(means.back() == 0);
}

TEST_CASE("the page needs no network and hides no text in markup") {
  const auto cluster = MakeCluster();
  const Outcome outcome =
      Play(*cluster, Csv(*cluster, std::string(kHeader) + "<b>,0,10,a/q,5,\nx,0,9,a/q,2,\n"));
  const std::string html = RenderHtml(outcome.result, "a & b");
  CHECK(html.find("http") == std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("<title>a &amp; b</title>") != std::string::npos);
  CHECK(html.find("a/&lt;b&gt;") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
  CHECK(html.find("nan") == std::string::npos);
}

TEST_CASE("times are read and written") {
  CHECK(*ParseMicros("1.5") == 1'500'000);
  CHECK(*ParseMicros("1h30m") == 5400 * kSecond);
  CHECK_FALSE(ParseMicros("").ok());
  CHECK_FALSE(ParseMicros("1.2.3").ok());
  CHECK_FALSE(ParseMicros("1e99").ok());
  CHECK_FALSE(ParseMicros("999999999999999").ok());
  CHECK(FormatMicros(0) == "0");
  CHECK(FormatMicros(250'000) == "0.25");
  CHECK(ShortTime(12'345'678) == "12.35s");
  CHECK(ShortTime(3'723'400'000) == "1h2m3s");
}

}  // namespace
}  // namespace sluice::sim
