// Each question is answered as a table or text, with more in it, as data, once or again and again,
// and in colours on terminals only.
#include <fstream>
#include <string>
#include <vector>

#include "api/json.h"
#include "unit/catch.h"
#include "unit/cli/call.h"
#include "unit/cli/dump.h"

namespace sluice::cli {
namespace {

constexpr char kPodSets[] =
    "[{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "
    "i, resources: {requests: {cpu: 3}}}]}}}]";

std::string ClusterFile() {
  const std::string file = "output_test_cluster.yaml";
  std::ofstream(file) << DumpHead()
                      << R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: a}
  spec:
    cohortName: org
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4, borrowingLimit: 1}]}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: idle}
  spec:
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: a}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: empty, namespace: team}, spec: {clusterQueue: idle}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata: {name: runs, namespace: team, uid: u1, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {queueName: q, podSets: )"
                      << kPodSets << R"(}
  status:
    conditions:
    - {type: QuotaReserved, status: "True", reason: QuotaReserved, message: "", lastTransitionTime: "2026-01-01T00:10:00Z"}
    - {type: Admitted, status: "True", reason: Admitted, message: "", lastTransitionTime: "2026-01-01T00:10:00Z"}
    admission:
      clusterQueue: a
      podSetAssignments: [{name: main, count: 1, flavors: {cpu: f}, resourceUsage: {cpu: 3}}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata:
    name: waits
    namespace: team
    uid: u2
    creationTimestamp: "2026-01-01T00:20:00Z"
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j1, controller: true}]
  spec: {queueName: q, priority: 7, podSets: )"
                      << kPodSets << "}\n";
  return file;
}

std::string JobFile(const std::string& queue) {
  const std::string file = "output_test_" + queue + "_job.yaml";
  std::ofstream(file) << "{apiVersion: batch/v1, kind: Job, metadata: {name: new, namespace: team, "
                         "labels: {kueue.x-k8s.io/queue-name: "
                      << queue
                      << "}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: "
                         "c, image: i, resources: {requests: {cpu: 3}}}]}}}}\n";
  return file;
}

struct Question {
  std::vector<std::string> words;
  std::string wide;  // what -o wide has and the other does not
  std::string key;   // of the data
  int code = 0;
};

std::vector<Question> Questions() {
  return {{{"queues"}, "USAGE", "items"},
          {{"queues", "--local"}, "STOPPOLICY   WEIGHT", "items"},
          {{"top"}, "BORROWINGLIMIT   LENDINGLIMIT", "items"},
          {{"explain", "job", "train", "-n", "team"},
           "Queue: LocalQueue team/q, ClusterQueue a\nPriority: 7\nOwner: Job train\n"
           "Waits since: 2026-01-01T00:20:00Z (40m0s)\n",
           "structuredReason"},
          {{"forecast", "-n", "team"}, "LOCALQUEUE   PRIORITY   QUEUED", "assumption"},
          {{"check", "-f", JobFile("q")}, "", "structuredReason", 1}};
}

Outcome Ask(const Question& question, std::vector<std::string> more, bool terminal = false) {
  std::vector<std::string> words = question.words;
  words.insert(words.end(), {"--from", ClusterFile()});
  words.insert(words.end(), more.begin(), more.end());
  CAPTURE(words);
  const Outcome outcome = Call(words, terminal);
  CHECK(outcome.err == "");
  CHECK(outcome.code == question.code);
  return outcome;
}

bool Coloured(const std::string& text) { return text.find('\x1b') != std::string::npos; }

TEST_CASE("every question has wide, json and yaml") {
  for (const Question& question : Questions()) {
    const std::string plain = Ask(question, {}).out;
    const std::string wide = Ask(question, {"-o", "wide"}).out;
    CAPTURE(plain, wide);
    if (!question.wide.empty()) {
      CHECK(plain.find(question.wide) == std::string::npos);
      CHECK(wide.find(question.wide) != std::string::npos);
    }
    const auto json = api::ParseJson(Ask(question, {"-o", "json"}).out);
    REQUIRE(json.ok());
    CHECK(json->Has(question.key));
    const std::string yaml = Ask(question, {"-o", "yaml"}).out;
    CHECK(("\n" + yaml).find("\n" + question.key + ":") != std::string::npos);
  }
  // What a check says of one that enters: the whole story where it is asked for.
  const Question enters{{"check", "-f", JobFile("empty")}, "", ""};
  const std::string plain = Ask(enters, {}).out;
  const std::string wide = Ask(enters, {"-o", "wide"}).out;
  CHECK(wide.find(plain) == 0);
  CHECK(wide.find("Workload team/job-new") != std::string::npos);
}

TEST_CASE("every question is asked again and again with --watch") {
  for (const Question& question : Questions()) {
    const std::string once = Ask(question, {}).out;
    CHECK(Ask(question, {"--watch", "--interval", "0", "--rounds", "2"}).out == once + once);
    // A terminal shows the last answer only.
    const std::string screen =
        Ask(question, {"--watch", "--interval", "0", "--rounds", "2"}, true).out;
    const std::string clear = "\x1b[H\x1b[2J";
    CHECK(screen.find(clear) == 0);
    CHECK(screen.find(clear, 1) != std::string::npos);
  }
  CHECK(Call({"forecast", "--measure", "x", "--watch"}).code == 2);
}

TEST_CASE("every question has colours on terminals only, and never in data") {
  for (const Question& question : Questions()) {
    CHECK_FALSE(Coloured(Ask(question, {}).out));
    CHECK_FALSE(Coloured(Ask(question, {"-o", "json"}, true).out));
    CHECK_FALSE(Coloured(Ask(question, {"-o", "yaml"}, true).out));
    if (question.words[0] == "top") continue;  // nobody borrows here
    CHECK(Coloured(Ask(question, {}, true).out));
  }
}

TEST_CASE("kubectl is told what completes a word") {
  const char* link = "/usr/local/bin/kubectl_complete-sluice";
  CHECK(Call({"qu"}, false, link).out == "queues\n:4\n");
  CHECK(Call({"top", "-o", "j"}, false, link).out == "json\n:4\n");
  CHECK(Call({"nothing", ""}, false, link).out == ":4\n");
}

TEST_CASE("every question is completed") {
  const std::string commands = Call({"__complete", ""}).out;
  for (const char* command :
       {"check", "dump", "explain", "forecast", "queues", "simulate", "top"}) {
    CHECK(("\n" + commands).find(std::string("\n") + command + "\n") != std::string::npos);
    if (std::string(command) == "dump" || std::string(command) == "simulate") continue;
    CHECK(Call({"__complete", command, "--wa"}).out == "--watch\n");
    CHECK(Call({"__complete", command, "-o", ""}).out == "json\nwide\nyaml\n");
  }
}

}  // namespace
}  // namespace sluice::cli
