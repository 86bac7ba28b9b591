#include "quota/overlay.h"

namespace sluice::quota {

void Overlay::Add(Node& queue, CellAmounts amounts) {
  Tree::AddUsage(queue, amounts);
  log_.push_back({true, &queue, std::move(amounts)});
}

void Overlay::Remove(Node& queue, CellAmounts amounts) {
  Tree::RemoveUsage(queue, amounts);
  log_.push_back({false, &queue, std::move(amounts)});
}

void Overlay::Rollback(size_t mark) {
  while (log_.size() > mark) {
    const Change& change = log_.back();
    if (change.added) {
      Tree::RemoveUsage(*change.queue, change.amounts);
    } else {
      Tree::AddUsage(*change.queue, change.amounts);
    }
    log_.pop_back();
  }
}

}  // namespace sluice::quota
