#include "unit/preemption/cluster.h"

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::preemption {
namespace {

const char* PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kNever:
      return "Never";
    case Policy::kLowerPriority:
      return "LowerPriority";
    case Policy::kLowerOrNewerEqualPriority:
      return "LowerOrNewerEqualPriority";
    case Policy::kAny:
      return "Any";
  }
  return "";
}

WorkloadSpec Make(int queue, const std::string& name, const std::vector<int>& amounts,
                  const WorkloadOptions& options) {
  WorkloadSpec workload;
  workload.name = name;
  workload.queue = queue;
  for (size_t i = 0; i < amounts.size(); ++i) workload.amounts.at(i) = amounts[i];
  workload.priority = options.priority;
  workload.order_time = options.order_time;
  workload.reserved_at = options.reserved_at;
  workload.evicted = options.evicted;
  workload.local_queue = options.local_queue;
  workload.checkpoint = options.checkpoint;
  return workload;
}

std::string TextOf(const Cluster& cluster, const WorkloadSpec& workload) {
  std::string text = fmt::format("{} in {}:", workload.name,
                                 cluster.nodes.at(static_cast<size_t>(workload.queue)).name);
  for (size_t c = 0; c < cluster.CellCount(); ++c) {
    text += fmt::format(" {}", workload.amounts.at(c));
  }
  text += fmt::format(" priority {} order {} reserved {} local queue {}", workload.priority,
                      workload.order_time, workload.reserved_at, workload.local_queue);
  if (workload.evicted) text += " evicted";
  if (const auto& said = workload.checkpoint; said.has_value()) {
    text += fmt::format(" checkpoint {} interval {} restart {} min {} preempted {}", said->last,
                        said->interval, said->restart, said->min_runtime, said->preempted);
  }
  return text;
}

std::string TextOf(const Cluster& cluster, const NodeSpec& node) {
  std::string text = node.is_cohort ? "cohort " : "queue ";
  text += node.name;
  if (node.parent >= 0) {
    text += " under " + cluster.nodes.at(static_cast<size_t>(node.parent)).name;
  }
  for (size_t c = 0; c < cluster.CellCount(); ++c) {
    const CellSpec& cell = node.cells.at(c);
    if (!cell.listed) continue;
    text += fmt::format(", cell {}: {}", c, cell.nominal);
    if (cell.borrowing != kNoLimit) text += fmt::format(" borrow {}", cell.borrowing);
    if (cell.lending != kNoLimit) text += fmt::format(" lend {}", cell.lending);
  }
  if (node.weight_milli != 1000) text += fmt::format(", weight {}m", node.weight_milli);
  if (node.is_cohort) return text;
  text += fmt::format(", within {}, reclaim {}", PolicyName(node.policies.within_cluster_queue),
                      PolicyName(node.policies.reclaim_within_cohort));
  if (node.policies.borrow_within_cohort) text += ", while borrowing";
  if (node.policies.max_priority_threshold.has_value()) {
    text += fmt::format(" up to {}", *node.policies.max_priority_threshold);
  }
  if (!node.active) text += ", inactive";
  if (node.usage_based) text += ", usage based";
  return text;
}

}  // namespace

int Cluster::Find(const std::string& name) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Cluster& Cluster::Cohort(const std::string& name, const std::string& parent,
                         const std::vector<CellSpec>& cells, int weight_milli) {
  if (!parent.empty() && Find(parent) < 0) Cohort(parent);
  NodeSpec node;
  node.name = name;
  node.is_cohort = true;
  node.parent = parent.empty() ? -1 : Find(parent);
  for (size_t i = 0; i < cells.size(); ++i) node.cells.at(i) = cells[i];
  node.weight_milli = weight_milli;
  nodes.push_back(node);
  return *this;
}

Cluster& Cluster::Queue(const std::string& name, const std::string& cohort,
                        const std::vector<CellSpec>& cells, const Policies& policies,
                        int weight_milli) {
  Cohort(name, cohort, cells, weight_milli);
  nodes.back().is_cohort = false;
  nodes.back().policies = policies;
  return *this;
}

Cluster& Cluster::Runs(const std::string& queue, const std::string& name,
                       const std::vector<int>& amounts, const WorkloadOptions& options) {
  running.push_back(Make(Find(queue), name, amounts, options));
  return *this;
}

Cluster& Cluster::Needs(const std::string& queue, const std::vector<int>& amounts,
                        const WorkloadOptions& options) {
  preemptor = Make(Find(queue), "preemptor", amounts, options);
  return *this;
}

Cluster& Cluster::Fair(const std::vector<Strategy>& which) {
  strategies = which;
  return *this;
}

std::string Cluster::Describe() const {
  std::string text = fmt::format("{} flavors, {} resources\n", flavors, resources);
  for (const NodeSpec& node : nodes) text += TextOf(*this, node) + "\n";
  for (const WorkloadSpec& workload : running) {
    text += TextOf(*this, workload) + "\n";
  }
  text += TextOf(*this, preemptor) + "\ncontested:";
  for (size_t c = 0; c < CellCount(); ++c) {
    if (contested.at(c)) text += fmt::format(" {}", c);
  }
  for (const Strategy strategy : strategies) {
    text += strategy == Strategy::kLessThanInitialShare ? ", LessThanInitialShare"
                                                        : ", LessThanOrEqualToFinalShare";
  }
  text += strategies.empty() ? ", classical" : preempt_within_nominal ? ", within nominal" : "";
  for (const int usage : local_queue_usage) text += fmt::format(", {} used", usage);
  if (now >= 0) text += fmt::format(", at {}", now);
  return text + "\n";
}

std::string Describe(const Cluster& cluster, const std::vector<Victim>& victims) {
  std::string text;
  for (const Victim& victim : victims) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", cluster.running.at(static_cast<size_t>(victim.workload)).name,
                        ReasonName(victim.reason));
  }
  return text;
}

}  // namespace sluice::preemption
