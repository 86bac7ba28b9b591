// What a question says and what the next cycle does are the same: random clusters are asked about a
// workload, and then it is created.
#include <absl/container/btree_set.h>
#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "reconcile/what_if.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/reconcile/synced_world.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using api::Kind;
using build::At;

constexpr int kWorlds = 400;

class RandomCluster : public SyncedWorld {
 public:
  explicit RandomCluster(uint32_t seed) : random_(seed) {
    for (const char* flavor : {"f", "g"}) {
      Add(Kind::kResourceFlavor, api::Encode<api::ResourceFlavor>(build::Flavor(flavor)));
    }
    const int queues = 1 + Below(4);
    for (int i = 0; i < queues; ++i) AddQueue(fmt::format("cq{}", i));
    const int running = Below(6);
    for (int i = 0; i < running; ++i) AddRunning(i);
    const int waiting = Below(8);
    for (int i = 0; i < waiting; ++i) {
      Add(WaitingOne(fmt::format("waits{}", i)).Created(At(100 + i)).Uid(fmt::format("w{}", i)));
    }
  }

  // Until nothing more can be decided, as a controller does that leads.
  void Decide(absl::Time now) {
    for (int rounds = 0; rounds < 20; ++rounds) {
      world.RunReleases(now);
      if (!world.queues().HasHeads(now)) return;
      for (const auto& decision : admission::Schedule(world.snapshot(), world.queues(), now)) {
        for (const auto& victim : decision.victims) {
          if (!victim.ongoing) world.AssumeEviction(victim.workload->Key());
        }
        if (decision.kind != admission::Decision::Kind::kAdmit) continue;
        auto workload = std::make_shared<api::Workload>(*decision.info->workload);
        admission::SetQuotaReservation(*workload, decision.admission, {}, now);
        world.Assume(workload);
      }
    }
  }

  build::Workload WaitingOne(const std::string& name) {
    build::Workload workload(name);
    workload.Queue("to-" + names_[Below(static_cast<int>(names_.size()))])
        .Priority(Below(3))
        .Request("cpu", std::to_string(1 + Below(5)));
    if (Below(2) == 0) workload.MaximumExecutionTime(600 * (1 + Below(6)));
    return workload;
  }

  int Below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

 private:
  void AddQueue(const std::string& name) {
    build::ClusterQueue builder(name);
    if (Below(3) > 0) builder.Cohort(Below(2) == 0 ? "one" : "two");
    if (Below(3) == 0) builder.StrictFifo();
    if (Below(4) == 0) {
      builder.Annotation("sluice.dev/backfill", Below(2) == 0 ? "EASY" : "Conservative");
    }
    builder.Flavor("f", {{"cpu", std::to_string(Below(6))}});
    if (Below(2) == 0) builder.Flavor("g", {{"cpu", std::to_string(Below(4))}});
    api::ClusterQueue queue = builder;
    const char* within[] = {"Never", "LowerPriority", "LowerOrNewerEqualPriority"};
    const char* reclaim[] = {"Never", "LowerPriority", "Any"};
    queue.spec.preemption.emplace();
    queue.spec.preemption->within_cluster_queue = within[Below(3)];
    queue.spec.preemption->reclaim_within_cohort = reclaim[Below(3)];
    Queue(queue);
    names_.push_back(name);
  }

  void AddRunning(int number) {
    const std::string& name = names_[Below(static_cast<int>(names_.size()))];
    build::Workload workload(fmt::format("runs{}", number));
    workload.Queue("to-" + name)
        .Priority(Below(2))
        .Request("cpu", std::to_string(1 + Below(3)))
        .Uid(fmt::format("r{}", number))
        .Created(At(number));
    if (Below(2) == 0) workload.MaximumExecutionTime(1200 + 600 * Below(6));
    if (Below(3) == 0) workload.Annotation("sluice.dev/min-runtime", "2h");
    if (Below(3) == 0) workload.Annotation("sluice.dev/restart-cost", "5m");
    Add(workload.Admitted(name, "f", At(10 + number)));
  }

  std::mt19937 random_;
  std::vector<std::string> names_;
};

Json Body(const build::Workload& workload) {
  Json body = api::Encode<api::Workload>(workload.Get());
  body.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
  body.Set("kind", "Workload");
  return body;
}

TEST_CASE("what a question says is what the next cycle does") {
  int admitted = 0;
  int preempting = 0;
  for (uint32_t seed = 1; seed <= kWorlds; ++seed) {
    RandomCluster cluster(seed);
    const bool decided = seed % 2 == 0;
    const absl::Time now = At(900);
    if (decided) cluster.Decide(now);
    const bool quick = cluster.Below(2) == 0;
    build::Workload asked = cluster.WaitingOne("asked");
    asked.Created(now);
    INFO("seed " << seed << (decided ? ", decided" : ", fresh"));
    const auto answer = AskWhatIf(cluster.world, Body(asked), "", now, WithForecast::kYes,
                                  quick ? Effort::kQuick : Effort::kThorough);
    REQUIRE(answer.ok());
    cluster.world.tree().CheckInvariants();
    // The same question, the same answer: nothing has changed.
    const auto again = AskWhatIf(cluster.world, Body(asked), "", now, WithForecast::kYes,
                                 quick ? Effort::kQuick : Effort::kThorough);
    REQUIRE(again.ok());
    CHECK(WhatIfJson(*again) == WhatIfJson(*answer));
    CHECK((answer->enters() || answer->forecast.has_value()));

    cluster.Add(asked.Uid("z"));
    cluster.world.RunReleases(now);
    using Decided = admission::Decision::Kind;
    Decided kind = Decided::kWait;
    absl::btree_set<std::string> victims;
    for (const auto& decision :
         admission::Schedule(cluster.world.snapshot(), cluster.world.queues(), now)) {
      if (decision.info->Key().name != "asked") continue;
      kind = decision.kind;
      for (const auto& victim : decision.victims) victims.insert(victim.workload->Key().ToString());
    }
    CHECK(answer->admitted == (kind == Decided::kAdmit));
    CHECK(answer->after_preemption == (kind == Decided::kPreempt));
    absl::btree_set<std::string> named;
    for (const WhatIfVictim& victim : answer->victims) named.insert(victim.workload.ToString());
    if (kind == Decided::kPreempt) CHECK(named == victims);
    admitted += answer->admitted ? 1 : 0;
    preempting += answer->after_preemption ? 1 : 0;
  }
  // Both happen often enough for this to mean something.
  CHECK(admitted > kWorlds / 10);
  CHECK(preempting > kWorlds / 40);
}

}  // namespace
}  // namespace sluice::reconcile
