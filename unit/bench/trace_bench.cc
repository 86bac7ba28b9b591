// A trace of a million workloads on a hundred queues, and a month of 5,000 nodes: from the text to
// the report.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>

#include "base/check.h"
#include "sim/report.h"
#include "sim/trace_stats.h"
#include "sim/trace_text.h"

namespace sluice::sim {
namespace {

constexpr int kCohorts = 10;
constexpr int kQueuesOfCohort = 10;

// Ten cohorts of ten ClusterQueues with 20 CPUs each, which lend and reclaim.
std::string ClusterText() {
  std::string text =
      "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}\n"
      "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n";
  for (int i = 0; i < kCohorts * kQueuesOfCohort; ++i) {
    text += fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: cq-{0:03}}}
spec:
  cohortName: cohort-{1}
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources: [{{name: cpu, nominalQuota: 20, borrowingLimit: 100}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: q-{0:03}, namespace: ns}}
spec: {{clusterQueue: cq-{0:03}}}
)",
                        i, i / kQueuesOfCohort);
  }
  return text;
}

// Of ten workloads seven are small, two are medium and one is large, with higher priority the
// larger they are. `load` percent of all quota is asked for on average. The sequence comes from a
// fixed linear congruential generator.
std::string TraceText(int64_t count, int64_t load) {
  std::string text = "submit,run,queue,priority,cpu\n";
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random >> 33) % below;
  };
  // 0.7 * 1 * 60 s + 0.2 * 5 * 120 s + 0.1 * 20 * 240 s CPU seconds a workload, on average.
  constexpr int64_t kWork = 42 + 120 + 480;
  const int64_t gap = kWork * kSecond * 100 / (int64_t{kCohorts} * kQueuesOfCohort * 20 * load);
  Micros at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t kind = draw(10);
    const int cpu = kind < 7 ? 1 : kind < 9 ? 5 : 20;
    const uint64_t run = (kind < 7 ? 60 : kind < 9 ? 120 : 240) * 1000;  // milliseconds
    at += static_cast<Micros>(draw(static_cast<uint64_t>(2 * gap)));
    const uint64_t run_ms = run / 2 + draw(run);
    text +=
        fmt::format("{},{}.{:03},ns/q-{:03},{},{}\n", FormatMicros(at), run_ms / 1000,
                    run_ms % 1000, draw(kCohorts * kQueuesOfCohort), cpu == 1 ? 50 : cpu * 20, cpu);
  }
  return text;
}

// Loads and plays it, and renders the report.
void Play(benchmark::State& state, const std::vector<SourceFile>& manifests,
          const SourceFile& source) {
  for (auto _ : state) {
    auto cluster = TraceCluster::Load(manifests, state::Settings{});
    SLUICE_CHECK(cluster.ok(), "{}", cluster.status().ToString());
    TraceBuilder builder(**cluster);
    const absl::Status read = ReadCsvTrace(source, builder);
    SLUICE_CHECK(read.ok(), "{}", read.ToString());
    const absl::StatusOr<Trace> trace = builder.Finish();
    SLUICE_CHECK(trace.ok(), "{}", trace.status().ToString());
    TraceEngine engine(**cluster, *trace, {});
    TraceStats stats(**cluster, *trace, engine);
    engine.AddListener(&stats);
    const absl::Status played = engine.Run();
    SLUICE_CHECK(played.ok(), "{}", played.ToString());
    const TraceResult result = stats.Result();
    benchmark::DoNotOptimize(RenderReport(result));
    SLUICE_CHECK(result.total.finished == state.range(0), "{} finished", result.total.finished);
    state.counters["preemptions"] = static_cast<double>(result.total.preemptions);
    state.counters["wait_p95_s"] = static_cast<double>(result.total.wait.p95) / kSecond;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    state.counters["peak_mb"] = static_cast<double>(usage.ru_maxrss) / 1024;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_SimulateTrace(benchmark::State& state) {
  Play(state, {{"cluster.yaml", ClusterText()}},
       {"trace.csv", TraceText(state.range(0), state.range(1))});
}
// Workloads, and the load in percent.
BENCHMARK(BM_SimulateTrace)
    ->Args({100'000, 70})
    ->Args({1'000'000, 70})
    ->Args({1'000'000, 95})
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

// ---- a month of 5,000 nodes

constexpr int kNodes = 5000;
constexpr int kGpusOfNode = 8;
constexpr int kNodesOfRack = 20;
constexpr int kRacksOfBlock = 10;
constexpr int kTeams = 50;  // five to a cohort
constexpr int64_t kMonth = 30 * 24 * 3600;

// Nodes in racks in blocks; teams that share all of them, lend and reclaim.
std::string NodesText() {
  std::string text = R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: places}
spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
spec: {nodeLabels: {pool: gpus}, topologyName: places}
---
apiVersion: v1
kind: Namespace
metadata: {name: ns}
)";
  for (int i = 0; i < kNodes; ++i) {
    const int rack = i / kNodesOfRack;
    text += fmt::format(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{0:04}, labels: {{pool: gpus, block: "
        "b{2}, rack: r{1}, kubernetes.io/hostname: n{0:04}}}}}\nstatus: {{allocatable: "
        "{{nvidia.com/gpu: {3}, pods: 110}}}}\n",
        i, rack, rack / kRacksOfBlock, kGpusOfNode);
  }
  for (int i = 0; i < kTeams; ++i) {
    text += fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: team-{0:02}}}
spec:
  cohortName: cohort-{1}
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{{name: gpus, resources: [{{name: nvidia.com/gpu, nominalQuota: {2}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team-{0:02}, namespace: ns}}
spec: {{clusterQueue: team-{0:02}}}
)",
                        i, i / 5, kNodes * kGpusOfNode / kTeams);
  }
  return text;
}

// Jobs of 1, 4, 16 and 32 whole nodes, the larger the longer and the rarer, at random times of the
// month; so long that `load` percent of all GPUs are asked for.
std::string MonthText(int64_t count, int64_t load) {
  struct Kind {
    uint64_t percent;
    int64_t pods;
    int64_t minutes;  // for a start; scaled below
  };
  constexpr std::array<Kind, 4> kKinds = {
      {{55, 1, 120}, {25, 4, 180}, {15, 16, 180}, {5, 32, 360}}};
  int64_t each = 0;  // node seconds, times a hundred
  for (const Kind& kind : kKinds) {
    each += static_cast<int64_t>(kind.percent) * kind.pods * kind.minutes * 60;
  }
  const double scale = static_cast<double>(kNodes) * kMonth * static_cast<double>(load) /
                       (static_cast<double>(each) * static_cast<double>(count));
  uint64_t random = 7;
  const auto draw = [&](uint64_t below) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random >> 33) % below;
  };
  std::string text = "submit,run,queue,priority,pods,nvidia.com/gpu\n";
  const auto gap = static_cast<uint64_t>(2 * kMonth * 1000 / count);
  uint64_t at = 0;  // milliseconds
  for (int64_t i = 0; i < count; ++i) {
    uint64_t left = draw(100);
    size_t which = 0;
    while (left >= kKinds[which].percent) left -= kKinds[which++].percent;
    const Kind& kind = kKinds[which];
    const auto mean = static_cast<uint64_t>(static_cast<double>(kind.minutes * 60) * scale);
    at += draw(gap);
    text += fmt::format("{}.{:03},{},ns/team-{:02},{},{},{}\n", at / 1000, at % 1000,
                        mean / 2 + draw(mean), draw(kTeams), draw(3) * 10, kind.pods, kGpusOfNode);
  }
  return text;
}

void BM_SimulateMonth(benchmark::State& state) {
  Play(state, {{"cluster.yaml", NodesText()}},
       {"trace.csv", MonthText(state.range(0), state.range(1))});
}
// Jobs, and the load in percent. The aim for the first: five minutes on two cores, and 2 GB.
BENCHMARK(BM_SimulateMonth)
    ->Args({200'000, 80})
    ->Args({20'000, 80})
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

}  // namespace
}  // namespace sluice::sim
