// Trace: the workloads of a simulation, in the order of their arrival.
//
// Workloads that differ only in name, arrival and run time share a shape, so a million of them cost
// some 60 bytes each until they arrive. Instants are microseconds after the start of the trace.
//
// A TraceBuilder collects workloads from readers (sim/trace_text.h, sim/swf.h, the Jobs and
// Workloads of manifests). Every error names the source line and the field:
// "trace.csv:12: queue: LocalQueue team-a/q does not exist". Pure; single thread.
//
//   TraceBuilder builder(*cluster);
//   RETURN_IF_ERROR(ReadTrace(file, builder));
//   ASSIGN_OR_RETURN(const Trace trace, builder.Finish());
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kueue_types.h"
#include "base/object_key.h"

namespace sluice::sim {

class TraceCluster;

using Micros = int64_t;
inline constexpr Micros kForever = -1;  // a run time that never ends
inline constexpr Micros kSecond = 1'000'000;
// The longest time that a trace may name: about 3,000 years.
inline constexpr Micros kMaxMicros = int64_t{100'000'000'000} * kSecond;

// What equal workloads share.
struct TraceShape {
  uint32_t local_queue = 0;  // index in TraceCluster::local_queues()
  int32_t priority = 0;
  std::vector<api::PodSet> pod_sets;
  api::StringMap annotations;  // those that decisions depend on; see TraceAnnotationProblem
  std::optional<int32_t> maximum_execution_time_seconds;
};

// A workload that was there before the trace began, as the API has it. What holds quota goes on
// with its flavors, its place and its times; what waits keeps its place in the order.
struct LiveWorkload {
  std::shared_ptr<const api::Workload> workload;
  Micros ran = 0;       // of one that holds quota: since when it runs, before the start
  bool returns = true;  // once its quota is gone it waits in its queue again
};

struct TraceJob {
  std::string name;  // unique in its namespace
  Micros submit = 0;
  Micros run = kForever;
  uint32_t shape = 0;
  uint32_t source = 0;  // index in Trace::sources
  uint32_t line = 0;
  uint32_t live = 0;  // 1 + index in Trace::live; 0: it comes at `submit`, and nobody knows it yet
};

struct Trace {
  absl::Time start;
  std::vector<std::string> sources;
  std::vector<TraceShape> shapes;
  std::vector<TraceJob> jobs;  // by arrival, then in the order of the sources
  std::vector<LiveWorkload> live;
  std::vector<std::string> notes;  // what a reader left out, and why
};

// A workload in the words of a trace.
struct TraceRow {
  std::string name;  // "": "job-<number>"
  Micros submit = 0;
  Micros run = kForever;
  ObjectKey local_queue;
  int32_t priority = 0;
  int32_t pods = 1;
  ResourceList requests;  // of one pod
  api::StringMap node_selector;
  api::StringMap annotations;
};

class TraceBuilder {
 public:
  explicit TraceBuilder(const TraceCluster& cluster);

  const TraceCluster& cluster() const { return cluster_; }
  void set_start(absl::Time start) { start_ = start; }
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

  // Where the workloads come from that are added from now on.
  void SetSource(const std::string& path);
  void SetLine(uint32_t line) { line_ = line; }
  // "path:line: message" as an error.
  absl::Status Error(const std::string& message) const;

  // From now on a line that cannot be read, or means no workload, is left out and counted; Finish
  // tells how many there were and where the first ones are. Otherwise it is an error.
  void SkipBrokenLines() { skip_broken_ = true; }
  // What a reader returns for its line: OK where it is left out.
  absl::Status Broken(absl::Status status);

  absl::Status Add(TraceRow row);
  // A workload of manifests: pod sets as they are, and those of its annotations that can be played.
  absl::Status Add(const api::Workload& workload, Micros submit, Micros run);
  // One that is there when the trace begins. `run`: all of this run, with what it has run already.
  absl::Status AddLive(LiveWorkload live, Micros run);

  size_t size() const { return jobs_.size(); }
  absl::StatusOr<Trace> Finish();

 private:
  absl::StatusOr<uint32_t> LocalQueue(const ObjectKey& key) const;
  absl::Status LookAtNames();
  std::string PlaceOf(const TraceJob& job) const;
  absl::StatusOr<uint32_t> ShapeOf(const api::Workload& workload);
  void Push(std::string name, Micros submit, Micros run, uint32_t shape);

  const TraceCluster& cluster_;
  absl::Time start_;
  std::vector<std::string> sources_;
  uint32_t line_ = 0;
  std::vector<TraceShape> shapes_;
  std::vector<TraceJob> jobs_;
  std::vector<LiveWorkload> live_;
  std::vector<std::string> notes_;
  bool skip_broken_ = false;
  int64_t broken_count_ = 0;
  std::vector<std::string> broken_;                  // the first of them
  absl::btree_map<std::string, uint32_t> shape_of_;  // by everything that a shape consists of
};

// The annotations of a job that a trace can play: those about its run time and its checkpoints, but
// not the times of checkpoints, which nobody knows before it runs. Why such an annotation, or its
// value, is refused; nullopt: it can be played.
std::optional<std::string> TraceAnnotationProblem(const std::string& name,
                                                  const std::string& value);

// "90", "1.5" (seconds) or a duration such as "1h30m"; not negative.
absl::StatusOr<Micros> ParseMicros(std::string_view text);
// Seconds with as many decimals as needed: "12", "0.25".
std::string FormatMicros(Micros micros);

}  // namespace sluice::sim
