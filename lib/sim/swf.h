// The Standard Workload Format of the Parallel Workloads Archive: one job a line, 18 numbers, -1
// for what is not known; lines that start with ';' are comments, of which "; UnixStartTime: N"
// dates the log.
//
// What a job becomes: the processors that it asked for (else those it was given) times
// `per_processor` of `resource`, in one pod or one pod a processor; with `memory` the memory it
// asked for (else used). It runs for its run time (else the time it asked for). LocalQueue: the
// number in one of the fields (queue, user, ...) is looked up in `queues`; numbers that are not
// there go to `other`, or, with `spread`, to one of all LocalQueues in turn.
//
// Left out, counted and told as notes: jobs without run time or processors (mostly cancelled while
// they waited), and lines that describe a part of a job that was swapped out (status 2 to 4; the
// whole job has its own line).
//
// Pure. An error names file, line and field. Source: D. Feitelson, "The Standard Workload Format"
// (Parallel Workloads Archive), version 2.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sim/trace_cluster.h"

namespace sluice::sim {

struct SwfOptions {
  enum class Field { kUser, kGroup, kExecutable, kQueue, kPartition };
  Field queue_by = Field::kQueue;
  absl::btree_map<int64_t, ObjectKey> queues;
  std::optional<ObjectKey> other;
  bool spread = false;
  // The priority of the jobs of a queue number; 0 for others.
  absl::btree_map<int64_t, int32_t> priorities;

  ResourceName resource = kCpu;
  Quantity per_processor = Quantity::FromInt(1);
  bool pod_per_processor = false;
  bool memory = false;
};

// "user", "group", "executable", "queue" or "partition".
absl::StatusOr<SwfOptions::Field> ParseSwfField(const std::string& text);

absl::Status ReadSwfTrace(const SourceFile& file, const SwfOptions& options, TraceBuilder& builder);

}  // namespace sluice::sim
