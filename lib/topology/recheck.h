// Recheck: whether places that were given some time ago are still what they were given as.
//
// Between the decision and the first pod that is let go, nodes may change what they say of
// themselves: their labels (so that they are in another rack, or none), their taints, or that they
// are about to leave. Pods that were sent there then would wait for ever, or run apart.
//
// Contract: pure; O(domains of the assignment). Room is not looked at: it was booked when the
// places were given, and the usage of the workload itself is among what is used. Nothing is known,
// and nothing is wrong, where the flavor has no tree or the topology no such level any more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/tree.h"
#include "topology/types.h"

namespace sluice::topology {

// The slot of the leaf that the values of an assignment's domain name; -1 when it is not in the
// tree.
int32_t SlotIn(const Tree& tree, const std::vector<std::string>& values);
// The position of the leaf's domain at a higher level.
int32_t Ancestor(const Tree& tree, int32_t leaf, size_t level);

// A domain on which an assignment does not hold any more.
struct LostDomain {
  enum class Kind {
    kGone,      // its leaf is not in the tree
    kExcluded,  // it does not take the pods
    kApart,     // it is not in one domain with the others, or has a part of a slice
  };
  Kind kind = Kind::kGone;
  std::vector<std::string> values;
  bool operator==(const LostDomain&) const = default;
};

// The first one; of the request only the topology and the filter matter. `failed`: hosts that are
// known to be lost, and are replaced. `in_slices`: the assignment was made of whole slices.
std::optional<LostDomain> FindLost(const Tree& tree, const PodSetRequest& pod_set,
                                   const Assignment& assignment,
                                   const std::vector<std::string>& failed, bool in_slices);

}  // namespace sluice::topology
