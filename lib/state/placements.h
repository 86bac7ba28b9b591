// Placements: what is needed to look after workloads that run in given places.
//
// Two things, kept in step with API objects: the pods of such workloads (and only those: they have
// a topology annotation and name their Workload), and which workloads have pods assigned to which
// host. A host is what a label of its node says, which need not be the node's name. A change
// answers with the keys under which workloads are to be looked at again: namespace and name of the
// chain of slices, which for all but elastic ones is the Workload's own name.
//
// Contract: objects in any order; older ones than known are ignored. Cost of a change: logarithmic,
// and for a Workload linear in its assignment when that changed. Single thread.
// Source: Kueue's concept page "Topology Aware Scheduling".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "base/object_key.h"
#include "state/listing.h"
#include "state/ports.h"
#include "topology/node_health.h"

namespace sluice::state {

// The key under which the places of a chain are worked on, as that of a pod that no pod can have.
ObjectKey PlacementKey(const std::string& ns, const std::string& chain);
// The chain's name, nullopt for any other key.
std::optional<std::string> ChainOfKey(const ObjectKey& key);

// What is known of the health of a node; of nullptr, which is a node that is gone, nothing.
topology::NodeState HealthOf(const api::Node* node);

struct PlacedPod {
  ObjectKey key;
  std::string uid;
  std::string resource_version;
  std::string chain;    // name of the Workload, or of the first one in its chain of slices
  std::string pod_set;  // by its label
  api::StringMap labels;
  std::optional<std::string> index_offset;  // annotation kueue.x-k8s.io/pod-index-offset
  std::vector<std::string> gates;
  api::StringMap node_selector;
  std::string node_name;
  std::string phase;
  bool deleting = false;

  // Waits to be given its place.
  bool Gated() const;
  bool Ended() const { return phase == "Succeeded" || phase == "Failed"; }
};
using PlacedPodPtr = std::shared_ptr<const PlacedPod>;

class Placements {
 public:
  using Keys = absl::btree_set<ObjectKey>;  // namespace and chain

  void PodEvent(const ObjectEvent& event, Keys& touched);
  // Either may be null. A change that says nothing of a node's health touches nobody.
  void NodeChanged(const api::Node* before, const api::Node* after, Keys& touched);
  void WorkloadChanged(const ObjectKey& key, const api::Workload* before,
                       const api::Workload* after, Keys& touched);

  // Names of the nodes with that value of kubernetes.io/hostname; none where they are gone.
  std::vector<std::string> NodesOf(const std::string& host) const;
  // The pods of a chain, by name.
  std::vector<PlacedPodPtr> PodsOf(const std::string& ns, const std::string& chain) const;
  // The Workloads with an assignment in a chain, by name.
  std::vector<ObjectKey> WorkloadsOf(const std::string& ns, const std::string& chain) const;
  // Every chain that has such a Workload.
  std::vector<ObjectKey> Chains() const;
  size_t pod_count() const { return pods_.size(); }

 private:
  struct PlacedWorkload {
    std::string chain;
    std::vector<std::string> hosts;  // sorted
  };
  void Put(PlacedPodPtr pod, Keys& touched);
  void Erase(const ObjectKey& key, Keys& touched);
  void FinishList(const ObjectEvent& end, Keys& touched);
  void Drop(const ObjectKey& workload);

  absl::btree_map<ObjectKey, PlacedPodPtr> pods_;
  absl::btree_map<ObjectKey, absl::btree_set<std::string>> pods_by_chain_;  // names
  std::optional<Listing> listing_;                                          // the list that runs

  absl::btree_map<ObjectKey, PlacedWorkload> workloads_;
  absl::btree_map<ObjectKey, absl::btree_set<std::string>> by_chain_;      // names
  absl::btree_map<std::string, absl::btree_set<ObjectKey>> by_host_;       // Workloads
  absl::btree_map<std::string, absl::btree_set<std::string>> node_names_;  // by host
};

}  // namespace sluice::state
