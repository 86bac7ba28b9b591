// Every option does something, or is refused with the name of what it does not go with.
#include <fstream>
#include <string>
#include <vector>

#include "unit/catch.h"
#include "unit/cli/call.h"

namespace sluice::cli {
namespace {

constexpr char kExample[] = SLUICE_SOURCE_DIR "/examples/simulate";
constexpr char kManifests[] = SLUICE_SOURCE_DIR "/examples/simulate/cluster.yaml";

struct Row {
  std::vector<std::string> words;
  std::vector<std::string> named;  // what the error names
};

void Refused(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Outcome outcome = Call(row.words);
    CAPTURE(row.words, outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out == "");
    for (const std::string& name : row.named) {
      CHECK(outcome.err.find(name) != std::string::npos);
    }
  }
}

TEST_CASE("options that would be ignored are refused") {
  const std::string from = kManifests;
  Refused({
      {{"forecast", "--from", from, "--trace", "t.csv"}, {"--trace", "--measure"}},
      {{"forecast", "--from", from, "--samples", "3"}, {"--samples", "--measure"}},
      {{"forecast", "--from", from, "--mean-runtime"}, {"--mean-runtime", "--measure"}},
      {{"forecast", "train", "--measure", from}, {"NAME", "--measure"}},
      {{"forecast", "--measure", from, "-n", "team"}, {"--namespace", "--measure"}},
      {{"forecast", "--measure", from, "--from", from}, {"--from", "--measure"}},
      {{"forecast", "--measure", from, "--default-runtime", "1h"},
       {"--default-runtime", "--measure"}},
      {{"forecast", "--measure", from, "--kubeconfig", "k"}, {"--kubeconfig", "--measure"}},
      {{"forecast", "--measure", from, "--context", "c"}, {"--context", "--measure"}},
      {{"forecast", "--measure", from, "--watch"}, {"--watch", "--measure"}},
      {{"forecast", "--measure", from, "--interval", "1"}, {"--interval", "--watch"}},
      {{"forecast", "--measure", from, "--rounds", "1"}, {"--rounds", "--watch"}},
      {{"top", "--from", from, "-n", "team"}, {"-n"}},
      {{"dump", "--from", from, "-n", "team"}, {"-n"}},
      {{"queues", "--from", from, "-n", "team"}, {"--namespace", "--local"}},
  });
  for (const char* command : {"queues", "top", "explain", "check", "forecast", "dump"}) {
    std::vector<std::string> words = {command, "--from", from};
    if (words[0] == "explain") words.emplace_back("train");
    if (words[0] == "check") words.insert(words.end(), {"-f", from});
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      return more;
    };
    Refused({{with({"--kubeconfig", "k"}), {"--kubeconfig", "--from"}},
             {with({"--context", "c"}), {"--context", "--from"}}});
    if (words[0] == "dump") continue;
    Refused({{with({"--interval", "1"}), {"--interval", "--watch"}},
             {with({"--rounds", "1"}), {"--rounds", "--watch"}}});
  }
}

TEST_CASE("options of clusters are refused for scenarios") {
  for (const std::vector<std::string>& option :
       std::vector<std::vector<std::string>>{{"--until", "1h"},
                                             {"--stop-time", "0s"},
                                             {"--restart", "scratch"},
                                             {"--checkpoint-time", "1s"},
                                             {"--trace", "t.csv"},
                                             {"--trace-format", "csv"},
                                             {"--strict"},
                                             {"--config", "c.yaml"},
                                             {"--timeline"},
                                             {"--csv", "out"},
                                             {"--html", "out.html"},
                                             {"--queue-by", "queue"},
                                             {"--map", "1=a/b"},
                                             {"--spread"},
                                             {"--priority", "1=1"},
                                             {"--resource", "cpu"},
                                             {"--per-processor", "1"},
                                             {"--pod-per-processor"},
                                             {"--memory"},
                                             {"--set-quota", "a/f/cpu=1"},
                                             {"--remove-policy", "preemption"},
                                             {"--add-nodes", "n=1"},
                                             {"--drain", "n"},
                                             {"--compare"},
                                             {"--against", "x"},
                                             {"--against-config", "c.yaml"},
                                             {"--default-runtime", "1h"}}) {
    std::vector<std::string> words = {"simulate", "play.scn"};
    words.insert(words.end(), option.begin(), option.end());
    Refused({{words, {option[0], "play.scn"}}});
    // Also where another input would heed it.
    words.insert(words.begin() + 1, kExample);
    Refused({{words, {option[0], "play.scn"}}});
  }
}

TEST_CASE("options of traces are refused where there is no such trace") {
  Refused({
      {{"simulate", kManifests, "--trace-format", "csv"}, {"--trace-format", "--trace"}},
      {{"simulate", kManifests, "--strict"}, {"--strict", "--trace"}},
      {{"simulate", kExample, "--queue-by", "user"}, {"--queue-by", "swf"}},
      {{"simulate", kExample, "--map", "1=a/b"}, {"--map", "swf"}},
      {{"simulate", kExample, "--spread"}, {"--spread", "swf"}},
      {{"simulate", kExample, "--priority", "1=1"}, {"--priority", "swf"}},
      {{"simulate", kExample, "--resource", "cpu"}, {"--resource", "swf"}},
      {{"simulate", kExample, "--per-processor", "2"}, {"--per-processor", "swf"}},
      {{"simulate", kExample, "--pod-per-processor"}, {"--pod-per-processor", "swf"}},
      {{"simulate", kExample, "--memory"}, {"--memory", "swf"}},
      {{"simulate", kExample, "--default-runtime", "1h"}, {"--default-runtime", "dump"}},
  });
  Refused({{{"forecast", "--measure", kExample, "-o", "wide"}, {"--measure", "--output"}}});
}

TEST_CASE("files and names are completed where they belong") {
  const auto files = [](std::vector<std::string> words) {
    words.insert(words.begin(), "__files");
    return Call(words).code == 0;
  };
  CHECK(files({"check", "-f", ""}));
  CHECK(files({"check", "--filename", "jo"}));
  CHECK(files({"forecast", "--measure", ""}));
  for (const char* command : {"queues", "top", "explain", "check", "forecast", "dump"}) {
    CHECK(files({command, "--from", ""}));
    CHECK(files({command, "--config", ""}));
    CHECK(files({command, "--kubeconfig", ""}));
    CHECK_FALSE(files({command, "--context", ""}));
    CHECK_FALSE(files({command, "--fr"}));
    CHECK_FALSE(files({command, ""}));
  }
  CHECK(files({"simulate", ""}));
  CHECK(files({"simulate", "cluster.yaml", "--trace", ""}));
  CHECK(files({"simulate", "--compare", ""}));
  CHECK_FALSE(files({"simulate", "--until", ""}));
  CHECK_FALSE(files({"completion", ""}));
  CHECK_FALSE(files({"si"}));
  CHECK_FALSE(files({"nothing", "x"}));
  CHECK_FALSE(files({}));
  const char* link = "/usr/local/bin/kubectl_complete-sluice";
  CHECK(Call({"check", "-f", ""}, false, link).out == ":0\n");
  CHECK(Call({"completion", "fish"}).out.find("-F -n __kubectl_sluice_files") != std::string::npos);
  CHECK(Call({"completion", "zsh"}).out.find("_files") != std::string::npos);
  // No cluster is asked here: the kubeconfig does not exist.
  for (const char* command : {"explain", "forecast"}) {
    CHECK(Call({"__complete", command, "j"}).out.find("job\n") == 0);
    CHECK(Call({"__complete", command, "--kubeconfig", "none", "-w", ""}).out == "");
  }
}

}  // namespace
}  // namespace sluice::cli
