#include "cli/cli.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "unit/catch.h"
#include "unit/cli/call.h"

namespace sluice::cli {
namespace {

TEST_CASE("simulate plays a scenario that ships with the project") {
  const Outcome outcome =
      Call({"simulate", SLUICE_SOURCE_DIR "/unit/scenarios/queue/wait_message.scn"});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("waits WaitingForQuota") != std::string::npos);
}

TEST_CASE("simulate explains what waits at the end") {
  const std::string json = "cli_test_explain.json";
  const Outcome outcome =
      Call({"simulate", SLUICE_SOURCE_DIR "/unit/scenarios/queue/wait_message.scn", "--explain",
            "--explain-json", json.c_str()});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find(": its nominalQuota is ") != std::string::npos);
  std::stringstream text;
  text << std::ifstream(json).rdbuf();
  CHECK(text.str().find("\"limit\": \"NominalQuota\"") != std::string::npos);

  const std::string manifests = "cli_test_explain.yaml";
  std::ofstream(manifests) << R"(apiVersion: v1
kind: Namespace
metadata: {name: ns}
---
apiVersion: kueue.x-k8s.io/v1beta2
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
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: ns}
spec: {clusterQueue: cq}
)";
  const std::string trace = "cli_test_explain.csv";
  std::ofstream(trace) << "submit,run,queue,name,cpu\n0,10s,ns/q,large,5\n";
  const Outcome traced =
      Call({"simulate", manifests.c_str(), "--trace", trace.c_str(), "--explain"});
  CHECK(traced.err == "");
  CHECK(traced.out.find("Workload ns/large in ClusterQueue cq: ExceedsMaxQuota") !=
        std::string::npos);
  CHECK(traced.out.find("ClusterQueue cq is 1 short: its nominalQuota is 4\n") !=
        std::string::npos);
  CHECK(Call({"simulate", "a.scn", "b.scn", "--explain-json", "x.json"}).err ==
        "--explain-json is for one input, not 2\n");
}

TEST_CASE("simulate says what differs") {
  const std::string path = "cli_test_wrong.scn";
  std::ofstream(path)
      << "cluster:\n  flavor default\ntimeline:\n  at 1s show flavor\n----\nwrong\n";
  const Outcome outcome = Call({"simulate", path.c_str()});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("- wrong") != std::string::npos);
}

TEST_CASE("simulate plays a directory of manifests with a trace") {
  const Outcome outcome = Call({"simulate", SLUICE_SOURCE_DIR "/examples/simulate", "--timeline"});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("5400 preempt vision/train-b: for speech/decode (InCohortReclamation)") !=
        std::string::npos);
  CHECK(outcome.out.find("10 workloads, 7h30m0s from 2026-01-01T00:00:00Z: 10 finished") !=
        std::string::npos);
}

std::string ReadText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("simulate writes CSV files and a page, the same each time") {
  const std::filesystem::path directory = "cli_test_simulate";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  std::vector<std::string> pages;
  for (const char* name : {"one", "two"}) {
    const std::string csv = (directory / name).string();
    const std::string html = csv + ".html";
    const Outcome outcome = Call({"simulate", SLUICE_SOURCE_DIR "/examples/simulate", "--timeline",
                                  "--csv", csv.c_str(), "--html", html.c_str()});
    REQUIRE(outcome.err == "");
    pages.push_back(ReadText(html));
    CHECK(pages.back().find("<svg") != std::string::npos);
    for (const char* file :
         {"workloads", "cluster_queues", "local_queues", "utilization", "load", "events"}) {
      const std::string text = ReadText(csv + "/" + file + ".csv");
      CHECK(std::count(text.begin(), text.end(), '\n') > 2);
      CHECK(text == ReadText((directory / "one").string() + "/" + file + ".csv"));
    }
  }
  CHECK(pages[0] == pages[1]);
  const std::string file = (directory / "only.csv").string();
  CHECK(Call({"simulate", SLUICE_SOURCE_DIR "/examples/simulate", "--csv", file.c_str()}).code ==
        0);
  CHECK(ReadText(file) == ReadText((directory / "one" / "workloads.csv").string()));
}

TEST_CASE("simulate reads a log in the Standard Workload Format") {
  const std::string path = "cli_test_log.swf";
  std::ofstream(path) << "; UnixStartTime: 0\n"
                         "1 0 -1 60 8 -1 -1 -1 -1 -1 1 3 1 -1 1 -1 -1 -1\n"
                         "2 5 -1 60 4 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1\n";
  const char* cluster = SLUICE_SOURCE_DIR "/examples/simulate/cluster.yaml";
  const Outcome outcome = Call({"simulate", cluster, "--trace", path.c_str(), "--queue-by", "user",
                                "--map", "3=vision/main", "--map", "*=speech/main", "--resource",
                                "nvidia.com/gpu", "--timeline"});
  CHECK(outcome.err == "");
  CHECK(outcome.out.find("0 admit   vision/1 a100 nvidia.com/gpu=8") != std::string::npos);
  CHECK(outcome.out.find("5 admit   speech/2 a100 nvidia.com/gpu=4") != std::string::npos);
  CHECK(outcome.out.find("from 1970-01-01T00:00:00Z: 2 finished") != std::string::npos);
  CHECK(Call({"simulate", cluster, "--trace", path.c_str()}).err ==
        "cli_test_log.swf:2: field 15 (queue): 1 is mapped to no LocalQueue\n");
}

TEST_CASE("simulate leaves out broken lines of a trace and counts them, or refuses them") {
  const std::string csv = "cli_test_broken.csv";
  std::ofstream(csv) << "name,submit,run,queue,cpu\na,0,10,vision/main,1\nb,soon,10,vision/main,1\n"
                        "c,0,10,vision/main\na,5,10,vision/main,1\nd,1,10,nobody/none,1\n";
  const std::string cluster = SLUICE_SOURCE_DIR "/examples/simulate/cluster.yaml";
  const Outcome lenient = Call({"simulate", cluster, "--trace", csv});
  CHECK(lenient.err == "");
  CHECK(lenient.code == 0);
  CHECK(lenient.out.find("1 workloads, ") != std::string::npos);
  for (const char* note :
       {"4 broken lines were left out", "left out: cli_test_broken.csv:3: submit: \"soon\" is",
        "left out: cli_test_broken.csv:4: 4 values for 5 columns",
        "left out: cli_test_broken.csv:5: name: \"a\" is the name of the workload at "
        "cli_test_broken.csv:2 already",
        "left out: cli_test_broken.csv:6: queue: LocalQueue nobody/none does not exist"}) {
    CAPTURE(lenient.out);
    CHECK(lenient.out.find(note) != std::string::npos);
  }
  const Outcome compared =
      Call({"simulate", cluster, "--trace", csv, "--remove-policy", "preemption", "--compare"});
  CHECK(compared.err == "");
  CHECK(compared.out.find("note: 4 broken lines were left out\n") != std::string::npos);
  const Outcome strict = Call({"simulate", cluster, "--trace", csv, "--strict"});
  CHECK(strict.code == 2);
  CHECK(strict.out == "");
  CHECK(strict.err ==
        "cli_test_broken.csv:3: submit: \"soon\" is neither a number of seconds nor a duration\n");
  // Where nothing is left the first mistake is told; a header is never guessed.
  std::ofstream(csv) << "submit,run,queue\n0,1,q\n";
  CHECK(Call({"simulate", cluster, "--trace", csv}).err ==
        "cli_test_broken.csv:2: queue: \"q\" has no namespace (write NAMESPACE/NAME)\n");
  std::ofstream(csv) << "submit,run,queue,colour\n0,1,vision/main,red\n";
  CHECK(Call({"simulate", cluster, "--trace", csv}).code == 2);
}

TEST_CASE("simulate plays what a log may have in it") {
  const std::string csv = "cli_test_odd.csv";
  const std::string cluster = SLUICE_SOURCE_DIR "/examples/simulate/cluster.yaml";
  const std::string header = "name,submit,run,queue,nvidia.com/gpu\n";
  // Not in the order of arrival, one that takes no time, and one that is larger than everything.
  std::ofstream(csv) << header
                     << "late,100,10,vision/main,1\nearly,50,10,vision/main,1\n"
                        "nothing,60,0,vision/main,1\nhuge,10,10,vision/main,100000\n";
  const Outcome odd = Call({"simulate", cluster, "--trace", csv, "--timeline"});
  CHECK(odd.err == "");
  CHECK(odd.code == 0);
  CHECK(odd.out.find("3 finished") != std::string::npos);
  const size_t early = odd.out.find("50 admit   vision/early");
  CHECK(early < odd.out.find("100 admit   vision/late"));
  CHECK(odd.out.find("60 admit   vision/nothing") < odd.out.find("60 finish  vision/nothing"));
  CHECK(odd.out.find("vision/huge") != std::string::npos);
  CHECK(odd.out.find("1 waiting") != std::string::npos);
  // Files without a workload.
  std::ofstream(csv) << "";
  CHECK(Call({"simulate", cluster, "--trace", csv}).err ==
        "cli_test_odd.csv:1: there is no header line\n");
  std::ofstream(csv) << header;
  CHECK(Call({"simulate", cluster, "--trace", csv}).err ==
        cluster + ": there are no workloads: neither Jobs nor lines of a trace\n");
  const std::string more = "cli_test_odd.jsonl";
  std::ofstream(more) << "";
  std::ofstream(csv) << header << "a,0,10,vision/main,1\n";
  CHECK(Call({"simulate", cluster, "--trace", csv, "--trace", more})
            .out.find("note: cli_test_odd.jsonl: there are no workloads in it\n") !=
        std::string::npos);
  CHECK(Call({"simulate", cluster}).err ==
        cluster + ": there are no workloads: neither Jobs nor a trace\n");
}

TEST_CASE("wrong options of simulate are told by their names") {
  const char* example = SLUICE_SOURCE_DIR "/examples/simulate";
  const auto error = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"simulate", example});
    const Outcome outcome = Call(options);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(error({"--restart", "never"}) ==
        "--restart: \"never\" is neither scratch, resume nor an interval\n");
  CHECK(error({"--stop-time", "-1s"}) == "--stop-time: \"-1s\" is negative\n");
  CHECK(error({"--until", "x"}).starts_with("--until: \"x\" is neither"));
  CHECK(error({"--queue-by", "color"}).starts_with("--queue-by: \"color\" is none of"));
  CHECK(error({"--map", "1=vision"}) == "--map: \"vision\" is not NAMESPACE/LOCALQUEUE\n");
  CHECK(error({"--map", "x=a/b"}) == "--map: \"x\" is neither a number nor *\n");
  CHECK(error({"--priority", "1=x"}) == "--priority: \"1=x\" is not NUMBER=PRIORITY\n");
  CHECK(error({"--per-processor", "0"}) == "--per-processor: \"0\" is not positive\n");
  CHECK(error({"--spread", "--map", "*=vision/main"}).starts_with("--spread: "));
  CHECK(error({"--trace", "gone.csv"}) == "gone.csv: cannot be read\n");
  CHECK(error({"--trace", SLUICE_SOURCE_DIR "/README.md"}).find("give --trace-format") !=
        std::string::npos);
  CHECK(error({"--html", "no-such-directory/x.html"}) ==
        "no-such-directory/x.html: cannot be written\n");
  CHECK(Call({"simulate", "x.scn", "--html", "x.html"}).err.find("not for scenario files") !=
        std::string::npos);
  CHECK(Call({"simulate", example, example, "--html", "x.html"}).err.find("for one directory") !=
        std::string::npos);
  CHECK(Call({"simulate", "x.scn", "--trace", "x.csv"}).err.find("not for scenario files") !=
        std::string::npos);
}

TEST_CASE("mistakes end with code 2 and a word about the mistake") {
  CHECK(Call({"simulate", "no-such-file.scn"}).err.find("cannot be read") != std::string::npos);
  CHECK(Call({"simulate", "no-such-file.scn"}).code == 2);
  CHECK(Call({"nonsense"}).code == 2);
  CHECK(Call({}).code == 2);
}

TEST_CASE("version and help are answers, not mistakes") {
  CHECK(Call({"--version"}).code == 0);
  CHECK(Call({"--help"}).out.find("simulate") != std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
