// Why pods could not be placed, as data, and its text.
//
// The texts of the conditions keep the wording that users of Kueue know ("allows to fit only 8 out
// of 9 pod(s)"); what explains more (which domain comes closest and what is in its way) is in the
// data, for explanations.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::topology {

// Slices that one domain could take at the level of one layer.
struct LayerFit {
  std::string level;
  int64_t fit = 0;
  int64_t needed = 0;
  bool operator==(const LayerFit&) const = default;
};

// Reason -> leaves that are out for it: "nodeSelector", "affinity", "topologyDomain",
// "nodeLifecycle", "maintenance", `taint "k=v:E"`, `resource "cpu"`.
using Exclusions = absl::btree_map<std::string, int64_t>;

// The domain that comes closest.
struct ClosestDomain {
  std::string level;
  std::vector<std::string> values;
  int64_t fit = 0;  // pods or slices, as the request counts
  int64_t leaves = 0;
  Exclusions excluded;
  bool operator==(const ClosestDomain&) const = default;
};

struct Failure {
  enum class Kind {
    kInvalid,        // the request contradicts itself or the topology; `text` says how
    kUnknown,        // there is no such flavor or topology; `text` says which
    kNoDomains,      // the topology has no node with all labels; `text` is the level's label
    kNoRoom,         // `fit` of `needed`
    kStale,          // a remaining domain of the assignment is not in the tree; `text` names it
    kNoReplacement,  // nothing to put in the place of the node `text`
  };
  Kind kind = Kind::kInvalid;
  std::string text;
  std::string topology;
  int64_t fit = 0;
  int64_t needed = 0;
  bool slices = false;           // fit and needed count slices, not pods
  std::vector<LayerFit> layers;  // with several layers these take the place of fit and needed
  int64_t leaves = 0;            // looked at
  Exclusions excluded;
  std::optional<ClosestDomain> closest;
  int64_t total = 0;  // what would fit if any set of domains were allowed
  bool operator==(const Failure&) const = default;
};

std::string Render(const Failure& failure);

}  // namespace sluice::topology
