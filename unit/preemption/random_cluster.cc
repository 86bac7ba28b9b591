#include "unit/preemption/random_cluster.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

namespace sluice::preemption {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

namespace {

class Maker {
 public:
  Maker(uint64_t seed, const Sizes& sizes) : random_(seed), sizes_(sizes) {}

  Cluster Make() {
    c_.flavors = 1 + (random_.OneIn(3) ? random_.Below(3) : 0);
    c_.resources = random_.OneIn(3) ? 2 : 1;
    limits_ = random_.Below(3);
    weights_ = random_.OneIn(2);
    usage_based_ = random_.OneIn(8);
    Cohorts();
    const int queues = 1 + random_.Below(random_.OneIn(4) ? sizes_.queues : Least(4));
    for (int i = 0; i < queues; ++i) Queue(i);
    // Enough to fill most of the quota, so that there is something to search for.
    const int most = random_.OneIn(4) ? sizes_.workloads : Least(9);
    const int workloads = most / 3 + random_.Below(most);
    for (int i = 0; i < workloads; ++i) c_.running.push_back(Workload(fmt::format("w{}", i)));
    c_.preemptor = Workload("preemptor");
    c_.preemptor.evicted = false;
    c_.preemptor.priority += random_.Below(3);
    Rules();
    return c_;
  }

 private:
  int Least(int most) const { return std::min(most, sizes_.queues + sizes_.workloads); }

  void Cohorts() {
    const int cohorts = random_.Below(random_.OneIn(3) ? sizes_.cohorts : 2) + 1;
    for (int i = 0; i < cohorts; ++i) {
      NodeSpec node = Node(fmt::format("c{}", i), random_.OneIn(2));
      node.is_cohort = true;
      depth_.push_back(0);
      if (i > 0 && !random_.OneIn(12)) {
        const int parent = random_.Below(i);
        if (depth_[static_cast<size_t>(parent)] < 3) {
          node.parent = parent;
          depth_.back() = depth_[static_cast<size_t>(parent)] + 1;
        }
      }
      c_.nodes.push_back(node);
    }
  }

  NodeSpec Node(const std::string& name, bool with_quota) {
    NodeSpec node;
    node.name = name;
    if (weights_ && random_.OneIn(2)) {
      static constexpr int kWeights[] = {0, 250, 500, 1000, 1500, 2000, 3000};
      node.weight_milli = kWeights[random_.Below(7)];
    }
    for (size_t c = 0; c < c_.CellCount(); ++c) {
      if (!with_quota || random_.OneIn(12)) continue;
      node.cells[c] = CellSpec(random_.OneIn(3) ? 0 : random_.Below(sizes_.amount));
      if (limits_ == 0) continue;
      if (random_.OneIn(3)) node.cells[c].borrowing = random_.Below(sizes_.amount);
      if (random_.OneIn(3)) node.cells[c].lending = random_.Below(sizes_.amount);
    }
    return node;
  }

  void Queue(int i) {
    NodeSpec node = Node(fmt::format("q{}", i), true);
    const auto cohorts = static_cast<int>(depth_.size());
    node.parent = random_.OneIn(16) ? -1 : random_.Below(cohorts);
    static constexpr Policy kWithin[] = {Policy::kNever, Policy::kLowerPriority,
                                         Policy::kLowerPriority,
                                         Policy::kLowerOrNewerEqualPriority};
    static constexpr Policy kReclaim[] = {Policy::kNever, Policy::kLowerPriority, Policy::kAny,
                                          Policy::kAny};
    node.policies.within_cluster_queue = kWithin[random_.Below(4)];
    node.policies.reclaim_within_cohort = kReclaim[random_.Below(4)];
    if (random_.OneIn(3)) {
      node.policies.borrow_within_cohort = true;
      if (random_.OneIn(2)) node.policies.max_priority_threshold = random_.Below(4) - 1;
    }
    node.active = !random_.OneIn(24);
    node.usage_based = usage_based_ && random_.OneIn(2);
    queues_.push_back(static_cast<int>(c_.nodes.size()));
    c_.nodes.push_back(node);
  }

  WorkloadSpec Workload(const std::string& name) {
    WorkloadSpec workload;
    workload.name = name;
    workload.queue = queues_[static_cast<size_t>(random_.Below(static_cast<int>(queues_.size())))];
    const NodeSpec& queue = c_.nodes[static_cast<size_t>(workload.queue)];
    const auto first = static_cast<size_t>(random_.Below(static_cast<int>(c_.CellCount())));
    for (size_t c = 0; c < c_.CellCount(); ++c) {
      // Of what is not listed there can still be usage, after a change of quota.
      if (!queue.cells[c].listed && !random_.OneIn(30)) continue;
      if (c != first && random_.OneIn(2)) continue;
      workload.amounts[c] = 1 + random_.Below(random_.OneIn(3) ? sizes_.amount : 4);
    }
    workload.priority = random_.Below(4) - 1;
    workload.order_time = random_.Below(10);
    workload.reserved_at = random_.Below(10);
    workload.evicted = random_.OneIn(8);
    workload.local_queue = random_.Below(3);
    return workload;
  }

  void Rules() {
    for (int i = 0; i < 3; ++i) c_.local_queue_usage.push_back(random_.Below(3));
    static const std::vector<std::vector<Strategy>> kStrategies = {
        {},
        {},
        {Strategy::kLessThanOrEqualToFinalShare},
        {Strategy::kLessThanInitialShare},
        {Strategy::kLessThanOrEqualToFinalShare, Strategy::kLessThanInitialShare},
        {Strategy::kLessThanOrEqualToFinalShare, Strategy::kLessThanInitialShare},
        {Strategy::kLessThanInitialShare, Strategy::kLessThanOrEqualToFinalShare}};
    c_.strategies = kStrategies[static_cast<size_t>(random_.Below(7))];
    c_.preempt_within_nominal = random_.OneIn(2);
    if (!random_.OneIn(4)) return;
    for (size_t c = 0; c < c_.CellCount(); ++c) {
      c_.contested[c] = c_.preemptor.amounts[c] > 0 && random_.OneIn(2);
    }
  }

  Random random_;
  Sizes sizes_;
  Cluster c_;
  int limits_ = 0;
  bool weights_ = false;
  bool usage_based_ = false;
  std::vector<int> depth_;
  std::vector<int> queues_;
};

bool RemoveNode(Cluster& cluster, int index) {
  const auto at = static_cast<size_t>(index);
  if (cluster.preemptor.queue == index) return false;
  const int parent = cluster.nodes[at].parent;
  std::vector<WorkloadSpec> rest;
  for (WorkloadSpec& workload : cluster.running) {
    if (workload.queue == index) continue;
    if (workload.queue > index) --workload.queue;
    rest.push_back(workload);
  }
  cluster.running = rest;
  if (cluster.preemptor.queue > index) --cluster.preemptor.queue;
  cluster.nodes.erase(cluster.nodes.begin() + index);
  for (NodeSpec& node : cluster.nodes) {
    if (node.parent == index) node.parent = parent;
    if (node.parent > index) --node.parent;
  }
  return true;
}

// All ways to make it a little simpler.
std::vector<Cluster> Simpler(const Cluster& cluster) {
  std::vector<Cluster> all;
  const auto change = [&](const std::function<bool(Cluster&)>& edit) {
    Cluster copy = cluster;
    if (edit(copy)) all.push_back(std::move(copy));
  };
  const auto number = [&](const std::function<int&(Cluster&)>& field, int rest) {
    for (const int less : {rest, 1}) {
      change([&](Cluster& c) { return field(c) != rest && std::exchange(field(c), less) != less; });
    }
    change([&](Cluster& c) { return field(c) > 1 && --field(c) > 0; });
  };
  for (size_t n = 0; n < cluster.nodes.size(); ++n) {
    change([n](Cluster& c) { return RemoveNode(c, static_cast<int>(n)); });
    change([n](Cluster& c) { return std::exchange(c.nodes[n].weight_milli, 1000) != 1000; });
    change([n](Cluster& c) { return !std::exchange(c.nodes[n].active, true); });
    change([n](Cluster& c) { return std::exchange(c.nodes[n].usage_based, false); });
    change(
        [n](Cluster& c) { return std::exchange(c.nodes[n].policies.borrow_within_cohort, false); });
    change([n](Cluster& c) {
      Policy& policy = c.nodes[n].policies.within_cluster_queue;
      return std::exchange(policy, Policy::kNever) != Policy::kNever;
    });
    for (size_t c = 0; c < cluster.CellCount(); ++c) {
      number([n, c](Cluster& x) -> int& { return x.nodes[n].cells[c].nominal; }, 0);
      number([n, c](Cluster& x) -> int& { return x.nodes[n].cells[c].borrowing; }, kNoLimit);
      number([n, c](Cluster& x) -> int& { return x.nodes[n].cells[c].lending; }, kNoLimit);
    }
  }
  for (size_t w = 0; w < cluster.running.size(); ++w) {
    change([w](Cluster& c) {
      c.running.erase(c.running.begin() + static_cast<std::ptrdiff_t>(w));
      return true;
    });
    change([w](Cluster& c) { return std::exchange(c.running[w].evicted, false); });
    number([w](Cluster& c) -> int& { return c.running[w].priority; }, 0);
    number([w](Cluster& c) -> int& { return c.running[w].reserved_at; }, 0);
    number([w](Cluster& c) -> int& { return c.running[w].order_time; }, 0);
    for (size_t k = 0; k < cluster.CellCount(); ++k) {
      number([w, k](Cluster& c) -> int& { return c.running[w].amounts[k]; }, 0);
    }
  }
  number([](Cluster& c) -> int& { return c.preemptor.priority; }, 0);
  number([](Cluster& c) -> int& { return c.preemptor.order_time; }, 0);
  for (size_t k = 0; k < cluster.CellCount(); ++k) {
    number([k](Cluster& c) -> int& { return c.preemptor.amounts[k]; }, 0);
    change([k](Cluster& c) { return std::exchange(c.contested[k], false); });
  }
  change([](Cluster& c) { return std::exchange(c.preempt_within_nominal, false); });
  change([](Cluster& c) {
    if (c.strategies.size() < 2) return false;
    c.strategies.pop_back();
    return true;
  });
  return all;
}

}  // namespace

Cluster RandomCluster(uint64_t seed, const Sizes& sizes) { return Maker(seed, sizes).Make(); }

Cluster RandomCheckpoints(uint64_t seed, Cluster cluster) {
  Random random(seed * 31 + 7);
  cluster.now = 10 + random.Below(10);
  const int share = random.OneIn(6) ? 0 : 1 + random.Below(4);
  const bool protect = random.OneIn(2);
  const bool often = random.OneIn(2);
  for (WorkloadSpec& workload : cluster.running) {
    if (random.Below(4) >= share) continue;
    CheckpointSpec said;
    if (random.OneIn(2)) said.last = random.Below(24);  // also before the start, and in the future
    if (random.OneIn(2)) said.interval = 1 + random.Below(5);
    if (random.OneIn(2)) said.restart = random.Below(4);
    if (protect && random.OneIn(3)) said.min_runtime = random.Below(20);
    if (often && random.OneIn(3)) said.preempted = 1 + random.Below(4);
    workload.checkpoint = said;
  }
  return cluster;
}

Cluster Shrink(Cluster cluster, const std::function<bool(const Cluster&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (Cluster& candidate : Simpler(cluster)) {
      if (!fails(candidate)) continue;
      cluster = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return cluster;
}

RandomRuns RunsFromEnvironment(uint64_t default_count) {
  RandomRuns runs{(static_cast<uint64_t>(std::random_device{}()) << 20), default_count};
  if (const char* count = std::getenv("SLUICE_RANDOM")) {
    runs.count = std::strtoull(count, nullptr, 10);
  }
  if (const char* seed = std::getenv("SLUICE_SEED")) {
    runs.first = std::strtoull(seed, nullptr, 10);
    if (std::getenv("SLUICE_RANDOM") == nullptr) runs.count = 1;
  }
  return runs;
}

}  // namespace sluice::preemption
