// Placement and changes on a cluster of three levels, 40 % used. The bounds stand beside each.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "topology/inventory.h"
#include "topology/placer.h"

namespace sluice::topology {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;
constexpr char kGpu[] = "nvidia.com/gpu";

Node MakeNode(int index) {
  Node node;
  node.name = fmt::format("gke-prod-pool-a-{:06}", index);
  node.labels = {{"cloud.provider.com/topology-block", fmt::format("block-{:02}", index / 640)},
                 {"cloud.provider.com/topology-rack", fmt::format("rack-{:04}", index / 16)},
                 {kHostname, node.name},
                 {"kubernetes.io/arch", "amd64"},
                 {"kubernetes.io/os", "linux"},
                 {"node.kubernetes.io/instance-type", "a3-megagpu-8g"},
                 {"topology.kubernetes.io/region", "us-central1"},
                 {"topology.kubernetes.io/zone", "us-central1-a"},
                 {"cloud.google.com/gke-nodepool", "pool-a"},
                 {"cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb"}};
  node.allocatable = {{kCpu, 96000}, {kMemory, 512 * kGib}, {kPods, 110}, {kGpu, 8}};
  node.ready = true;
  return node;
}

const Requests kPerPod = {{kCpu, 8000}, {kMemory, 32 * kGib}, {kGpu, 1}};

// Pods 0..used-1 of 8 on each node, so that 40 % is used and hosts differ.
void Fill(Inventory& inventory, int nodes) {
  inventory.SetFlavor(
      "tas", {"default",
              {"cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", kHostname},
              {{"cloud.google.com/gke-nodepool", "pool-a"}},
              {}});
  for (int i = 0; i < nodes; ++i) inventory.SetNode(MakeNode(i));
  constexpr int64_t kUsed[] = {2, 4, 3, 8, 0, 4, 1, 3, 6, 1};  // 32 of 80
  for (int i = 0; i < nodes; ++i) {
    inventory.SetForeignPod(fmt::format("kube-system/proxy-{}", i), MakeNode(i).name,
                            {{kCpu, 100}, {kMemory, kGib}});
    if (kUsed[i % 10] == 0) continue;
    const Assignment on = {{kHostname}, {{{MakeNode(i).name}, kUsed[i % 10]}}};
    inventory.SetWorkload(fmt::format("team/w{}", i), {{"tas", kPerPod, on}});
  }
}

WorkloadRequest Gang(int64_t count, const std::string& required, const std::string& preferred) {
  PodSetRequest pod_set;
  pod_set.name = "main";
  pod_set.flavor = "tas";
  pod_set.count = count;
  pod_set.per_pod = kPerPod;
  pod_set.topology.required = required;
  pod_set.topology.preferred = preferred;
  pod_set.topology.unconstrained = required.empty() && preferred.empty();
  WorkloadRequest request;
  request.pod_sets.push_back(pod_set);
  return request;
}

void Run(benchmark::State& state, int nodes, const WorkloadRequest& request, bool fits,
         Options options = {}) {
  Inventory inventory(options);
  Fill(inventory, nodes);
  Placer placer(inventory);
  for (auto _ : state) {
    const WorkloadPlacement placement = placer.Place(request);
    if (placement.fits() != fits) state.SkipWithError("not the expected answer");
    benchmark::DoNotOptimize(placement);
  }
}

constexpr char kBlock[] = "cloud.provider.com/topology-block";
constexpr char kRack[] = "cloud.provider.com/topology-rack";

void PlaceGangOf512(benchmark::State& state) {  // <= 5 ms
  Run(state, 5000, Gang(512, kBlock, ""), true);
}
BENCHMARK(PlaceGangOf512)->Unit(benchmark::kMicrosecond);

void PlaceGangOf512Anywhere(benchmark::State& state) {  // <= 5 ms
  Run(state, 5000, Gang(512, "", ""), true);
}
BENCHMARK(PlaceGangOf512Anywhere)->Unit(benchmark::kMicrosecond);

void PlaceGangOf8(benchmark::State& state) {  // <= 0.3 ms
  Run(state, 5000, Gang(8, "", kRack), true);
}
BENCHMARK(PlaceGangOf8)->Unit(benchmark::kMicrosecond);

void PlaceGangOf8Anywhere(benchmark::State& state) {  // <= 0.3 ms
  Run(state, 5000, Gang(8, "", ""), true);
}
BENCHMARK(PlaceGangOf8Anywhere)->Unit(benchmark::kMicrosecond);

void RefuseGangOf2048(benchmark::State& state) {  // <= 2 ms
  Run(state, 5000, Gang(2048, kRack, ""), false);
}
BENCHMARK(RefuseGangOf2048)->Unit(benchmark::kMicrosecond);

// What a cycle does: gangs of three sizes in turn, each of which books what it gets, while others
// leave. Every question finds other leaves changed.
void PlaceGangsInTurn(benchmark::State& state) {  // <= 10 us a gang, on 5,000 nodes too
  Inventory inventory;
  Fill(inventory, static_cast<int>(state.range(0)));
  Placer placer(inventory);
  const WorkloadRequest gangs[] = {Gang(2, kRack, ""), Gang(4, "", kRack), Gang(8, kBlock, "")};
  constexpr size_t kRunning = 60;
  size_t next = 0;
  for (auto _ : state) {
    const WorkloadRequest& gang = gangs[next % std::size(gangs)];
    const WorkloadPlacement placement = placer.Place(gang);
    if (!placement.fits()) state.SkipWithError("no room");
    inventory.SetWorkload(fmt::format("turn/{}", next), Placer::UsageOf(gang, placement));
    if (next >= kRunning) inventory.RemoveWorkload(fmt::format("turn/{}", next - kRunning));
    ++next;
  }
}
BENCHMARK(PlaceGangsInTurn)->Arg(640)->Arg(5000)->Unit(benchmark::kMicrosecond);

// A search for victims asks again after each that it takes out.
void MakeRoom(benchmark::State& state) {  // <= 3 us a victim
  Inventory inventory;
  Fill(inventory, 640);
  Placer placer(inventory);
  const WorkloadRequest gang = Gang(120, kRack, "");  // most of a rack of 16 hosts
  int victims = 0;
  for (auto _ : state) {
    Overlay overlay(inventory);
    for (victims = 0; victims < 64 && !placer.Fits(gang); ++victims) {
      if (const Booking* one = inventory.FindWorkload(fmt::format("team/w{}", victims))) {
        overlay.Remove(*one);
      }
    }
    if (victims == 0 || victims == 64) state.SkipWithError("not the expected answer");
  }
  state.SetItemsProcessed(state.iterations() * victims);
}
BENCHMARK(MakeRoom)->Unit(benchmark::kMicrosecond);

void PlaceBalancedGang(benchmark::State& state) {  // far below 18 ms
  Options options;
  options.balanced = true;
  WorkloadRequest request = Gang(64, "", kRack);
  Run(state, 2500, request, true, options);
}
BENCHMARK(PlaceBalancedGang)->Unit(benchmark::kMicrosecond);

void PlaceBalancedGangOf512(benchmark::State& state) {
  Options options;
  options.balanced = true;
  Run(state, 2500, Gang(512, "", kRack), true, options);
}
BENCHMARK(PlaceBalancedGangOf512)->Unit(benchmark::kMicrosecond);

void ChangeNode(benchmark::State& state) {  // <= 20 us, each of the two changes
  Inventory inventory;
  Fill(inventory, 5000);
  Node node = MakeNode(2500);
  for (auto _ : state) {
    node.ready = !node.ready;
    benchmark::DoNotOptimize(inventory.SetNode(node));
  }
}
BENCHMARK(ChangeNode)->Unit(benchmark::kMicrosecond);

void ChangeForeignPod(benchmark::State& state) {  // <= 20 us
  Inventory inventory;
  Fill(inventory, 5000);
  const NodeName node = MakeNode(2500).name;
  int64_t milli = 0;
  for (auto _ : state) {
    milli = milli % 1000 + 1;
    benchmark::DoNotOptimize(inventory.SetForeignPod("default/web", node, {{kCpu, milli}}));
  }
}
BENCHMARK(ChangeForeignPod)->Unit(benchmark::kMicrosecond);

// A node that comes and goes between two questions: the order of the tree is made again.
void PlaceAfterNodeChange(benchmark::State& state) {
  Inventory inventory;
  Fill(inventory, 5000);
  Placer placer(inventory);
  const WorkloadRequest request = Gang(8, "", kRack);
  Node node = MakeNode(2500);
  for (auto _ : state) {
    node.ready = !node.ready;
    inventory.SetNode(node);
    benchmark::DoNotOptimize(placer.Place(request));
  }
}
BENCHMARK(PlaceAfterNodeChange)->Unit(benchmark::kMicrosecond);

// <= 3 kB a node, <= 0.5 kB a foreign pod; counted from the containers' sizes.
void Memory(benchmark::State& state) {
  double per_node = 0;
  double per_pod = 0;
  for (auto _ : state) {
    Inventory inventory;
    Fill(inventory, 5000);
    Placer(inventory).Place(Gang(8, "", kRack));
    const size_t before = inventory.MemoryBytes();
    for (int i = 0; i < 50000; ++i) {
      inventory.SetForeignPod(fmt::format("production-namespace/some-deployment-{:08}", i),
                              MakeNode(i % 5000).name, {{kCpu, 100}, {kMemory, kGib}});
    }
    per_node = static_cast<double>(before) / 5000;
    per_pod = static_cast<double>(inventory.MemoryBytes() - before) / 50000;
  }
  state.counters["bytes_per_node"] = per_node;
  state.counters["bytes_per_pod"] = per_pod;
}
BENCHMARK(Memory)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace sluice::topology
