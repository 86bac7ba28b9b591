#include "sim/trace_stats.h"

#include <algorithm>
#include <utility>

namespace sluice::sim {
namespace {

constexpr Micros kFirstStep = 1000;
constexpr Micros kShortRun = 10 * kSecond;  // shorter runs do not count as shorter for the slowdown

// Nearest rank.
Micros Percentile(const std::vector<Micros>& sorted, size_t percent) {
  if (sorted.empty()) return 0;
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

WaitStats Summarize(std::vector<Micros>& waits) {
  WaitStats stats;
  stats.count = static_cast<int64_t>(waits.size());
  if (waits.empty()) return stats;
  std::sort(waits.begin(), waits.end());
  Integral sum = 0;
  for (const Micros wait : waits) sum += wait;
  stats.mean = static_cast<double>(sum) / static_cast<double>(waits.size());
  stats.p50 = Percentile(waits, 50);
  stats.p95 = Percentile(waits, 95);
  stats.max = waits.back();
  return stats;
}

std::optional<double> JainIndex(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  if (squares == 0) return std::nullopt;
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

double Ratio(Integral a, Integral b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

Micros Curve::StepFor(Micros end) {
  Micros step = kFirstStep;
  while (end >= step * static_cast<Micros>(kMost)) step *= 2;
  return step;
}

void Curve::Advance(Micros time) {
  if (time <= time_) return;
  const Micros step = StepFor(time);
  while (step_ < step) {
    for (size_t i = 0; 2 * i < sums_.size(); ++i) {
      sums_[i] = sums_[2 * i] + (2 * i + 1 < sums_.size() ? sums_[2 * i + 1] : Integral{0});
    }
    sums_.resize((sums_.size() + 1) / 2);
    step_ *= 2;
  }
  sum_ += Integral{value_} * (time - time_);
  while (time_ < time) {
    const auto index = static_cast<size_t>(time_ / step_);
    const Micros end = std::min(time, static_cast<Micros>(index + 1) * step_);
    if (sums_.size() <= index) sums_.resize(index + 1);
    sums_[index] += Integral{value_} * (end - time_);
    time_ = end;
  }
}

void Curve::Set(Micros time, int64_t value) {
  Advance(time);
  value_ = value;
  peak_ = std::max(peak_, value);
}

Integral Curve::Sum(Micros end) {
  Advance(end);
  return sum_;
}

std::vector<double> Curve::Means(Micros end) {
  Advance(end);
  std::vector<double> means;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Micros begin = static_cast<Micros>(i) * step_;
    means.push_back(Ratio(sums_[i], std::min(step_, end - begin)));
  }
  return means;
}

TraceStats::TraceStats(const TraceCluster& cluster, const Trace& trace, const TraceEngine& engine)
    : cluster_(cluster), trace_(trace), engine_(engine) {
  total_.name = "total";
  AddQuota();
  for (uint32_t shape = 0; shape < trace_.shapes.size(); ++shape) {
    group_of_shape_.push_back(group_of_.at(engine_.ClusterQueueOf(shape)));
  }
  for (const TraceCluster::Queue& queue : cluster_.local_queues()) {
    local_.emplace_back().name = queue.key.ToString();
  }
}

void TraceStats::AddQuota() {
  const auto add = [this](const std::vector<api::ResourceGroup>& resource_groups, Group* group) {
    for (const api::ResourceGroup& resource_group : resource_groups) {
      for (const api::FlavorQuotas& flavor : resource_group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          const int64_t nominal = AmountOf(quota.name, quota.nominal_quota);
          Cell& cell = cells_[{flavor.name, quota.name}];
          cell.nominal = SaturatingAdd(cell.nominal, nominal);
          if (group == nullptr) continue;
          Resource& resource = group->resources[quota.name];
          resource.nominal = SaturatingAdd(resource.nominal, nominal);
        }
      }
    }
  };
  for (const auto& [key, queue] : cluster_.world().cluster_queues().all()) {
    group_of_[key.name] = groups_.size();
    groups_.emplace_back().name = key.name;
    add(queue->spec.resource_groups, &groups_.back());
  }
  for (const auto& [key, cohort] : cluster_.world().cohorts().all()) {
    add(cohort->spec.resource_groups, nullptr);
  }
}

void TraceStats::Advance(Group& group, Micros time) {
  const Micros passed = time - group.time;
  if (passed == 0) return;
  group.time = time;
  for (auto& [name, resource] : group.resources) {
    resource.used_sum += Integral{resource.used} * passed;
    resource.entitled_sum += Integral{std::min(resource.nominal, resource.wanted)} * passed;
  }
}

// Only resources with quota count; a workload may ask for others.
void TraceStats::Want(Group& group, uint32_t job, int64_t sign) {
  for (const auto& [name, amount] : engine_.RequestsOf(trace_.jobs[job].shape)) {
    const auto found = group.resources.find(name);
    if (found == group.resources.end()) continue;
    int64_t& wanted = found->second.wanted;
    wanted = sign > 0 ? SaturatingAdd(wanted, amount) : SaturatingSub(wanted, amount);
  }
}

void TraceStats::Use(Group& group, const TraceEvent& event, int64_t sign) {
  for (const auto& [cell, amount] : *event.usage) {
    cells_[cell].curve.Add(event.time, sign * amount);
    Resource& resource = group.resources[cell.resource];
    resource.used += sign * amount;
    resource.curve.Set(event.time, resource.used);
  }
}

void TraceStats::Count(Group& group, const TraceEvent& event) {
  const JobOutcome& outcome = engine_.outcomes()[event.job];
  const TraceJob& job = trace_.jobs[event.job];
  QueueResult& result = group.result;
  switch (event.kind) {
    case TraceEvent::Kind::kSubmit:
      ++result.submitted;
      ++result.waiting;
      break;
    case TraceEvent::Kind::kAdmit:
      --result.waiting;
      ++result.running;
      if (outcome.preemptions == 0) group.waits.push_back(event.time - job.submit);
      break;
    case TraceEvent::Kind::kAsk:
    case TraceEvent::Kind::kWithdraw:
      break;
    case TraceEvent::Kind::kPreempt:
      ++result.preemptions;
      break;
    case TraceEvent::Kind::kRequeue:
      --result.running;
      ++result.waiting;
      break;
    case TraceEvent::Kind::kFinish:
      --result.running;
      ++result.finished;
      group.slowdowns += std::max(1.0, static_cast<double>(event.time - job.submit) /
                                           static_cast<double>(std::max(job.run, kShortRun)));
      break;
  }
}

void TraceStats::OnTraceEvent(const TraceEvent& event) {
  const TraceShape& shape = trace_.shapes[trace_.jobs[event.job].shape];
  Group& group = groups_[group_of_shape_[trace_.jobs[event.job].shape]];
  Count(total_, event);
  Count(group, event);
  Count(local_[shape.local_queue], event);
  Advance(group, event.time);
  switch (event.kind) {
    case TraceEvent::Kind::kSubmit:
      Want(group, event.job, 1);
      break;
    case TraceEvent::Kind::kAdmit:
      Use(group, event, 1);
      break;
    case TraceEvent::Kind::kAsk:
    case TraceEvent::Kind::kWithdraw:
    case TraceEvent::Kind::kPreempt:
      return;
    case TraceEvent::Kind::kRequeue:
      Use(group, event, -1);
      break;
    case TraceEvent::Kind::kFinish:
      Use(group, event, -1);
      Want(group, event.job, -1);
      break;
  }
  waiting_.Set(event.time, total_.result.waiting);
  running_.Set(event.time, total_.result.running);
}

QueueResult TraceStats::Finish(Group& group, Micros end) {
  QueueResult result = group.result;
  result.name = group.name;
  result.wait = Summarize(group.waits);
  if (result.finished > 0) {
    result.slowdown = group.slowdowns / static_cast<double>(result.finished);
  }
  Advance(group, end);
  Resource* dominant = nullptr;
  double most = -1;
  for (auto& [name, resource] : group.resources) {
    if (resource.nominal <= 0 || resource.entitled_sum == 0) continue;
    const double used = Ratio(resource.used_sum, resource.nominal);
    if (used <= most) continue;
    most = used;
    dominant = &resource;
    result.share_resource = name;
  }
  if (dominant == nullptr || end == 0) return result;
  result.share = Ratio(dominant->used_sum, dominant->entitled_sum);
  result.used = Ratio(dominant->used_sum, Integral{dominant->nominal} * end);
  result.curve = dominant->curve.Means(end);
  for (double& value : result.curve) value /= static_cast<double>(dominant->nominal);
  return result;
}

void TraceStats::AddWaiting(TraceResult& result) const {
  absl::btree_map<uint32_t, WaitingResult> by_shape;
  for (size_t i = 0; i < trace_.jobs.size(); ++i) {
    if (engine_.outcomes()[i].state != JobOutcome::State::kWaiting) continue;
    const uint32_t shape = trace_.jobs[i].shape;
    WaitingResult& waiting = by_shape[shape];
    if (waiting.count++ > 0) continue;
    waiting.cluster_queue = engine_.ClusterQueueOf(shape);
    waiting.example = cluster_.local_queues()[trace_.shapes[shape].local_queue].key.ns + "/" +
                      trace_.jobs[i].name;
    waiting.reason = engine_.WaitingReason(shape);
    const state::QueueActivity activity = cluster_.world().ActivityOf(waiting.cluster_queue);
    if (!activity.active) waiting.reason = activity.message;
  }
  for (auto& [shape, waiting] : by_shape) result.waiting.push_back(std::move(waiting));
  std::stable_sort(result.waiting.begin(), result.waiting.end(),
                   [](const WaitingResult& a, const WaitingResult& b) {
                     return a.cluster_queue < b.cluster_queue;
                   });
}

TraceResult TraceStats::Result() {
  TraceResult result;
  const Micros end = engine_.now();
  result.start = trace_.start;
  result.end = end;
  result.step = Curve::StepFor(end);
  const auto lost = [&](size_t job, Group& group) {
    group.result.lost += engine_.outcomes()[job].lost;
  };
  for (size_t i = 0; i < trace_.jobs.size(); ++i) {
    if (engine_.outcomes()[i].lost == 0) continue;
    lost(i, total_);
    lost(i, groups_[group_of_shape_[trace_.jobs[i].shape]]);
    lost(i, local_[trace_.shapes[trace_.jobs[i].shape].local_queue]);
  }
  result.total = Finish(total_, end);
  std::vector<double> shares;
  for (Group& group : groups_) {
    result.cluster_queues.push_back(Finish(group, end));
    if (result.cluster_queues.back().share) shares.push_back(*result.cluster_queues.back().share);
  }
  for (Group& group : local_) {
    if (group.result.submitted > 0) result.local_queues.push_back(Finish(group, end));
  }
  result.fairness = JainIndex(shares);
  for (auto& [cell, state] : cells_) {
    CellResult cell_result;
    cell_result.cell = cell;
    cell_result.nominal = state.nominal;
    cell_result.peak = state.curve.peak();
    cell_result.mean = end == 0 ? 0 : Ratio(state.curve.Sum(end), end);
    cell_result.curve = state.curve.Means(end);
    result.cells.push_back(std::move(cell_result));
  }
  result.waiting_curve = waiting_.Means(end);
  result.running_curve = running_.Means(end);
  AddWaiting(result);
  result.notes = trace_.notes;
  for (std::string& text : cluster_.InactiveQueues()) result.notes.push_back(std::move(text));
  return result;
}

}  // namespace sluice::sim
