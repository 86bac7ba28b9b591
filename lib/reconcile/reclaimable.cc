#include "reconcile/reclaimable.h"

#include <algorithm>
#include <utility>

#include "api/codec.h"

namespace sluice::reconcile {

std::optional<api::Json> ReclaimableStatus(const api::Workload& workload,
                                           std::vector<api::ReclaimablePod> pods) {
  for (api::ReclaimablePod& pod : pods) {
    for (const api::PodSet& pod_set : workload.spec.pod_sets) {
      if (pod_set.name == pod.name) pod.count = std::min(pod.count, pod_set.count);
    }
  }
  const std::vector<api::ReclaimablePod>& said = workload.status.reclaimable_pods;
  if (std::is_permutation(pods.begin(), pods.end(), said.begin(), said.end())) return std::nullopt;
  api::Json list = api::Json::MakeArray();
  for (const api::ReclaimablePod& pod : pods) list.Append(api::Encode(pod));
  return api::Json::MakeObject({{"reclaimablePods", std::move(list)}});
}

}  // namespace sluice::reconcile
