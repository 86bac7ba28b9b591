#include "preemption/history.h"

#include <algorithm>

namespace sluice::preemption {

void History::Unlink(const std::string& preemptor) {
  const auto found = linked_.find(preemptor);
  if (--found->second == 0) linked_.erase(found);
}

void History::Record(const std::string& victim, const std::string& preemptor) {
  Links& links = links_[victim];
  const auto known = std::find(links.preemptors.begin(), links.preemptors.end(), preemptor);
  if (known != links.preemptors.end()) {
    std::rotate(known, known + 1, links.preemptors.end());
  } else {
    if (links.preemptors.size() == kMostPreemptors) {
      Unlink(links.preemptors.front());
      links.preemptors.erase(links.preemptors.begin());
    }
    links.preemptors.push_back(preemptor);
    ++linked_[preemptor];
  }
  links.recently = links.events == events_ ? links.recently + 1 : 1;
  links.events = events_;
  ++links.times;
  links.last = now_;
}

bool History::Forget(const std::string& workload) {
  const bool remembered = linked_.contains(workload);
  const auto found = links_.find(workload);
  if (found == links_.end()) return remembered;
  for (const std::string& preemptor : found->second.preemptors) Unlink(preemptor);
  links_.erase(found);
  return true;
}

void History::Clear() {
  links_.clear();
  linked_.clear();
  NoteEvent();
}

absl::Time History::RestsUntil(const Links& links) {
  if (links.times < kTired) return absl::InfinitePast();
  const int doublings = std::min(links.times - kTired, 10);
  return links.last + std::min(kLongestRest, kRest * (int64_t{1} << doublings));
}

absl::Time History::RestsUntil(const std::string& workload) const {
  const auto own = links_.find(workload);
  return own == links_.end() ? absl::InfinitePast() : RestsUntil(own->second);
}

Evictors History::EvictorsOf(const std::string& workload) const {
  Evictors evictors;
  const auto own = links_.find(workload);
  if (own == links_.end()) return evictors;
  const Links& links = own->second;
  evictors.tired = links.events == events_ && links.recently >= kTired;
  evictors.resting = now_ < RestsUntil(links);
  std::vector<const Links*> open{&links};
  while (!open.empty()) {
    const Links& next = *open.back();
    open.pop_back();
    for (const std::string& preemptor : next.preemptors) {
      if (!evictors.uids.insert(preemptor).second) continue;
      if (const auto found = links_.find(preemptor); found != links_.end()) {
        open.push_back(&found->second);
      }
    }
  }
  return evictors;
}

}  // namespace sluice::preemption
