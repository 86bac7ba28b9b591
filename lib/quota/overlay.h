// Overlay: usage that is booked in a quota tree for a while and taken back exactly.
//
// A cycle and a what-if question change the tree through an overlay; when it goes out of scope the
// tree is what it was. Cost: the changes made, never the size of the tree. Thread-compatible; the
// tree must outlive it and must not be changed otherwise in between.
//
//   quota::Overlay overlay(tree);
//   overlay.Add(*tree.FindQueue("team-a"), usage);   // later questions to `tree` see it
#pragma once

#include <utility>
#include <vector>

#include "quota/tree.h"

namespace sluice::quota {

class Overlay {
 public:
  Overlay() = default;
  ~Overlay() { Rollback(0); }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  void Add(Node& queue, CellAmounts amounts);
  void Remove(Node& queue, CellAmounts amounts);

  // A position to which Rollback can return.
  size_t Mark() const { return log_.size(); }
  void Rollback(size_t mark);

 private:
  struct Change {
    bool added;
    Node* queue;
    CellAmounts amounts;
  };
  std::vector<Change> log_;
};

}  // namespace sluice::quota
