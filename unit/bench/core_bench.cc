// Benchmarks of the path that every decision takes: decoding, taking an object in, a cycle; and of
// the memory that a waiting Workload costs.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>

#include <array>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/check.h"
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

constexpr std::array<const char*, 3> kModes = {"", "EASY", "Conservative"};

// A cycle in which nothing can start: the head waits, and so do 100 behind it of different sizes,
// with 100 running that end at different times. Kind 0: strict order; 1: EASY; 2: Conservative.
// `cohort`: the quota is that of a cohort. The difference to kind 0 is the price of backfill, at
// most 2 ms.
void BM_BackfillCycle(benchmark::State& state) {
  constexpr int kRunning = 100;
  constexpr int kPending = 200;
  const std::string mode = kModes[static_cast<size_t>(state.range(0))];
  auto world = MakeWorld("0", 0, 1);
  build::ClusterQueue queue("cq");
  queue.Flavor("default", {{"cpu", std::to_string(10 * kRunning)}}).ResourceVersion("2");
  if (state.range(1) == 1) queue.Cohort("org");
  if (mode.empty()) {
    api::ClusterQueue strict = queue.Get();
    strict.spec.queueing_strategy = "StrictFIFO";
    Upsert(*world, api::Kind::kClusterQueue, api::Encode(strict));
  } else {
    queue.Annotation("sluice.dev/backfill", mode).Annotation("sluice.dev/backfill-depth", "100");
    Upsert(*world, api::Kind::kClusterQueue, api::Encode(queue.Get()));
  }
  const auto job = [](const std::string& name, const std::string& cpu, int seconds) {
    return build::Workload(name)
        .Queue("q")
        .Request("cpu", cpu)
        .Uid("uid-" + name)
        .Annotation("sluice.dev/expected-runtime", std::to_string(seconds) + "s");
  };
  for (int i = 0; i < kRunning; ++i) {
    auto running = job("r" + std::to_string(i), "9", 1000 + 10 * i);
    running.Admitted("cq", "default", build::Epoch()).ResourceVersion(std::to_string(100 + i));
    Upsert(*world, api::Kind::kWorkload, api::Encode<api::Workload>(running));
  }
  for (int i = 0; i < kPending; ++i) {
    auto waits = job("w" + std::to_string(i), std::to_string(i == 0 ? 900 : 101 + i), 2000 + i);
    waits.Created(build::At(i)).ResourceVersion(std::to_string(1000 + i));
    Upsert(*world, api::Kind::kWorkload, api::Encode<api::Workload>(waits));
  }
  const absl::Time now = build::At(600);
  world->RunReleases(now);
  for (auto _ : state) {
    world->queues().Retry("cq");
    admission::Reservations reservations;
    const auto decisions =
        admission::Schedule(world->snapshot(), world->queues(), now, 1000, &reservations);
    if (decisions.size() != 1) state.SkipWithError("something else than the head was decided");
    state.counters["reservations"] = static_cast<double>(reservations.by_workload.size());
  }
}
BENCHMARK(BM_BackfillCycle)
    ->ArgNames({"kind", "cohort"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

// Nodes of one host each in racks of 20, all of them full of `running` workloads that end at
// different times; each holds as many nodes as the others.
std::unique_ptr<state::World> MakeNodes(int nodes, int running, const std::string& mode) {
  auto world = std::make_unique<state::World>(state::Settings{});
  const auto yaml = [&](api::Kind kind, const std::string& text) {
    Upsert(*world, kind, *api::ParseJson(text));
  };
  Upsert(*world, api::Kind::kNamespace, api::Encode<api::Namespace>(build::Namespace("ns")));
  yaml(api::Kind::kTopology,
       R"({"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "rack"},
           {"nodeLabel": "kubernetes.io/hostname"}]}})");
  yaml(api::Kind::kResourceFlavor,
       R"({"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "p"},
           "topologyName": "t"}})");
  for (int i = 0; i < nodes; ++i) {
    yaml(api::Kind::kNode,
         fmt::format(R"({{"metadata": {{"name": "n{0}", "labels": {{"pool": "p", "rack": "r{1}",
                         "kubernetes.io/hostname": "n{0}"}}}},
                         "status": {{"allocatable": {{"cpu": "8", "pods": "110"}},
                         "conditions": [{{"type": "Ready", "status": "True"}}]}}}})",
                     i, i / 20));
  }
  state::Refs touched;
  for (const api::Kind kind : {api::Kind::kNode, api::Kind::kPod}) {
    world->Apply({state::ObjectEvent::Type::kListBegin, kind, {}}, build::Epoch(), touched);
    if (kind == api::Kind::kNode) {
      const auto all = world->nodes().all();
      for (const auto& [key, node] : all) {
        world->Apply({state::ObjectEvent::Type::kUpsert, kind, api::Encode(*node)}, build::Epoch(),
                     touched);
      }
    }
    world->Apply({state::ObjectEvent::Type::kListEnd, kind, {}}, build::Epoch(), touched);
  }
  build::ClusterQueue queue("cq");
  queue.Flavor("default", {{"cpu", std::to_string(8 * nodes * 10)}});
  if (!mode.empty()) {
    queue.Annotation("sluice.dev/backfill", mode).Annotation("sluice.dev/backfill-depth", "100");
  }
  api::ClusterQueue strict = queue.Get();
  strict.spec.queueing_strategy = "StrictFIFO";
  Upsert(*world, api::Kind::kClusterQueue, api::Encode(strict));
  Upsert(*world, api::Kind::kLocalQueue,
         api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
  for (int i = 0; i < running; ++i) {
    auto job = build::Workload("r" + std::to_string(i));
    job.Queue("q").Request("cpu", "8").Count(nodes / running).Uid("uid-r" + std::to_string(i));
    job.Created(build::At(i)).ResourceVersion(std::to_string(100 + i));
    job.Annotation("sluice.dev/expected-runtime", std::to_string(1000 + 10 * i) + "s");
    Upsert(*world, api::Kind::kWorkload, api::Encode<api::Workload>(job));
  }
  const absl::Time now = build::At(300);
  for (const auto& decision : admission::Schedule(world->snapshot(), world->queues(), now, 1000)) {
    SLUICE_CHECK(decision.kind == admission::Decision::Kind::kAdmit, "{}", decision.message);
    auto admitted = std::make_shared<api::Workload>(*decision.info->workload);
    admission::SetQuotaReservation(*admitted, decision.admission, {}, now);
    world->Assume(std::move(admitted));
  }
  return world;
}

// The same on nodes: there is quota for all, and no node; the head wants nine tenths of them. All
// that wait are of one size (shapes 1) or each of another.
void BM_BackfillOnNodes(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  const auto shapes = static_cast<int>(state.range(2));
  auto world = MakeNodes(nodes, 100, kModes[static_cast<size_t>(state.range(1))]);
  for (int i = 0; i < 200; ++i) {
    auto waits = build::Workload("w" + std::to_string(i));
    waits.Queue("q").Request("cpu", "8").Uid("uid-w" + std::to_string(i));
    waits.Count(i == 0 ? nodes * 9 / 10 : nodes / 50 + i % shapes);
    waits.Annotation("sluice.dev/expected-runtime", std::to_string(2000 + i % shapes) + "s");
    waits.Created(build::At(300 + i)).ResourceVersion(std::to_string(1000 + i));
    Upsert(*world, api::Kind::kWorkload, api::Encode<api::Workload>(waits));
  }
  const absl::Time now = build::At(600);
  world->RunReleases(now);
  for (auto _ : state) {
    world->queues().Retry("cq");
    admission::Reservations reservations;
    const auto decisions =
        admission::Schedule(world->snapshot(), world->queues(), now, 1000, &reservations);
    for (const admission::Decision& decision : decisions) {
      if (decision.kind != admission::Decision::Kind::kWait) state.SkipWithError("one started");
    }
    state.counters["reservations"] = static_cast<double>(reservations.by_workload.size());
    state.counters["refused"] = static_cast<double>(decisions.size());
  }
}
BENCHMARK(BM_BackfillOnNodes)
    ->ArgNames({"nodes", "kind", "shapes"})
    ->ArgsProduct({{500, 5000}, {0, 1, 2}, {1, 100}})
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

// A Workload as it comes for a Job: owned, labelled, with a template that only the labels tell from
// others, and with the text that says why it waits.
api::Json WorkloadOfJobJson(int number) {
  const std::string job = fmt::format("training-{:06}", number);
  const std::string uid = fmt::format("4b0b2d3e-72c5-4b93-8f9c-{:012}", number);
  api::Json json = api::Encode<api::Workload>(
      build::Workload(fmt::format("job-{}-5d41c", job))
          .Namespace("team-vision")
          .Queue("main")
          .Priority(0)
          .Request("cpu", "4")
          .Request("memory", "16Gi")
          .Limit("nvidia.com/gpu", "1")
          .Uid(fmt::format("7a0b2d3e-72c5-4b93-8f9c-{:012}", number))
          .ResourceVersion(std::to_string(100000 + number))
          .Label("kueue.x-k8s.io/job-uid", uid)
          .Finalizer("kueue.x-k8s.io/resource-in-use")
          .OwnedBy("batch/v1", "Job", job, uid)
          .Condition(api::kQuotaReserved, api::ConditionStatus::kFalse, "Pending", build::Epoch(),
                     "couldn't assign flavors to pod set main: insufficient unused quota for "
                     "nvidia.com/gpu in flavor default, 1 more needed"));
  api::Json& pod_set = json.Find("spec")->Find("podSets")->MutableArray().front();
  api::Json& pod_template = *pod_set.Find("template");
  pod_template["metadata"]["labels"].Set("batch.kubernetes.io/job-name", job);
  pod_template["spec"].Set("schedulerName", "default-scheduler");
  pod_template["spec"]["containers"].MutableArray().front().Set("image", "registry.example/train");
  api::Json request = api::Json::MakeObject(
      {{"name", "main"},
       {"resources",
        api::Json::MakeObject({{"cpu", "4"}, {"memory", "16Gi"}, {"nvidia.com/gpu", "1"}})}});
  json["status"].Set("resourceRequests", api::Json::MakeArray({std::move(request)}));
  return json;
}

// What World and QueueManager keep for each Workload that waits, with the allocator's own share.
void BM_MemoryOfPendingWorkload(benchmark::State& state) {
  constexpr double kLimit = 4096;  // bytes a Workload
  const int pending = static_cast<int>(state.range(0));
  double each = 0;
  for (auto _ : state) {
    auto world = MakeWorld("0", 0, 1);
    Upsert(*world, api::Kind::kNamespace,
           api::Encode<api::Namespace>(build::Namespace("team-vision")));
    Upsert(*world, api::Kind::kLocalQueue,
           api::Encode<api::LocalQueue>(build::LocalQueue("main", "cq").Namespace("team-vision")));
    malloc_trim(0);
    const struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < pending; ++i) Upsert(*world, api::Kind::kWorkload, WorkloadOfJobJson(i));
    benchmark::DoNotOptimize(
        admission::Schedule(world->snapshot(), world->queues(), build::At(60)));
    const struct mallinfo2 after = mallinfo2();
    if (world->queues().size() != pending) state.SkipWithError("not every Workload waits");
    each = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) /
           pending;
  }
  state.counters["bytes_per_workload"] = each;
  if (each > kLimit) state.SkipWithError("a pending Workload costs more than 4096 bytes");
}
BENCHMARK(BM_MemoryOfPendingWorkload)->Arg(10000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
