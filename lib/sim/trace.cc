#include "sim/trace.h"

#include <absl/container/btree_set.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/codec.h"
#include "base/status.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "queueing/backfill.h"
#include "sim/trace_cluster.h"

namespace sluice::sim {
namespace {

std::string AnnotationsText(const api::StringMap& annotations) {
  std::string text;
  for (const auto& [name, value] : annotations) text += fmt::format("@{}={}\n", name, value);
  return text;
}

// A text that is equal for equal shapes; no part can run into the next.
std::string Signature(uint32_t local_queue, int32_t priority, const TraceRow& row) {
  std::string text = fmt::format("{}\n{}\n{}\n", local_queue, priority, row.pods);
  for (const auto& [resource, quantity] : row.requests) {
    text += fmt::format("{}={}\n", resource, quantity.ToString());
  }
  for (const auto& [key, value] : row.node_selector) text += fmt::format("{}:{}\n", key, value);
  return text + AnnotationsText(row.annotations);
}

std::vector<api::PodSet> PodSetsOf(const TraceRow& row) {
  api::Container container;
  container.name = "main";
  container.resources.requests = row.requests;
  api::PodSpec spec;
  spec.containers.push_back(std::move(container));
  spec.node_selector = row.node_selector;
  api::PodSet pod_set;
  pod_set.count = row.pods;
  pod_set.pod_template.spec = std::move(spec);
  return {std::move(pod_set)};
}

}  // namespace

TraceBuilder::TraceBuilder(const TraceCluster& cluster)
    : cluster_(cluster), start_(DefaultTraceStart()) {}

void TraceBuilder::SetSource(const std::string& path) {
  sources_.push_back(path);
  line_ = 0;
}

absl::Status TraceBuilder::Error(const std::string& message) const {
  return InvalidArgument("{}:{}: {}", sources_.empty() ? "trace" : sources_.back(), line_, message);
}

absl::StatusOr<uint32_t> TraceBuilder::LocalQueue(const ObjectKey& key) const {
  const std::optional<uint32_t> found = cluster_.FindLocalQueue(key);
  if (!found) return Error(fmt::format("queue: LocalQueue {} does not exist", key.ToString()));
  return *found;
}

void TraceBuilder::Push(std::string name, Micros submit, Micros run, uint32_t shape) {
  TraceJob job;
  job.name = name.empty() ? fmt::format("job-{}", jobs_.size() + 1) : std::move(name);
  job.submit = submit;
  job.run = run;
  job.shape = shape;
  job.source = static_cast<uint32_t>(std::max<size_t>(1, sources_.size()) - 1);
  job.line = line_;
  jobs_.push_back(std::move(job));
}

absl::Status TraceBuilder::Add(TraceRow row) {
  ASSIGN_OR_RETURN(const uint32_t local_queue, LocalQueue(row.local_queue));
  if (row.pods < 1) return Error(fmt::format("pods: {} is less than 1", row.pods));
  const auto [entry, added] = shape_of_.try_emplace(Signature(local_queue, row.priority, row),
                                                    static_cast<uint32_t>(shapes_.size()));
  if (added) shapes_.push_back({local_queue, row.priority, PodSetsOf(row), row.annotations, {}});
  Push(std::move(row.name), row.submit, row.run, entry->second);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TraceBuilder::ShapeOf(const api::Workload& workload) {
  const ObjectKey key{workload.metadata.ns, workload.spec.queue_name};
  ASSIGN_OR_RETURN(const uint32_t local_queue, LocalQueue(key));
  const std::optional<int32_t>& limit = workload.spec.maximum_execution_time_seconds;
  TraceShape shape{
      local_queue, workload.spec.priority.value_or(0), workload.spec.pod_sets, {}, limit};
  for (const auto& [name, value] : workload.metadata.annotations) {
    if (!TraceAnnotationProblem(name, value)) shape.annotations[name] = value;
  }
  for (api::PodSet& pod_set : shape.pod_sets) pod_set.pod_template.raw = nullptr;
  std::string signature = fmt::format("workload\n{}\n{}\n{}\n", local_queue, shape.priority,
                                      limit ? std::to_string(*limit) : "") +
                          api::Encode(shape.pod_sets).Text() + "\n" +
                          AnnotationsText(shape.annotations);
  const auto [entry, added] =
      shape_of_.try_emplace(std::move(signature), static_cast<uint32_t>(shapes_.size()));
  if (added) shapes_.push_back(std::move(shape));
  return entry->second;
}

absl::Status TraceBuilder::Add(const api::Workload& workload, Micros submit, Micros run) {
  ASSIGN_OR_RETURN(const uint32_t shape, ShapeOf(workload));
  Push(workload.metadata.name, submit, run, shape);
  return absl::OkStatus();
}

absl::Status TraceBuilder::AddLive(LiveWorkload live, Micros run) {
  ASSIGN_OR_RETURN(const uint32_t shape, ShapeOf(*live.workload));
  Push(live.workload->metadata.name, 0, run, shape);
  live_.push_back(std::move(live));
  jobs_.back().live = static_cast<uint32_t>(live_.size());
  return absl::OkStatus();
}

std::string TraceBuilder::PlaceOf(const TraceJob& job) const {
  return fmt::format("{}:{}", sources_.empty() ? "trace" : sources_[job.source], job.line);
}

absl::Status TraceBuilder::Broken(absl::Status status) {
  if (status.ok() || !skip_broken_) return status;
  constexpr size_t kMostTold = 5;
  ++broken_count_;
  if (broken_.size() < kMostTold) broken_.emplace_back(status.message());
  return absl::OkStatus();
}

// Names must tell the workloads of one namespace apart.
absl::Status TraceBuilder::LookAtNames() {
  const auto name_of = [this](const TraceJob* job) {
    const uint32_t queue = shapes_[job->shape].local_queue;
    return std::pair<std::string_view, std::string_view>(cluster_.local_queues()[queue].key.ns,
                                                         job->name);
  };
  std::vector<const TraceJob*> jobs;
  jobs.reserve(jobs_.size());
  for (const TraceJob& job : jobs_) jobs.push_back(&job);
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const TraceJob* a, const TraceJob* b) { return name_of(a) < name_of(b); });
  absl::btree_set<const TraceJob*> taken;
  for (size_t i = 1, first = 0; i < jobs.size(); ++i) {
    if (name_of(jobs[first]) != name_of(jobs[i])) {
      first = i;
      continue;
    }
    RETURN_IF_ERROR(
        Broken(InvalidArgument("{}: name: \"{}\" is the name of the workload at {} already",
                               PlaceOf(*jobs[i]), jobs[i]->name, PlaceOf(*jobs[first]))));
    taken.insert(jobs[i]);
  }
  if (taken.empty()) return absl::OkStatus();
  std::vector<TraceJob> kept;
  kept.reserve(jobs_.size() - taken.size());
  for (TraceJob& job : jobs_) {
    if (!taken.contains(&job)) kept.push_back(std::move(job));
  }
  jobs_ = std::move(kept);
  return absl::OkStatus();
}

absl::StatusOr<Trace> TraceBuilder::Finish() {
  RETURN_IF_ERROR(LookAtNames());
  if (broken_count_ > 0 && jobs_.empty()) return InvalidArgument("{}", broken_.front());
  if (broken_count_ > 0) {
    notes_.push_back(fmt::format("{} broken line{} left out", broken_count_,
                                 broken_count_ == 1 ? " was" : "s were"));
    for (const std::string& text : broken_) notes_.push_back("left out: " + text);
  }
  std::stable_sort(jobs_.begin(), jobs_.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
  Trace trace;
  trace.start = start_;
  trace.sources = std::move(sources_);
  trace.shapes = std::move(shapes_);
  trace.jobs = std::move(jobs_);
  trace.live = std::move(live_);
  trace.notes = std::move(notes_);
  return trace;
}

std::optional<std::string> TraceAnnotationProblem(const std::string& name,
                                                  const std::string& value) {
  if (name == queueing::kExpectedRuntime) return queueing::BackfillProblem(name, value);
  const auto& known = preemption::CheckpointAnnotations();
  if (name == preemption::kLastCheckpoint ||
      std::find(known.begin(), known.end(), name) == known.end()) {
    return "is no annotation that can be simulated";
  }
  return preemption::CheckpointProblem(name, value);
}

absl::StatusOr<Micros> ParseMicros(std::string_view text) {
  const std::string copy(text);
  const bool number = !copy.empty() && copy.find_first_not_of("0123456789.") == std::string::npos;
  Micros micros = 0;
  if (number) {
    double seconds = 0;
    if (!absl::SimpleAtod(copy, &seconds)) return InvalidArgument("\"{}\" is no time", copy);
    if (seconds * kSecond > static_cast<double>(kMaxMicros)) {
      return InvalidArgument("\"{}\" is longer than 3,000 years", copy);
    }
    micros = std::llround(seconds * kSecond);
  } else {
    const absl::StatusOr<absl::Duration> duration = ParseDuration(copy);
    if (!duration.ok()) {
      return InvalidArgument("\"{}\" is neither a number of seconds nor a duration", copy);
    }
    if (*duration < absl::ZeroDuration()) return InvalidArgument("\"{}\" is negative", copy);
    micros = absl::ToInt64Microseconds(*duration);
  }
  return micros;
}

std::string FormatMicros(Micros micros) {
  std::string text = fmt::format("{}.{:06}", micros / kSecond, micros % kSecond);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace sluice::sim
