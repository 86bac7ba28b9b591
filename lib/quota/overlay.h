// Overlay: usage that is booked in a quota tree for a while and taken back exactly.
//
// A cycle and a what-if question change the tree through an overlay; when it goes out of scope the
// tree is what it was. Cost: the changes made, never the size of the tree. Thread-compatible; the
// tree must outlive it and must not be changed otherwise in between.
//
//   quota::Overlay overlay(tree);
//   overlay.Add("team-a", usage);   // later questions to `tree` see it
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quota/tree.h"

namespace sluice::quota {

class Overlay {
 public:
  explicit Overlay(Tree& tree) : tree_(tree) {}
  ~Overlay() { Rollback(0); }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  void Add(const std::string& cluster_queue, const FlavorResourceAmounts& amounts);
  void Remove(const std::string& cluster_queue, const FlavorResourceAmounts& amounts);

  // A position to which Rollback can return.
  size_t Mark() const { return log_.size(); }
  void Rollback(size_t mark);

 private:
  struct Change {
    bool added;
    std::string cluster_queue;
    FlavorResourceAmounts amounts;
  };
  Tree& tree_;
  std::vector<Change> log_;
};

}  // namespace sluice::quota
