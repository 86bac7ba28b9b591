// A trace of a million workloads on a hundred queues: from its text to the report.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

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

void BM_SimulateTrace(benchmark::State& state) {
  const std::vector<SourceFile> manifests = {{"cluster.yaml", ClusterText()}};
  const SourceFile source{"trace.csv", TraceText(state.range(0), state.range(1))};
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
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
// Workloads, and the load in percent.
BENCHMARK(BM_SimulateTrace)
    ->Args({100'000, 70})
    ->Args({1'000'000, 70})
    ->Args({1'000'000, 95})
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

}  // namespace
}  // namespace sluice::sim
