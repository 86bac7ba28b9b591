// Random clusters for property tests, and what makes a failing one small.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "unit/preemption/cluster.h"

namespace sluice::preemption {

// A small generator (SplitMix64): a run of ten million clusters must not spend its time on seeding.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // 0 .. limit - 1.
  int Below(int limit) { return static_cast<int>(Next() % static_cast<uint64_t>(limit)); }
  bool OneIn(int count) { return Below(count) == 0; }

 private:
  uint64_t state_;
};

struct Sizes {
  int queues = 12;
  int cohorts = 6;
  int workloads = 20;
  int amount = 8;
};

// Trees up to depth 4, limits, weights, priorities, policies, both algorithms. The preemptor does
// not fit, or rarely does.
Cluster RandomCluster(uint64_t seed, const Sizes& sizes = {});

// The same with costs: some of what runs, or nothing, tells of its checkpoints.
Cluster RandomCheckpoints(uint64_t seed, Cluster cluster);

// Leaves out and simplifies what it can while `fails` says that it still fails.
Cluster Shrink(Cluster cluster, const std::function<bool(const Cluster&)>& fails);

// Numbers from the environment: SLUICE_RANDOM, how many clusters; SLUICE_SEED, only this one, or
// with SLUICE_RANDOM so many from this one on, which cuts a long run into parts that do not
// overlap.
struct RandomRuns {
  uint64_t first = 0;
  uint64_t count = 0;
};
RandomRuns RunsFromEnvironment(uint64_t default_count);

}  // namespace sluice::preemption
