// Crashes, lost messages and changes of leader at every write: no admission is lost, none happens
// twice, no queue is ever above its quota, and the end is the same as without the fault.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <random>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

// Counts how often each Job was started and each Workload got a reservation.
class Counter {
 public:
  explicit Counter(Simulation& sim) {
    sim.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
  }
  absl::btree_map<std::string, int> starts;
  absl::btree_map<std::string, int> reservations;

 private:
  void Take(const state::ObjectEvent& event) {
    const Json& object = event.object;
    const std::string uid = object.GetString("metadata", "uid");
    const std::string name = object.GetString("metadata", "name");
    bool on = false;
    if (event.kind == Kind::kJob) {
      on = !object.Find("spec", "suspend")->AsBool();
    } else if (event.kind == Kind::kWorkload) {
      on = ConditionTrue(object, api::kQuotaReserved);
    } else {
      return;
    }
    bool& was = on_[uid];
    if (on && !was) ++(event.kind == Kind::kJob ? starts : reservations)[name];
    was = on;
  }
  absl::btree_map<std::string, bool> on_;
};

// What is left when all is over, without instants and versions.
std::string Signature(const Simulation& sim) {
  std::string text;
  for (const Json& job : sim.api().List(Kind::kJob)) {
    text += fmt::format("job {} suspend={} complete={}\n", job.GetString("metadata", "name"),
                        job.Find("spec", "suspend")->AsBool(), ConditionTrue(job, "Complete"));
  }
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    text += fmt::format("workload {}", workload.GetString("metadata", "name"));
    for (const char* type : {api::kQuotaReserved, api::kAdmitted, api::kFinished, api::kEvicted}) {
      text += fmt::format(" {}={}", type, ConditionTrue(workload, type));
    }
    if (const Json* finalizers = workload.Find("metadata", "finalizers")) {
      text += " " + finalizers->Text();
    }
    text += "\n";
  }
  for (const Json& queue : sim.api().List(Kind::kClusterQueue)) {
    text += fmt::format("queue {}\n", queue.Find("status", "admittedWorkloads")->AsInt());
  }
  return text;
}

constexpr int kJobs = 4;

// Three Jobs of which two fit at a time and one that runs for ever; an admission check on the way.
void Prepare(Simulation& sim, bool with_check) {
  Make(sim, "namespace ns");
  Make(sim, "flavor default label:pool=a");
  if (with_check) Make(sim, "admissioncheck prov");
  Make(sim, std::string("clusterqueue cq strategy=StrictFIFO flavor=default{cpu=4}") +
                (with_check ? " check=prov" : ""));
  Make(sim, "localqueue q cq=cq");
}

// The controller of the admission check: everything reserved becomes Ready.
void PassChecks(Simulation& sim) {
  for (const Json& workload : sim.api().List(Kind::kWorkload)) {
    const Json* checks = workload.Find("status", "admissionChecks");
    if (checks == nullptr || !ConditionTrue(workload, api::kQuotaReserved)) continue;
    Json list = *checks;
    bool changed = false;
    for (Json& check : list.MutableArray()) {
      if (check.GetString("state") != "Pending") continue;
      check.Set("state", "Ready");
      changed = true;
    }
    if (!changed) continue;
    Json patch = Json::MakeObject();
    patch["status"].Set("admissionChecks", std::move(list));
    sim.Patch(Kind::kWorkload,
              {workload.GetString("metadata", "namespace"), workload.GetString("metadata", "name")},
              std::move(patch), "status");
  }
}

void Drive(Simulation& sim, bool with_check) {
  sim.Start();
  const absl::Time start = sim.now();
  const char* jobs[kJobs] = {"job a queue=q cpu=2 run=20s", "job b queue=q cpu=2",
                             "job c queue=q cpu=2 run=10s", "job d queue=q cpu=1 run=10s"};
  for (int i = 0; i < kJobs; ++i) {
    sim.RunUntil(start + absl::Seconds(i));
    if (with_check) PassChecks(sim);
    Make(sim, jobs[i]);
  }
  for (int second = kJobs; second < 100; second += 4) {
    sim.RunUntil(start + absl::Seconds(second));
    if (with_check) PassChecks(sim);
  }
  sim.RunUntilQuiet(start + absl::Minutes(10));
}

struct Outcome {
  std::string signature;
  uint64_t writes = 0;
};

Outcome Play(bool with_check, Simulation::FaultHook hook) {
  Simulation sim({});
  Counter counter(sim);
  Prepare(sim, with_check);
  sim.SetFaultHook(std::move(hook));
  Drive(sim, with_check);
  REQUIRE(sim.Settled());
  sim.SetFaultHook(nullptr);
  sim.CheckSettled();
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
  CHECK(counter.starts.size() == kJobs);
  for (const auto& [name, count] : counter.starts) {
    INFO("starts of " << name);
    CHECK(count == 1);
  }
  CHECK(counter.reservations.size() == kJobs);
  for (const auto& [name, count] : counter.reservations) {
    INFO("reservations of " << name);
    CHECK(count == 1);
  }
  return {Signature(sim), sim.writes()};
}

TEST_CASE("A fault at any one write changes nothing in the end") {
  const bool with_check = GENERATE(false, true);
  const Outcome clean = Play(with_check, nullptr);
  INFO(clean.signature);
  REQUIRE(clean.writes > 20);
  std::vector<Fault> faults = {Fault::kCrashBefore, Fault::kCrashAfter};
  if (!with_check) {
    faults.insert(faults.end(),
                  {Fault::kLoseReply, Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate});
  }
  for (const Fault fault : faults) {
    for (uint64_t at = 1; at <= clean.writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at << ", check " << with_check);
      const Outcome outcome = Play(with_check, [&](const state::Action&, uint64_t number) {
        return number == at ? FaultDecision{fault} : FaultDecision{};
      });
      CHECK(outcome.signature == clean.signature);
    }
  }
}

TEST_CASE("Another replica takes over at any write") {
  const Outcome clean = Play(false, nullptr);
  for (uint64_t at = 1; at <= clean.writes; ++at) {
    INFO("after write " << at);
    SimulationOptions options;
    options.replicas = 2;
    Simulation sim(options);
    Counter counter(sim);
    Prepare(sim, false);
    sim.Start();
    const absl::Time start = sim.now();
    const char* jobs[kJobs] = {"job a queue=q cpu=2 run=20s", "job b queue=q cpu=2",
                               "job c queue=q cpu=2 run=10s", "job d queue=q cpu=1 run=10s"};
    const auto run_until = [&](absl::Time time) {
      while (sim.NextTime() <= time && sim.Step()) {
        if (sim.writes() >= at && sim.leader() == 0) sim.SetLeader(1);
      }
      sim.RunUntil(time);
    };
    for (int i = 0; i < kJobs; ++i) {
      run_until(start + absl::Seconds(i));
      Make(sim, jobs[i]);
    }
    run_until(start + absl::Minutes(5));
    sim.RunUntilQuiet(start + absl::Minutes(10));
    REQUIRE(sim.Settled());
    sim.CheckSettled();
    for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
    CHECK(sim.violations().empty());
    for (const auto& [name, count] : counter.starts) CHECK(count == 1);
    for (const auto& [name, count] : counter.reservations) CHECK(count == 1);
    CHECK(Signature(sim) == clean.signature);
  }
}

// ---- random clusters, users and faults ----

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed), sim_(Options()) {}

  void Run() {
    Build();
    sim_.Start();
    sim_.SetFaultHook([this](const state::Action&, uint64_t) { return RandomFault(); });
    for (int i = 0; i < 60; ++i) {
      sim_.RunUntil(sim_.now() + absl::Milliseconds(Below(4000)));
      Act();
    }
    sim_.SetFaultHook(nullptr);
    for (int i = 0; i < queues_; ++i) Stop("None", i);
    for (int i = 0; i < made_; ++i) Annotate(i, "sluice.dev/ready-seconds", "0");
    sim_.RunUntil(sim_.now() + absl::Minutes(60));
    REQUIRE(sim_.Settled());
    sim_.CheckSettled();
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
    CheckEnd();
  }

 private:
  static SimulationOptions Options() {
    SimulationOptions options;
    options.replicas = 2;
    state::WaitForPodsReady& wait = *options.settings.wait_for_pods_ready;
    wait.timeout = absl::Seconds(8);
    wait.recovery_timeout = absl::Seconds(5);
    wait.requeuing_strategy.backoff_base_seconds = 1;
    wait.requeuing_strategy.backoff_max_seconds = 4;
    return options;
  }
  void Annotate(int job, const char* key, const std::string& value) {
    Json patch = Json::MakeObject();
    patch["metadata"]["annotations"].Set(key, value);
    sim_.Patch(Kind::kJob, {"ns", fmt::format("j{}", job)}, std::move(patch));
  }
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  void Build() {
    Make(sim_, "namespace ns");
    Make(sim_, "flavor f0");
    Make(sim_, "flavor f1 label:pool=b");
    Make(sim_, "priorityclass high value=10");
    queues_ = 1 + Below(3);
    for (int i = 0; i < queues_; ++i) {
      Make(sim_,
           fmt::format("clusterqueue c{} strategy={} flavor=f0{{cpu={},pods=20}} "
                       "flavor=f1{{cpu={},pods=20}}",
                       i, Below(2) == 0 ? "StrictFIFO" : "BestEffortFIFO", 4 + Below(4), Below(4)));
      Make(sim_, fmt::format("localqueue q{} cq=c{}", i, i));
    }
  }

  FaultDecision RandomFault() {
    if (Below(100) >= 6) return {};
    constexpr Fault kFaults[] = {Fault::kLoseRequest, Fault::kLoseReply,   Fault::kFail,
                                 Fault::kDuplicate,   Fault::kCrashBefore, Fault::kCrashAfter};
    FaultDecision decision;
    decision.fault = kFaults[Below(6)];
    constexpr int kCodes[] = {500, 503, 409, 429, 504};
    decision.code = kCodes[Below(5)];
    return decision;
  }

  void Stop(const std::string& policy, int queue) {
    Json patch = Json::MakeObject();
    patch["spec"].Set("stopPolicy", policy);
    sim_.Patch(Kind::kClusterQueue, {"", fmt::format("c{}", queue)}, std::move(patch));
  }

  void Act() {
    switch (Below(11)) {
      case 10:  // a pod fails
        if (made_ > 0) {
          const int job = Below(made_);
          Annotate(job, "sluice.dev/failed-pods", std::to_string(++failed_pods_[job]));
        }
        return;
      case 0: {
        constexpr const char* kPolicies[] = {"None", "Hold", "HoldAndDrain", "None"};
        Stop(kPolicies[Below(4)], Below(queues_));
        return;
      }
      case 1:
        if (made_ > 0) {
          const std::string name = fmt::format("j{}", Below(made_));
          if (sim_.Delete(Kind::kJob, {"ns", name}).ok()) deleted_.insert(name);
        }
        return;
      case 2:
        sim_.SetLeader(1 - sim_.leader());
        return;
      case 3:
        sim_.Relist(static_cast<size_t>(Below(2)));
        return;
      default:
        const char* kReadiness[] = {
            "", "", " ready=3s", " ready=9s,1s", " ready=1s,never", " ready=never"};
        Make(sim_, fmt::format("job j{} queue=q{} cpu={} parallelism={} completions={} run={}s{}{}",
                               made_, Below(queues_), 1 + Below(2), 1 + Below(2), 2, 1 + Below(30),
                               Below(3) == 0 ? " priority=high" : "", kReadiness[Below(6)]));
        ++made_;
    }
  }

  // Every Job fits into an empty queue, so all of them have ended.
  void CheckEnd() {
    for (int i = 0; i < made_; ++i) {
      const std::string name = fmt::format("j{}", i);
      if (deleted_.contains(name)) continue;
      const Json* job = sim_.api().Find(Kind::kJob, {"ns", name});
      REQUIRE(job != nullptr);
      if (ConditionTrue(*job, "Complete")) continue;
      INFO(name << " " << job->Find("spec", "suspend")->Text());
      FAIL_CHECK("a Job that fits has not ended");
    }
    for (const Json& queue : sim_.api().List(Kind::kClusterQueue)) {
      CHECK(queue.Find("status", "pendingWorkloads")->AsInt() == 0);
      CHECK(queue.Find("status", "reservingWorkloads")->AsInt() == 0);
    }
  }

  std::mt19937_64 random_;
  Simulation sim_;
  int queues_ = 0;
  int made_ = 0;
  absl::btree_set<std::string> deleted_;
  absl::btree_map<int, int> failed_pods_;  // by Job
};

TEST_CASE("Random clusters, users and faults keep the invariants") {
  ForSeeds(8, [](uint64_t seed) { RandomRun(seed).Run(); });
}

}  // namespace
}  // namespace sluice::sim
