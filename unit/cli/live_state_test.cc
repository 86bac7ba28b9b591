// A forecast begins with what the cluster is: what runs keeps its quota, its flavors, its place and
// its times, whatever has become of its queue since.
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "unit/catch.h"
#include "unit/cli/call.h"
#include "unit/cli/dump.h"

namespace sluice::cli {
namespace {

const std::string kHead =
    DumpHead() + R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: g}}
)";

// A ClusterQueue of the cohort org with so many CPUs of each flavor, and its LocalQueue.
std::string Queue(const std::string& name, const std::string& quotas, const std::string& more = "",
                  const std::string& local = "") {
  return fmt::format(
      "- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: ClusterQueue\n  metadata: {{name: {0}, "
      "annotations: {{sluice.dev/backfill: EASY}}}}\n  spec:\n    cohortName: org\n"
      "    namespaceSelector: {{}}\n{2}    resourceGroups: [{{coveredResources: [cpu], flavors: "
      "[{1}]}}]\n- {{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {{name: {0}, "
      "namespace: team}}, spec: {{clusterQueue: {0}{3}}}}}\n",
      name, quotas, more, local);
}

std::string Quota(const std::string& flavor, int cpu) {
  return fmt::format("{{name: {}, resources: [{{name: cpu, nominalQuota: {}}}]}}", flavor, cpu);
}

struct Job {
  std::string name = "";
  std::string queue = "";
  int cpu = 1;
  std::string annotations = "";   // "sluice.dev/expected-runtime: 1h"
  std::string start = "";         // hh:mm of its admission; "": it waits
  std::string flavor = "f";       // that it holds
  std::string spec = "";          // "maximumExecutionTimeSeconds: 3600"
  std::string conditions = "";    // more of them
  std::string status = "";        // more of it
  std::string created = "00:01";  // hh:mm
};

std::string Text(const Job& job) {
  std::string text = fmt::format(
      "- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: Workload\n  metadata: {{name: {0}, namespace: "
      "team, uid: uid-{0}, creationTimestamp: \"2026-01-01T{4}:00Z\", annotations: {{{3}}}}}\n"
      "  spec:\n    queueName: {1}\n    {5}\n    podSets: [{{name: main, count: 1, template: "
      "{{spec: "
      "{{restartPolicy: Never, containers: [{{name: c, image: i, resources: {{requests: {{cpu: "
      "{2}}}}}}}]}}}}}}]\n",
      job.name, job.queue, job.cpu, job.annotations, job.created, job.spec);
  if (job.start.empty())
    return text + (job.status.empty() ? "" : "  status: {" + job.status + "}\n");
  text += "  status:\n    conditions:\n";
  for (const char* type : {"QuotaReserved", "Admitted"}) {
    text += fmt::format(
        "    - {{type: {0}, status: \"True\", reason: {0}, message: \"\", lastTransitionTime: "
        "\"2026-01-01T{1}:00Z\"}}\n",
        type, job.start);
  }
  text += job.conditions;
  if (!job.status.empty()) text += "    " + job.status + "\n";
  return text +
         fmt::format(
             "    admission: {{clusterQueue: {0}, podSetAssignments: [{{name: main, count: 1, "
             "flavors: {{cpu: {1}}}, resourceUsage: {{cpu: {2}}}}}]}}\n",
             job.queue, job.flavor, job.cpu);
}

std::string File(const std::string& queues, const std::vector<Job>& jobs) {
  const std::string path = "live_state_test.yaml";
  std::string text = kHead + queues;
  for (const Job& job : jobs) text += Text(job);
  std::ofstream(path) << text;
  return path;
}

// "name START" for each that waits, in the order of their start.
std::string Starts(const std::string& file, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"forecast", "--from", file});
  const Outcome outcome = Call(more);
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  std::string starts;
  for (size_t at = 0; (at = outcome.out.find("\nteam ", at)) != std::string::npos; ++at) {
    std::istringstream row(outcome.out.substr(at));
    std::string ns;
    std::string name;
    std::string queue;
    std::string start;
    row >> ns >> name >> queue >> start;
    if (start.size() > 16) start = start.substr(11, 5);
    starts += (starts.empty() ? "" : ", ") + name + " " + start;
  }
  return starts;
}

TEST_CASE("what runs in a stopped queue holds its quota until it ends") {
  const std::string a = Queue("a", Quota("f", 4));
  const std::vector<Job> jobs = {
      {.name = "held",
       .queue = "b",
       .cpu = 4,
       .annotations = "sluice.dev/expected-runtime: 1h",
       .start = "00:20"},
      {.name = "more", .queue = "b", .annotations = "sluice.dev/expected-runtime: 1h"},
      {.name = "wide", .queue = "a", .cpu = 8}};
  struct Row {
    const char* name;
    std::string b;
    const char* starts;
  };
  const std::vector<Row> rows = {
      {"ClusterQueue on Hold", Queue("b", Quota("f", 4), "    stopPolicy: Hold\n"),
       "wide 01:20, more never"},
      {"LocalQueue on Hold", Queue("b", Quota("f", 4), "", ", stopPolicy: Hold"), "wide 01:20"},
      {"ClusterQueue is drained", Queue("b", Quota("f", 4), "    stopPolicy: HoldAndDrain\n"),
       "wide 01:00, more never"},
      {"LocalQueue is drained", Queue("b", Quota("f", 4), "", ", stopPolicy: HoldAndDrain"),
       "wide 01:00"}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Starts(File(a + row.b, jobs)) == row.starts);
  }
  // Its LocalQueue is gone.
  std::string gone = Queue("b", Quota("f", 4));
  gone.resize(gone.find("- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue"));
  CHECK(Starts(File(a + gone, jobs)) == "wide 01:20");
  // Others of a queue that nobody stopped go on as before.
  CHECK(Starts(File(a + Queue("b", Quota("f", 4)), jobs)) == "more 01:00, wide 02:00");
}

TEST_CASE("what runs stays in its flavor") {
  // In f it would leave all of g to the other one.
  const std::string queues = Queue("a", Quota("f", 4) + ", " + Quota("g", 8));
  CHECK(Starts(File(queues, {{.name = "runs",
                              .queue = "a",
                              .cpu = 3,
                              .annotations = "sluice.dev/expected-runtime: 1h",
                              .start = "00:30",
                              .flavor = "g"},
                             {.name = "waits", .queue = "a", .cpu = 6}})) == "waits 01:30");
}

TEST_CASE("the bounds of what runs count from its start") {
  const std::string queues = Queue("a", Quota("f", 8));
  // The head is reserved the end of what runs; who ends before that may start at once.
  const auto jobs = [](Job runs) {
    runs.name = "runs";
    runs.queue = "a";
    runs.cpu = 6;
    if (runs.start.empty()) runs.start = "00:30";
    return std::vector<Job>{runs,
                            {.name = "head",
                             .queue = "a",
                             .cpu = 8,
                             .annotations = "sluice.dev/expected-runtime: 1h",
                             .created = "00:40"},
                            {.name = "short",
                             .queue = "a",
                             .cpu = 2,
                             .annotations = "sluice.dev/expected-runtime: 20m",
                             .created = "00:41"},
                            {.name = "long",
                             .queue = "a",
                             .cpu = 2,
                             .annotations = "sluice.dev/expected-runtime: 50m",
                             .created = "00:42"}};
  };
  const std::string half = "short 01:00, head 01:30, long 02:30";
  const std::string limit = "maximumExecutionTimeSeconds: 3600";
  CHECK(Starts(File(queues, jobs({.spec = limit}))) == half);
  CHECK(Starts(File(queues, jobs({.annotations = "sluice.dev/expected-runtime: 1h"}))) == half);
  // The limit ends it, whatever was expected.
  CHECK(Starts(File(queues, jobs({.annotations = "sluice.dev/expected-runtime: 5h",
                                  .spec = limit}))) == half);
  // Half of its time was gone when it started for the second time.
  CHECK(Starts(File(queues, jobs({.start = "00:55",
                                  .spec = limit,
                                  .status = "accumulatedPastExecutionTimeSeconds: 1800"}))) ==
        "short 01:00, head 01:25, long 02:25");
}

TEST_CASE("what waits keeps its place in the order, and what is left of its time") {
  const std::string queues = Queue("a", Quota("f", 4));
  // Before, both came one after the other, and the first one started whatever the priorities were.
  CHECK(Starts(File(queues, {{.name = "early",
                              .queue = "a",
                              .cpu = 4,
                              .spec = "priority: 1\n    maximumExecutionTimeSeconds: 3600",
                              .created = "00:10"},
                             {.name = "late",
                              .queue = "a",
                              .cpu = 4,
                              .spec = "priority: 9\n    maximumExecutionTimeSeconds: 3600",
                              .status = "accumulatedPastExecutionTimeSeconds: 2700",
                              .created = "00:20"}})) == "late 01:00, early 01:15");
}

TEST_CASE("victims are those that the cluster would choose") {
  const std::string queues =
      Queue("a", Quota("f", 24), "    preemption: {withinClusterQueue: LowerPriority}\n");
  // Of the same queue and priority the one goes that loses least: it saved its work a moment ago,
  // though it started first.
  const std::string file =
      File(queues, {{.name = "saved",
                     .queue = "a",
                     .cpu = 8,
                     .annotations = "sluice.dev/last-checkpoint: \"2026-01-01T00:57:00Z\", "
                                    "sluice.dev/restart-cost: 5m",
                     .start = "00:05"},
                    {.name = "young", .queue = "a", .cpu = 8, .start = "00:50", .created = "00:50"},
                    {.name = "old",
                     .queue = "a",
                     .cpu = 8,
                     .annotations = "sluice.dev/checkpoint-interval: 31m",
                     .start = "00:30"},
                    {.name = "urgent", .queue = "a", .cpu = 8, .spec = "priority: 100"}});
  const Outcome outcome = Call({"simulate", file, "--timeline", "--until", "1m"});
  CHECK(outcome.err == "");
  CHECK(outcome.out.find("0 preempt team/saved: for team/urgent") != std::string::npos);
  CHECK(outcome.out.find("preempt team/young") == std::string::npos);
  // It lost the three minutes since.
  CHECK(outcome.out.find("time run in vain: 3m0s") != std::string::npos);
  // Of what simulate assumes: a preempted workload starts over unless --restart says otherwise.
  CHECK(outcome.out.find("note: nothing else arrives, and workloads end: 4 never") !=
        std::string::npos);
  CHECK(Call({"simulate", file, "--until", "1m", "--restart", "resume"})
            .out.find("note: nothing else arrives, no preempted work is lost, and workloads end") !=
        std::string::npos);
}

TEST_CASE("one that is on its way out gives its quota back and waits again") {
  const std::string evicted =
      "    - {type: Evicted, status: \"True\", reason: Preempted, message: \"\", "
      "lastTransitionTime: \"2026-01-01T00:59:59Z\"}\n";
  const std::string file =
      File(Queue("a", Quota("f", 4)), {{.name = "leaves",
                                        .queue = "a",
                                        .cpu = 4,
                                        .annotations = "sluice.dev/expected-runtime: 1h",
                                        .start = "00:30",
                                        .conditions = evicted},
                                       {.name = "next",
                                        .queue = "a",
                                        .cpu = 4,
                                        .annotations = "sluice.dev/expected-runtime: 10m",
                                        .spec = "priority: 5"}});
  CHECK(Starts(file) == "next 01:00");
  const Outcome outcome = Call({"simulate", file, "--timeline", "--stop-time", "30s"});
  CHECK(outcome.out.find("30 admit   team/next") != std::string::npos);
  CHECK(outcome.out.find("630 admit   team/leaves") != std::string::npos);
}

TEST_CASE("what is played otherwise than in the cluster is part of the assumption") {
  const std::string queues = Queue(
      "a", Quota("f", 4), "    admissionChecksStrategy: {admissionChecks: [{name: check}]}\n");
  const std::string file = File(queues, {{.name = "waits", .queue = "a"}});
  const Outcome outcome = Call({"forecast", "--from", file, "--default-runtime", "1h"});
  CHECK(outcome.out.find("Assumption: nothing else arrives, no preempted work is lost, admission "
                         "checks pass at once, and workloads end: 1 by the default runtime.\n") !=
        std::string::npos);
}

TEST_CASE("a dump has the configuration by which its cluster decides") {
  const std::string dump = Call({"dump", "--from", File(Queue("a", Quota("f", 4)), {})}).out;
  CHECK(dump.find("kind: ConfigMap") != std::string::npos);
  // Two teams share eight CPUs. Fair sharing gives the second one its turn, the classical order
  // the first one everything.
  std::string queues =
      Queue("a", Quota("f", 0)) + Queue("b", Quota("f", 0)) + Queue("pool", Quota("f", 8));
  std::vector<Job> jobs = {{.name = "a1", .queue = "a", .cpu = 4, .start = "00:10"}};
  jobs.push_back({.name = "a2", .queue = "a", .cpu = 4, .created = "00:20"});
  jobs.push_back({.name = "b1", .queue = "b", .cpu = 4, .created = "00:21"});
  const std::string file = File(queues, jobs);
  const std::vector<std::string> simulate = {"simulate", file, "--timeline", "--until", "1s"};
  CHECK(Call(simulate).out.find("admit   team/a2") != std::string::npos);
  CHECK(Starts(file) == "a2 01:00, b1 never");
  std::ifstream stream(file);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::string plain = "kind: Configuration}";
  std::string fair = text;
  fair.replace(
      fair.find(plain), plain.size(),
      "kind: Configuration, fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}}");
  std::ofstream(file) << fair;
  CHECK(Starts(file) == "b1 01:00, a2 never");
  CHECK(Call(simulate).out.find("admit   team/b1") != std::string::npos);
  // Read back from what `dump` wrote of it.
  const std::string again = Call({"dump", "--from", file}).out;
  std::ofstream(file) << again;
  CHECK(Starts(file) == "b1 01:00, a2 never");
  CHECK(Call(simulate).out.find("admit   team/b1") != std::string::npos);
  // A file comes before it.
  const std::string config = "live_state_test_config.yaml";
  std::ofstream(config) << "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration}\n";
  CHECK(Starts(file, {"--config", config}) == "a2 01:00, b1 never");
  // Without one it is said that there is none.
  const size_t map = text.find("- {apiVersion: v1, kind: ConfigMap");
  text.erase(map, text.find('\n', map) + 1 - map);
  std::ofstream(file) << text;
  const std::string note =
      "note: the dump has no configuration of the controller: its defaults are used\n";
  CHECK(Call({"top", "--from", file}).err == note);
  CHECK(Call(simulate).out.find(note) != std::string::npos);
  CHECK(Call({"top", "--from", file, "--config", config}).err == "");
  std::ofstream(file) << "x: [\n";
  std::string broken = fair;
  broken.replace(broken.find("fairSharing"), 11, "fairsharing");
  std::ofstream(file) << broken;
  CHECK(Call({"top", "--from", file}).err.find(file + ": the controller's configuration: ") == 0);
}

}  // namespace
}  // namespace sluice::cli
