// Random cohort trees with limits, policies, priorities, fair sharing, partial admission and
// faults: the invariants hold after every step, everything becomes quiet, and what is decided does
// not depend on the order in which the objects were seen.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "api/names.h"
#include "sim/scenario_objects.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int Below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <size_t kSize>
  const char* Pick(const char* const (&texts)[kSize]) {
    return texts[Below(static_cast<int>(kSize))];
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// The writes of a controller that sees the objects for the first time, in any order.
struct Collector : state::ActionSink {
  void Submit(state::Action action) override {
    if (action.kind == Kind::kEvent || action.best_effort) return;
    texts.push_back(fmt::format("{} {} {}", api::InfoOf(action.kind).name, action.key.ToString(),
                                action.body.Text()));
  }
  std::vector<std::string> texts;
};

std::vector<std::string> FirstWrites(const Simulation& sim, Random* shuffle) {
  using Type = state::ObjectEvent::Type;
  Collector collector;
  reconcile::Operator probe(sim.settings(), {}, collector, nullptr);
  std::vector<Kind> kinds = state::World::WatchedKinds();
  if (shuffle != nullptr) std::shuffle(kinds.begin(), kinds.end(), shuffle->engine());
  for (const Kind kind : kinds) {
    std::vector<Json> objects = sim.api().List(kind);
    if (shuffle != nullptr) std::shuffle(objects.begin(), objects.end(), shuffle->engine());
    probe.Step(state::ObjectEvent{Type::kListBegin, kind, {}}, sim.now());
    for (Json& object : objects) {
      probe.Step(state::ObjectEvent{Type::kUpsert, kind, std::move(object)}, sim.now());
    }
    probe.Step(state::ObjectEvent{Type::kListEnd, kind, {}}, sim.now());
  }
  probe.Step(state::LeaderChange{true}, sim.now());
  probe.Run(sim.now());
  std::sort(collector.texts.begin(), collector.texts.end());
  return collector.texts;
}

class RandomCohorts {
 public:
  enum class Mode { kPlain, kFaults, kLateWatch };
  RandomCohorts(uint64_t seed, Mode mode)
      : random_(seed),
        faults_(mode != Mode::kPlain),
        late_(mode == Mode::kLateWatch),
        sim_(Options()) {}

  void Run() {
    Build();
    sim_.Start();
    if (faults_) {
      sim_.SetFaultHook([this](const state::Action&, uint64_t) { return RandomFault(); });
    }
    for (int i = 0; i < 50; ++i) {
      sim_.RunUntil(sim_.now() + absl::Milliseconds(random_.Below(4000)));
      Act();
      if (late_) DelayWatch();
      if (i % 10 == 5) CheckOrder();
    }
    sim_.SetFaultHook(nullptr);
    sim_.SetWatchDelay(Kind::kWorkload, absl::ZeroDuration());
    for (int i = 0; i < queues_; ++i) Patch(i, R"({"spec": {"stopPolicy": "None"}})");
    sim_.RunUntil(sim_.now() + absl::Minutes(40));
    const uint64_t writes = sim_.writes();
    sim_.RunUntil(sim_.now() + absl::Minutes(30));
    CHECK(sim_.writes() == writes);  // nothing happens, so nothing is written
    CHECK(sim_.Settled());
    if (sim_.Settled() && sim_.violations().empty()) sim_.CheckSettled();
    if (!sim_.violations().empty()) UNSCOPED_INFO(text_);
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
  }

 private:
  SimulationOptions Options() {
    SimulationOptions options;
    options.replicas = faults_ ? 2 : 1;
    options.jobs.stop_time = absl::Seconds(random_.Below(3) * 7);
    options.settings.wait_for_pods_ready.reset();
    if (random_.OneIn(2)) {
      using Strategy = state::PreemptionStrategy;
      options.settings.fair_sharing.emplace();
      auto& strategies = options.settings.fair_sharing->preemption_strategies;
      const int which = random_.Below(3);
      if (which != 1) strategies.push_back(Strategy::kLessThanOrEqualToFinalShare);
      if (which != 0) strategies.push_back(Strategy::kLessThanInitialShare);
    }
    return options;
  }

  void Make(const std::string& text) {
    text_ += text + "\n";
    sim::Make(sim_, text);
  }
  void Patch(Kind kind, const std::string& name, Json patch) {
    text_ += fmt::format("patch {} {}\n", name, patch.Text());
    const state::Reply reply = sim_.Patch(kind, {"", name}, std::move(patch));
    INFO(reply.message);
    REQUIRE(reply.ok());
  }
  void Patch(int queue, const std::string& patch) {
    Patch(Kind::kClusterQueue, fmt::format("c{}", queue), *api::ParseJson(patch));
  }

  // Other quotas and limits, perhaps below what is in use, perhaps without a flavor in use.
  void ChangeQuota() {
    const int queue = random_.Below(queues_);
    absl::StatusOr<ObjectText> object =
        ParseObject(SplitWords(fmt::format("clusterqueue c{} cohort=t0", queue) +
                               Flavors(in_cohort_[static_cast<size_t>(queue)])));
    REQUIRE(object.ok());
    Json patch = Json::MakeObject();
    patch["spec"].Set("resourceGroups", *object->object.Find("spec", "resourceGroups"));
    Patch(Kind::kClusterQueue, fmt::format("c{}", queue), std::move(patch));
  }

  // A ClusterQueue or a Cohort with all below it goes elsewhere; this may close a circle.
  void Move() {
    Json patch = Json::MakeObject();
    const std::string to = fmt::format("t{}", random_.Below(cohorts_));
    if (random_.OneIn(2)) {
      const int queue = random_.Below(queues_);
      if (!in_cohort_[static_cast<size_t>(queue)]) return;
      patch["spec"].Set("cohortName", to);
      Patch(Kind::kClusterQueue, fmt::format("c{}", queue), std::move(patch));
      return;
    }
    const std::string cohort = fmt::format("t{}", random_.Below(cohorts_));
    if (sim_.api().Find(Kind::kCohort, {"", cohort}) == nullptr) return;
    patch["spec"].Set("parentName", to);
    Patch(Kind::kCohort, cohort, std::move(patch));
  }

  // "4/borrow=2/lend=1"; no more is lent than there is, except by cohorts.
  std::string Quota(bool limits) {
    const int nominal = random_.Below(7);
    std::string text = std::to_string(nominal);
    if (!limits) return text;
    if (random_.OneIn(3)) text += fmt::format("/borrow={}", random_.Below(5));
    if (random_.OneIn(3)) text += fmt::format("/lend={}", random_.Below(nominal + 1));
    return text;
  }
  std::string Flavors(bool limits) {
    std::string text = fmt::format(" flavor=f0{{cpu={},memory={}}}", Quota(limits), Quota(limits));
    if (random_.OneIn(2)) {
      text += fmt::format(" flavor=f1{{cpu={},memory={}}}", Quota(limits), Quota(limits));
    }
    return text;
  }
  std::string Weight() {
    static const char* const kWeights[] = {"", "", " weight=2", " weight=0", " weight=500m"};
    return random_.Pick(kWeights);
  }

  void Build() {
    Make("namespace ns");
    Make("flavor f0");
    Make("flavor f1");
    Make("priorityclass p1 value=1");
    Make("priorityclass p2 value=2");
    Make("priorityclass p3 value=3");
    cohorts_ = 1 + random_.Below(4);
    for (int i = 0; i < cohorts_; ++i) {
      // Some are only implied by their children.
      if (random_.OneIn(5)) continue;
      std::string text = fmt::format("cohort t{}", i);
      const bool child = i > 0 && !random_.OneIn(4);
      if (child) text += fmt::format(" parent=t{}", random_.Below(i));
      if (random_.OneIn(2)) text += Flavors(child);
      Make(text + Weight());
    }
    queues_ = 2 + random_.Below(4);
    for (int i = 0; i < queues_; ++i) MakeQueue(i);
  }

  void MakeQueue(int i) {
    static const char* const kWithin[] = {"", " within=LowerPriority",
                                          " within=LowerOrNewerEqualPriority"};
    static const char* const kReclaim[] = {
        "",
        " reclaim=Any",
        " reclaim=LowerPriority",
        " reclaim=Any borrowwithin=LowerPriority",
        " reclaim=LowerPriority borrowwithin=LowerPriority:1",
    };
    static const char* const kFungibility[] = {
        "", " fungibility=borrow:TryNextFlavor", " fungibility=preempt:MayStopSearch",
        " fungibility=borrow:TryNextFlavor,preempt:TryNextFlavor,"
        "preference:PreemptionOverBorrowing"};
    std::string text = fmt::format("clusterqueue c{}", i);
    const bool cohort = !random_.OneIn(8);
    in_cohort_.push_back(cohort);
    if (cohort) text += fmt::format(" cohort=t{}", random_.Below(cohorts_));
    text += Flavors(cohort);
    if (random_.OneIn(3)) text += " strategy=StrictFIFO";
    text += random_.Pick(kWithin);
    if (cohort) text += random_.Pick(kReclaim);
    text += random_.Pick(kFungibility);
    Make(text + Weight());
    Make(fmt::format("localqueue q{} cq=c{}", i, i));
  }

  // What may have happened is answered with an error, or not at all, and the watch is late.
  FaultDecision LateFault() {
    constexpr int kCodes[] = {409, 500, 503, 504};
    FaultDecision decision;
    decision.fault = random_.OneIn(3) ? Fault::kLoseReply : Fault::kFailAfter;
    decision.code = kCodes[random_.Below(4)];
    return decision;
  }
  void DelayWatch() {
    constexpr int kSeconds[] = {0, 0, 3, 40};
    sim_.SetWatchDelay(Kind::kWorkload, absl::Seconds(kSeconds[random_.Below(4)]));
  }

  FaultDecision RandomFault() {
    if (random_.Below(100) >= 5) return {};
    constexpr Fault kFaults[] = {Fault::kLoseRequest, Fault::kLoseReply,   Fault::kFail,
                                 Fault::kDuplicate,   Fault::kCrashBefore, Fault::kCrashAfter};
    FaultDecision decision;
    if (late_) return LateFault();
    decision.fault = kFaults[random_.Below(6)];
    constexpr int kCodes[] = {500, 503, 409, 429, 504};
    decision.code = kCodes[random_.Below(5)];
    return decision;
  }

  void MakeJob() {
    static const char* const kPriorities[] = {"", "", " priority=p1", " priority=p2",
                                              " priority=p3"};
    std::string text = fmt::format("job j{} queue=q{} cpu={}", made_, random_.Below(queues_),
                                   1 + random_.Below(3));
    if (random_.OneIn(3)) text += fmt::format(" memory={}", 1 + random_.Below(3));
    text += random_.Pick(kPriorities);
    if (random_.OneIn(4)) {
      const int pods = 2 + random_.Below(3);
      text += fmt::format(" parallelism={} completions={}", pods, pods);
      if (random_.OneIn(2)) text += fmt::format(" minparallelism={}", 1 + random_.Below(pods - 1));
    }
    // Some run for ever, so that what they hold is fought for until the end.
    if (!random_.OneIn(3)) text += fmt::format(" run={}s", 1 + random_.Below(60));
    Make(text);
    ++made_;
  }

  void Act() {
    switch (random_.Below(18)) {
      case 7:
        Move();
        return;
      case 8:
        ChangeQuota();
        return;
      case 0: {
        static const char* const kPolicies[] = {"None", "Hold", "HoldAndDrain", "None"};
        Patch(random_.Below(queues_),
              fmt::format(R"({{"spec": {{"stopPolicy": "{}"}}}})", random_.Pick(kPolicies)));
        return;
      }
      case 1:
      case 2:
        if (made_ > 0) {
          const std::string name = fmt::format("j{}", random_.Below(made_));
          text_ += "delete " + name + "\n";
          sim_.Delete(Kind::kJob, {"ns", name});
        }
        return;
      case 3:
        if (faults_) sim_.SetLeader(1 - sim_.leader());
        return;
      case 4:
        if (faults_) sim_.Relist(static_cast<size_t>(random_.Below(2)));
        return;
      case 5: {
        text_ += "priority\n";
        sim_.Patch(Kind::kWorkloadPriorityClass, {"", fmt::format("p{}", 1 + random_.Below(3))},
                   *api::ParseJson(fmt::format(R"({{"value": {}}})", random_.Below(5))));
        return;
      }
      case 6:
        if (random_.OneIn(4)) {
          const std::string cohort = fmt::format("t{}", random_.Below(cohorts_));
          text_ += "delete cohort " + cohort + "\n";
          sim_.Delete(Kind::kCohort, {"", cohort});
        }
        return;
      default:
        MakeJob();
    }
  }

  void CheckOrder() {
    const std::vector<std::string> plain = FirstWrites(sim_, nullptr);
    const std::vector<std::string> other = FirstWrites(sim_, &random_);
    if (plain == other) return;
    for (size_t i = 0; i < std::max(plain.size(), other.size()); ++i) {
      const std::string a = i < plain.size() ? plain[i] : "";
      const std::string b = i < other.size() ? other[i] : "";
      if (a == b) continue;
      FAIL_CHECK("the order of objects matters:\n" << a << "\n" << b << "\n" << text_);
      return;
    }
  }

  Random random_;
  const bool faults_;
  const bool late_;
  Simulation sim_;
  int cohorts_ = 0;
  int queues_ = 0;
  std::vector<bool> in_cohort_;  // by ClusterQueue
  int made_ = 0;
  std::string text_;  // what was done, for whoever has to find out
};

using Mode = RandomCohorts::Mode;

void Play(Mode mode) {
  ForSeeds(6, [mode](uint64_t seed) { RandomCohorts(seed, mode).Run(); });
}

TEST_CASE("Random cohort trees with preemption keep the invariants and become quiet") {
  Play(Mode::kPlain);
}

TEST_CASE("Random cohort trees keep the invariants under faults") { Play(Mode::kFaults); }

TEST_CASE("Random cohort trees keep the invariants where answers are lost and the watch is late") {
  Play(Mode::kLateWatch);
}

}  // namespace
}  // namespace sluice::sim
