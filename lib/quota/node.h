// Node: one ClusterQueue or Cohort of a quota tree, as a search sees it.
//
// Nodes are owned and changed by their Tree; everybody else reads. The values are those of KEP-79:
// the quota of a subtree is its own nominal quota and what its children offer; a node guarantees
// itself what its lending limit does not offer; usage above that is usage of the parent too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quota/amounts.h"
#include "quota/share.h"

namespace sluice::quota {

class Node {
 public:
  const std::string& name() const { return name_; }
  bool is_cohort() const { return is_cohort_; }
  const Node* parent() const { return parent_; }
  // The end of the chain of parents; of a sound node only.
  const Node& Root() const;
  // Of a cohort: 1 + the height of its highest child, 0 without children.
  int height() const { return height_; }
  const Weight& weight() const { return weight_; }
  // Grows when the quota of its tree is computed anew and when usage is taken back by name: what
  // was found out about flavors before may not hold any more.
  uint64_t generation() const { return generation_; }
  // Sorted by name.
  const std::vector<Node*>& cohorts() const { return cohorts_; }
  const std::vector<Node*>& queues() const { return queues_; }

  int64_t Usage(CellId cell) const;
  int64_t SubtreeQuota(CellId cell) const;
  int64_t Nominal(CellId cell) const;
  // What is left of the part that is never lent.
  int64_t LocalAvailable(CellId cell) const;
  std::optional<int64_t> BorrowingLimit(CellId cell) const;
  bool Lists(CellId cell) const;
  // Whether its usage and `more` exceed the quota of its subtree.
  bool BorrowingWith(CellId cell, int64_t more) const;
  bool Borrowing(CellId cell) const { return BorrowingWith(cell, 0); }
  // In any cell at all.
  bool BorrowingAnything() const;

 private:
  friend class Tree;
  __extension__ typedef __int128 Wide;

  struct Cell {
    CellId id = 0;
    bool listed = false;  // the object names it
    Limits limits;
    int64_t subtree_quota = 0;
    int64_t guaranteed = 0;
    int64_t potential = 0;  // the largest request that could ever fit
    Wide usage = 0;

    int64_t Usage() const;  // capped
    Wide Lendable() const { return SubtractAmounts(subtree_quota, guaranteed); }
    Wide UsageAboveGuaranteed() const { return std::max<Wide>(0, usage - guaranteed); }
    int64_t LocalAvailable() const {
      return std::max<int64_t>(0, SubtractAmounts(guaranteed, Usage()));
    }
  };
  struct Lendable {
    uint32_t resource = 0;
    int64_t amount = 0;  // what could be lent to a child, over all flavors
  };

  const Cell* Find(CellId id) const;
  Cell& At(CellId id);
  void Add(CellId id, Wide amount);
  void Remove(CellId id, Wide amount);
  bool Circular() const;
  int64_t Available(CellId id) const;
  int64_t Potential(CellId id) const;
  std::vector<Cell> Derive() const;
  void Insert(Node* child);
  void Erase(Node* child);

  std::string name_;
  bool is_cohort_ = false;
  bool exists_ = false;  // there is an object of that name
  Node* parent_ = nullptr;
  int height_ = 0;
  uint64_t generation_ = 0;
  Weight weight_;
  std::vector<Cell> cells_;  // sorted by id
  std::vector<Lendable> lendable_;
  std::vector<Node*> cohorts_;
  std::vector<Node*> queues_;
};

}  // namespace sluice::quota
