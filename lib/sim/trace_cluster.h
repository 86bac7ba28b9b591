// TraceCluster: the cluster of a trace simulation, made from manifests.
//
// Every manifest passes the simulated API server (schemas, defaults, the webhooks' rules), and the
// controller's World is built from what is stored there. Jobs and Workloads among the manifests are
// workloads of the trace: the annotations sluice.dev/submit-seconds (default 0) and
// sluice.dev/run-seconds (default: never ends) say when they come and how long they run. Of a
// CreditAccount only status.balance counts: what it has when the trace begins.
//
// An error names file, line and field. What a trace cannot play is refused, not left out: admission
// checks, maximum execution times, and kinds that have no meaning here.
//
//   ASSIGN_OR_RETURN(auto cluster, TraceCluster::Load(files, settings));
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/api_server.h"
#include "sim/job_controller.h"
#include "sim/trace.h"
#include "sim/yaml.h"
#include "state/settings.h"
#include "state/world.h"

namespace sluice::sim {

inline constexpr char kSubmitSecondsAnnotation[] = "sluice.dev/submit-seconds";

struct SourceFile {
  std::string path;
  std::string text;
};

class TraceCluster {
 public:
  struct Queue {
    ObjectKey key;
    std::string cluster_queue;
  };

  static absl::StatusOr<std::unique_ptr<TraceCluster>> Load(const std::vector<SourceFile>& files,
                                                            const state::Settings& settings);
  // Adds the Jobs and Workloads of the manifests.
  absl::Status AddManifestWorkloads(TraceBuilder& builder) const;

  state::World& world() { return world_; }
  const state::World& world() const { return world_; }
  // Credit accounts begin at that instant. Does nothing without a CreditPolicy.
  void StartCredits(absl::Time start);
  // Sorted by key.
  const std::vector<Queue>& local_queues() const { return local_queues_; }
  std::optional<uint32_t> FindLocalQueue(const ObjectKey& key) const;
  // Sentences about ClusterQueues that cannot admit anything.
  std::vector<std::string> InactiveQueues() const;

 private:
  struct Manifest {
    std::string path;
    YamlDocument document;
    api::Kind kind = api::Kind::kNamespace;
    ObjectKey key;
  };

  explicit TraceCluster(const state::Settings& settings);
  absl::Status Read(const SourceFile& file, std::vector<Manifest>& manifests) const;
  absl::Status Take(const SourceFile& file, YamlDocument document,
                    std::vector<Manifest>& manifests) const;
  absl::Status Create(Manifest& manifest);
  absl::Status TakeBalance(const Manifest& manifest);
  void BuildWorld();
  void Store(state::Action action, absl::Time now);
  absl::Status CheckSupported(const Manifest& manifest) const;
  absl::Status AddManifestWorkload(const Manifest& manifest, TraceBuilder& builder) const;

  state::Settings settings_;
  ApiServer api_;
  state::World world_;
  std::vector<Manifest> workloads_;  // Jobs and Workloads, in the order of the files
  std::vector<Queue> local_queues_;
  absl::btree_map<std::string, std::string> balances_;  // by name of the account
};

// The start of a trace that does not say when it began: 2026-01-01T00:00:00Z.
absl::Time DefaultTraceStart();

}  // namespace sluice::sim
