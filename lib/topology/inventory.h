// Inventory: the nodes of the cluster, what runs on them, and for each flavor with a topology the
// tree of its domains. World feeds it; placement asks it.
//
// Objects may come in any order: foreign pods before their node, usage before its flavor or node.
// What refers to something that is not there is kept and counts once it appears. Setting the same
// thing twice has no effect, setting something else replaces, removing twice has no effect.
//
// With overlapping flavors on, flavors whose topology ends in hosts share the usage of a host.
//
// Contract: one thread. A change costs O(flavors that see the node * depth); a flavor, a change of
// its levels or labels costs O(nodes + domains in use). No changes while an Overlay is in use.
//
//   Inventory inventory;
//   inventory.SetFlavor("tas", {"default", {"rack", "kubernetes.io/hostname"}, {}, {}});
//   inventory.SetNode(node);
//   inventory.SetForeignPod("kube-system/proxy-1", "n1", {{"cpu", 100}});
//   inventory.SetWorkload("team-a/train", usage);
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "topology/node_filter.h"
#include "topology/tree.h"
#include "topology/types.h"

namespace sluice::topology {

// What a change did to the flavors that can see it, sorted by name.
struct Changed {
  std::vector<FlavorName> flavors;
  bool capacity_grew = false;  // a foreign pod went, moved or shrank
};

// Usage that is booked or taken out again and again: where it is in the trees is found once.
// Belongs to one inventory. Not to be touched while an Overlay has it.
class Booking {
 public:
  // No constructor takes the usage: a braced one could be either for Overlay.
  static Booking Of(WorkloadUsage usage) {
    Booking booking;
    booking.usage_ = std::move(usage);
    return booking;
  }
  const WorkloadUsage& usage() const { return usage_; }

 private:
  friend class Inventory;
  WorkloadUsage usage_;
  mutable std::vector<LeafUsage> leaves_;
  mutable uint64_t found_at_ = 0;  // the inventory's `leaves_changed_` then; 0: not yet
};

class Inventory {
 public:
  explicit Inventory(Options options = {}) : options_(options) {}
  Inventory(const Inventory&) = delete;
  Inventory& operator=(const Inventory&) = delete;

  // ---- what the cluster is ----
  void SetFlavor(const FlavorName& name, const Flavor& flavor);
  void RemoveFlavor(const FlavorName& name);
  Changed SetNode(const Node& node);
  Changed RemoveNode(const NodeName& name);
  // A pod that is bound to a node, has not ended and is not placed by us. `per_pod` is its
  // effective request, without the resource "pods".
  Changed SetForeignPod(const std::string& key, const NodeName& node, const Requests& per_pod);
  Changed RemoveForeignPod(const std::string& key);
  // A workload that holds quota.
  void SetWorkload(const std::string& key, const WorkloadUsage& usage);
  void RemoveWorkload(const std::string& key);

  // ---- questions ----
  const Options& options() const { return options_; }
  const Tree* FindTree(const FlavorName& flavor) const;
  // nullptr when it holds nothing.
  const Booking* FindWorkload(const std::string& key) const;
  // Whether the domain is in the tree of the flavor now; levels of an assignment.
  bool HasDomain(const FlavorName& flavor, const std::vector<std::string>& values) const;
  size_t node_count() const { return known_nodes_; }
  size_t foreign_pod_count() const { return pods_.size(); }
  std::vector<std::string> ForeignPods() const;  // keys
  // Ids are dense; kNoResource when nothing ever had it.
  static constexpr uint32_t kNoResource = UINT32_MAX;
  uint32_t FindResource(const ResourceName& name) const;
  const ResourceName& ResourceAt(size_t id) const { return *resource_names_[id]; }

  // ---- for Overlay ----
  // What one pod takes on its leaf, and what so many of them do.
  using LeafAmounts = decltype(LeafUsage::amounts);
  LeafAmounts LeafAmountsOf(const Requests& per_pod) const;
  static LeafAmounts Times(LeafAmounts per_pod, int64_t pods);
  // What the usage takes on leaves that are in a tree now.
  std::vector<LeafUsage> Resolve(const WorkloadUsage& usage) const;
  // The same, found when it is first asked for and when leaves came or went since.
  const std::vector<LeafUsage>& LeavesOf(const Booking& booking) const;
  static void Apply(const LeafUsage& usage, int64_t sign);

  size_t MemoryBytes() const;
  // Stops the process when an incremental value differs from one computed from scratch.
  void CheckInvariants() const;

 private:
  struct ForeignPod {
    NodeRecord* node = nullptr;
    std::vector<std::pair<uint32_t, int64_t>> amounts;  // with "pods"
    bool operator==(const ForeignPod&) const = default;
  };
  struct FlavorRecord {
    std::unique_ptr<Tree> tree;
    absl::btree_map<std::string, std::unique_ptr<UsageRecord>> usage;  // not shared ones
  };
  using UsageMap = absl::btree_map<std::string, std::unique_ptr<UsageRecord>>;

  uint32_t InternResource(const ResourceName& name);
  Amounts AmountsOf(const Requests& requests);
  NodeRecord& NodeAt(const NodeName& name);
  void DropIfUnused(NodeRecord& node);
  void Attach(NodeRecord& node, FlavorRecord& flavor);
  void Detach(NodeRecord& node, size_t view);
  void LinkUsage(FlavorRecord& flavor, int32_t slot, const std::string& identity);
  bool Shares(const Tree& tree) const {
    return options_.overlapping_flavors && tree.ends_in_hosts();
  }
  UsageMap& UsageOf(FlavorRecord& flavor);
  const UsageMap& UsageOf(const FlavorRecord& flavor) const;
  // May use `scratch` for it.
  static const std::string& IdentityIn(const Tree& tree, const PodSetUsage& usage,
                                       const AssignedDomain& domain, std::string& scratch);
  void Account(const WorkloadUsage& usage, const FlavorName* only, int64_t sign);
  void AccountPod(const ForeignPod& pod, int64_t sign);
  std::vector<FlavorName> FlavorsSeeing(const NodeRecord& node) const;
  static void AddUsed(UsageRecord& record, uint32_t resource, int64_t amount);

  Options options_;
  KeyTable keys_;
  absl::btree_map<ResourceName, uint32_t> resources_;
  std::vector<const ResourceName*> resource_names_;
  absl::btree_map<FlavorName, std::unique_ptr<FlavorRecord>> flavors_;
  absl::btree_map<NodeName, std::unique_ptr<NodeRecord>> nodes_;
  absl::btree_map<std::string, ForeignPod> pods_;
  absl::btree_map<std::string, Booking> workloads_;
  UsageMap shared_usage_;  // by host
  size_t known_nodes_ = 0;
  // Grows with every leaf that comes or goes and every new resource.
  uint64_t leaves_changed_ = 1;
};

// Usage that is booked or taken out for a while and undone exactly, in the reverse order.
class Overlay {
 public:
  explicit Overlay(Inventory& inventory) : inventory_(inventory) {}
  ~Overlay() { Rollback(0); }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  void Add(const WorkloadUsage& usage) { Change(usage, 1); }
  void Remove(const WorkloadUsage& usage) { Change(usage, -1); }
  // The booking must outlive what is noted of it; it may move. Always one step of Mark.
  void Add(const Booking& booking) { Change(booking, 1); }
  void Remove(const Booking& booking) { Change(booking, -1); }
  size_t Mark() const { return log_.size(); }
  void Rollback(size_t mark);

 private:
  struct Entry {
    std::vector<LeafUsage> own;
    std::span<const LeafUsage> leaves;  // of `own` or of a booking
    int64_t sign = 0;
  };
  void Change(const WorkloadUsage& usage, int64_t sign);
  void Change(const Booking& booking, int64_t sign);
  static void Apply(const Entry& entry, int64_t sign);

  Inventory& inventory_;
  std::vector<Entry> log_;
};

}  // namespace sluice::topology
