// TopologyFeed: keeps the inventory of the topology room in step with API objects.
//
// Takes each object as it is now (or null when it went) and answers which flavors may have room
// that they had not, and how soon that should wake what waits: the churn of pods that are not ours
// must not wake the queues at every event. Objects may come in any order.
//
// Contract: thread-compatible; costs what the inventory's change costs. Source: Kueue's concept
// page "Topology Aware Scheduling".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "base/object_key.h"
#include "queueing/requests.h"
#include "state/settings.h"
#include "topology/inventory.h"

namespace sluice::state {

inline constexpr char kTopologyGate[] = "TopologyAwareScheduling";
topology::Options TopologyOptionsOf(const Settings& settings);

class TopologyFeed {
 public:
  // Workloads that wait for one of the flavors should be tried again after `delay`, together with
  // what else happens until then. Empty: nothing changed that could help.
  struct Wake {
    std::vector<FlavorName> flavors;
    absl::Duration delay;
    bool operator==(const Wake&) const = default;
  };
  static constexpr absl::Duration kNodeBatch = absl::Seconds(1);
  static constexpr absl::Duration kPodBatch = absl::Seconds(10);

  explicit TopologyFeed(const topology::Options& options) : inventory_(options) {}

  Wake FlavorChanged(const FlavorName& name, const api::ResourceFlavor* now);
  Wake TopologyChanged(const std::string& name, const api::Topology* now);
  Wake NodeChanged(const topology::NodeName& name, const api::Node* now);
  Wake PodChanged(const ObjectKey& key, const api::Pod* now);
  // `counted`: the workload as it counts (assumed or stored), null when it holds no quota.
  // Places that it gives back are free for every flavor that sees the same hosts.
  Wake WorkloadChanged(const ObjectKey& key, const api::Workload* counted,
                       const queueing::RequestContext& context);

  // Of pods that are not in `seen`: they went while nobody watched.
  Wake KeepPods(const absl::btree_set<ObjectKey>& seen);

  bool has_flavors() const { return !flavors_.empty(); }
  topology::Inventory& inventory() { return inventory_; }
  const topology::Inventory& inventory() const { return inventory_; }

 private:
  struct FlavorSource {
    std::string topology;
    api::StringMap node_labels;
    std::vector<api::Toleration> tolerations;
    bool operator==(const FlavorSource&) const = default;
  };
  void Refresh(const FlavorName& name);
  std::vector<FlavorName> Sharing(const topology::WorkloadUsage& usage) const;

  topology::Inventory inventory_;
  absl::btree_map<FlavorName, FlavorSource> flavors_;  // those with a topology
  absl::btree_map<std::string, api::TopologySpec> topologies_;
};

}  // namespace sluice::state
