// Tree: the domains of one flavor's topology and the free capacity of its leaves.
//
// A leaf is in the tree while at least one usable node maps to it. Every change costs O(depth *
// log); what placement walks over is a Layout of plain arrays in tree order, in which the children
// of a domain are a contiguous range and comparing positions compares names. It is made again, in
// one pass over the domains, at the first question after a leaf came or went.
//
// Contract: thread-compatible. Slots of leaves stay the same while the leaf lives; positions change
// with the layout. `base` of a leaf is the allocatable of its nodes less what foreign pods take;
// `used` is what workloads with an assignment take. Both may be anything, free = base - used may be
// negative.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topology/counts.h"
#include "topology/journal.h"
#include "topology/node_filter.h"
#include "topology/types.h"

namespace sluice::topology {

// Amounts by resource id; shorter than the number of resources where the rest is 0.
using Amounts = std::vector<int64_t>;
inline int64_t AmountAt(const Amounts& amounts, size_t resource) {
  return resource < amounts.size() ? amounts[resource] : 0;
}

class Tree;

// One node, known by name; foreign pods and trees point to it.
struct NodeRecord {
  NodeName name;
  NodeLabels labels;
  std::vector<Taint> taints;
  Amounts allocatable;
  Amounts foreign;  // usage of pods that are not placed by us
  int64_t foreign_pods = 0;
  bool known = false;   // the node object exists
  bool usable = false;  // ready and not cordoned
  bool leaving = false;
  bool maintenance_planned = false;
  std::optional<int64_t> maintenance_start;
  struct View {
    Tree* tree;
    int32_t slot;
  };
  std::vector<View> views;
};

// Usage of workloads on one leaf identity, seen by each tree that has the leaf.
struct UsageRecord {
  Amounts used;
  std::vector<NodeRecord::View> views;
  bool Empty() const;
};

// Amounts on one leaf identity, by resource id.
struct LeafUsage {
  UsageRecord* record = nullptr;
  absl::InlinedVector<std::pair<uint32_t, int64_t>, 4> amounts;
};

class Tree {
 public:
  struct Leaf {
    std::vector<const NodeRecord*> nodes;  // by name; the first gives the leaf its place
    UsageRecord* usage = nullptr;
    uint64_t changed = 0;  // epoch of the last change that a filter could see
  };
  struct Level {
    std::vector<int32_t> slot;    // by position
    std::vector<int32_t> parent;  // position one level up; -1 at the top
    std::vector<int32_t> begin;   // first child's position; one entry more than domains
    int32_t size() const { return static_cast<int32_t>(slot.size()); }
  };
  // Why leaves are out for a filter, by slot: kAccepted, or a Reason, or kFirstTaint + index.
  struct Mask {
    static constexpr int32_t kAccepted = 0;
    static constexpr int32_t kSelector = 1;
    static constexpr int32_t kAffinity = 2;
    static constexpr int32_t kLeaving = 3;
    static constexpr int32_t kFirstTaint = 4;
    std::vector<int32_t> code;
    std::vector<int64_t> score;       // of preferred affinity
    std::vector<std::string> taints;  // texts
    uint64_t epoch = 0;
    uint64_t id = 0;  // no two masks of the tree ever have the same
  };

  Tree(FlavorName name, Flavor flavor, const Options& options, const KeyTable& keys);
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const FlavorName& name() const { return name_; }
  const Flavor& flavor() const { return flavor_; }
  size_t depth() const { return flavor_.levels.size(); }
  bool ends_in_hosts() const { return ends_in_hosts_; }
  // -1 when the topology has no such level.
  int FindLevel(const std::string& label) const;

  // ---- changes ----
  // The level values under which the node is in the tree; nothing when it does not take part.
  std::optional<std::vector<std::string>> PlaceOf(const NodeRecord& node) const;
  // What a leaf is known by in usage.
  std::string IdentityOf(const std::vector<std::string>& values) const;
  // Returns the slot; *created tells whether the leaf is new.
  int32_t AddNode(const NodeRecord& node, const std::vector<std::string>& values, bool* created);
  // Returns whether the leaf is gone with it.
  bool RemoveNode(const NodeRecord& node, int32_t slot);
  // Adds (sign 1) or takes away (-1) what the node gives to its leaf. A node that stays at its
  // place is changed between the two.
  void Contribute(const NodeRecord& node, int32_t slot, int64_t sign);
  bool PlaceIs(int32_t slot, const std::vector<std::string>& values) const;
  void NoteFilterChange(int32_t slot) { leaves_[Index(slot)].changed = ++epoch_; }
  void SetTolerations(std::vector<Toleration> tolerations);
  void AddBase(int32_t slot, size_t resource, int64_t amount);
  void AddUsed(int32_t slot, size_t resource, int64_t amount);
  void SetUsageRecord(int32_t slot, UsageRecord* record) { leaves_[Index(slot)].usage = record; }

  // ---- questions ----
  const Level& level(size_t level) const;
  // Another one when positions may have changed; never 0.
  uint64_t layout() const;
  int32_t leaf_count() const { return leaf_count_; }
  const Leaf& leaf(int32_t slot) const { return leaves_[Index(slot)]; }
  // -1 when there is none.
  int32_t FindLeaf(const std::string& identity) const;
  int32_t PositionOf(int32_t leaf_slot) const;
  std::vector<std::string> ValuesAt(size_t level, int32_t position) const;
  std::vector<std::string> ValuesOf(size_t level, int32_t slot) const;
  // The last of ValuesAt.
  const std::string& ValueAt(size_t level, int32_t position) const;
  // nullptr when no leaf has any of it.
  const int64_t* base(size_t resource) const { return Column(base_, resource); }
  const int64_t* used(size_t resource) const { return Column(used_, resource); }
  size_t resources() const { return base_.size(); }
  // Worked out once for equal filters and kept up to date; valid until the next call or change.
  const Mask& MaskFor(const NodeFilter& filter) const;
  // The filter of a mask that is still known, else nullptr.
  const NodeFilter* FilterOf(uint64_t mask) const;
  int32_t maintenance_nodes() const { return maintenance_nodes_; }
  // Slots whose base, or used, changed.
  const Journal& base_journal() const { return base_journal_; }
  const Journal& used_journal() const { return used_journal_; }
  // What searches counted.
  CountsCache& counts() const { return counts_; }
  size_t MemoryBytes() const;

 private:
  struct Domain {
    std::string value;
    int32_t parent = -1;
    std::vector<int32_t> children;  // slots one level down, by value
  };
  using Columns = std::vector<std::vector<int64_t>>;

  static size_t Index(int32_t slot) { return static_cast<size_t>(slot); }
  static const int64_t* Column(const Columns& columns, size_t resource) {
    return resource < columns.size() && !columns[resource].empty() ? columns[resource].data()
                                                                   : nullptr;
  }
  int32_t NewDomain(size_t level, std::string value, int32_t parent);
  std::vector<int32_t>& ChildrenOf(size_t level, int32_t parent);
  int32_t FindOrAddDomain(size_t level, int32_t parent, const std::string& value);
  void Unlink(size_t level, int32_t slot);
  void Link(int32_t leaf, const std::vector<std::string>& values);
  void AddTo(Columns& columns, int32_t slot, size_t resource, int64_t amount);
  void Refresh() const;
  void Update(Mask& mask, const NodeFilter& filter) const;
  int32_t CodeOf(Mask& mask, const NodeMatcher& matcher, const NodeRecord& node) const;

  FlavorName name_;
  Flavor flavor_;
  Options options_;
  const KeyTable& keys_;
  bool ends_in_hosts_;
  std::vector<std::vector<Domain>> domains_;  // [level][slot]
  std::vector<std::vector<int32_t>> unused_;  // slots to take again, [level]
  std::vector<int32_t> roots_;
  std::vector<Leaf> leaves_;
  absl::btree_map<std::string, int32_t> by_identity_;
  Columns base_;
  Columns used_;
  int32_t leaf_count_ = 0;
  int32_t maintenance_nodes_ = 0;
  uint64_t epoch_ = 1;
  Journal base_journal_;
  Journal used_journal_;
  mutable bool stale_ = true;
  mutable uint64_t layout_number_ = 0;
  mutable std::vector<Level> layout_;
  mutable std::vector<int32_t> position_;  // by leaf slot
  mutable absl::btree_map<NodeFilter, std::unique_ptr<Mask>> masks_;
  mutable uint64_t masks_made_ = 0;
  mutable CountsCache counts_;
};

}  // namespace sluice::topology
