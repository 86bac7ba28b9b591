// Which pod goes to which domain of an assignment.
//
// By rank where every pod says its index: the domains in order, each for as many ranks as it has
// pods, so that consecutive ranks are neighbours. Otherwise greedily, in the order of the pods.
//
// Pods that are being deleted take room until they are gone, but say nothing about ranks: after a
// workload was stopped and started again the old pod of a rank is there beside the new one.
//
// Contract: pure; O(pods + domains). The result names gated pods only, and none that is being
// deleted; pods beyond what the assignment has room for stay gated. Source: Kueue's concept page
// "Topology Aware Scheduling", rank-based ordering.
//
//   GangPods gang{.assignment = assignment, .count = 4, .index_label = true};
//   gang.pods = {{.gated = true, .index = "0"}, ...};
//   AssignPods(gang)->at(0)  // {pod 0, domain 0}
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/types.h"

namespace sluice::topology {

// A pod that has not ended. What a label or annotation says is given as the text on the pod.
struct RankedPod {
  bool gated = false;
  bool deleting = false;
  std::optional<std::string> index;
  std::optional<std::string> sub_group;
  std::optional<std::string> offset;  // annotation kueue.x-k8s.io/pod-index-offset
  // Values of the node selector for the levels of the assignment; an absent one is "".
  std::vector<std::string> selector;
};

struct GangPods {
  Assignment assignment;
  std::vector<RankedPod> pods;  // in the order of the list
  int64_t count = 0;            // of the pod set
  bool index_label = false;     // the request names a label for the index
  bool sub_group_label = false;
  int64_t sub_groups = 0;
  int64_t group_offset = 0;  // in a group: the count of the smaller pod set, for the larger one
};

struct PodPlace {
  size_t pod = 0;
  size_t domain = 0;
  bool operator==(const PodPlace&) const = default;
};

// The domain of each rank, by index into the assignment's domains.
std::vector<size_t> DomainsByRank(const Assignment& assignment);

// Which domain each gated pod goes to, in the order of the pods. InvalidArgument for an offset that
// is no integer; everything else that is wrong with ranks means greedy.
absl::StatusOr<std::vector<PodPlace>> AssignPods(const GangPods& gang);

// The offset of the first index of a pod set in a group of two: 0 for the smaller one, the smaller
// one's count for the larger one. Of two equal ones the first is the smaller.
int64_t GroupOffset(int64_t first_count, int64_t second_count, bool of_second);

}  // namespace sluice::topology
