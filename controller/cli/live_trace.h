// From the objects of a cluster to a trace simulation of what happens there from now on, and the
// changes that a what-if question makes to them first.
//
// What runs goes on with the flavors, the place and the times that it has, also where its queue is
// stopped or gone; what waits keeps its place in the order. How long a workload still needs: by its
// annotation sluice.dev/expected-runtime or its maximum execution time, whichever ends first, less
// what it has run already; else the mean of the finished workloads of its LocalQueue, else of all;
// else the given fallback.
// Plain values; single thread.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/objects.h"
#include "sim/trace.h"
#include "sim/trace_cluster.h"

namespace sluice::cli {

inline constexpr char kExpectedRuntime[] = "sluice.dev/expected-runtime";

// How the run times of the workloads are known.
struct RunTimeSources {
  int expected = 0;  // by annotation
  int limit = 0;     // by maximum execution time
  int mean = 0;      // of finished ones
  int fallback = 0;
  int unknown = 0;  // they never end
  // What is played otherwise than the cluster would have it.
  std::vector<std::string> unlike;
};
// A sentence. `keeps_work`: what is preempted goes on later from where it was.
std::string AssumptionText(const RunTimeSources& sources, bool keeps_work);

// The quota, queues and classes as one file of manifests; workloads and what a trace cannot play
// are left out, with notes.
sim::SourceFile ClusterFile(ClusterObjects& objects, bool keep_jobs);
// Adds what runs and what waits.
absl::StatusOr<RunTimeSources> AddLiveWorkloads(const ClusterObjects& objects,
                                                std::optional<sim::Micros> fallback,
                                                sim::TraceBuilder& builder);

struct ClusterChanges {
  std::vector<std::string> set_quota;  // CLUSTERQUEUE/FLAVOR/RESOURCE=QUANTITY
  std::vector<std::string> add_nodes;  // NODE=COUNT: copies of it
  std::vector<std::string> drain;      // NODE, or LABEL=VALUE
  // preemption, borrowing or lending, [:CLUSTERQUEUE]; credits[:CREDITPOLICY]
  std::vector<std::string> remove_policy;
  bool empty() const {
    return set_quota.empty() && add_nodes.empty() && drain.empty() && remove_policy.empty();
  }
};
// Errors name the option. Nodes count where a ResourceFlavor with a topology selects them; quota is
// as it was.
absl::Status ApplyChanges(const ClusterChanges& changes, ClusterObjects& objects);

}  // namespace sluice::cli
