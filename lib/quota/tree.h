// Tree: who may use how much of which resource in which flavor.
//
// Leaves are ClusterQueues, inner nodes are Cohorts. A node has, per flavor and resource, a nominal
// quota and optional borrowing and lending limits. A ClusterQueue without a cohort is the root of
// its own tree, and all it can use is its nominal quota. What a child does not keep for itself (the
// part above its lending limit is kept) is offered to the parent and can be borrowed from there.
//
// Contract: thread-compatible, no I/O. Amounts are whole numbers in the units of
// resource/resource.h, never negative. An amount of kUnlimited means "no limit"; sums saturate.
// Usage is exact (kept in 128 bits) and independent of quota: usage may be added before the
// ClusterQueue is known and stays when it is removed, so the order in which objects arrive does not
// matter. Removing more than was added is a broken invariant and stops the process.
// Changing quota costs O(cells of the tree); usage and queries cost O(depth * log cells). For
// searches that ask thousands of questions there are nodes and cell ids in place of names.
// Source of the rules: KEP-79 (hierarchical cohorts) of Kueue and its concept page "Cohort".
//
//   tree.SetClusterQueue("team-a", "", {{{"default", "cpu"}, {.nominal = 4000}}});
//   if (tree.Fits("team-a", usage)) tree.AddUsage("team-a", usage);
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quota/amounts.h"
#include "quota/node.h"
#include "quota/share.h"
#include "resource/resource.h"

namespace sluice::quota {

// How far up a request has to borrow.
struct BorrowLevel {
  // 0: within the ClusterQueue's own quota; else the height of the lowest cohort with enough room.
  int level = 0;
  // Whether reclaiming what others borrowed could make room at that level.
  bool may_reclaim = false;
  bool operator==(const BorrowLevel&) const = default;
};

class Tree {
 public:
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;

  // Adds the ClusterQueue or replaces its cohort, limits and weight. An empty cohort means none; a
  // cohort that has no object exists implicitly, without quota.
  void SetClusterQueue(const std::string& name, const std::string& cohort, const CellLimits& limits,
                       const Weight& weight = {});
  // Takes its quota away. Usage that is still booked stays until it is removed.
  void RemoveClusterQueue(const std::string& name);
  void SetCohort(const std::string& name, const std::string& parent, const CellLimits& limits,
                 const Weight& weight = {});
  void RemoveCohort(const std::string& name);

  // `name` is a ClusterQueue here and below.
  void AddUsage(const std::string& name, const FlavorResourceAmounts& amounts);
  void RemoveUsage(const std::string& name, const FlavorResourceAmounts& amounts);

  int64_t Usage(const std::string& name, const FlavorResource& cell) const;
  FlavorResourceAmounts UsageOf(const std::string& name) const;  // cells that are not zero
  // What the ClusterQueue could take now, never below 0; 0 for cells that it does not list.
  int64_t Available(const std::string& name, const FlavorResource& cell) const;
  // The largest request that could ever fit, with everything else idle.
  int64_t PotentialAvailable(const std::string& name, const FlavorResource& cell) const;
  int64_t Nominal(const std::string& name, const FlavorResource& cell) const;
  // max(0, usage - nominal) with a cohort, else 0.
  int64_t Borrowed(const std::string& name, const FlavorResource& cell) const;
  bool Fits(const std::string& name, const FlavorResourceAmounts& amounts) const;
  BorrowLevel LevelFor(const std::string& name, const FlavorResource& cell, int64_t request) const;

  bool HasClusterQueue(const std::string& name) const;
  // Whether the ClusterQueue lists the cell.
  bool Lists(const std::string& name, const FlavorResource& cell) const;
  bool HasCohort(const std::string& name) const;
  // Whether its chain of parents runs into a cycle; nothing is available then.
  bool InCycle(const std::string& name) const;
  // The cohorts of a cycle that the chain of parents of the ClusterQueue runs into, in the order of
  // the chain; empty without one.
  std::vector<std::string> CycleOf(const std::string& name) const;
  bool CohortInCycle(const std::string& cohort) const;
  // The ClusterQueues of the same tree, sorted, with `name` itself. Just itself in a cycle.
  std::vector<std::string> TreeOf(const std::string& name) const;
  // The ClusterQueues of the tree that the cohort belongs to, sorted; empty in a cycle or when
  // there is no such cohort.
  std::vector<std::string> TreeOfCohort(const std::string& cohort) const;
  // All cohorts of the tree that the ClusterQueue belongs to, sorted; empty in a cycle.
  std::vector<std::string> CohortsOf(const std::string& name) const;
  // "/<root cohort>/.../<ClusterQueue>"; only the ClusterQueue in a cycle.
  std::string PathOf(const std::string& name) const;

  // Where an amount of the node is more than can be counted: the quota of its subtree, although all
  // that it is the sum of has limits, or its usage. It counts as unlimited then. Not in the nodes
  // above the one where that happens. In the order of the ids.
  struct Overflow {
    FlavorResource cell;
    bool usage = false;
  };
  std::vector<Overflow> OverflowsOf(const Node& node) const;

  // Stops the process when a derived value differs from one computed from scratch (for tests).
  void CheckInvariants() const;

  // ---- nodes and ids, for searches ----
  // nullptr when there is none. A pointer stays valid while the object exists or has usage.
  Node* FindQueue(const std::string& name) const;
  Node* FindCohort(const std::string& name) const;
  // The id of a cell; ids are dense and never reused, and their order means nothing.
  CellId IdOf(const FlavorResource& cell) const;
  const FlavorResource& CellOf(CellId id) const;
  CellAmounts IdsOf(const FlavorResourceAmounts& amounts) const;
  // Whether the chain of parents of the node ends, so that its derived values hold.
  static bool Sound(const Node& node);

  static void AddUsage(Node& queue, const CellAmounts& amounts);
  static void RemoveUsage(Node& queue, const CellAmounts& amounts);
  // As above; for a sound node. Available is never below 0 here.
  static int64_t Available(const Node& queue, CellId cell);
  // Of a ClusterQueue or Cohort, as it is: negative where usage exceeds what there is.
  static int64_t Room(const Node& node, CellId cell);
  static int64_t PotentialAvailable(const Node& queue, CellId cell);
  static bool Fits(const Node& queue, const CellAmounts& amounts);
  static BorrowLevel LevelFor(const Node& queue, CellId cell, int64_t request);
  // The dominant resource share of the node below its parent; zero for a root.
  Share ShareOf(const Node& node) const { return ShareOf(node, nullptr); }
  // The same where only the part `of`/`in` of what is borrowed of a resource counts.
  struct Scale {
    Quantity::Nanos of = 1;
    Quantity::Nanos in = 1;
  };
  using ScaleOf = std::function<Scale(const ResourceName& resource)>;
  Share ShareOf(const Node& node, const ScaleOf& scale_of) const;

 private:
  struct Names;

  Node& QueueAt(const std::string& name);
  Node& CohortAt(const std::string& name);
  void Attach(Node& node, const std::string& parent);
  void DropIfUnused(Node* node);
  void Recompute(Node& node);
  void RecomputeDown(Node& node);
  static void RecomputeUp(Node& node);
  void SetLimits(Node& node, const CellLimits& limits) const;
  void CheckNode(const Node& node) const;

  std::unique_ptr<Names> names_;
  absl::btree_map<std::string, std::unique_ptr<Node>> queues_;
  absl::btree_map<std::string, std::unique_ptr<Node>> cohorts_;
};

}  // namespace sluice::quota
