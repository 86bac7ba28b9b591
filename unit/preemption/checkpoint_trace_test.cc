// Lost work on a synthetic training trace: by lost work against newest first.
//
// The trace, seeded: one ClusterQueue of 32 nodes with 8 GPUs each. For two weeks a training job
// (priority 0) of one node, or in a quarter of the cases two, comes every 40 minutes, with 4 to 36
// hours of work; that is more than there is room for. Production jobs (priority 1) come at random,
// two an hour on average, take one or two nodes for half an hour to three hours, and preempt. A
// training job writes a checkpoint every 15 to 90 minutes of its run, and takes 2 to 10 minutes to
// restart. Of ten jobs seven report their checkpoints, two only declare their interval, one says
// nothing and writes none. What is evicted waits and goes on from its last checkpoint; what it did
// since then it does again. Time goes in minutes. What is lost is counted by what happened, not by
// what the annotations say.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "unit/catch.h"
#include "unit/preemption/cluster.h"
#include "unit/preemption/random_cluster.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

constexpr int kGpus = 256;
constexpr int kMinutes = 14 * 24 * 60;
const Policies kLower{Policy::kLowerPriority, Policy::kNever, false, {}};

enum class Tells { kCheckpoints, kInterval, kNothing };

struct Job {
  int arrives = 0;
  int gpus = 0;
  int work = 0;  // minutes that are left at its last checkpoint, or that it takes in all
  int interval = 0;
  int restart = 0;
  Tells tells = Tells::kNothing;
  bool production = false;
  int started = -1;
  int evictions = 0;

  // Minutes of its run until the last checkpoint; getting going again comes first.
  int Saved(int now) const {
    const int ran = std::max(0, now - started - (evictions > 0 ? restart : 0));
    return tells == Tells::kNothing ? 0 : ran / interval * interval;
  }
  int Ran(int now) const { return now - started; }
  bool Ended(int now) const { return Ran(now) >= work + (evictions > 0 ? restart : 0); }
};

std::vector<Job> Trace(uint64_t seed) {
  Random random(seed);
  const auto between = [&](int least, int most) { return least + random.Below(most - least + 1); };
  std::vector<Job> jobs;
  for (int minute = 0; minute < kMinutes; ++minute) {
    if (minute % 40 == 0) {
      Job job;
      job.arrives = minute;
      job.gpus = random.OneIn(4) ? 16 : 8;
      job.work = between(4 * 60, 36 * 60);
      job.interval = between(15, 90);
      job.restart = between(2, 10);
      const int kind = random.Below(10);
      job.tells = kind < 7 ? Tells::kCheckpoints : kind < 9 ? Tells::kInterval : Tells::kNothing;
      jobs.push_back(job);
    }
    if (random.Below(30) == 0) {
      Job job;
      job.arrives = minute;
      job.gpus = 8 * between(1, 2);
      job.work = between(30, 180);
      job.production = true;
      jobs.push_back(job);
    }
  }
  return jobs;
}

struct Outcome {
  int64_t lost = 0;  // GPU-minutes
  int64_t evictions = 0;
  int64_t production = 0;  // jobs that ended
  int64_t training = 0;
  int64_t useful = 0;  // GPU-minutes of them
};

class Run {
 public:
  Run(std::vector<Job> jobs, bool by_cost) : jobs_(std::move(jobs)), by_cost_(by_cost) {}

  Outcome Go() {
    size_t next = 0;
    for (now_ = 0; now_ < kMinutes; ++now_) {
      for (size_t i = running_.size(); i-- > 0;) {
        if (jobs_[running_[i]].Ended(now_)) End(i);
      }
      for (; next < jobs_.size() && jobs_[next].arrives <= now_; ++next) waiting_.push_back(next);
      for (const bool production : {true, false}) StartAll(production);
    }
    return outcome_;
  }

 private:
  void End(size_t place) {
    const Job& job = jobs_[running_[place]];
    free_ += job.gpus;
    ++(job.production ? outcome_.production : outcome_.training);
    outcome_.useful += int64_t{job.gpus} * job.work;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
  }

  void StartAll(bool production) {
    for (size_t i = 0; i < waiting_.size();) {
      const size_t index = waiting_[i];
      Job& job = jobs_[index];
      if (job.production != production) {
        ++i;
        continue;
      }
      if (job.gpus > free_ && production) Preempt(job);
      if (job.gpus > free_) {
        ++i;
        continue;
      }
      free_ -= job.gpus;
      job.started = now_;
      running_.push_back(index);
      // Victims have come in before it.
      i = static_cast<size_t>(std::find(waiting_.begin(), waiting_.end(), index) -
                              waiting_.begin());
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void Preempt(const Job& preemptor) {
    Cluster cluster;
    cluster.Queue("q", "", {kGpus}, kLower);
    for (const size_t index : running_) {
      const Job& job = jobs_[index];
      WorkloadOptions options{.priority = job.production ? 1 : 0, .reserved_at = job.started * 60};
      if (by_cost_) options.checkpoint = SaidBy(job);
      cluster.Runs("q", std::to_string(index), {job.gpus}, options);
    }
    cluster.Needs("q", {preemptor.gpus}, {.priority = 1});
    if (by_cost_) cluster.now = now_ * 60;
    std::vector<size_t> victims;
    for (const Victim& victim : SearchRun(cluster, {0}).Find()) {
      victims.push_back(running_[static_cast<size_t>(victim.workload)]);
    }
    for (const size_t victim : victims) Evict(victim);
  }

  std::optional<CheckpointSpec> SaidBy(const Job& job) const {
    if (job.tells == Tells::kNothing || job.production) return std::nullopt;
    CheckpointSpec said;
    said.restart = job.restart * 60;
    const int begins = job.started + (job.evictions > 0 ? job.restart : 0);
    if (job.tells == Tells::kInterval) {
      said.interval = job.interval * 60;
    } else if (job.Saved(now_) > 0) {
      said.last = (begins + job.Saved(now_)) * 60;
    }
    return said;
  }

  void Evict(size_t index) {
    Job& job = jobs_[index];
    const int saved = job.Saved(now_);
    outcome_.lost += int64_t{job.gpus} * (job.Ran(now_) - saved + job.restart);
    ++outcome_.evictions;
    job.work -= saved;
    ++job.evictions;
    free_ += job.gpus;
    std::erase(running_, index);
    waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), index), index);
  }

  std::vector<Job> jobs_;
  const bool by_cost_;
  int now_ = 0;
  int free_ = kGpus;
  std::vector<size_t> running_, waiting_;  // waiting in the order in which they came
  Outcome outcome_;
};

TEST_CASE("on a training trace at most half as much work is lost as by newest first") {
  std::string table = "seed  order          evictions  lost GPU-h  production  training ended\n";
  Outcome sum[2];
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    for (const bool by_cost : {false, true}) {
      const Outcome outcome = Run(Trace(seed), by_cost).Go();
      char line[128];
      std::snprintf(line, sizeof line, "%4d  %-13s  %9d  %10.1f  %10d  %14d\n",
                    static_cast<int>(seed), by_cost ? "by lost work" : "newest first",
                    static_cast<int>(outcome.evictions), static_cast<double>(outcome.lost) / 60,
                    static_cast<int>(outcome.production), static_cast<int>(outcome.training));
      table += line;
      Outcome& total = sum[by_cost ? 1 : 0];
      total.lost += outcome.lost;
      total.evictions += outcome.evictions;
      total.production += outcome.production;
      total.training += outcome.training;
    }
  }
  WARN(table << "lost by lost work: " << 100 * sum[1].lost / sum[0].lost
             << " % of what newest first loses");
  CHECK(sum[0].evictions > 500);
  CHECK(sum[1].lost * 2 <= sum[0].lost);
  // Whoever preempts is served as before.
  CHECK(sum[1].production * 100 >= sum[0].production * 99);
}

}  // namespace
}  // namespace sluice::preemption
