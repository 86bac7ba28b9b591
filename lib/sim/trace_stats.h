// TraceStats: what a trace simulation measured, per queue and over time.
//
// Listens to the engine and keeps sums and a few hundred samples a curve; an event costs
// O(resources of the workload). Result() gives plain numbers; sim/report.h prints them. Integrals
// are exact (128 bits), ratios are doubles that are made of them once, at the end.
//
// Definitions. Wait: from arrival to the first start, of workloads that started. Slowdown: bounded
// slowdown of workloads that finished, max(1, (finish - arrival) / max(run time, 10 s)) (Feitelson
// and Rudolph, "Metrics and benchmarking for parallel job scheduling"). Share: what a ClusterQueue
// received of what it was entitled to, that is the integral of its usage divided by the integral of
// min(nominal quota, what its workloads ask for), for the resource of which it used most; 1 is
// fair, less is too little, more is borrowed. Fairness: Jain's index of the shares, (sum x)^2 / (n
// sum x^2), 1 when all are equal (Jain, Chiu and Hawe, DEC-TR-301).
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace_engine.h"

namespace sluice::sim {

__extension__ typedef __int128 Integral;  // amount times microseconds

// A step function of time as the means of equally long intervals. The intervals grow with time, so
// that there are never more than kMost.
class Curve {
 public:
  static constexpr size_t kMost = 240;

  // The value from `time` on; times never decrease.
  void Set(Micros time, int64_t value);
  void Add(Micros time, int64_t delta) { Set(time, value_ + delta); }
  int64_t value() const { return value_; }
  int64_t peak() const { return peak_; }
  // Up to `end`.
  Integral Sum(Micros end);
  std::vector<double> Means(Micros end);
  // Length of an interval for a curve that ends there; the same for all curves of that end.
  static Micros StepFor(Micros end);

 private:
  void Advance(Micros time);

  Micros step_ = 1000;
  Micros time_ = 0;
  int64_t value_ = 0;
  int64_t peak_ = 0;
  Integral sum_ = 0;
  std::vector<Integral> sums_;
};

struct WaitStats {
  int64_t count = 0;
  double mean = 0;  // microseconds, as all others
  Micros p50 = 0;
  Micros p95 = 0;
  Micros max = 0;
};

struct QueueResult {
  std::string name;
  int64_t submitted = 0;
  int64_t finished = 0;
  int64_t running = 0;  // at the end
  int64_t waiting = 0;  // at the end
  int64_t preemptions = 0;
  Micros lost = 0;  // time run in vain
  WaitStats wait;
  double slowdown = 0;          // mean of those that finished
  std::optional<double> share;  // ClusterQueues with quota and demand only
  ResourceName share_resource;
  std::optional<double> used;  // mean usage as part of nominal quota, of share_resource
  std::vector<double> curve;   // usage of share_resource as part of nominal
};

struct CellResult {
  FlavorResource cell;
  int64_t nominal = 0;  // of all ClusterQueues and Cohorts
  int64_t peak = 0;
  double mean = 0;
  std::vector<double> curve;
};

struct WaitingResult {  // workloads that wait at the end
  std::string cluster_queue;
  int64_t count = 0;
  std::string example;  // name of the first
  std::string reason;
};

struct TraceResult {
  absl::Time start;
  Micros end = 0;
  Micros step = 0;  // of all curves
  QueueResult total;
  std::vector<QueueResult> cluster_queues;  // that had workloads or quota, by name
  std::vector<QueueResult> local_queues;    // that had workloads, by key
  std::vector<CellResult> cells;
  std::vector<double> waiting_curve;
  std::vector<double> running_curve;
  std::optional<double> fairness;
  std::vector<WaitingResult> waiting;
  std::vector<std::string> notes;
};

class TraceStats : public TraceListener {
 public:
  TraceStats(const TraceCluster& cluster, const Trace& trace, const TraceEngine& engine);
  void OnTraceEvent(const TraceEvent& event) override;
  TraceResult Result();

 private:
  struct Resource {  // of a ClusterQueue
    int64_t nominal = 0;
    int64_t used = 0;
    int64_t wanted = 0;
    Integral used_sum = 0;
    Integral entitled_sum = 0;
    Curve curve;
  };
  struct Group {  // a ClusterQueue, a LocalQueue, or all
    std::string name;
    QueueResult result;
    std::vector<Micros> waits;
    double slowdowns = 0;
    Micros time = 0;  // up to which the integrals go
    absl::btree_map<ResourceName, Resource> resources;
  };
  struct Cell {
    int64_t nominal = 0;
    Curve curve;
  };

  void AddQuota();
  static void Advance(Group& group, Micros time);
  void Count(Group& group, const TraceEvent& event);
  void Want(Group& group, uint32_t job, int64_t sign);
  void Use(Group& group, const TraceEvent& event, int64_t sign);
  QueueResult Finish(Group& group, Micros end);
  void AddWaiting(TraceResult& result) const;

  const TraceCluster& cluster_;
  const Trace& trace_;
  const TraceEngine& engine_;
  Group total_;
  std::vector<Group> groups_;  // ClusterQueues
  std::vector<Group> local_;   // by index in local_queues()
  absl::btree_map<std::string, size_t> group_of_;
  std::vector<size_t> group_of_shape_;
  absl::btree_map<FlavorResource, Cell> cells_;
  Curve waiting_;
  Curve running_;
};

}  // namespace sluice::sim
