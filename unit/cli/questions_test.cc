#include <absl/time/clock.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "api/json.h"
#include "cli/objects.h"
#include "unit/catch.h"
#include "unit/cli/call.h"
#include "unit/cli/dump.h"

namespace sluice::cli {
namespace {

const std::string kCluster =
    DumpHead() + R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: a}
  spec:
    cohortName: org
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: b}
  spec:
    cohortName: org
    namespaceSelector: {}
    stopPolicy: Hold
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: a}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: held, namespace: team}, spec: {clusterQueue: b}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata: {name: running, namespace: team, uid: u1, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: &large
    queueName: q
    podSets:
    - name: main
      count: 1
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 6}}}]}}
  status:
    conditions:
    - {type: QuotaReserved, status: "True", reason: QuotaReserved, message: "", lastTransitionTime: "2026-01-01T00:10:00Z"}
    - {type: Admitted, status: "True", reason: Admitted, message: "", lastTransitionTime: "2026-01-01T00:10:00Z"}
    admission:
      clusterQueue: a
      podSetAssignments: [{name: main, count: 1, flavors: {cpu: f}, resourceUsage: {cpu: 6}}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata:
    name: waiting
    namespace: team
    uid: u2
    creationTimestamp: "2026-01-01T00:20:00Z"
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j1, controller: true}]
  spec: *large
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata: {name: stopped, namespace: team, uid: u3, creationTimestamp: "2026-01-01T00:20:00Z"}
  spec:
    queueName: held
    podSets:
    - name: main
      count: 1
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
)";

std::string ClusterFile() {
  const std::string path = "questions_test_cluster.yaml";
  std::ofstream(path) << kCluster;
  return path;
}

TEST_CASE("queues as a table, and as data") {
  const std::string file = ClusterFile();
  const Outcome table = Call({"queues", "--from", file});
  CHECK(table.err == "");
  CHECK(table.code == 0);
  CHECK(table.out ==
        "NAME   COHORT   STRATEGY         ACTIVE   PENDING   RESERVING   ADMITTED\n"
        "a      org      BestEffortFIFO   True     1         1           1\n"
        "b      org      BestEffortFIFO   False    1         0           0\n");
  const Outcome wide = Call({"queues", "--from", file, "-o", "wide"});
  CHECK(wide.out.find("f/cpu 6/4") != std::string::npos);
  CHECK(wide.out.find("Stopped") != std::string::npos);
  const auto json = api::ParseJson(Call({"queues", "--from", file, "-o", "json"}).out);
  REQUIRE(json.ok());
  CHECK(json->Find("items")->AsArray().size() == 2);
  CHECK(json->Find("items")->AsArray()[1].GetString("reason") == "Stopped");
  const Outcome local = Call({"queues", "--from", file, "--local", "-o", "yaml"});
  CHECK(local.out.find("clusterQueue: a") != std::string::npos);
  CHECK(Call({"queues", "--from", file, "--local", "-n", "other"}).err == "there are no queues\n");
}

TEST_CASE("queues show their backfill and who is looked at next") {
  const std::string file = "questions_test_backfill.yaml";
  std::string cluster = kCluster;
  const std::string plain = "metadata: {name: a}";
  cluster.replace(cluster.find(plain), plain.size(),
                  "metadata: {name: a, annotations: {sluice.dev/backfill: EASY}}");
  const std::string waiting = "  spec: *large\n";
  cluster.replace(cluster.find(waiting), waiting.size(),
                  waiting +
                      "  status:\n    conditions:\n    - {type: Reserved, status: \"True\", "
                      "reason: Backfill, message: \"Its start is reserved for "
                      "2026-01-01T03:00:00Z\", lastTransitionTime: "
                      "\"2026-01-01T00:30:00Z\"}\n");
  std::ofstream(file) << cluster;
  const Outcome wide = Call({"queues", "--from", file, "-o", "wide"});
  CHECK(wide.err == "");
  CHECK(wide.out.find("BestEffortFIFO/EASY") != std::string::npos);
  CHECK(wide.out.find("team/waiting") != std::string::npos);
  const auto json = api::ParseJson(Call({"queues", "--from", file, "-o", "json"}).out);
  REQUIRE(json.ok());
  const api::Json& queue = json->Find("items")->AsArray()[0];
  CHECK(queue.GetString("strategy") == "BestEffortFIFO");
  CHECK(queue.GetString("backfill") == "EASY");
  CHECK(queue.GetString("next") == "team/waiting");
}

TEST_CASE("colours are for terminals only") {
  const std::string file = ClusterFile();
  CHECK(Call({"queues", "--from", file}).out.find('\x1b') == std::string::npos);
  const std::string coloured = Call({"queues", "--from", file}, true).out;
  CHECK(coloured.find("\x1b[32mTrue\x1b[0m     1") != std::string::npos);
  CHECK(coloured.find("\x1b[31mFalse\x1b[0m") != std::string::npos);
  CHECK(Call({"queues", "--from", file, "-o", "json"}, true).out.find('\x1b') == std::string::npos);
}

TEST_CASE("top says who uses what") {
  const Outcome top = Call({"top", "--from", ClusterFile()});
  CHECK(top.err == "");
  CHECK(top.out ==
        "CLUSTERQUEUE   COHORT   FLAVOR   RESOURCE   NOMINAL   USED   BORROWED   FREE   WAITING   "
        "SHARE\n"
        "a              org      f        cpu        4         6      2          2      6         "
        "0.250\n"
        "b              org      f        cpu        4         0      0          2      1         "
        "0.000\n");
}

TEST_CASE("top shows balances of credits where there are accounts") {
  const std::string path = "questions_test_credits.yaml";
  std::ofstream(path) << kCluster << R"(- apiVersion: sluice.dev/v1alpha1
  kind: CreditAccount
  metadata: {name: cq-a}
  status: {balance: "12.500000"}
)";
  const Outcome top = Call({"top", "--from", path});
  CHECK(top.err == "");
  CHECK(top.out.find("BALANCE\n") != std::string::npos);
  CHECK(top.out.find("0.250   12.500000\n") != std::string::npos);
}

TEST_CASE("watch prints as often as it is told to") {
  const Outcome watched =
      Call({"top", "--from", ClusterFile(), "--watch", "--interval", "0", "--rounds", "3"});
  size_t headers = 0;
  for (size_t at = 0; (at = watched.out.find("CLUSTERQUEUE", at)) != std::string::npos; ++at) {
    ++headers;
  }
  CHECK(headers == 3);
}

TEST_CASE("explain gives a word, a position, what would help, and the whole story") {
  const std::string file = ClusterFile();
  const Outcome job = Call({"explain", "job", "train", "-n", "team", "--from", file});
  CHECK(job.err == "");
  CHECK(job.out.find("Reason: QuotaExceeded\n") == 0);
  CHECK(job.out.find("Position: 0 in its ClusterQueue, 0 in its LocalQueue\n") !=
        std::string::npos);
  CHECK(job.out.find("Would help: 4 more cpu in flavor f of Cohort org, or so much back from "
                     "ClusterQueue a\n") != std::string::npos);
  CHECK(job.out.find("Workload team/waiting in ClusterQueue a") != std::string::npos);
  CHECK(Call({"explain", "waiting", "-n", "team", "--from", file}).out == job.out);
  CHECK(Call({"explain", "job/train", "-n", "team", "--from", file}).out == job.out);
  const auto json = api::ParseJson(
      Call({"explain", "workload", "waiting", "-n", "team", "--from", file, "-o", "json"}).out);
  REQUIRE(json.ok());
  CHECK(json->GetString("structuredReason") == "QuotaExceeded");
  CHECK(json->Find("positionInClusterQueue")->AsInt(-1) == 0);

  CHECK(Call({"explain", "stopped", "-n", "team", "--from", file})
            .out.find("Reason: QueueStopped\n") == 0);
  CHECK(Call({"explain", "running", "-n", "team", "--from", file}).out.find("Reason: Admitted\n") ==
        0);
  const Outcome none = Call({"explain", "nothing", "-n", "team", "--from", file});
  CHECK(none.code == 1);
  CHECK(none.err.find("Workload team/nothing does not exist in questions_test_cluster.yaml") == 0);
  CHECK(Call({"explain", "job", "nothing", "-n", "team", "--from", file}).err ==
        "Job team/nothing has no Workload\n");
  CHECK(Call({"explain", "pod", "x", "-n", "team", "--from", file}).err ==
        "Pod team/x has no Workload\n");
  CHECK(Call({"explain", "service", "x", "-n", "team", "--from", file}).err ==
        "service: only workloads, jobs, pods and podgroups can be asked about\n");
}

TEST_CASE("a dump is read back as it was") {
  const Outcome first = Call({"dump", "--from", ClusterFile()});
  CHECK(first.err == "");
  CHECK(IsDump(first.out));
  const std::string again = "questions_test_dump.yaml";
  std::ofstream(again) << first.out;
  CHECK(Call({"dump", "--from", again}).out == first.out);
  CHECK(Call({"top", "--from", again}).out == Call({"top", "--from", ClusterFile()}).out);
}

TEST_CASE("a dump that was read while things came is whole, and can be played") {
  const std::string file = "questions_test_torn.yaml";
  std::ofstream(file)
      << kCluster
      << R"(- {apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: late}, spec: {limits: []}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: late}, spec: {clusterQueue: new}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: new, namespace: team}, spec: {clusterQueue: new}}
)";
  const Outcome dump = Call({"dump", "--from", file});
  CHECK(dump.code == 0);
  CHECK(dump.err == "note: 2 objects of namespace late are left out: there is no such namespace\n");
  CHECK(dump.out.find("namespace: late") == std::string::npos);
  // Also what another version of the dump wrote.
  const Outcome played = Call({"simulate", file, "--default-runtime", "2h"});
  CHECK(played.err == "");
  CHECK(played.code == 0);
  CHECK(played.out.find("note: 2 objects of namespace late are left out") != std::string::npos);
}

TEST_CASE("what is named and not there is read again") {
  ClusterObjects objects = *ParseObjects("test", kCluster, absl::Now());
  CHECK(MissingKinds(objects).empty());  // Cohorts were not read
  const auto object = [](const std::string& json) { return *api::ParseJson(json); };
  objects.kinds[api::Kind::kLocalQueue].push_back(
      object(R"({"metadata":{"name":"q","namespace":"late"},"spec":{"clusterQueue":"new"}})"));
  objects.kinds[api::Kind::kCohort];
  CHECK(MissingKinds(objects) == std::vector<api::Kind>{api::Kind::kNamespace,
                                                        api::Kind::kClusterQueue,
                                                        api::Kind::kCohort});
  Absorb(api::Kind::kNamespace, {object(R"({"metadata":{"name":"late"}})")}, objects);
  Absorb(api::Kind::kClusterQueue,
         {object(R"({"metadata":{"name":"new"},"spec":{"resourceGroups":[{"flavors":[)"
                 R"({"name":"g"}]}]}})"),
          object(R"({"metadata":{"name":"a"},"spec":{"stopPolicy":"Hold"}})")},
         objects);
  CHECK(objects.kinds[api::Kind::kNamespace].size() == 2);  // the one before stays
  CHECK(objects.kinds[api::Kind::kClusterQueue].size() == 3);
  CHECK(objects.kinds[api::Kind::kClusterQueue][0].GetString("spec", "stopPolicy") == "Hold");
  CHECK(MissingKinds(objects) ==
        std::vector<api::Kind>{api::Kind::kCohort, api::Kind::kResourceFlavor});
  LeaveOutHomeless(objects);
  CHECK(objects.notes.empty());
}

TEST_CASE("what cannot be read is named") {
  const std::string broken = "questions_test_broken.yaml";
  std::ofstream(broken) << "a: [\n";
  const Outcome outcome = Call({"queues", "--from", broken});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find(broken) == 0);
  CHECK(Call({"queues", "--from", "no-such-file"}).err == "no-such-file: cannot be read\n");
  std::ofstream(broken) << "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: "
                           "{name: x}, spec: {resourceGroups: 5}}\n";
  const Outcome rejected = Call({"queues", "--from", broken});
  CHECK(rejected.err.find("note: ClusterQueue x cannot be read and is left out") == 0);
  CHECK(Call({"queues", "--output", "xml"}).code == 2);
  CHECK(Call({"queues", "--kubeconfig", "no-such-file"}).err.find("no-such-file") !=
        std::string::npos);
}

TEST_CASE("completion") {
  CHECK(Call({"completion", "bash"}).out.find("complete -o default -F _kubectl_sluice") !=
        std::string::npos);
  CHECK(Call({"completion", "zsh"}).out.find("#compdef kubectl-sluice") == 0);
  CHECK(Call({"completion", "fish"}).out.find("complete -c kubectl-sluice") != std::string::npos);
  CHECK(Call({"completion", "csh"}).code == 2);
  CHECK(Call({"__complete", "qu"}).out == "queues\n");
  CHECK(Call({"__complete", "queues", "--wa"}).out == "--watch\n");
  CHECK(Call({"__complete", "top", "-o", "j"}).out == "json\n");
  CHECK(Call({"__complete", "nothing", "x"}).out == "");
}

TEST_CASE("simulate goes on from a dump, and answers what if") {
  const std::string file = ClusterFile();
  const Outcome live = Call({"simulate", file, "--default-runtime", "2h"});
  CHECK(live.err == "");
  CHECK(live.code == 0);
  // The running one has 1h10m left, then the other one runs for two hours; the third is stopped.
  CHECK(live.out.find("3h10m0s from 2026-01-01T01:00:00Z: 2 finished") != std::string::npos);
  CHECK(live.out.find("note: nothing else arrives, and workloads end: 3 by the default runtime") !=
        std::string::npos);
  const std::string page = "questions_test_compare.html";
  const Outcome compared = Call({"simulate", file, "--default-runtime", "2h", "--set-quota",
                                 "a/f/cpu=12", "--compare", "--html", page});
  CHECK(compared.err == "");
  CHECK(compared.out.find("METRIC") != std::string::npos);
  CHECK(compared.out.find("wait, mean") != std::string::npos);
  CHECK(compared.out.find("-100.0%") != std::string::npos);
  std::stringstream text;
  text << std::ifstream(page).rdbuf();
  CHECK(text.str().find("<td>wait, mean</td>") != std::string::npos);

  CHECK(Call({"simulate", file, "--add-nodes", "3"}).err ==
        "--add-nodes: \"3\" is not NODE=COUNT\n");
  CHECK(Call({"simulate", file, "--add-nodes", "n1=0"}).err.find("--add-nodes: \"n1=0\" is not") ==
        0);
  CHECK(Call({"simulate", file, "--add-nodes", "n1=2"}).err ==
        "--add-nodes: there is no node n1\n");
  CHECK(Call({"simulate", file, "--drain", "n1"}).err == "--drain: there is no node n1\n");
  CHECK(Call({"simulate", file, "--set-quota", "a/f/gpu=1"}).err ==
        "--set-quota: ClusterQueue a has no quota for gpu in flavor f\n");
  CHECK(Call({"simulate", file, "--set-quota", "a=1"}).code == 2);
  CHECK(Call({"simulate", file, "--set-quota", "a/f/cpu=many"}).code == 2);
  CHECK(Call({"simulate", file, "--remove-policy", "credits"}).err.find("--remove-policy: ") == 0);
  CHECK(Call({"simulate", file, "--compare"}).err.find("--compare: nothing is changed") == 0);
  const Outcome borrowing = Call(
      {"simulate", file, "--default-runtime", "2h", "--remove-policy", "borrowing:a", "--compare"});
  CHECK(borrowing.err == "");
  // What runs goes on; what waits may not borrow.
  CHECK(borrowing.out.find("finished             2         1") != std::string::npos);
}

// Two hosts of one rack, each for two pods; what waits needs three.
std::string RackFile() {
  std::string text = R"(apiVersion: v1
kind: List
metadata: {annotations: {sluice.dev/taken-at: "2026-01-01T01:00:00Z"}}
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: t}, spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}, spec: {nodeLabels: {pool: gpu}, topologyName: t}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: a}
  spec:
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 100}]}]
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: a}}
- {apiVersion: v1, kind: Node, metadata: {name: other, labels: {kubernetes.io/hostname: other}}, status: {allocatable: {cpu: 8, pods: 10}, conditions: [{type: Ready, status: "True"}]}}
)";
  for (const char* node : {"n1", "n2"}) {
    text += std::string("- {apiVersion: v1, kind: Node, metadata: {name: ") + node +
            ", labels: {pool: gpu, rack: r, kubernetes.io/hostname: " + node +
            "}}, status: {allocatable: {cpu: 2, pods: 10}, conditions: [{type: Ready, status: "
            "\"True\"}]}}\n";
  }
  for (const char* name : {"first", "second"}) {
    text +=
        std::string("- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: Workload\n  metadata: {name: ") +
        name + ", namespace: team, uid: " + name +
        ", creationTimestamp: \"2026-01-01T00:20:00Z\"}\n"
        "  spec:\n    queueName: q\n    podSets:\n    - name: main\n      count: 3\n"
        "      topologyRequest: {required: rack}\n"
        "      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, "
        "resources: {requests: {cpu: 1}}}]}}\n";
  }
  const std::string path = "questions_test_rack.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST_CASE("nodes that come and go count where a flavor has a topology") {
  const std::string file = RackFile();
  const auto first_line = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"simulate", file, "--default-runtime", "1h"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Call(arguments);
    CHECK(outcome.err == "");
    return outcome.out;
  };
  // Four places: one after the other. With another node: both at once.
  CHECK(first_line({}).find("2h0m0s from 2026-01-01T01:00:00Z: 2 finished") != std::string::npos);
  CHECK(first_line({"--add-nodes", "n1=1"}).find("1h0m0s from 2026-01-01T01:00:00Z: 2 finished") !=
        std::string::npos);
  // With one node less neither ever starts.
  CHECK(first_line({"--drain", "n2"}).find("2 waiting") != std::string::npos);
  CHECK(first_line({"--drain", "rack=r", "--add-nodes", "n1=2"}).find("2h0m0s from") !=
        std::string::npos);
  const Outcome compared =
      Call({"simulate", file, "--default-runtime", "1h", "--drain", "n2", "--compare"});
  CHECK(compared.err == "");
  CHECK(compared.out.find("waiting at the end   0        2") != std::string::npos);
  CHECK(Call({"simulate", file, "--drain", "other"})
            .err.find("--drain: node other belongs to no ResourceFlavor with a topology") == 0);
  // Four are free, two at most on one host.
  CHECK(Call({"top", "--from", file}).out.find("kubernetes.io/hostname 50%") != std::string::npos);
  // A pod of somebody else takes room.
  const std::string taken = "questions_test_taken.yaml";
  std::stringstream rack;
  rack << std::ifstream(file).rdbuf();
  std::ofstream(taken)
      << rack.str()
      << "- {apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: team}, spec: {nodeName: "
         "n1, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}, status: {phase: "
         "Running}}\n";
  CHECK(Call({"explain", "first", "-n", "team", "--from", taken})
            .out.find("Reason: InsufficientCapacity\n") == 0);
  CHECK(Call({"simulate", taken, "--default-runtime", "1h"}).out.find("2 waiting") !=
        std::string::npos);
  const Outcome fits = Call({"explain", "first", "-n", "team", "--from", file});
  CHECK(fits.out.find("Reason: WouldFit\n") == 0);
}

TEST_CASE("two clusters under one trace") {
  const Outcome compared = Call({"simulate", SLUICE_SOURCE_DIR "/examples/simulate",
                                 "--remove-policy", "preemption", "--compare"});
  CHECK(compared.err == "");
  CHECK(compared.out.find("preemptions") != std::string::npos);
  const Outcome same = Call({"simulate", SLUICE_SOURCE_DIR "/examples/simulate", "--against",
                             SLUICE_SOURCE_DIR "/examples/simulate/cluster.yaml"});
  CHECK(same.err == "");
  CHECK(same.out.find('%') != std::string::npos);
  CHECK(same.out.find("+") == std::string::npos);
}

std::string JobFile(const std::string& cpu, const std::string& more = "") {
  const std::string path = "questions_test_job.yaml";
  std::ofstream(path) << "apiVersion: batch/v1\nkind: Job\nmetadata: {name: new, namespace: team, "
                         "labels: {kueue.x-k8s.io/queue-name: q}}\nspec:\n  parallelism: 1\n  "
                         "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, "
                         "resources: {requests: {cpu: "
                      << cpu << "}}}]}}\n"
                      << more;
  return path;
}

TEST_CASE("check says what would happen to a job") {
  const std::string file = ClusterFile();
  const Outcome waits = Call({"check", "-f", JobFile("3"), "--from", file});
  CHECK(waits.err == "");
  CHECK(waits.code == 1);
  CHECK(
      waits.out.find("It would wait in ClusterQueue a.\nReason: QuotaExceeded\nWould help: 1 more "
                     "cpu in flavor f of Cohort org, or so much back from ClusterQueue a\n") == 0);
  // Behind the one that waits, which starts when the one that runs has ended.
  CHECK(Call({"check", "-f", JobFile("3"), "--from", file, "--default-runtime", "2h"})
            .out.find("\nForecast: it starts at 2026-01-01T04:10:00Z, if nothing else arrives") !=
        std::string::npos);
  CHECK(waits.out.find("\nForecast: it never starts, if nothing else arrives") !=
        std::string::npos);
  CHECK(Call({"check", "-f", JobFile("3"), "--from", file, "--default-runtime", "soon"}).code == 2);
  const Outcome fits = Call({"check", "-f", JobFile("2"), "--from", file, "-o", "json"});
  CHECK(fits.err == "");
  const auto json = api::ParseJson(fits.out);
  REQUIRE(json.ok());
  // The one that waits finds no room, and a BestEffortFIFO queue goes on with the next.
  CHECK(json->Find("admitted")->AsBool());
  CHECK(json->Find("ahead")->AsInt() == 0);
  CHECK(fits.code == 0);
  CHECK(json->GetString("clusterQueue") == "a");
  CHECK(Call({"check", "-f", JobFile("2"), "--from", file, "--cluster-queue", "b"})
            .err.find("LocalQueue team/q points to ClusterQueue a, not b") != std::string::npos);
  CHECK(Call({"check", "-f", JobFile("2"), "--from", file, "--cluster-queue", "none"})
            .err.find("ClusterQueue none does not exist") != std::string::npos);
  CHECK(Call({"check", "--from", file}).code == 2);
}

TEST_CASE("check answers every document, and names file, line and field of bad ones") {
  const std::string file = ClusterFile();
  const Outcome mixed =
      Call({"check", "-f", JobFile("1", "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}}\n"),
            "--from", file});
  CHECK(mixed.code == 2);
  CHECK(mixed.out.find("ClusterQueue a") != std::string::npos);  // the Job is answered all the same
  CHECK(mixed.err.find("questions_test_job.yaml:") == 0);
  CHECK(mixed.err.find(": v1 Pod: only Jobs of batch/v1 and Workloads can be asked about") !=
        std::string::npos);
  const std::string job =
      "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: two, namespace: "
      "team, labels: {kueue.x-k8s.io/queue-name: q}}\nspec:\n  template:\n"
      "    spec: {restartPolicy: Never, containers: [{name: c, image: i, "
      "resources: {requests: {cpu: 1}}}]}\n";
  const Outcome both = Call({"check", "-f", JobFile("1", job), "--from", file});
  CHECK(both.err == "");
  CHECK(both.out.find("# Job new\n") == 0);
  CHECK(both.out.find("# Job two\n") != std::string::npos);
  const auto json =
      api::ParseJson(Call({"check", "-f", JobFile("1", job), "--from", file, "-o", "json"}).out);
  REQUIRE(json.ok());
  CHECK(json->Find("items")->AsArray().size() == 2);
  const Outcome quantity = Call({"check", "-f", JobFile("lots"), "--from", file});
  CHECK(quantity.code == 2);
  CHECK(quantity.err ==
        "questions_test_job.yaml:6: admission webhook of Job denied the request: "
        "spec.template.spec.containers[0].resources.requests[cpu]: \"lots\" is not a quantity: it "
        "has no digits\n");
  const std::string path = "questions_test_bad_job.yaml";
  std::ofstream(path) << "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  namespace: "
                         "team\n  labels:\n    kueue.x-k8s.io/queue-name: NO_NAME\nspec:\n  "
                         "parallelism: 1\n";
  CHECK(Call({"check", "-f", path, "--from", file})
            .err.find("questions_test_bad_job.yaml:8: Job \"j\" is invalid: "
                      "spec.template.spec.containers: Required value") == 0);
}

TEST_CASE("forecast says when, and on what it rests") {
  const std::string file = ClusterFile();
  const Outcome known =
      Call({"forecast", "job", "train", "-n", "team", "--from", file, "--default-runtime", "2h"});
  CHECK(known.err == "");
  CHECK(known.code == 0);
  CHECK(known.out.find("team        waiting   a              2026-01-01T02:10:00Z   1h10m0s\n") !=
        std::string::npos);
  CHECK(known.out.find("Assumption: nothing else arrives, no preempted work is lost, and workloads "
                       "end: 3 by the default runtime.\n") != std::string::npos);
  const Outcome unknown = Call({"forecast", "--from", file});
  CHECK(unknown.out.find("never") != std::string::npos);
  CHECK(unknown.out.find("3 never (nothing tells how long they run)") != std::string::npos);
  CHECK(Call({"forecast", "running", "-n", "team", "--from", file}).err ==
        "Workload team/running does not wait in a queue: see `explain`\n");
  CHECK(Call({"forecast", "--from", file, "--default-runtime", "soon"}).code == 1);
}

TEST_CASE("the error of forecasts is measured on a replayed trace") {
  const std::string file = "questions_test_measure.yaml";
  std::ofstream(file) << R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: default}
spec: {clusterQueue: cq}
)";
  const std::string trace = "questions_test_measure.csv";
  // One after the other, so with known run times every forecast is right.
  std::ofstream(trace) << "submit,run,queue,name,cpu\n0,100s,default/q,a,1\n10,50s,default/q,b,1\n"
                          "20,30s,default/q,c,1\n500,10s,default/q,d,1\n";
  const Outcome exact = Call({"forecast", "--measure", file, "--trace", trace, "-o", "json"});
  CHECK(exact.err == "");
  const auto json = api::ParseJson(exact.out);
  REQUIRE(json.ok());
  CHECK(json->Find("forecasts")->AsInt() == 4);
  CHECK(json->GetString("assumption") == "nothing else arrives; run times are known");
  CHECK(json->Find("atOnce")->AsInt() == 2);
  CHECK(json->Find("meanErrorSeconds")->AsDouble() < 1e-3);
  CHECK(json->Find("realWaitSeconds")->AsDouble() == Approx((90 + 130) / 4.0));
  // A later arrival of higher priority is what no forecast knows.
  std::ofstream(trace) << "submit,run,queue,name,cpu,priority\n0,100s,default/q,a,1,0\n"
                          "10,50s,default/q,b,1,0\n20,40s,default/q,c,1,9\n";
  const auto late =
      api::ParseJson(Call({"forecast", "--measure", file, "--trace", trace, "-o", "json"}).out);
  REQUIRE(late.ok());
  CHECK(late->Find("meanErrorSeconds")->AsDouble() == Approx(40 / 3.0).epsilon(0.001));
  CHECK(late->Find("biasSeconds")->AsDouble() == Approx(-40 / 3.0).epsilon(0.001));
  const Outcome table =
      Call({"forecast", "--measure", SLUICE_SOURCE_DIR "/examples/simulate", "--mean-runtime"});
  CHECK(table.err == "");
  CHECK(table.out.find("MEAN-ERROR") != std::string::npos);
  CHECK(table.out.find("run times are the mean of what finished before") != std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
