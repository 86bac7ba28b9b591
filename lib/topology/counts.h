// Counts: what every domain of a tree could take of one shape of pods, kept between searches.
//
// Most searches ask about pods of the same few shapes, and between two of them a handful of leaves
// changed. A tree therefore keeps what was counted for the shapes asked about lately; a search
// brings the numbers up to date by the tree's journals and recounts only leaves that changed and
// the domains above them. What cannot be kept (a search that is confined to a domain, or that looks
// at planned maintenance) is counted anew each time.
//
// Contract: internal to the room, thread-compatible. At most kMostShapes shapes and about
// kBytesPerLeaf for each leaf; the one that was not asked about for the longest time goes first.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "topology/types.h"

namespace sluice::topology {

struct SearchRequest;

// What one pod takes; sorted by the name of the resource. An id that no node has is UINT32_MAX.
struct Need {
  uint32_t resource = 0;
  int64_t amount = 0;
  const ResourceName* name = nullptr;
};
using Needs = absl::InlinedVector<Need, 4>;

// What a domain could take. With "L": what is left beside the leader, if that is put here.
struct DomainState {
  int64_t pods = 0;
  int64_t pods_l = 0;
  int64_t slices = 0;
  int64_t slices_l = 0;
  int64_t affinity = 0;
  int32_t leader = 0;  // whether the leader fits here
  bool operator==(const DomainState&) const = default;
};
using DomainStates = std::vector<std::vector<DomainState>>;  // [level][position]

struct Counts {
  DomainStates states;
  // What the numbers were counted from; a layout of 0 is none.
  uint64_t layout = 0;
  uint64_t filter_epoch = 0;
  uint64_t base_read = 0;
  uint64_t used_read = 0;
  std::vector<int32_t> touched;  // slots of leaves with numbers that held for one search only
};

// Of a search, all that the numbers depend on beside the tree.
struct CountShape {
  using Amounts = absl::InlinedVector<std::pair<uint32_t, int64_t>, 4>;  // resource, amount
  uint64_t mask = 0;  // id of who accepts the pods
  Amounts worker;
  std::optional<Amounts> leader;
  bool simulate_empty = false;
  size_t slice_level = 0;
  int64_t slice_size = 1;
  std::vector<int64_t> inner;
};

class CountsCache {
 public:
  static constexpr size_t kMostShapes = 64;
  static constexpr size_t kBytesPerLeaf = 768;

  // The counts of the request's shape in a tree of so many leaves; empty ones when it was not asked
  // about lately. Valid until the next call.
  Counts& Find(const SearchRequest& request, uint64_t mask, size_t leaves);
  // Calls visit(shape, counts) for all that are kept.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (const std::unique_ptr<Kept>& kept : kept_) visit(kept->shape, kept->counts);
  }
  size_t size() const { return kept_.size(); }
  size_t MemoryBytes() const;

 private:
  struct Kept {
    CountShape shape;
    uint64_t asked = 0;
    Counts counts;
  };
  std::vector<std::unique_ptr<Kept>> kept_;
  uint64_t asked_ = 0;
};

}  // namespace sluice::topology
