// What the controller leaves out while much happens, and makes up for afterwards.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <string>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

// Workloads without Jobs that others let run: each ends so long after it was admitted.
class Load {
 public:
  explicit Load(absl::Duration run_time) : sim_(Options()), run_time_(run_time) {
    sim_.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
  }

  void Queue(const std::string& name, const std::string& words) {
    Make(sim_, fmt::format("clusterqueue cq{} {}", name, words));
    Make(sim_, fmt::format("localqueue {} cq=cq{}", name, name));
  }
  void Start() { sim_.Start(); }
  void Workload(const std::string& words) {
    Make(sim_, fmt::format("workload w{} {}", made_++, words));
  }
  // Lets time pass, and the Workloads that have run long enough end.
  void RunUntil(absl::Time end) {
    while (!ends_.empty() && ends_.begin()->first <= end) {
      const auto [time, key] = *ends_.begin();
      ends_.erase(ends_.begin());
      sim_.RunUntil(time);
      const auto object = sim_.api().Find(Kind::kWorkload, key);
      if (!ConditionTrue(*object, api::kAdmitted) || ConditionTrue(*object, api::kEvicted))
        continue;
      Finish(key, *object);
    }
    sim_.RunUntil(end);
  }

  Simulation& sim() { return sim_; }
  int queue_writes() const { return queue_writes_; }
  int evictions() const { return evictions_; }
  int running() const { return static_cast<int>(ends_.size()); }
  // Queues whose status counts what is not there.
  int WrongCounts() const {
    int wrong = 0;
    for (const Kind kind : {Kind::kClusterQueue, Kind::kLocalQueue}) {
      for (const Json& queue : sim_.api().List(kind)) {
        for (const char* field : {"pendingWorkloads", "reservingWorkloads", "admittedWorkloads"}) {
          const Json* count = queue.Find("status", field);
          if (count != nullptr && count->AsInt() != 0) ++wrong;
        }
      }
    }
    return wrong;
  }

 private:
  static SimulationOptions Options() {
    SimulationOptions options;
    options.check = false;  // quadratic, and other tests check
    options.controller.eviction_grace = absl::Seconds(1);
    return options;
  }

  void Finish(const ObjectKey& key, const Json& object) {
    Json conditions = *object.Find("status", "conditions");
    conditions.Append(Json::MakeObject({{"type", api::kFinished},
                                        {"status", "True"},
                                        {"reason", "Succeeded"},
                                        {"message", "ended"},
                                        {"lastTransitionTime", FormatTime(sim_.now())}}));
    Json patch = Json::MakeObject();
    patch["status"].Set("conditions", std::move(conditions));
    REQUIRE(sim_.Patch(Kind::kWorkload, key, std::move(patch), "status").ok());
  }

  void Take(const state::ObjectEvent& event) {
    if (event.kind == Kind::kClusterQueue || event.kind == Kind::kLocalQueue) ++queue_writes_;
    if (event.kind != Kind::kWorkload) return;
    const ObjectKey key{event.object.GetString("metadata", "namespace"),
                        event.object.GetString("metadata", "name")};
    State& state = states_[key];
    const bool admitted = ConditionTrue(event.object, api::kAdmitted);
    const bool evicted = ConditionTrue(event.object, api::kEvicted);
    if (admitted && !state.admitted) ends_.insert({sim_.now() + run_time_, key});
    if (evicted && !state.evicted) ++evictions_;
    state = {admitted, evicted};
  }

  struct State {
    bool admitted = false;
    bool evicted = false;
  };
  Simulation sim_;
  absl::Duration run_time_;
  absl::btree_map<ObjectKey, State> states_;
  absl::btree_multimap<absl::Time, ObjectKey> ends_;
  int made_ = 0;
  int queue_writes_ = 0;
  int evictions_ = 0;
};

TEST_CASE("Counts of many queues are written slowly under load, and are right soon after it") {
  constexpr int kQueues = 200;
  Load load(absl::Milliseconds(300));
  for (int i = 0; i < kQueues; ++i) {
    load.Queue(fmt::format("q{}", i), "flavor=default{cpu=4}");
  }
  load.Start();
  const absl::Time start = load.sim().now() + absl::Seconds(5);
  load.RunUntil(start);
  const int before = load.queue_writes();
  // 80 Workloads a second for ten seconds, each in another queue.
  for (int i = 0; i < 800; ++i) {
    load.RunUntil(start + absl::Milliseconds(12.5) * i);
    load.Workload(fmt::format("queue=q{} cpu=1", i * 7 % kQueues));
  }
  const int under_load = load.queue_writes() - before;
  CHECK(under_load >= 100);
  CHECK(under_load <= 100 + 10 * 10 + 1);  // the burst and the pace
  load.RunUntil(start + absl::Seconds(11));
  CHECK(load.running() == 0);
  load.RunUntil(start + absl::Seconds(14));
  CHECK(load.WrongCounts() == 0);
  const int all = load.queue_writes();
  CHECK(all - before - under_load <= 2 * kQueues);  // each once
  load.RunUntil(start + absl::Minutes(10));
  CHECK(load.queue_writes() == all);  // and then it is quiet
}

TEST_CASE("The count of a single Workload is written at once") {
  Load load(absl::Seconds(5));
  load.Queue("q", "flavor=default{cpu=4}");
  load.Start();
  const absl::Time start = load.sim().now() + absl::Seconds(5);
  load.RunUntil(start);
  load.Workload("queue=q cpu=1");
  load.RunUntil(start + absl::Milliseconds(200));
  const auto queue = load.sim().api().Find(Kind::kLocalQueue, {"ns", "q"});
  CHECK(queue->Find("status", "admittedWorkloads")->AsInt() == 1);
}

// Ten small Workloads hold the quota that a large one with priority needs.
int EvictionsFor(absl::Duration run_time, bool busy) {
  Load load(run_time);
  load.Queue("q", "flavor=default{cpu=10} within=LowerPriority");
  for (int i = 0; i < 100; ++i) load.Queue(fmt::format("other{}", i), "flavor=default{cpu=90}");
  load.Start();
  const absl::Time start = load.sim().now() + absl::Seconds(5);
  load.RunUntil(start);
  for (int i = 0; i < 300; ++i) {
    load.RunUntil(start + absl::Milliseconds(10) * i);
    if (busy) load.Workload(fmt::format("queue=other{} cpu=1", i % 100));
    if (i >= 150 && i < 160) load.Workload("queue=q cpu=1");
    if (i == 165) load.Workload("queue=q cpu=10 priority=5");
  }
  load.RunUntil(start + absl::Seconds(3));
  const auto preemptor = load.sim().api().Find(Kind::kWorkload, {"ns", busy ? "w176" : "w10"});
  REQUIRE(preemptor->Find("spec", "priority")->AsInt() == 5);
  const bool victims_told = load.evictions() > 0;
  CHECK(ConditionTrue(*preemptor, api::kAdmitted) == !victims_told);
  return load.evictions();
}

TEST_CASE("Under load, victims that end by themselves in a moment are not told to go") {
  CHECK(EvictionsFor(absl::Milliseconds(800), true) == 0);
}

TEST_CASE("Victims that go on running are told after their grace, and at once when it is calm") {
  CHECK(EvictionsFor(absl::Minutes(1), true) == 10);
  CHECK(EvictionsFor(absl::Milliseconds(800), false) == 10);
}

// Whoever can do without a victim that another waits for as well gives up his claim only. Were the
// victim let go, the other would claim it anew and both would be decided about in a circle, which
// the simulation notices.
TEST_CASE("Preemptors that wait for the same victims are not decided about for ever") {
  constexpr int kQueues = 6;
  Load load(absl::Milliseconds(900));
  for (int i = 0; i < kQueues; ++i) {
    load.Queue(fmt::format("q{}", i),
               "flavor=default{cpu=20/borrow=100} cohort=pool within=LowerPriority reclaim=Any");
  }
  load.Start();
  const absl::Time start = load.sim().now() + absl::Seconds(5);
  load.RunUntil(start);
  int made = 0;
  const auto make = [&](int queue, const std::string& words) {
    load.Workload(fmt::format("queue=q{} {}", queue, words));
    ++made;
  };
  for (int i = 0; i < 100; ++i) {
    load.RunUntil(start + absl::Milliseconds(100) * i);
    for (int queue = 0; queue < kQueues; ++queue) {
      make(queue, "cpu=1 priority=50");
      if ((i + queue) % 5 == 0) make(queue, "cpu=5 priority=100");
      if ((i + queue) % 12 == 0) make(queue, "cpu=20 priority=200");
    }
  }
  load.RunUntil(start + absl::Seconds(60));
  CHECK(load.running() == 0);
  CHECK(load.evictions() > 0);
  CHECK(load.sim().controller(0).world().queues().cycle() < static_cast<uint64_t>(5 * made));
}

}  // namespace
}  // namespace sluice::sim
