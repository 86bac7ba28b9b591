#include "quota/overlay.h"

namespace sluice::quota {

void Overlay::Add(const std::string& cluster_queue, const FlavorResourceAmounts& amounts) {
  tree_.AddUsage(cluster_queue, amounts);
  log_.push_back({true, cluster_queue, amounts});
}

void Overlay::Remove(const std::string& cluster_queue, const FlavorResourceAmounts& amounts) {
  tree_.RemoveUsage(cluster_queue, amounts);
  log_.push_back({false, cluster_queue, amounts});
}

void Overlay::Rollback(size_t mark) {
  while (log_.size() > mark) {
    const Change& change = log_.back();
    if (change.added) {
      tree_.RemoveUsage(change.cluster_queue, change.amounts);
    } else {
      tree_.AddUsage(change.cluster_queue, change.amounts);
    }
    log_.pop_back();
  }
}

}  // namespace sluice::quota
