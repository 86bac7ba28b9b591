// Backfill over time: a small simulation that admits, lets run for exactly as long, and looks on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "admission/cycle.h"
#include "queueing/backfill.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using build::At;

struct Arrival {
  std::string name;
  int at = 0;
  int gpus = 1;
  int runs = 10;
  int bound = 10;  // 0: none
  std::string queue = "cq";
};

struct Policy {
  std::string strategy;
  std::string backfill;
};

// Plays arrivals to the end, one event after the other.
class Machine {
 public:
  explicit Machine(int gpus, const Policy& policy, int depth = 32) : gpus_(gpus), policy_(policy) {
    const build::Namespace ns("ns");
    snapshot_.namespaces["ns"] = ns.Shared();
    snapshot_.flavors["f"] = build::Flavor("f").Shared();
    AddQueue("cq", "", gpus, depth);
  }

  void AddQueue(const std::string& name, const std::string& cohort, int gpus, int depth = 32) {
    build::ClusterQueue queue(name);
    queue.Flavor("f", {{"gpu", std::to_string(gpus)}}).Cohort(cohort);
    if (!policy_.backfill.empty()) {
      queue.Annotation(queueing::kBackfill, policy_.backfill)
          .Annotation(queueing::kBackfillDepth, std::to_string(depth));
    }
    snapshot_.cluster_queues[name] = {queue.Shared(), true};
    snapshot_.tree.SetClusterQueue(name, cohort, LimitsOf(queue.Get().spec.resource_groups));
    const bool strict = policy_.strategy == "StrictFIFO" || !policy_.backfill.empty();
    queues_.AddClusterQueue(name, {strict ? queueing::QueueingStrategy::kStrictFifo
                                          : queueing::QueueingStrategy::kBestEffortFifo,
                                   true, false, !policy_.backfill.empty()});
  }

  void Play(std::vector<Arrival> arrivals) {
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
    size_t next = 0;
    while (next < arrivals.size() || !running_.empty()) {
      int now = next < arrivals.size() ? arrivals[next].at : running_.begin()->first;
      if (!running_.empty()) now = std::min(now, running_.begin()->first);
      while (!running_.empty() && running_.begin()->first == now) End(now);
      for (; next < arrivals.size() && arrivals[next].at == now; ++next) Arrive(arrivals[next]);
      Decide(now);
    }
    for (const auto& [name, arrival] : arrivals_) {
      INFO(name);
      CHECK(started_.contains(name));
    }
  }

  // The largest delay of a start behind any time that was promised.
  int WorstDelay() const {
    int worst = 0;
    for (const auto& [name, time] : promised_) {
      worst = std::max(worst, started_.at(name) - time);
    }
    return worst;
  }
  size_t promises() const { return promised_.size(); }
  int backfilled() const { return backfilled_; }
  int StartOf(const std::string& name) const { return started_.at(name); }
  double Utilisation() const {
    double work = 0;
    for (const auto& [name, arrival] : arrivals_) work += double{1} * arrival.gpus * arrival.runs;
    return work / gpus_ / end_;
  }
  int WaitQuantile(double quantile, int least_gpus) const {
    std::vector<int> waits;
    for (const auto& [name, arrival] : arrivals_) {
      if (arrival.gpus >= least_gpus) waits.push_back(started_.at(name) - arrival.at);
    }
    std::sort(waits.begin(), waits.end());
    return waits.at(static_cast<size_t>(quantile * static_cast<double>(waits.size() - 1)));
  }
  int end() const { return end_; }

 private:
  void Arrive(const Arrival& arrival) {
    build::Workload workload(arrival.name);
    workload.Queue("lq").Request("gpu", std::to_string(arrival.gpus)).Created(At(arrival.at));
    if (arrival.bound > 0) {
      workload.Annotation(queueing::kExpectedRuntime, fmt::format("{}s", arrival.bound));
    }
    queues_.AddOrUpdate(queueing::MakeWorkloadInfo(workload.Shared(), arrival.queue, {}),
                        At(arrival.at));
    arrivals_[arrival.name] = arrival;
  }

  void End(int now) {
    const std::string name = running_.begin()->second;
    running_.erase(running_.begin());
    snapshot_.reserved.Remove({"ns", name});
    const Arrival& arrival = arrivals_.at(name);
    snapshot_.tree.RemoveUsage(arrival.queue, {{{"f", "gpu"}, static_cast<int64_t>(arrival.gpus)}});
    for (const std::string& queue : snapshot_.tree.TreeOf(arrival.queue)) {
      queues_.ReleaseParked(queue, At(now));
    }
    end_ = std::max(end_, now);
  }

  void Decide(int now) {
    Reservations reservations;
    const auto decisions = Schedule(snapshot_, queues_, At(now), 1000, &reservations);
    for (const Decision& decision : decisions) {
      if (decision.kind != Decision::Kind::kAdmit) continue;
      const std::string name = decision.info->Key().name;
      snapshot_.tree.AddUsage(decision.info->cluster_queue, decision.usage);
      started_[name] = now;
      running_.emplace(now + arrivals_.at(name).runs, name);
      backfilled_ += decision.backfill.has_value() ? 1 : 0;
    }
    queues_.CheckInvariants();
    snapshot_.tree.CheckInvariants();
    for (const auto& [key, reservation] : reservations.by_workload) {
      if (!reservation.at || started_.contains(key.name)) continue;
      const int time = static_cast<int>(absl::ToInt64Seconds(*reservation.at - At(0)));
      const auto [found, added] = promised_.insert({key.name, time});
      found->second = std::min(found->second, time);
    }
    Reservations again;
    CHECK(Schedule(snapshot_, queues_, At(now), 1000, &again).empty());  // nothing spins
  }

  int gpus_;
  Policy policy_;
  Snapshot snapshot_;
  queueing::QueueManager queues_;
  std::map<std::string, Arrival> arrivals_;
  std::map<std::string, int> started_;
  std::map<std::string, int> promised_;  // the earliest time that was ever said
  std::multimap<int, std::string> running_;
  int backfilled_ = 0;
  int end_ = 0;
};

std::vector<Arrival> RandomArrivals(uint32_t seed, int count, int gpus, bool early) {
  std::mt19937 random(seed);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<Arrival> arrivals;
  int at = 0;
  for (int i = 0; i < count; ++i) {
    at += pick(0, 8);
    Arrival arrival{fmt::format("w{:04}", i), at};
    arrival.gpus = pick(0, 3) == 0 ? pick(gpus / 2, gpus) : pick(1, gpus / 4);
    arrival.bound = pick(0, 7) == 0 ? 0 : pick(1, 60);
    arrival.runs = arrival.bound == 0 ? pick(1, 60) : arrival.bound;
    if (early && arrival.bound > 0) arrival.runs = pick(1, arrival.bound);
    arrivals.push_back(arrival);
  }
  return arrivals;
}

TEST_CASE("the head is reserved, and what ends in time passes it") {
  Machine machine(8, {"", "EASY"});
  machine.Play({{"a", 0, 6, 60, 60},
                {"b", 1, 8, 10, 10},
                {"c", 2, 2, 50, 50},
                {"d", 3, 2, 70, 70},
                {"e", 4, 2, 1, 0}});
  CHECK(machine.StartOf("c") == 2);
  CHECK(machine.StartOf("b") == 60);
  CHECK(machine.StartOf("d") == 70);
  CHECK(machine.StartOf("e") == 70);
  CHECK(machine.backfilled() == 1);
}

TEST_CASE("nobody passes a head of which nobody knows when it starts") {
  Machine machine(8, {"", "EASY"});
  machine.Play({{"a", 0, 6, 60, 0}, {"b", 1, 8, 10, 10}, {"c", 2, 2, 50, 50}, {"d", 3, 2, 70, 70}});
  CHECK(machine.StartOf("b") == 60);
  CHECK(machine.StartOf("c") == 70);
  CHECK(machine.StartOf("d") == 70);
  CHECK(machine.backfilled() == 0);
}

TEST_CASE("Random: under EASY nothing that is backfilled delays a head") {
  size_t promises = 0;
  int backfilled = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Machine machine(16, {"", "EASY"}, seed % 3 == 0 ? 4 : 32);
    machine.Play(RandomArrivals(seed, 80, 16, true));
    CHECK(machine.WorstDelay() <= 0);
    promises += machine.promises();
    backfilled += machine.backfilled();
  }
  CHECK(promises > 200);
  CHECK(backfilled > 200);
}

TEST_CASE("Random: under Conservative nothing delays any reservation when bounds are exact") {
  size_t promises = 0;
  int backfilled = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    auto arrivals = RandomArrivals(seed, 80, 16, false);
    for (Arrival& arrival : arrivals) {
      if (arrival.bound == 0) arrival.bound = arrival.runs;
    }
    Machine machine(16, {"", "Conservative"}, seed % 3 == 0 ? 4 : 200);
    machine.Play(arrivals);
    CHECK(machine.WorstDelay() <= 0);
    promises += machine.promises();
    backfilled += machine.backfilled();
  }
  CHECK(promises > 200);
  CHECK(backfilled > 100);
}

TEST_CASE("policies on one trace, as a table") {
  const std::vector<std::pair<std::string, Policy>> policies = {
      {"StrictFIFO", {"StrictFIFO", ""}},
      {"BestEffortFIFO", {"BestEffortFIFO", ""}},
      {"EASY", {"", "EASY"}},
      {"Conservative", {"", "Conservative"}}};
  std::vector<Arrival> arrivals = RandomArrivals(7, 400, 64, true);
  std::map<std::string, double> utilisation;
  std::map<std::string, int> wide;
  fmt::print("{:<15} {:>8} {:>12} {:>9} {:>9} {:>14} {:>11}\n", "policy", "makespan", "utilisation",
             "p50 wait", "p95 wait", "p95 wait wide", "backfilled");
  for (const auto& [name, policy] : policies) {
    Machine machine(64, policy);
    machine.Play(arrivals);
    utilisation[name] = machine.Utilisation();
    wide[name] = machine.WaitQuantile(0.95, 48);
    fmt::print("{:<15} {:>7}s {:>11.1f}% {:>8}s {:>8}s {:>13}s {:>11}\n", name, machine.end(),
               100 * machine.Utilisation(), machine.WaitQuantile(0.5, 0),
               machine.WaitQuantile(0.95, 0), wide[name], machine.backfilled());
  }
  CHECK(utilisation["EASY"] > utilisation["StrictFIFO"]);
  CHECK(utilisation["Conservative"] > utilisation["StrictFIFO"]);
  CHECK(wide["EASY"] <= wide["BestEffortFIFO"]);
}

}  // namespace
}  // namespace sluice::admission
