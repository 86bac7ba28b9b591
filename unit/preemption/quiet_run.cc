#include "unit/preemption/quiet_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "unit/preemption/oracle.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

class Run {
 public:
  explicit Run(const QuietSystem& system)
      : cluster_(system.cluster),
        waiting_(system.waiting),
        order_(system.order),
        events_(system.events) {
    now_ = 1;
    for (const WorkloadSpec& workload : cluster_.running) {
      now_ = std::max(now_, workload.reserved_at + 1);
    }
  }

  static constexpr int kMostVisits = 20;

  QuietResult Go() {
    // A state may come back until the workloads have learnt from it.
    std::map<std::vector<std::string>, int> seen{{State(), 1}};
    while (Step()) {
      if (++seen[State()] <= kMostVisits) continue;
      result_.log += "this state was there too often\n";
      return Finish();
    }
    result_.quiet = true;
    return Finish();
  }

 private:
  QuietResult Finish() {
    result_.running = State();
    std::sort(result_.running.begin(), result_.running.end());
    return result_;
  }

  // Who runs, in the order in which they got their quota; everything else follows from it.
  std::vector<std::string> State() const {
    std::vector<const WorkloadSpec*> running;
    for (const WorkloadSpec& workload : cluster_.running) running.push_back(&workload);
    std::sort(running.begin(), running.end(), [](const auto* a, const auto* b) {
      return std::tie(a->reserved_at, a->name) < std::tie(b->reserved_at, b->name);
    });
    std::vector<std::string> names;
    for (const WorkloadSpec* workload : running) names.push_back(workload->name);
    return names;
  }

  // Whether `a` is looked at before `b`.
  bool Before(const WorkloadSpec& a, const WorkloadSpec& b) const {
    if (a.queue != b.queue && order_ != WaitingOrder::kPriority) {
      const Oracle with_a = With(a);
      const Oracle with_b = With(b);
      if (order_ == WaitingOrder::kShare) {
        if (Oracle::Less(with_a.ShareOf(a.queue), with_b.ShareOf(b.queue))) return true;
        if (Oracle::Less(with_b.ShareOf(b.queue), with_a.ShareOf(a.queue))) return false;
      } else {
        const bool borrows = Borrows(with_a, a.queue);
        if (borrows != Borrows(with_b, b.queue)) return !borrows;
      }
    }
    if (a.priority != b.priority) return a.priority > b.priority;
    return std::tie(a.order_time, a.name) < std::tie(b.order_time, b.name);
  }

  Oracle With(const WorkloadSpec& workload) const {
    scratch_ = cluster_;
    scratch_.running.push_back(workload);
    return Oracle(scratch_);
  }

  bool Borrows(const Oracle& oracle, int queue) const {
    for (size_t c = 0; c < cluster_.CellCount(); ++c) {
      if (oracle.Usage(queue, c) > oracle.Quota(queue, c)) return true;
    }
    return false;
  }

  bool Step() {
    // A partial order of the heads is enough: the smallest of those not looked at yet.
    std::vector<WorkloadSpec> rest = waiting_;
    while (!rest.empty()) {
      size_t first = 0;
      for (size_t i = 1; i < rest.size(); ++i) {
        if (Before(rest[i], rest[first])) first = i;
      }
      if (Try(rest[first])) return true;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(first));
    }
    return false;
  }

  // Whether the quota of every cell allows to look for room at all.
  bool MayPreempt(const Oracle& oracle, const WorkloadSpec& workload) const {
    const Policies& policies = cluster_.nodes[static_cast<size_t>(workload.queue)].policies;
    for (size_t c = 0; c < cluster_.CellCount(); ++c) {
      if (workload.amounts[c] > oracle.Potential(workload.queue, c)) return false;
    }
    return std::all_of(oracle.contested().begin(), oracle.contested().end(), [&](size_t c) {
      const int request = workload.amounts[c];
      return request <= oracle.Quota(workload.queue, c) ||
             oracle.LevelFor(workload.queue, c, request).may_reclaim ||
             policies.borrow_within_cohort ||
             (!cluster_.strategies.empty() && policies.reclaim_within_cohort != Policy::kNever);
    });
  }

  bool Try(const WorkloadSpec& workload) {
    cluster_.preemptor = workload;
    if (cluster_.now >= 0) cluster_.now = now_;
    Oracle oracle(cluster_);
    std::vector<Victim> victims;
    if (!oracle.FitsNow()) {
      if (!MayPreempt(oracle, workload)) return false;
      SearchRun search(cluster_, oracle.contested());
      search.SetEvictors(history_.EvictorsOf(workload.name));
      victims = search.Find();
      if (victims.empty()) return false;
    }
    result_.log += workload.name + " admitted";
    if (!victims.empty()) result_.log += ", evicted: " + preemption::Describe(cluster_, victims);
    result_.log += "\n";
    result_.evictions += static_cast<int>(victims.size());
    std::vector<WorkloadSpec> rest;
    if (events_) history_.NoteEvent();
    history_.SetNow(absl::FromUnixSeconds(now_));
    for (size_t w = 0; w < cluster_.running.size(); ++w) {
      const bool victim = std::any_of(victims.begin(), victims.end(), [w](const Victim& one) {
        return one.workload == static_cast<int>(w);
      });
      (victim ? waiting_ : rest).push_back(cluster_.running[w]);
      if (victim) history_.Record(cluster_.running[w].name, cluster_.preemptor.name);
    }
    cluster_.running = rest;
    const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& one) {
      return one.name == cluster_.preemptor.name;
    });
    waiting_.erase(place);
    cluster_.running.push_back(cluster_.preemptor);
    cluster_.running.back().reserved_at = now_++;
    return true;
  }

  mutable Cluster scratch_;
  Cluster cluster_;
  std::vector<WorkloadSpec> waiting_;
  WaitingOrder order_;
  const bool events_;
  History history_;
  int now_ = 0;
  QuietResult result_;
};

}  // namespace

std::string QuietSystem::Describe() const {
  Cluster all = cluster;
  all.preemptor = WorkloadSpec();
  all.preemptor.queue = 0;
  std::string text = all.Describe() + "waiting:\n";
  for (const WorkloadSpec& workload : waiting) {
    text += fmt::format("{} in {}:", workload.name,
                        cluster.nodes.at(static_cast<size_t>(workload.queue)).name);
    for (size_t c = 0; c < cluster.CellCount(); ++c)
      text += fmt::format(" {}", workload.amounts[c]);
    text += fmt::format(" priority {} order {}\n", workload.priority, workload.order_time);
  }
  return text + fmt::format("order {}\n", static_cast<int>(order));
}

QuietResult RunUntilQuiet(const QuietSystem& system) { return Run(system).Go(); }

}  // namespace sluice::preemption
