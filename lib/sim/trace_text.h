// The project's own trace formats.
//
// CSV (RFC 4180, with a header line; lines that start with '#' are comments). Columns, in any
// order:
//   submit          when it arrives: seconds after the start, or a duration such as 1h30m
//   (required) run             how long it runs, in the same form; empty: it never ends (required)
//   queue           its LocalQueue: NAME with `namespace`, else NAMESPACE/NAME (required)
//   namespace, name
//   pods            number of pods, all at once (default 1)
//   priority        a number, or priority_class: the name of a WorkloadPriorityClass
//   node:LABEL      node selector of its pods
//   annotation:NAME sluice.dev/expected-runtime, sluice.dev/checkpoint-interval, restart-cost,
//                   checkpoint-on-request and min-runtime of that prefix
//   cpu, memory, ephemeral-storage, and every name with a '/' such as nvidia.com/gpu: what one pod
//                   requests; empty: nothing of it
//
// JSON lines: an object a line with the same fields; requests are members of "requests", the node
// selector of "nodeSelector", annotations of "annotations": {"submit": 0, "run": "10m", "queue":
// "team/q", "pods": 2, "requests": {"cpu": "4"}}.
//
// Any other column or member is an error: nothing is left out silently. Pure. An error names the
// file, the line and the field. Broken lines may be left out (TraceBuilder::SkipBrokenLines), a
// header that cannot be read not.
#pragma once

#include <absl/status/status.h>

#include "sim/trace_cluster.h"

namespace sluice::sim {

absl::Status ReadCsvTrace(const SourceFile& file, TraceBuilder& builder);
absl::Status ReadJsonTrace(const SourceFile& file, TraceBuilder& builder);

// Calls `visit(line, number)` for each line, without its end; stops at the first error.
template <typename Visit>
absl::Status ForEachLine(std::string_view text, Visit visit) {
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (absl::Status status = visit(line, ++number); !status.ok()) return status;
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return absl::OkStatus();
}

}  // namespace sluice::sim
