// The search against the naive model, on random clusters.
#include <cstdlib>

#include "unit/catch.h"
#include "unit/preemption/oracle.h"
#include "unit/preemption/random_cluster.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

void Report(uint64_t seed, const Cluster& cluster) {
  const Cluster small = Shrink(cluster, [](const Cluster& c) { return !CheckSearch(c).empty(); });
  FAIL("run again with SLUICE_SEED=" << seed << "; in its smallest form\n"
                                     << small.Describe() << CheckSearch(small));
}

TEST_CASE("the search finds what the definition says") {
  const RandomRuns runs = RunsFromEnvironment(30'000);
  uint64_t found = 0;
  uint64_t several = 0;
  for (uint64_t i = 0; i < runs.count; ++i) {
    const uint64_t seed = runs.first + i;
    const Cluster cluster = RandomCluster(seed);
    std::vector<Victim> victims;
    if (!CheckSearch(cluster, &victims, i % 16 == 0).empty()) Report(seed, cluster);
    found += victims.empty() ? 0 : 1;
    several += victims.size() > 1 ? 1 : 0;
  }
  INFO(found << " of " << runs.count << " with victims, " << several << " with several");
  // A generator that makes nothing happen would let everything pass.
  if (runs.count >= 1000) {
    CHECK(found * 20 > runs.count);
    CHECK(several * 100 > runs.count);
  }
  if (std::getenv("SLUICE_RANDOM") != nullptr) {
    WARN(found << " of " << runs.count << " with victims, " << several << " with several");
  }
}

TEST_CASE("the search by lost work finds what the definition says") {
  const RandomRuns runs = RunsFromEnvironment(20'000);
  uint64_t found = 0;
  uint64_t other = 0;
  for (uint64_t i = 0; i < runs.count; ++i) {
    const uint64_t seed = runs.first + i;
    const Cluster cluster = RandomCheckpoints(seed, RandomCluster(seed));
    std::vector<Victim> victims;
    if (!CheckSearch(cluster, &victims, false).empty()) Report(seed, cluster);
    found += victims.empty() ? 0 : 1;
    Cluster without = cluster;
    without.now = -1;
    std::vector<Victim> by_time;
    if (!CheckSearch(without, &by_time, false).empty()) Report(seed, without);
    other += victims == by_time ? 0 : 1;
  }
  INFO(found << " of " << runs.count << " with victims, " << other << " others than by time");
  if (runs.count >= 1000) {
    CHECK(found * 20 > runs.count);
    CHECK(other * 100 > runs.count);
  }
}

// Where nobody says anything, knowing the time changes nothing.
TEST_CASE("without annotations the order is that of the times") {
  const RandomRuns runs = RunsFromEnvironment(20'000);
  for (uint64_t i = 0; i < runs.count; ++i) {
    Cluster cluster = RandomCluster(runs.first + i);
    const std::vector<size_t> contested = Oracle(cluster).contested();
    const std::vector<Victim> by_time = SearchRun(cluster, contested).Find();
    cluster.now = 100;
    INFO("seed " << runs.first + i);
    REQUIRE(SearchRun(cluster, contested).Find() == by_time);
  }
}

}  // namespace
}  // namespace sluice::preemption
