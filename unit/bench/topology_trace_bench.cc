// Gangs of two, four and eight pods on 640 nodes in ten racks, from thirty ClusterQueues that share
// quota and ask for a little more than they have: what deciding about places costs while many wait.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <functional>
#include <string>

#include "api/codec.h"
#include "base/check.h"
#include "sim/trace_engine.h"

namespace sluice::sim {
namespace {

constexpr int kQueues = 30;
constexpr int kQueuesOfCohort = 6;
constexpr int kRacks = 10;
constexpr int kHosts = 64;  // of a rack
constexpr char kRack[] = "example.com/rack";
constexpr char kHost[] = "kubernetes.io/hostname";

std::string ClusterText() {
  std::string text = R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec:
  levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
spec: {nodeLabels: {pool: gangs}, topologyName: racks}
---
apiVersion: v1
kind: Namespace
metadata: {name: ns}
)";
  for (int i = 0; i < kQueues; ++i) {
    text += fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: cq-{0:02}}}
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
metadata: {{name: q-{0:02}, namespace: ns}}
spec: {{clusterQueue: cq-{0:02}}}
)",
                        i, i / kQueuesOfCohort);
  }
  for (int i = 0; i < kRacks * kHosts; ++i) {
    text += fmt::format(R"(---
apiVersion: v1
kind: Node
metadata:
  name: node-{0:03}
  labels: {{pool: gangs, example.com/block: b, example.com/rack: r{1}, kubernetes.io/hostname: node-{0:03}}}
status:
  allocatable: {{cpu: {2}, memory: 256Gi, pods: "110"}}
  conditions: [{{type: Ready, status: "True"}}]
)",
                        i, i / kHosts, 96);
  }
  return text;
}

struct Class {
  const char* name;
  int count;  // of each of three kinds and each ClusterQueue
  Micros interval;
  Micros run;
  int priority;
  int pods;
  const char* cpu;
};
constexpr Class kClasses[] = {{"small", 24, 300'000, 200'000, 50, 2, "500m"},
                              {"medium", 7, 1'500'000, 500'000, 100, 4, "1250m"},
                              {"large", 4, 3'600'000, 1'000'000, 200, 8, "2500m"}};

// A third each must have one rack, would like one, and is balanced over hosts of one in slices.
api::PodSetTopologyRequest RequestOf(int kind, int pods) {
  api::PodSetTopologyRequest request;
  if (kind == 0) {
    request.required = kRack;
    return request;
  }
  request.preferred = kRack;
  if (kind == 1) return request;
  request.pod_set_slice_required_topology = kHost;
  request.pod_set_slice_size = pods / 2;
  return request;
}

Trace MakeTrace(const TraceCluster& cluster) {
  TraceBuilder builder(cluster);
  for (int queue = 0; queue < kQueues; ++queue) {
    for (const Class& one : kClasses) {
      for (int i = 0; i < 3 * one.count; ++i) {
        api::Workload workload;
        workload.metadata.ns = "ns";
        workload.metadata.name = fmt::format("{}-{:02}-{:03}", one.name, queue, i);
        workload.spec.queue_name = fmt::format("q-{:02}", queue);
        workload.spec.priority = one.priority;
        api::PodSet& pod_set = workload.spec.pod_sets.emplace_back();
        pod_set.name = "main";
        pod_set.count = one.pods;
        pod_set.topology_request = RequestOf(i / one.count, one.pods);
        api::Container& container = pod_set.pod_template.spec->containers.emplace_back();
        container.resources.requests["cpu"] = *Quantity::Parse(one.cpu);
        const absl::Status added = builder.Add(workload, i % one.count * one.interval, one.run);
        SLUICE_CHECK(added.ok(), "{}", added.ToString());
      }
    }
  }
  absl::StatusOr<Trace> trace = builder.Finish();
  SLUICE_CHECK(trace.ok(), "{}", trace.status().ToString());
  return *std::move(trace);
}

// A number that differs when anything that happened, or any place, does.
class Digest : public TraceListener {
 public:
  Digest(const state::World& world, const Trace& trace) : world_(world), trace_(trace) {}
  void OnTraceEvent(const TraceEvent& event) override {
    std::string text = fmt::format("{} {} {} {}", static_cast<int>(event.kind), event.time,
                                   event.job, event.detail);
    if (event.kind == TraceEvent::Kind::kAdmit) {
      const auto workload = world_.AssumedOrStored({"ns", trace_.jobs[event.job].name});
      text += api::Encode(*workload).Text();
    }
    preemptions_ += event.kind == TraceEvent::Kind::kPreempt ? 1 : 0;
    value_ = std::hash<std::string>()(text) ^ (value_ * 1099511628211ULL);
  }
  uint32_t value() const { return static_cast<uint32_t>(value_ ^ value_ >> 32); }
  int preemptions() const { return preemptions_; }

 private:
  const state::World& world_;
  const Trace& trace_;
  uint64_t value_ = 0;
  int preemptions_ = 0;
};

void BM_GangsInRacks(benchmark::State& state) {
  state::Settings settings;
  const auto gates = state::FeatureGates::Make({{"TASBalancedPlacement", state.range(0) != 0}});
  SLUICE_CHECK(gates.ok(), "{}", gates.status().ToString());
  settings.gates = *gates;
  int64_t workloads = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto cluster = TraceCluster::Load({{"cluster.yaml", ClusterText()}}, settings);
    SLUICE_CHECK(cluster.ok(), "{}", cluster.status().ToString());
    const Trace trace = MakeTrace(**cluster);
    TraceOptions options;
    options.stop_time = 100'000;
    TraceEngine engine(**cluster, trace, options);
    Digest digest((*cluster)->world(), trace);
    engine.AddListener(&digest);
    state.ResumeTiming();
    const absl::Status played = engine.Run();
    SLUICE_CHECK(played.ok(), "{}", played.ToString());
    state.counters["preemptions"] = digest.preemptions();
    state.counters["digest"] = digest.value();
    workloads += static_cast<int64_t>(trace.jobs.size());
  }
  state.SetItemsProcessed(workloads);
}
BENCHMARK(BM_GangsInRacks)->Arg(0)->Arg(1)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace sluice::sim
