// With no new event, preemption comes to rest.
#include "unit/preemption/quiet_run.h"

#include <algorithm>
#include <cstdlib>

#include "unit/catch.h"
#include "unit/preemption/random_cluster.h"

namespace sluice::preemption {
namespace {

const Policies kBoth{Policy::kLowerPriority, Policy::kAny, false, {}};
const Policies kReclaimOnly{Policy::kNever, Policy::kAny, false, {}};

WorkloadSpec Waits(const Cluster& cluster, const std::string& queue, const std::string& name,
                   const std::vector<int>& amounts, const WorkloadOptions& options = {}) {
  Cluster copy = cluster;
  copy.Runs(queue, name, amounts, options);
  return copy.running.back();
}

// Kueue issue 14543: a1 goes first and lowers a's share, b1 passes its test because of that, a1 is
// given back. Then b has the smaller share, b1 evicts p, and so on without end.
TEST_CASE("an own workload given back does not make two evict each other for ever") {
  QuietSystem system;
  Cluster& c = system.cluster;
  c.Queue("a", "pool", {0}, kBoth).Queue("b", "pool", {0}, kReclaimOnly).Queue("s", "pool", {9});
  c.Fair();
  c.Runs("a", "a1", {3}, {.priority = 0, .reserved_at = 1});
  c.Runs("b", "b1", {6}, {.priority = 0, .reserved_at = 2});
  system.waiting.push_back(Waits(c, "a", "p", {5}, {.priority = 5, .order_time = 3}));
  const QuietResult result = RunUntilQuiet(system);
  INFO(result.log);
  CHECK(result.quiet);
  // p may have b1's place only together with a1's; then a1 has room again.
  CHECK(result.evictions == 2);
  CHECK(result.running == std::vector<std::string>{"a1", "p"});
}

// b1 is larger than what b borrows. Evicting it, a2 would borrow what b has a right to; b2 would
// take that back from a2, and in the room that leaves b1 would start again.
TEST_CASE("a borrowing preemptor leaves the nominal quota of those it takes from") {
  QuietSystem system;
  Cluster& c = system.cluster;
  c.Queue("a", "pool", {6}, kReclaimOnly).Queue("b", "pool", {1}, kReclaimOnly);
  c.Fair();
  c.Runs("a", "a1", {2}).Runs("b", "b2", {1}, {.reserved_at = 1});
  c.Runs("b", "b1", {4}, {.reserved_at = 2});
  system.waiting.push_back(Waits(c, "a", "a2", {5}));
  QuietResult result = RunUntilQuiet(system);
  INFO(result.log);
  CHECK(result.quiet);
  CHECK(result.evictions == 0);
  // With what a has a right to itself it does not borrow.
  system.waiting.push_back(Waits(c, "a", "a3", {4}));
  result = RunUntilQuiet(system);
  CHECK(result.quiet);
  CHECK(result.running == std::vector<std::string>{"a1", "a3", "b2"});
}

// The same by way of the own ClusterQueue: a1 goes for a2, which borrows; b1 has the smaller share
// and evicts a2; a1 takes back its nominal quota from b1, and makes the room for a2.
TEST_CASE("one that is evicted for its own nominal quota does not open the door for a larger one") {
  QuietSystem system;
  Cluster& c = system.cluster;
  c.Queue("a", "pool", {4}, kBoth).Queue("b", "pool", {4}, kReclaimOnly);
  c.Fair();
  c.Runs("a", "a0", {3}, {.priority = 9}).Runs("a", "a1", {1});
  system.waiting.push_back(Waits(c, "a", "a2", {5}, {.priority = 1}));
  system.waiting.push_back(Waits(c, "b", "b1", {5}));
  const QuietResult result = RunUntilQuiet(system);
  INFO(result.log);
  CHECK(result.quiet);
  CHECK(result.running == std::vector<std::string>{"a0", "a2"});
}

// a1 passes its test while a2 is there, and a2's going would make a's share small enough for a1 to
// come back; in the room that leaves a2 would come back too. So a0 goes in place of a2.
TEST_CASE("no victim has the smaller share when it comes back") {
  QuietSystem system;
  Cluster& c = system.cluster;
  c.resources = 2;
  c.Queue("a", "pool", {0, 0}, kReclaimOnly).Queue("b", "pool", {0, 3}, kReclaimOnly);
  c.Queue("s", "pool", {3, 5});
  c.Fair({Strategy::kLessThanInitialShare});
  c.Runs("a", "a0", {1, 0}, {.reserved_at = 1}).Runs("a", "a2", {2, 0}, {.reserved_at = 2});
  c.Runs("a", "a1", {0, 1}, {.reserved_at = 3});
  system.waiting.push_back(Waits(c, "b", "p", {1, 8}));
  const QuietResult result = RunUntilQuiet(system);
  INFO(result.log);
  CHECK(result.quiet);
  CHECK(result.evictions == 2);
  CHECK(result.running == std::vector<std::string>{"a2", "p"});
}

// Each step is right by itself: a-high replaces a-low and borrows, b-low takes that back, b-high
// replaces b-low and borrows, a-low takes that back, and so on. The second a-high stays out: what
// it would evict is what, by way of b, evicted it.
TEST_CASE("two teams that replace their own and reclaim from each other come to rest") {
  for (const bool events : {false, true}) {
    QuietSystem system;
    system.events = events;
    Cluster& c = system.cluster;
    c.Queue("a", "pool", {2}, kBoth).Queue("b", "pool", {2}, kBoth);
    c.Runs("a", "a0", {1}, {.priority = 99}).Runs("b", "b0", {1}, {.priority = 99});
    c.Runs("a", "a-low", {1}, {.priority = 0});
    system.waiting.push_back(Waits(c, "a", "a-high", {2}, {.priority = 9, .order_time = 1}));
    system.waiting.push_back(Waits(c, "b", "b-high", {2}, {.priority = 8, .order_time = 2}));
    system.waiting.push_back(Waits(c, "b", "b-low", {1}, {.priority = 0, .order_time = 3}));
    const QuietResult result = RunUntilQuiet(system);
    INFO(result.log);
    CHECK(result.quiet);
    CHECK(result.evictions == 4);
    CHECK(result.running == std::vector<std::string>{"a-low", "a0", "b-low", "b0"});
  }
}

QuietSystem RandomSystem(uint64_t seed, bool fair) {
  QuietSystem system;
  Sizes sizes;
  sizes.queues = 4;
  sizes.cohorts = 3;
  sizes.workloads = 10;
  system.cluster = RandomCluster(seed, sizes);
  Random random(seed ^ 0x5bd1e995);
  Cluster& c = system.cluster;
  if (fair && c.strategies.empty()) c.Fair();
  if (!fair) c.strategies.clear();
  c.contested = {};
  for (NodeSpec& node : c.nodes) {
    node.active = true;
    node.usage_based = false;
  }
  std::vector<WorkloadSpec> running;
  c.preemptor.name = "p";
  c.running.push_back(c.preemptor);
  for (WorkloadSpec& workload : c.running) {
    workload.evicted = false;
    const auto& cells = c.nodes[static_cast<size_t>(workload.queue)].cells;
    for (size_t k = 0; k < kMostCells; ++k) {
      if (!cells[k].listed) workload.amounts[k] = 0;
    }
    const bool asks = std::any_of(workload.amounts.begin(), workload.amounts.end(),
                                  [](int amount) { return amount > 0; });
    if (asks) (random.OneIn(2) ? system.waiting : running).push_back(workload);
  }
  c.running = running;
  system.order = static_cast<WaitingOrder>(random.Below(fair ? 2 : 3));
  if (!fair && system.order == WaitingOrder::kShare) system.order = WaitingOrder::kPriority;
  return system;
}

// A system as one cluster, the waiting ones marked, so that the same shrinking serves both.
Cluster Pack(const QuietSystem& system) {
  Cluster cluster = system.cluster;
  for (WorkloadSpec workload : system.waiting) {
    workload.local_queue = -1;
    cluster.running.push_back(workload);
  }
  cluster.preemptor = WorkloadSpec();
  cluster.preemptor.queue = 0;
  for (size_t n = 0; n < cluster.nodes.size(); ++n) {
    if (!cluster.nodes[n].is_cohort) cluster.preemptor.queue = static_cast<int>(n);
  }
  return cluster;
}

QuietSystem Unpack(const Cluster& cluster, WaitingOrder order) {
  QuietSystem system{cluster, {}, order};
  system.cluster.running.clear();
  for (const WorkloadSpec& workload : cluster.running) {
    (workload.local_queue < 0 ? system.waiting : system.cluster.running).push_back(workload);
  }
  return system;
}

void Report(uint64_t seed, const QuietSystem& system) {
  const Cluster small = Shrink(Pack(system), [&](const Cluster& c) {
    QuietSystem smaller = Unpack(c, system.order);
    smaller.events = system.events;
    return !RunUntilQuiet(smaller).quiet;
  });
  QuietSystem smallest = Unpack(small, system.order);
  smallest.events = system.events;
  FAIL("run again with SLUICE_SEED=" << seed << "; in its smallest form\n"
                                     << smallest.Describe() << RunUntilQuiet(smallest).log);
}

void AddCheckpoints(uint64_t seed, QuietSystem& system) {
  Cluster all = system.cluster;
  all.running.insert(all.running.end(), system.waiting.begin(), system.waiting.end());
  all = RandomCheckpoints(seed, all);
  const auto running = all.running.begin() + static_cast<long>(system.cluster.running.size());
  system.waiting.assign(running, all.running.end());
  all.running.erase(running, all.running.end());
  system.cluster = std::move(all);
}

// The same systems in every run, unless the environment asks for others. `events`: see QuietSystem.
// `costs`: some of the workloads tell of their checkpoints.
void CheckQuiet(bool fair, bool events, uint64_t default_count, bool costs = false) {
  RandomRuns runs = RunsFromEnvironment(default_count);
  if (std::getenv("SLUICE_RANDOM") == nullptr && std::getenv("SLUICE_SEED") == nullptr) {
    runs.first = 1;
  }
  int64_t evictions = 0;
  for (uint64_t i = 0; i < runs.count; ++i) {
    QuietSystem system = RandomSystem(runs.first + i, fair);
    system.events = events;
    if (costs) AddCheckpoints(runs.first + i, system);
    const QuietResult result = RunUntilQuiet(system);
    evictions += result.evictions;
    if (!result.quiet) Report(runs.first + i, system);
  }
  if (runs.count >= 1000) CHECK(evictions > static_cast<int64_t>(runs.count / 20));
  if (std::getenv("SLUICE_RANDOM") != nullptr) WARN(evictions << " evictions in " << runs.count);
}

TEST_CASE("fair sharing comes to rest") { CheckQuiet(true, false, 3'000); }

TEST_CASE("classical preemption comes to rest") { CheckQuiet(false, false, 3'000); }

TEST_CASE("fair sharing comes to rest though other things happen all the time") {
  CheckQuiet(true, true, 3'000);
}

TEST_CASE("classical preemption comes to rest though other things happen all the time") {
  CheckQuiet(false, true, 3'000);
}

TEST_CASE("fair sharing by lost work comes to rest") { CheckQuiet(true, false, 2'000, true); }

TEST_CASE("classical preemption by lost work comes to rest") {
  CheckQuiet(false, false, 2'000, true);
}

TEST_CASE("fair sharing by lost work comes to rest though other things happen all the time") {
  CheckQuiet(true, true, 2'000, true);
}

TEST_CASE("classical preemption by lost work comes to rest though other things happen") {
  CheckQuiet(false, true, 2'000, true);
}

}  // namespace
}  // namespace sluice::preemption
