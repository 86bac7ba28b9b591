// The compact form of a topology assignment (v1beta2 "slices") and the plain list of domains behind
// it (what v1beta1 shows): both directions.
//
// Contract: pure and deterministic; byte prefixes and suffixes are cut at character borders only,
// so every string stays valid UTF-8. Source of the format: KEP-2724 (topology-aware scheduling,
// "Compressed TopologyAssignment") and the Kueue API reference.
//
//   EncodeTopologyAssignment({"kubernetes.io/hostname"}, {{{"n-1"}, 2}, {{"n-2"}, 2}}, true)
//   -> one slice: prefix "n-", roots "1", "2", universal pod count 2
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"

namespace sluice::queueing {

struct TopologyDomain {
  std::vector<std::string> values;  // one for each level
  int32_t count = 0;                // pods
  bool operator==(const TopologyDomain&) const = default;
};

inline constexpr size_t kMaxTopologySlices = 1000;
inline constexpr size_t kMaxDomainsInSlice = 100000;
// More than an object of the API can hold in individual names. A slice of universal values can
// claim any number of domains in a few bytes; expanding stops here.
inline constexpr size_t kMaxExpandedDomains = 400000;

// Every domain has as many values as there are levels. `by_hostname_prefix` is the feature gate
// TASAssignmentsEncodingByHostnamePrefix: hosts of one node pool get their own slice where that
// makes the object smaller. Costs O(domains * dashes in a host name) for each search depth.
api::TopologyAssignment EncodeTopologyAssignment(std::vector<std::string> levels,
                                                 std::span<const TopologyDomain> domains,
                                                 bool by_hostname_prefix);

// In slice order. An error when a slice does not have as many values or counts as it has domains.
absl::StatusOr<std::vector<TopologyDomain>> ExpandTopologyAssignment(
    const api::TopologyAssignment& assignment);

// The assignment as it stands on the wire; without slices there is no member of that name.
api::Json TopologyAssignmentJson(const api::TopologyAssignment& assignment);

}  // namespace sluice::queueing
