// The part of the naive model that is about checkpoints.
#include <algorithm>

#include "unit/preemption/oracle.h"

namespace sluice::preemption {

// Thousandths of a second times thousandths of what it holds: GPUs, else CPUs.
int64_t Oracle::CostOf(int workload) const {
  const WorkloadSpec& work = Work(workload);
  const int ran = std::max(0, cluster_.now - work.reserved_at);
  int lost = ran;
  if (work.checkpoint.has_value()) {
    const CheckpointSpec& said = *work.checkpoint;
    if (said.last >= 0 && said.last <= cluster_.now) {
      lost = cluster_.now - std::max(said.last, cluster_.now - ran);
    } else if (said.interval > 0) {
      lost = ran - ran / said.interval * said.interval;
    }
    lost += said.restart;
  }
  int64_t gpus = 0;
  int64_t cpus = 0;
  for (int f = 0; f < cluster_.flavors; ++f) {
    const size_t first = At(f * cluster_.resources);
    gpus += work.amounts[first];
    if (cluster_.resources > 1) cpus += work.amounts[first + 1];
  }
  return int64_t{1000} * lost * (gpus > 0 ? 1000 * gpus : cpus);
}

bool Oracle::Protected(const WorkloadSpec& work) const {
  if (cluster_.now < 0 || !work.checkpoint.has_value() || work.evicted) return false;
  if (cluster_.now >= work.reserved_at + work.checkpoint->min_runtime) return false;
  if (work.queue == Me()) return work.priority >= cluster_.preemptor.priority;
  return borrows_;
}

bool Oracle::Often(const WorkloadSpec& work) const {
  return cluster_.now >= 0 && work.checkpoint.has_value() && !work.evicted &&
         work.checkpoint->preempted >= 3;
}

bool Oracle::AnyCost() const {
  if (cluster_.now < 0) return false;
  int root = Me();
  while (Node(root).parent >= 0) root = Node(root).parent;
  for (size_t w = 0; w < cluster_.running.size(); ++w) {
    const int workload = static_cast<int>(w);
    const int queue = Work(workload).queue;
    if (!Work(workload).checkpoint.has_value() || !IsAncestor(root, queue)) continue;
    if (Qualifies(workload) && (queue == Me() || UsesBorrowed(workload))) return true;
  }
  return false;
}

// The last one is what made the preemptor fit.
std::vector<int> Oracle::ReturnOrder(const std::vector<Taken>& taken) const {
  std::vector<int> order;
  for (size_t i = taken.size(); i-- > 0;) {
    if (i + 1 < taken.size()) order.push_back(taken[i].victim.workload);
  }
  if (!by_cost_) return order;
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
    if (Work(a).evicted != Work(b).evicted) return Work(b).evicted;
    if (Work(a).priority != Work(b).priority) return Work(a).priority > Work(b).priority;
    return CostOf(a) > CostOf(b);
  });
  return order;
}

}  // namespace sluice::preemption
