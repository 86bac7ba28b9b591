// Changes of leader while watches are late: the successor does not know yet what its predecessor
// wrote last, and gives nothing away that is given.
#include <fmt/format.h>

#include <random>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Action;

SimulationOptions TwoReplicas() {
  SimulationOptions options;
  options.replicas = 2;
  options.settings.wait_for_pods_ready.reset();
  return options;
}

// One LocalQueue "q" in front of quota for one CPU.
void StartWithOneCpu(Simulation& sim) {
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=1}");
  Make(sim, "localqueue q cq=cq");
  sim.Start();
  sim.RunUntil(sim.now() + absl::Seconds(10));
}

bool Reserved(const Simulation& sim, const std::string& job) {
  bool found = false;
  sim.api().ForEach(Kind::kWorkload, [&](const Json& workload) {
    if (!workload.GetString("metadata", "name").starts_with("job-" + job + "-")) return;
    found = found || ConditionTrue(workload, api::kQuotaReserved);
  });
  return found;
}

void CheckAll(const Simulation& sim) {
  for (const std::string& text : sim.trace()) UNSCOPED_INFO(text);
  for (const std::string& text : sim.violations()) FAIL_CHECK(text);
}

TEST_CASE("A successor whose watch is late does not admit over its predecessor") {
  const bool relist = GENERATE(false, true);
  CAPTURE(relist);
  Simulation sim(TwoReplicas());
  StartWithOneCpu(sim);
  // Both know b, and only the leader that a has got the quota.
  sim.SetWatchDelay(Kind::kWorkload, absl::Seconds(5));
  Make(sim, "workload b queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Seconds(4));
  Make(sim, "workload a queue=q cpu=1 priority=5");
  sim.RunUntil(sim.now() + absl::Milliseconds(4990));
  const auto reserved = [&](const char* name) {
    return ConditionTrue(*sim.api().Find(Kind::kWorkload, {"ns", name}), api::kQuotaReserved);
  };
  for (int i = 0; i < 400 && !reserved("a") && !reserved("b"); ++i) sim.Step();
  REQUIRE(reserved("a") != reserved("b"));
  sim.SetLeader(1);
  CHECK(sim.controller(1).catching_up());
  if (relist) sim.Relist(1);
  CHECK(sim.controller(1).leading() == relist);
  sim.RunUntil(sim.now() + absl::Minutes(1));
  CHECK(sim.controller(1).leading());
  CHECK(reserved("a") != reserved("b"));
  CheckAll(sim);
}

TEST_CASE("On a quiet server a successor decides as soon as its watch has shown all") {
  Simulation sim(TwoReplicas());
  StartWithOneCpu(sim);
  Make(sim, "job a queue=q cpu=1");
  sim.SetLeader(1);
  sim.RunUntil(sim.now() + absl::Seconds(1));
  CHECK(Reserved(sim, "a"));
  CheckAll(sim);
}

// ---- random clusters, late watches and changes of leader ----

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed), sim_(TwoReplicas()) {}

  void Run() {
    Build();
    sim_.Start();
    for (int i = 0; i < 80; ++i) {
      sim_.RunUntil(sim_.now() + absl::Milliseconds(Below(1500)));
      Act();
    }
    sim_.SetWatchDelay(Kind::kWorkload, absl::ZeroDuration());
    sim_.SetWatchDelay(Kind::kJob, absl::ZeroDuration());
    sim_.RunUntil(sim_.now() + absl::Minutes(60));
    REQUIRE(sim_.Settled());
    sim_.CheckSettled();
    CheckAll(sim_);
    for (int i = 0; i < made_; ++i) {
      const Json* job = sim_.api().Find(Kind::kJob, {"ns", fmt::format("j{}", i)});
      CAPTURE(i);
      if (job != nullptr) CHECK(ConditionTrue(*job, "Complete"));
    }
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  void Build() {
    Make(sim_, "namespace ns");
    Make(sim_, "flavor f0");
    Make(sim_, "flavor f1 label:pool=b");
    Make(sim_, "priorityclass high value=10");
    for (int i = 0; i < 2; ++i) {
      Make(sim_, fmt::format("clusterqueue c{} cohort=all within=LowerPriority "
                             "flavor=f0{{cpu={}}} flavor=f1{{cpu={}}}",
                             i, 3 + Below(3), Below(3)));
      Make(sim_, fmt::format("localqueue q{} cq=c{}", i, i));
    }
  }

  void Act() {
    switch (Below(8)) {
      case 0:
      case 1:
        sim_.SetLeader(1 - sim_.leader());
        return;
      case 2:
        sim_.SetWatchDelay(Kind::kWorkload, absl::Milliseconds(Below(6000)));
        return;
      case 3:
        sim_.SetWatchDelay(Kind::kJob, absl::Milliseconds(Below(3000)));
        return;
      case 4:
        if (made_ > 0) sim_.Delete(Kind::kJob, {"ns", fmt::format("j{}", Below(made_))});
        return;
      default:
        Make(sim_, fmt::format("job j{} queue=q{} cpu={} parallelism={} run={}s{}", made_, Below(2),
                               1 + Below(2), 1 + Below(2), 1 + Below(20),
                               Below(3) == 0 ? " priority=high" : ""));
        ++made_;
    }
  }

  std::mt19937_64 random_;
  Simulation sim_;
  int made_ = 0;
};

TEST_CASE("However late the watches are, no change of leader takes a queue above its quota") {
  ForSeeds(30, [](uint64_t seed) { RandomRun(seed).Run(); });
}

// ---- pauses that the API server asks for ----

TEST_CASE("A refusal's Retry-After is heeded, for a minute at most") {
  const absl::Duration asked = GENERATE(absl::Seconds(20), absl::Hours(1));
  const bool of_job = GENERATE(true, false);
  CAPTURE(absl::FormatDuration(asked), of_job);
  Simulation sim(TwoReplicas());
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "clusterqueue cq flavor=default{cpu=1}");
  Make(sim, "localqueue q cq=cq");
  std::vector<absl::Time> tries;
  sim.SetFaultHook([&](const Action& action, uint64_t) {
    const bool start = action.kind == Kind::kJob && action.verb != state::Verb::kGet;
    const bool admission = action.kind == Kind::kWorkload && action.subresource == "status" &&
                           action.body.Find("status", "admission") != nullptr;
    if (!(of_job ? start : admission)) return FaultDecision{};
    tries.push_back(sim.now());
    if (tries.size() > 1) return FaultDecision{};
    FaultDecision refusal{Fault::kFail, 429};
    refusal.retry_after = asked;
    return refusal;
  });
  sim.Start();
  Make(sim, "job a queue=q cpu=1");
  sim.RunUntil(sim.now() + absl::Minutes(3));
  REQUIRE(tries.size() >= 2);
  const absl::Duration pause = tries[1] - tries[0];
  CHECK(pause >= std::min(asked, absl::Minutes(1)));
  CHECK(pause < std::min(asked, absl::Minutes(1)) + absl::Seconds(2));
  CheckAll(sim);
}

}  // namespace
}  // namespace sluice::sim
