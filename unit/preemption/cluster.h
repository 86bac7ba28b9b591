// Cluster: ClusterQueues, Cohorts, running workloads and one preemptor as plain data.
//
// Worked examples write one down; the random tests make up many. The same value is given to the
// code under test (search_run.h) and to the naive model (oracle.h), which share nothing else.
//
//   Cluster c;
//   c.Queue("a", "pool", {6}).Queue("b", "pool", {2});
//   c.Runs("b", "b1", {4}, {.priority = 1, .reserved_at = 20});
//   c.Needs("a", {4}, {.priority = 5});
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preemption/preemption.h"

namespace sluice::preemption {

inline constexpr size_t kMostCells = 6;
inline constexpr int kNoLimit = -1;

struct CellSpec {
  CellSpec() = default;
  CellSpec(int nominal_quota, int borrowing_limit = kNoLimit, int lending_limit = kNoLimit)
      : listed(true), nominal(nominal_quota), borrowing(borrowing_limit), lending(lending_limit) {}
  bool listed = false;
  int nominal = 0;
  int borrowing = kNoLimit;
  int lending = kNoLimit;
};

// A ClusterQueue or a Cohort. A parent stands before its children.
struct NodeSpec {
  std::string name;
  bool is_cohort = false;
  int parent = -1;
  std::array<CellSpec, kMostCells> cells;
  int weight_milli = 1000;
  Policies policies;
  bool active = true;
  bool usage_based = false;
};

// What annotations say; in seconds.
struct CheckpointSpec {
  int last = -1;  // -1: nothing was reported
  int interval = 0;
  int restart = 0;
  int min_runtime = 0;
  int preempted = 0;  // so often just now
};

struct WorkloadSpec {
  std::string name;
  int queue = -1;
  std::array<int, kMostCells> amounts{};
  int priority = 0;
  int order_time = 0;
  int reserved_at = 0;
  bool evicted = false;
  int local_queue = 0;
  std::optional<CheckpointSpec> checkpoint{};
};

struct WorkloadOptions {
  int priority = 0;
  int reserved_at = 0;
  int order_time = 0;
  bool evicted = false;
  int local_queue = 0;
  std::optional<CheckpointSpec> checkpoint{};
};

struct Cluster {
  // A cell is flavor * resources + resource.
  int flavors = 1;
  int resources = 1;
  std::vector<NodeSpec> nodes;
  std::vector<WorkloadSpec> running;  // smaller UIDs first
  WorkloadSpec preemptor;
  // The cells that need preemption. Without any set, those of which the preemptor asks for more
  // than is available.
  std::array<bool, kMostCells> contested{};
  std::vector<Strategy> strategies;  // empty: classical
  bool preempt_within_nominal = true;
  std::vector<int> local_queue_usage;  // for usage_based
  // At this second evictions cost what is lost; -1: costs are not looked at. The first resource is
  // GPUs then, the second thousandths of CPUs, and all that run do so since they got their quota.
  int now = -1;
  // What a CreditPolicy that governs all ClusterQueues counts of each resource (one GPU, one CPU).
  // Nobody is above it. Empty: there is no policy. The oracle knows none.
  std::vector<int> credit_weights;

  size_t CellCount() const { return static_cast<size_t>(flavors * resources); }
  int Find(const std::string& name) const;
  Cluster& Cohort(const std::string& name, const std::string& parent = "",
                  const std::vector<CellSpec>& cells = {}, int weight_milli = 1000);
  // A cohort that is not there yet is made, without quota.
  Cluster& Queue(const std::string& name, const std::string& cohort,
                 const std::vector<CellSpec>& cells, const Policies& policies = {},
                 int weight_milli = 1000);
  Cluster& Runs(const std::string& queue, const std::string& name, const std::vector<int>& amounts,
                const WorkloadOptions& options = {});
  Cluster& Needs(const std::string& queue, const std::vector<int>& amounts,
                 const WorkloadOptions& options = {});
  // Fair sharing with these strategies; both, when none is named.
  Cluster& Fair(const std::vector<Strategy>& which = {Strategy::kLessThanOrEqualToFinalShare,
                                                      Strategy::kLessThanInitialShare});
  std::string Describe() const;
};

// One that is found, by its place in Cluster::running.
struct Victim {
  int workload = 0;
  Reason reason = Reason::kInClusterQueue;
  bool operator==(const Victim&) const = default;
};
std::string Describe(const Cluster& cluster, const std::vector<Victim>& victims);

}  // namespace sluice::preemption
