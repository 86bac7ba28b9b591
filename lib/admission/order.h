// The order in which the entries of a cycle are processed (private to this room).
//
// Classical: who borrows least goes first, then priority, then time. With fair sharing the entries
// of a cohort tree play a tournament before every step: at each cohort, from below, the entry wins
// whose side would have the lowest dominant resource share with it; the winner at the root is next.
// In both, an entry for which workloads were evicted goes first, so that the room is given to the
// one that it was made for.
// Sources: Kueue documentation "Cluster Queue" and KEP-1714 (fair sharing), KEP-79 (hierarchy).
#pragma once

#include <vector>

#include "admission/nominator.h"

namespace sluice::admission {

// Gives the positions of the entries one by one. The entries must stay where they are.
class EntryOrder {
 public:
  EntryOrder(const Snapshot& snapshot, std::vector<Entry>& entries);
  ~EntryOrder();
  EntryOrder(const EntryOrder&) = delete;
  EntryOrder& operator=(const EntryOrder&) = delete;

  // The next entry, nullptr when all were given. Shares are those of the tree at that moment; the
  // tree may change between two calls only in the ClusterQueue of the entry given last.
  Entry* Next();

 private:
  class Tournament;

  const Snapshot& snapshot_;
  std::vector<Entry*> sorted_;  // classical, and everything that takes part in no tournament
  size_t next_ = 0;
  std::vector<Tournament> tournaments_;
};

}  // namespace sluice::admission
