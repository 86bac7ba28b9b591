// Benchmarks of decisions in a large cluster: 1,000 ClusterQueues in 10 cohort trees of depth 4,
// 10,000 workloads that hold quota and 50,000 that wait. Medians and 99th percentiles are over
// single decisions.
#include <absl/time/clock.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "admission/cycle.h"
#include "unit/build/builders.h"

namespace sluice {
namespace {

constexpr int kTrees = 10;
constexpr int kQueuesPerTree = 100;

std::string QueueName(int number) { return "cq" + std::to_string(number); }

// What the World keeps, without the World: the core alone.
struct Cluster {
  admission::Snapshot snapshot;
  queueing::QueueManager queues;
  int64_t next = 0;

  Cluster(const std::string& nominal, const std::string& within, const std::string& reclaim) {
    snapshot.namespaces["ns"] = build::Namespace("ns").Shared();
    snapshot.flavors["default"] = build::Flavor("default").Shared();
    for (int tree = 0; tree < kTrees; ++tree) AddTree(tree, nominal, within, reclaim);
  }

  // root -> 4 cohorts -> 4 cohorts each -> ClusterQueues: a depth of 4.
  void AddTree(int tree, const std::string& nominal, const std::string& within,
               const std::string& reclaim) {
    const std::string root = "root" + std::to_string(tree);
    snapshot.tree.SetCohort(root, "", {});
    for (int org = 0; org < 4; ++org) {
      const std::string middle = root + "-" + std::to_string(org);
      snapshot.tree.SetCohort(middle, root, {});
      for (int team = 0; team < 4; ++team) {
        snapshot.tree.SetCohort(middle + "-" + std::to_string(team), middle, {});
      }
    }
    for (int i = 0; i < kQueuesPerTree; ++i) {
      const std::string name = QueueName(tree * kQueuesPerTree + i);
      const std::string cohort =
          root + "-" + std::to_string(i % 4) + "-" + std::to_string(i / 4 % 4);
      api::ClusterQueue queue = build::ClusterQueue(name)
                                    .Flavor("default", {{"cpu", nominal}, {"memory", nominal}})
                                    .Get();
      queue.spec.cohort_name = cohort;
      queue.spec.preemption.emplace();
      queue.spec.preemption->within_cluster_queue = within;
      queue.spec.preemption->reclaim_within_cohort = reclaim;
      snapshot.tree.SetClusterQueue(name, cohort, admission::LimitsOf(queue.spec.resource_groups));
      snapshot.cluster_queues.insert_or_assign(
          name, admission::ClusterQueueSnapshot(
                    std::make_shared<const api::ClusterQueue>(std::move(queue)), true));
      queues.AddClusterQueue(name, {queueing::QueueingStrategy::kBestEffortFifo, true});
    }
  }

  queueing::WorkloadInfoPtr Make(const std::string& queue, int cpu, int priority) {
    const int64_t number = next++;
    return queueing::MakeWorkloadInfo(build::Workload("w" + std::to_string(number))
                                          .Queue("q")
                                          .Request("cpu", std::to_string(cpu))
                                          .Request("memory", std::to_string(cpu))
                                          .Priority(priority)
                                          .Uid("uid-" + std::to_string(number))
                                          .Shared(),
                                      queue, {});
  }
  void Pend(const std::string& queue, int cpu, int priority) {
    queues.AddOrUpdate(Make(queue, cpu, priority), build::At(0));
  }
  // Books it as holding quota.
  void Hold(const queueing::WorkloadInfo& info, const FlavorResourceAmounts& usage, int second) {
    snapshot.tree.AddUsage(info.cluster_queue, usage);
    preemption::ReservedWorkload reserved;
    reserved.workload = info.workload;
    reserved.cluster_queue = info.cluster_queue;
    reserved.priority = info.priority;
    reserved.reserved_at = build::At(second);
    reserved.usage = snapshot.tree.IdsOf(usage);
    snapshot.reserved.Put(std::move(reserved));
  }
  void Hold(const std::string& queue, int cpu, int priority) {
    const queueing::WorkloadInfoPtr info = Make(queue, cpu, priority);
    Hold(*info, {{{"default", "cpu"}, int64_t{cpu} * 1000}, {{"default", "memory"}, int64_t{cpu}}},
         static_cast<int>(next));
  }
  void Release(const std::string& queue) {
    for (const std::string& name : snapshot.tree.TreeOf(queue)) {
      queues.ReleaseParked(name, build::At(0));
    }
  }
  std::vector<admission::Decision> Decide() {
    return admission::Schedule(snapshot, queues, build::At(0));
  }
};

void Report(benchmark::State& state, std::vector<double>& micros) {
  std::sort(micros.begin(), micros.end());
  const auto at = [&](double part) {
    return micros[std::min(micros.size() - 1,
                           static_cast<size_t>(part * static_cast<double>(micros.size())))];
  };
  state.counters["p50_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
}

// A full cluster: every ClusterQueue holds 10 workloads and has 50 waiting ones of `shapes` sizes.
std::unique_ptr<Cluster> FullCluster(const std::string& reclaim, int shapes) {
  auto cluster = std::make_unique<Cluster>("20", "LowerPriority", reclaim);
  for (int queue = 0; queue < kTrees * kQueuesPerTree; ++queue) {
    for (int i = 0; i < 10; ++i) cluster->Hold(QueueName(queue), 2, 100);
    for (int i = 0; i < 50; ++i) cluster->Pend(QueueName(queue), 2 + i % shapes, 0);
  }
  cluster->Decide();
  return cluster;
}

// One workload ends, one is admitted in its place; everything that could fit is looked at.
void BM_AdmitAfterFinish(benchmark::State& state) {
  auto cluster = FullCluster("Any", static_cast<int>(state.range(0)));
  std::vector<double> micros;
  int64_t admitted = 0;
  int queue = 0;
  for (auto _ : state) {
    const std::string name = QueueName(queue++ % (kTrees * kQueuesPerTree));
    const preemption::ReservedWorkload ended = *cluster->snapshot.reserved.Of(name).back();
    const absl::Time begin = absl::Now();
    FlavorResourceAmounts usage;
    for (const auto& [cell, amount] : ended.usage) {
      usage[cluster->snapshot.tree.CellOf(cell)] = amount;
    }
    cluster->snapshot.tree.RemoveUsage(name, usage);
    cluster->snapshot.reserved.Remove(ended.Key());
    cluster->Release(name);
    for (const admission::Decision& decision : cluster->Decide()) {
      if (decision.kind != admission::Decision::Kind::kAdmit) continue;
      ++admitted;
      cluster->Hold(*decision.info, decision.usage, 0);
    }
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
    state.PauseTiming();
    cluster->Pend(name, 2, 0);
    state.ResumeTiming();
  }
  state.counters["admitted"] = static_cast<double>(admitted);
  Report(state, micros);
}
BENCHMARK(BM_AdmitAfterFinish)->Arg(1)->Arg(4)->Iterations(3000);

// A new workload in a queue with room.
void BM_AdmitArrival(benchmark::State& state) {
  auto cluster = std::make_unique<Cluster>("1000000", "LowerPriority", "Any");
  for (int queue = 0; queue < kTrees * kQueuesPerTree; ++queue) {
    for (int i = 0; i < 10; ++i) cluster->Hold(QueueName(queue), 2, 100);
  }
  std::vector<double> micros;
  int queue = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::string name = QueueName(queue++ % (kTrees * kQueuesPerTree));
    const queueing::WorkloadInfoPtr info = cluster->Make(name, 1, 0);
    state.ResumeTiming();
    const absl::Time begin = absl::Now();
    cluster->queues.AddOrUpdate(info, build::At(0));
    for (const admission::Decision& decision : cluster->Decide()) {
      cluster->Hold(*decision.info, decision.usage, 0);
    }
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
  }
  Report(state, micros);
}
BENCHMARK(BM_AdmitArrival)->Iterations(3000);

// A workload of high priority needs the room of others: 5,000 candidates in its tree.
void BM_Preempt(benchmark::State& state) {
  auto cluster = std::make_unique<Cluster>("200", "LowerPriority", "Any");
  if (state.range(1) == 1) {
    cluster->snapshot.options.fair_sharing =
        preemption::FairSharingRules{{preemption::Strategy::kLessThanOrEqualToFinalShare,
                                      preemption::Strategy::kLessThanInitialShare},
                                     true};
  }
  // Half of the queues of the first tree use twice their quota, the others nothing.
  for (int queue = 0; queue < kQueuesPerTree; queue += 2) {
    for (int i = 0; i < 100; ++i) cluster->Hold(QueueName(queue), 4, i % 5);
  }
  std::vector<double> micros;
  const int cpu = static_cast<int>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    const queueing::WorkloadInfoPtr info = cluster->Make("cq1", cpu, 10);
    state.ResumeTiming();
    const absl::Time begin = absl::Now();
    const std::vector<admission::Decision> decisions =
        admission::RunCycle(cluster->snapshot, {info}, &cluster->queues);
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
    state.counters["victims"] = static_cast<double>(decisions.front().victims.size());
  }
  Report(state, micros);
}
BENCHMARK(BM_Preempt)
    ->ArgNames({"cpu", "fair"})
    ->Args({1, 0})
    ->Args({200, 0})
    ->Args({1, 1})
    ->Args({200, 1})
    ->Iterations(300);

void BM_QuotaEditAtRoot(benchmark::State& state) {
  auto cluster = FullCluster("Any", 4);
  std::vector<double> micros;
  int64_t nominal = 0;
  for (auto _ : state) {
    const absl::Time begin = absl::Now();
    cluster->snapshot.tree.SetCohort("root0", "",
                                     {{{"default", "cpu"}, {.nominal = ++nominal % 2}}});
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
  }
  Report(state, micros);
}
BENCHMARK(BM_QuotaEditAtRoot)->Iterations(1000);

// 100,000 workloads that are larger than anything: a cycle of others does not see them.
void BM_CycleBesideHopeless(benchmark::State& state) {
  auto cluster = std::make_unique<Cluster>("20", "LowerPriority", "Any");
  for (int i = 0; i < static_cast<int>(state.range(0)); ++i) {
    cluster->Pend(QueueName(i % (kTrees * kQueuesPerTree)), 1000000, 0);
  }
  cluster->Decide();
  std::vector<double> micros;
  for (auto _ : state) {
    state.PauseTiming();
    const queueing::WorkloadInfoPtr info = cluster->Make("cq0", 1, 0);
    cluster->queues.AddOrUpdate(info, build::At(0));
    state.ResumeTiming();
    const absl::Time begin = absl::Now();
    benchmark::DoNotOptimize(cluster->Decide());
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
    state.PauseTiming();
    cluster->snapshot.reserved.Remove(info->Key());
    state.ResumeTiming();
  }
  Report(state, micros);
}
BENCHMARK(BM_CycleBesideHopeless)->Arg(0)->Arg(100000)->Iterations(1000);

}  // namespace
}  // namespace sluice
