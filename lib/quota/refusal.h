// Refusal: which node of a quota tree stands in the way of a request, by which limit, how much is
// missing there, and who has it.
//
// What a ClusterQueue can take is the smallest of several sums: at every node with a borrowing
// limit on the way up, and at the root, what the nodes below keep for themselves and what that node
// lets through. Each of these sums that is below the request is one Refusal. When the limit that a
// refusal names grows by exactly `missing`, that node refuses no more.
//
// Contract: pure; asks the tree, never changes it; for questions, not for decisions. Lending limits
// are asked of whoever has the objects. The queue must be sound. Cost: O(nodes of the tree).
// Source: KEP-79 of Kueue (hierarchical cohorts).
//
//   const RefusalFinder finder(cell, lending_limit);
//   for (const Refusal& r : finder.Refusals(*tree.FindQueue("a"), 5000, Horizon::kNow)) ...
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "quota/node.h"
#include "quota/tree.h"

namespace sluice::quota {

// kNow: beside what is in use. kEver: with everything else idle.
enum class Horizon { kNow, kEver };

struct Refusal {
  enum class Limit {
    kNominalQuota,    // of a ClusterQueue without cohort
    kBorrowingLimit,  // of the node
    kLendingLimit,    // of `lender`, which keeps at least `missing` unused for itself
    kCapacity,        // the whole tree below the node has no more: the nominal quota of the node
  };
  const Node* node = nullptr;
  Limit limit = Limit::kCapacity;
  const Node* lender = nullptr;  // kLendingLimit
  // The largest request of the ClusterQueue that passes here; negative where more is in use than
  // there is quota.
  int64_t room = 0;
  int64_t missing = 0;  // > 0
};

// A child of a cohort that uses its quota.
struct Holder {
  const Node* node = nullptr;
  int64_t usage = 0;    // of its whole subtree
  int64_t counted = 0;  // of that, what counts against the cohort
};

class RefusalFinder {
 public:
  // The lendingLimit of a node for the cell, nullopt without one.
  using LendingLimit = std::function<std::optional<int64_t>(const Node&)>;

  RefusalFinder(CellId cell, LendingLimit lending_limit)
      : cell_(cell), lending_limit_(std::move(lending_limit)) {}

  // The one of which most is missing first, then the nearest to the ClusterQueue. Empty when the
  // request passes. A cell that the ClusterQueue does not list is refused by its nominal quota.
  std::vector<Refusal> Refusals(const Node& queue, int64_t request, Horizon horizon) const;
  // The largest first (by `counted`, then by name), at most `most`; none that counts nothing.
  std::vector<Holder> Holders(const Node& cohort, size_t most) const;

 private:
  // The node off the request's way that keeps most for itself, and how much of it would reach the
  // request if that node lent more.
  struct Lender {
    const Node* node = nullptr;
    int64_t kept = 0;
  };

  int64_t Guaranteed(const Node& node) const;
  int64_t Kept(const Node& node, Horizon horizon) const;
  int64_t RoomAt(const Node& node, Horizon horizon) const;
  void FindLender(const Node& cohort, const Node* skipped, Horizon horizon, int64_t most,
                  Lender& best) const;
  void VisitLender(const Node& node, Horizon horizon, int64_t most, Lender& best) const;

  CellId cell_;
  LendingLimit lending_limit_;
};

}  // namespace sluice::quota
