// The same timeline with the objects of every instant created and changed in another order: each
// Job has the same history. Only what the API server gives to new objects is kept equal, their
// UIDs, because they break ties.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "api/names.h"
#include "base/time.h"
#include "sim/scenario_objects.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using Commands = std::vector<std::string>;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int Below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }
  std::string Pick(const Commands& texts) {
    return texts[static_cast<size_t>(Below(static_cast<int>(texts.size())))];
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// What is done at each instant; the commands of one instant are about different objects.
class Timeline {
 public:
  explicit Timeline(uint64_t seed) : random_(seed) {
    fair = random_.OneIn(2);
    strict_ = random_.OneIn(3);
    Cluster();
    for (int i = 0; i < 9; ++i) {
      if (i > 0) instants.emplace_back();
      Jobs();
      if (i > 0) Changes();
    }
  }

  bool fair = false;
  std::vector<Commands> instants;

 private:
  void Cluster() {
    Commands& now =
        instants.emplace_back(Commands{"flavor f0", "flavor f1", "priorityclass p1 value=1",
                                       "priorityclass p2 value=2", "priorityclass p3 value=3"});
    cohorts_ = 1 + random_.Below(3);
    for (int i = 0; i < cohorts_; ++i) {
      if (random_.OneIn(5)) continue;
      std::string text = fmt::format("cohort t{}", i);
      if (i > 0) text += fmt::format(" parent=t{}", random_.Below(i));
      if (random_.OneIn(2)) text += fmt::format(" flavor=f0{{cpu={}}}", random_.Below(5));
      now.push_back(text);
    }
    queues_ = 2 + random_.Below(3);
    for (int i = 0; i < queues_; ++i) {
      std::string text = fmt::format("clusterqueue c{} cohort=t{} flavor=f0{{cpu={}/borrow={}}}", i,
                                     random_.Below(cohorts_), random_.Below(6), random_.Below(6));
      if (random_.OneIn(2)) text += fmt::format(" flavor=f1{{cpu={}}}", random_.Below(6));
      if (strict_) text += " strategy=StrictFIFO";
      text += random_.Pick(
          {"", " within=LowerPriority", " within=LowerOrNewerEqualPriority", " reclaim=Any"});
      if (random_.OneIn(3)) text += fmt::format(" weight={}", random_.Below(3));
      now.push_back(text);
      now.push_back(fmt::format("localqueue q{} cq=c{}", i, i));
    }
  }

  void Jobs() {
    before_ = jobs_;
    for (int n = 2 + random_.Below(4); n > 0; --n) {
      std::string text = fmt::format("job j{} queue=q{} cpu={}", jobs_++, random_.Below(queues_),
                                     1 + random_.Below(3));
      text += random_.Pick({"", " priority=p1", " priority=p2", " priority=p3"});
      if (random_.OneIn(4)) text += " parallelism=3 completions=3 minparallelism=1";
      if (!random_.OneIn(3)) text += fmt::format(" run={}s", 1 + random_.Below(40));
      instants.back().push_back(text);
    }
  }

  void Changes() {
    Commands& now = instants.back();
    if (random_.OneIn(3)) now.push_back(fmt::format("delete job j{}", random_.Below(before_)));
    if (random_.OneIn(3)) {
      now.push_back(fmt::format(R"(patch priorityclass p{} {{"value": {}}})", 1 + random_.Below(3),
                                random_.Below(5)));
    }
    if (random_.OneIn(2)) {
      now.push_back(fmt::format(R"(patch cq c{} {{"spec": {{"stopPolicy": "{}"}}}})",
                                random_.Below(queues_),
                                random_.Pick({"None", "Hold", "HoldAndDrain"})));
    }
    if (random_.OneIn(5)) now.push_back(fmt::format("delete cohort t{}", random_.Below(cohorts_)));
  }

  Random random_;
  bool strict_ = false;
  int cohorts_ = 0;
  int queues_ = 0;
  int jobs_ = 0;
  int before_ = 0;  // the instant
};

// What became of the Workload of each Job, change by change.
using History = absl::btree_map<std::string, std::vector<std::string>>;

std::string StateOf(const Json& workload) {
  std::string text;
  if (const Json* conditions = workload.Find("status", "conditions")) {
    for (const Json& condition : conditions->AsArray()) {
      if (condition.GetString("status") != "True") continue;
      const std::string type = condition.GetString("type");
      if (type == api::kPodsReady) continue;
      text += fmt::format(" {}:{}", type, condition.GetString("reason"));
    }
  }
  if (const Json* admission = workload.Find("status", "admission")) text += admission->Text();
  return text;
}

class Player {
 public:
  explicit Player(const Timeline& timeline) : sim_(Options(timeline.fair)) {
    sim_.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
    Do("namespace ns");
    sim_.Start();
  }

  // With a shuffle in which order what belongs to one instant is done.
  History Play(const Timeline& timeline, Random* shuffle) {
    for (const Commands& instant : timeline.instants) {
      Commands commands = instant;
      if (shuffle != nullptr) std::shuffle(commands.begin(), commands.end(), shuffle->engine());
      // All of it is there before anybody decides, as after any pause of the controller.
      sim_.SetLeader(-1);
      for (const std::string& command : commands) Do(command);
      sim_.RunUntil(sim_.now() + absl::Milliseconds(500));
      sim_.SetLeader(0);
      sim_.RunUntil(sim_.now() + absl::Seconds(9));
    }
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
    return history_;
  }

 private:
  static SimulationOptions Options(bool fair) {
    using Strategy = state::PreemptionStrategy;
    SimulationOptions options;
    options.api.uids_of_names = true;
    options.jobs.stop_time = absl::Seconds(2);
    options.settings.wait_for_pods_ready.reset();
    if (fair) {
      options.settings.fair_sharing.emplace().preemption_strategies = {
          Strategy::kLessThanOrEqualToFinalShare, Strategy::kLessThanInitialShare};
    }
    return options;
  }

  void Do(const std::string& text) {
    const std::vector<std::string> words = SplitWords(text);
    state::Reply reply;
    if (words[0] == "delete" || words[0] == "patch") {
      const absl::StatusOr<Kind> kind = ParseKind(words[1]);
      REQUIRE(kind.ok());
      const ObjectKey key{*kind == Kind::kJob ? "ns" : "", words[2]};
      if (sim_.api().Find(*kind, key) == nullptr) return;
      reply = words[0] == "delete"
                  ? sim_.Delete(*kind, key)
                  : sim_.Patch(*kind, key, *api::ParseJson(text.substr(text.find('{'))));
    } else {
      reply = TryMake(sim_, text);
    }
    INFO(text << ": " << reply.message);
    REQUIRE(reply.ok());
  }

  void Take(const state::ObjectEvent& event) {
    if (event.kind != Kind::kWorkload) return;
    const std::string name = event.object.GetString("metadata", "name");
    const std::string state =
        event.type == state::ObjectEvent::Type::kDelete ? " gone" : StateOf(event.object);
    if (std::exchange(last_[name], state) == state) return;
    history_[name].push_back(sluice::FormatMicroTime(sim_.now()) + state);
  }

  Simulation sim_;
  History history_;
  absl::btree_map<std::string, std::string> last_;
};

// Returns how many Workloads something became of.
size_t CheckOrder(uint64_t seed) {
  const Timeline timeline(seed);
  const History plain = Player(timeline).Play(timeline, nullptr);
  Random shuffle(seed);
  const History other = Player(timeline).Play(timeline, &shuffle);
  if (plain == other) return plain.size();
  std::string all;
  for (const Commands& instant : timeline.instants) {
    for (const std::string& command : instant) all += command + "\n";
    all += "\n";
  }
  for (const auto& [name, states] : plain) {
    const auto found = other.find(name);
    if (found != other.end() && found->second == states) continue;
    std::string text;
    for (const std::string& one : states) text += one + "\n";
    text += "or\n";
    for (const std::string& one : found == other.end() ? Commands{} : found->second) {
      text += one + "\n";
    }
    FAIL_CHECK("the order matters for " << name << ":\n" << text << all);
    break;
  }
  return plain.size();
}

TEST_CASE("The order within an instant changes nothing in any Job's history") {
  size_t seen = 0;
  ForSeeds(8, [&](uint64_t seed) { seen += CheckOrder(seed); });
  CHECK(seen > 0);
}

}  // namespace
}  // namespace sluice::sim
