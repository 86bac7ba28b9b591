// Benchmarks of the path that every decision takes: decoding, taking an object in, a cycle.
#include <benchmark/benchmark.h>

#include "admission/cycle.h"
#include "api/codec.h"
#include "state/world.h"
#include "unit/build/builders.h"

namespace sluice {
namespace {

api::Json WorkloadJson(int number, const std::string& cpu) {
  return api::Encode<api::Workload>(build::Workload("w" + std::to_string(number))
                                        .Queue("q")
                                        .Request("cpu", cpu)
                                        .Uid("uid-" + std::to_string(number))
                                        .ResourceVersion(std::to_string(1000 + number)));
}

void Upsert(state::World& world, api::Kind kind, api::Json object) {
  state::Refs touched;
  world.Apply({state::ObjectEvent::Type::kUpsert, kind, std::move(object)}, build::Epoch(),
              touched);
}

// A World with one queue of `cpu` and `pending` Workloads of `shapes` different sizes, each larger
// than the quota when the quota is 0.
std::unique_ptr<state::World> MakeWorld(const std::string& cpu, int pending, int shapes) {
  auto world = std::make_unique<state::World>(state::Settings{});
  Upsert(*world, api::Kind::kNamespace, api::Encode<api::Namespace>(build::Namespace("ns")));
  Upsert(*world, api::Kind::kResourceFlavor,
         api::Encode<api::ResourceFlavor>(build::Flavor("default")));
  Upsert(
      *world, api::Kind::kClusterQueue,
      api::Encode<api::ClusterQueue>(build::ClusterQueue("cq").Flavor("default", {{"cpu", cpu}})));
  Upsert(*world, api::Kind::kLocalQueue,
         api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
  for (int i = 0; i < pending; ++i) {
    Upsert(*world, api::Kind::kWorkload, WorkloadJson(i, std::to_string(1 + i % shapes)));
  }
  return world;
}

void BM_DecodeWorkload(benchmark::State& state) {
  const std::string text = WorkloadJson(1, "2").Text();
  for (auto _ : state) {
    auto json = api::ParseJson(text);
    benchmark::DoNotOptimize(api::Decode<api::Workload>(*json));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(BM_DecodeWorkload);

void BM_ApplyPendingWorkload(benchmark::State& state) {
  auto world = MakeWorld("0", static_cast<int>(state.range(0)), 10);
  int number = static_cast<int>(state.range(0));
  for (auto _ : state) Upsert(*world, api::Kind::kWorkload, WorkloadJson(number++, "3"));
}
BENCHMARK(BM_ApplyPendingWorkload)->Arg(1000)->Arg(100000);

// One release and the judgement of everything that waits, nothing fits.
void BM_RejudgePending(benchmark::State& state) {
  auto world = MakeWorld("0", static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const absl::Time now = build::At(60);
  for (auto _ : state) {
    world->queues().ReleaseParked("cq", now);
    benchmark::DoNotOptimize(admission::Schedule(world->snapshot(), world->queues(), now));
  }
}
BENCHMARK(BM_RejudgePending)
    ->Args({100000, 10})
    ->Args({100000, 1000})
    ->Unit(benchmark::kMillisecond);

void BM_Admit(benchmark::State& state) {
  const absl::Time now = build::At(60);
  const int pending = static_cast<int>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    auto world = MakeWorld("1000000", pending, 10);
    state.ResumeTiming();
    benchmark::DoNotOptimize(admission::Schedule(world->snapshot(), world->queues(), now, 1000));
    state.PauseTiming();
    world.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 1000);
}
BENCHMARK(BM_Admit)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
