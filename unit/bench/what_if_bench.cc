// Benchmark of questions at scale: 10,000 workloads that wait, 5,000 nodes in racks, and in each
// rack a gang that runs. The goal is 10 ms for each; the controller answers on the thread that
// decides, so this is also for how long a question holds up decisions.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "reconcile/explain.h"
#include "reconcile/explain_reason.h"
#include "reconcile/what_if.h"
#include "state/world.h"
#include "unit/build/builders.h"

namespace sluice {
namespace {

using api::Kind;
using Type = state::ObjectEvent::Type;

constexpr int kNodes = 5000;
constexpr int kPerRack = 20;
constexpr int kPending = 10'000;
constexpr int kRunning = kNodes / kPerRack;
constexpr int kBusy = 16;  // hosts of each rack, of which a gang holds all eight GPUs

void Upsert(state::World& world, Kind kind, api::Json object) {
  state::Refs touched;
  world.Apply({Type::kUpsert, kind, std::move(object)}, build::Epoch(), touched);
}

api::Json NodeJson(int number) {
  const std::string name = fmt::format("node-{:04}", number);
  return *api::ParseJson(fmt::format(
      R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","labels":{{"pool":"gpu",)"
      R"("block":"b{1}","rack":"r{2}","kubernetes.io/hostname":"{0}"}}}},"status":{{"allocatable":)"
      R"({{"cpu":"64","nvidia.com/gpu":"8","pods":"110"}},"conditions":[{{"type":"Ready",)"
      R"("status":"True"}}]}}}})",
      name, number / kPerRack / 10, number / kPerRack));
}

api::Json GangJson(const std::string& name, int pods, const char* level) {
  api::Json json = api::Encode<api::Workload>(build::Workload(name)
                                                  .Queue("q")
                                                  .Request("nvidia.com/gpu", "8")
                                                  .Uid(name)
                                                  .ResourceVersion("1"));
  json.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
  json.Set("kind", "Workload");
  api::Json& pod_set = json.Find("spec")->Find("podSets")->MutableArray().front();
  pod_set.Set("count", pods);
  pod_set.Set("topologyRequest", api::Json::MakeObject({{"required", level}}));
  return json;
}

std::unique_ptr<state::World> MakeWorld() {
  static const state::Settings settings;
  auto world = std::make_unique<state::World>(settings);
  state::Refs touched;
  for (const Kind kind : state::World::WatchedKinds(settings)) {
    world->Apply({Type::kListBegin, kind, {}}, build::Epoch(), touched);
    world->Apply({Type::kListEnd, kind, {}}, build::Epoch(), touched);
  }
  Upsert(*world, Kind::kNamespace, api::Encode<api::Namespace>(build::Namespace("ns")));
  Upsert(*world, Kind::kTopology,
         *api::ParseJson(R"({"metadata":{"name":"t"},"spec":{"levels":[{"nodeLabel":"block"},)"
                         R"({"nodeLabel":"rack"},{"nodeLabel":"kubernetes.io/hostname"}]}})"));
  Upsert(*world, Kind::kResourceFlavor,
         *api::ParseJson(R"({"metadata":{"name":"gpu"},"spec":{"nodeLabels":{"pool":"gpu"},)"
                         R"("topologyName":"t"}})"));
  api::ClusterQueue queue = build::ClusterQueue("cq").Flavor("gpu", {{"nvidia.com/gpu", "40000"}});
  queue.spec.preemption.emplace();
  queue.spec.preemption->within_cluster_queue = "LowerPriority";
  Upsert(*world, Kind::kClusterQueue, api::Encode<api::ClusterQueue>(queue));
  Upsert(*world, Kind::kLocalQueue, api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
  for (int i = 0; i < kNodes; ++i) Upsert(*world, Kind::kNode, NodeJson(i));
  for (int i = 0; i < kRunning; ++i) {
    api::Json gang = GangJson(fmt::format("running-{}", i), kBusy, "rack");
    gang["metadata"]["annotations"].Set("sluice.dev/expected-runtime",
                                        fmt::format("{}m", 60 + i * 7919 % kRunning));
    Upsert(*world, Kind::kWorkload, std::move(gang));
  }
  const absl::Time now = build::At(60);
  for (int rounds = 0; rounds < 10 && world->queues().HasHeads(now); ++rounds) {
    for (const admission::Decision& decision :
         admission::Schedule(world->snapshot(), world->queues(), now)) {
      if (decision.kind != admission::Decision::Kind::kAdmit) continue;
      auto workload = std::make_shared<api::Workload>(*decision.info->workload);
      admission::SetQuotaReservation(*workload, decision.admission, {}, now);
      world->Assume(workload);
    }
  }
  // Each wants more hosts than a rack has.
  for (int i = 0; i < kPending; ++i) {
    Upsert(*world, Kind::kWorkload,
           GangJson(fmt::format("pending-{}", i), kPerRack + 1 + i % 10, "rack"));
  }
  benchmark::DoNotOptimize(admission::Schedule(world->snapshot(), world->queues(), now));
  return world;
}

state::World& World() {
  static const std::unique_ptr<state::World> world = MakeWorld();
  return *world;
}

bool Ready(benchmark::State& state) {
  if (World().queues().size() == kPending) return true;
  state.SkipWithError(fmt::format("{} workloads wait", World().queues().size()).c_str());
  return false;
}

// One gang of `hosts` hosts; a rack has sixteen busy ones and four free ones.
void BM_WhatIf(benchmark::State& state) {
  if (!Ready(state)) return;
  const api::Json question = GangJson("asked", static_cast<int>(state.range(0)), "rack");
  int fits = 0;
  for (auto _ : state) {
    const auto answer = reconcile::AskWhatIf(World(), question, "cq", build::At(120));
    if (!answer.ok()) return state.SkipWithError(std::string(answer.status().message()).c_str());
    fits = answer->enters() ? 1 : 0;
    benchmark::DoNotOptimize(reconcile::WhatIfJson(*answer));
  }
  state.counters["fits"] = fits;
}
BENCHMARK(BM_WhatIf)->Arg(2)->Arg(8)->Arg(30)->Unit(benchmark::kMillisecond);

// With the forecast, as the controller answers; 20 hosts are a whole rack.
void BM_WhatIfForecast(benchmark::State& state) {
  if (!Ready(state)) return;
  const api::Json question = GangJson("asked", static_cast<int>(state.range(0)), "rack");
  int starts = 0;
  for (auto _ : state) {
    const auto answer = reconcile::AskWhatIf(World(), question, "cq", build::At(120),
                                             reconcile::WithForecast::kYes);
    if (!answer.ok()) return state.SkipWithError(std::string(answer.status().message()).c_str());
    starts = answer->forecast && answer->forecast->start ? 1 : 0;
    benchmark::DoNotOptimize(answer);
  }
  state.counters["starts"] = starts;
}
BENCHMARK(BM_WhatIfForecast)->Arg(8)->Arg(20)->Arg(30)->Unit(benchmark::kMillisecond);

void BM_WhatIfPreempts(benchmark::State& state) {
  if (!Ready(state)) return;
  api::Json question = GangJson("asked", 20, "rack");
  question.Find("spec")->Set("priority", 100);
  int victims = 0;
  for (auto _ : state) {
    const auto answer = reconcile::AskWhatIf(World(), question, "cq", build::At(120));
    if (!answer.ok()) return state.SkipWithError(std::string(answer.status().message()).c_str());
    victims = static_cast<int>(answer->victims.size());
    benchmark::DoNotOptimize(answer);
  }
  state.counters["victims"] = victims;
}
BENCHMARK(BM_WhatIfPreempts)->Unit(benchmark::kMillisecond);

// The last one in the queue.
void BM_Explain(benchmark::State& state) {
  if (!Ready(state)) return;
  const ObjectKey key{"ns", fmt::format("pending-{}", kPending - 1)};
  const auto workload = World().workloads().Find(key);
  for (auto _ : state) {
    const auto tree = reconcile::ExplainWorkload(World(), key, build::At(120));
    benchmark::DoNotOptimize(reconcile::WhyOf(World(), tree, *workload));
  }
}
BENCHMARK(BM_Explain)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
