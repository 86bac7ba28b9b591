// Nothing of our own changes a decision about objects that do not use it.
//
// Every scenario that uses no sluice.dev object and no such annotation is played three times: as it
// is; in a cluster that has a CreditPolicy over other queues and a ClusterQueue with backfill
// beside them, under other settings for checkpoints; and with policies over all of its own cohorts
// that count a resource which nobody has. What comes out about the objects of the scenario must be
// the same, byte for byte. Random clusters are played alone and beside those queues.
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "sim/scenario.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

namespace fs = std::filesystem;

constexpr char kSettings[] =
    "settings preemption.checkpointGracePeriod=7s preemption.maxPerWorkload=1 "
    "preemption.window=9h\n";
// Names that sort behind all others, with room of their own.
constexpr char kBeside[] =
    "  flavor zz-flavor\n"
    "  cohort zz-org\n"
    "  clusterqueue zz-saver cohort=zz-org flavor=zz-flavor{example.com/zz=4}\n"
    "  clusterqueue zz-backfill cohort=zz-org annotation:sluice.dev/backfill=Conservative "
    "flavor=zz-flavor{example.com/zz=4}\n"
    "  creditpolicy zz-policy cohort=zz-org resource=example.com/zz effect=Protect\n"
    "  creditpolicy zz-nothing cohort=zz-nowhere resource=cpu\n";

// The script with those objects at the end of its cluster, however it makes its own.
std::string With(const std::string& objects, const std::string& script) {
  std::string text;
  bool cluster = false;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(script, '\n'))) {
    cluster = cluster || line == "cluster:";
    if (line == "timeline:") text += (cluster ? "" : "cluster:\n") + objects;
    if (line.ends_with(" settled")) continue;  // an account that earns is written for ever
    text += line + "\n";
  }
  text.pop_back();
  return text;
}

std::string WithoutThem(const std::string& outcome) {
  std::string text;
  for (std::string line : std::vector<std::string>(absl::StrSplit(outcome, '\n'))) {
    // The name of a pod group ends in a hash of a resourceVersion, which counts all objects.
    constexpr size_t kHash = 11;
    const size_t colon = line.find(':');
    if (line.find("  podgroup ") == 0 && colon != std::string::npos) {
      line.erase(colon - kHash, kHash);
    }
    const bool theirs =
        line.find("zz-") != std::string::npos || line.find("event Credit") != std::string::npos;
    if (!theirs) text += line + "\n";
  }
  return text;
}

// A policy for each cohort that the script names; the accounts of all have nothing, and use
// nothing.
std::string PoliciesOver(const std::string& script) {
  std::set<std::string> cohorts;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(script, '\n'))) {
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(line, ' '))) {
      for (const std::string mark : {"cohort=", "parent="}) {
        if (word.starts_with(mark) && word != mark) cohorts.insert(word.substr(mark.size()));
      }
    }
  }
  std::string text;
  for (const std::string& cohort : cohorts) {
    text += fmt::format("  creditpolicy zz-{0} cohort={0} resource=example.com/zz\n", cohort);
  }
  return text;
}

void CheckSameAs(const std::string& alone, const std::string& script) {
  const absl::StatusOr<std::string> with = PlayScenario(script);
  INFO(std::string(with.status().message()));
  REQUIRE(with.ok());
  const std::string diff = DiffLines(WithoutThem(alone), WithoutThem(*with));
  INFO(diff);
  CHECK(diff.empty());
  CHECK(with->find("violation:") == std::string::npos);
}

// True when policies govern something of it.
bool CheckSame(const std::string& script) {
  const absl::StatusOr<std::string> alone = PlayScenario(script);
  INFO(std::string(alone.status().message()));
  REQUIRE(alone.ok());
  CheckSameAs(*alone, kSettings + With(kBeside, script));
  const std::string policies = PoliciesOver(script);
  if (policies.empty()) return false;
  CheckSameAs(*alone, With(policies, script));
  return true;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("Differential: scenarios decide the same beside credits, backfill and checkpoints") {
  const fs::path root = fs::path(SLUICE_SOURCE_DIR) / "unit" / "scenarios";
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".scn") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  int played = 0;
  int governed = 0;
  for (const fs::path& path : files) {
    const std::string script = SplitScenario(ReadFile(path)).script;
    const bool uses = script.find("sluice.dev/") != std::string::npos ||
                      script.find("creditpolicy") != std::string::npos ||
                      script.find("settings preemption.") != std::string::npos;
    if (uses) continue;
    ++played;
    INFO(fs::relative(path, root).string());
    if (CheckSame(script)) ++governed;
  }
  CHECK(played >= 150);
  CHECK(governed >= 40);
}

// Three ClusterQueues of a cohort, a fourth one, and thirty Jobs in a hundred seconds.
std::string RandomScript(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const auto pick = [&](std::vector<const char*> words) {
    return words[static_cast<size_t>(below(static_cast<int>(words.size())))];
  };
  std::string text;
  if (below(3) == 0) text += "settings fairSharing=on\n";
  text += "cluster:\n  flavor spot\n  flavor default\n  priorityclass high value=9\n";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "  clusterqueue c{} {} flavor=spot{{cpu={}}} flavor=default{{cpu={}}} within={} reclaim={} "
        "strategy={} weight={}\n  localqueue q{} cq=c{}\n",
        i, i < 3 ? "cohort=org" : "", 1 + below(4), 2 + below(6),
        pick({"Never", "LowerPriority", "LowerOrNewerEqualPriority"}),
        i < 3 ? pick({"Never", "LowerPriority", "Any"}) : "Never",
        pick({"BestEffortFIFO", "StrictFIFO"}), 1 + below(3), i, i);
  }
  text += "timeline:\n";
  int at = 0;
  for (int i = 0; i < 30; ++i) {
    at += below(7);
    text += fmt::format("  at {}s create job j{} queue=q{} cpu={} parallelism={} run={}s{}\n", at,
                        i, below(4), 1 + below(4), 1 + below(3), 5 + below(60),
                        below(3) == 0 ? " priority=high" : "");
    if (below(3) == 0) text += fmt::format("  at {}s show cq wl\n", at);
  }
  return text + fmt::format("  at {}s show event wl\n----\n", at + 300);
}

TEST_CASE("Random differential: clusters decide the same beside credits and backfill") {
  ForSeeds(6, [](uint64_t seed) {
    const std::string script = RandomScript(seed);
    INFO(script);
    const absl::StatusOr<std::string> alone = PlayScenario(script);
    REQUIRE(alone.ok());
    CheckSameAs(*alone, kSettings + With(kBeside, script));
  });
}

}  // namespace
}  // namespace sluice::sim
