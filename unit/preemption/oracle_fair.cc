// The part of the naive model that is about fair sharing.
#include "unit/preemption/oracle.h"

#include <algorithm>

namespace sluice::preemption {

int Oracle::Choose(int cohort, const std::vector<std::vector<int>>& candidates) const {
  int queue = -1;
  int subtree = -1;
  int chosen_inside = -1;
  for (size_t n = 0; n < cluster_.nodes.size(); ++n) {
    const int child = static_cast<int>(n);
    if (Node(child).parent != cohort) continue;
    if (!Node(child).is_cohort) {
      if (candidates[n].empty() || (child != Me() && !Borrowing(child))) continue;
      const bool more = queue < 0 || Less(ShareOf(queue), ShareOf(child));
      const bool equal = queue >= 0 && !more && !Less(ShareOf(child), ShareOf(queue));
      if (more || (equal && Before(candidates[n].front(), candidates[At(queue)].front(), false))) {
        queue = child;
      }
      continue;
    }
    if (!Borrowing(child) && !IsAncestor(child, Me())) continue;
    const int inside = Choose(child, candidates);
    if (inside < 0) continue;
    const bool more = subtree < 0 || Less(ShareOf(subtree), ShareOf(child));
    const bool equal = subtree >= 0 && !more && !Less(ShareOf(child), ShareOf(subtree));
    if (more || (equal && Node(child).name < Node(subtree).name)) {
      subtree = child;
      chosen_inside = inside;
    }
  }
  if (subtree < 0) return queue;
  if (queue >= 0 && Less(ShareOf(subtree), ShareOf(queue))) return queue;
  return chosen_inside;
}

int Oracle::ChooseFromRoot(const std::vector<std::vector<int>>& candidates) const {
  int root = Me();
  while (Node(root).parent >= 0) root = Node(root).parent;
  if (root == Me()) return candidates[At(root)].empty() ? -1 : root;
  return Choose(root, candidates);
}

void Oracle::Sides(int queue, int& mine, int& theirs) const {
  theirs = queue;
  while (!IsAncestor(Node(theirs).parent, Me())) theirs = Node(theirs).parent;
  mine = Me();
  while (Node(mine).parent != Node(theirs).parent) mine = Node(mine).parent;
}

// As the state is now, with the preemptor counted. Three rules of our own beside the published
// ones: the other side's share must be larger before the removal, whatever the strategy; the tests
// must hold for what is really removed (in Minimal); and see FindFair.
bool Oracle::Passes(int workload, Strategy strategy) {
  int mine = 0;
  int theirs = 0;
  Sides(Work(workload).queue, mine, theirs);
  const Share share = ShareOf(mine);
  if (!Less(share, ShareOf(theirs))) return false;
  const bool within_nominal = WithinQuota(Me());
  Remove(workload);
  bool passes = strategy == Strategy::kLessThanInitialShare && !careful_;
  passes = passes || !Less(ShareOf(theirs), share);
  if (careful_ && !within_nominal) {
    passes = passes && !BelowQuota(Work(workload).queue, false);
  }
  PutBack(workload);
  return passes;
}

// The queue, or a cohort around it that the preemptor is not in, uses less of a contested cell than
// its quota (and, if asked, could not use it all now).
bool Oracle::BelowQuota(int queue, bool without_room) const {
  for (int node = queue; !IsAncestor(node, Me()); node = Node(node).parent) {
    for (const size_t c : contested_) {
      const int64_t unused = Quota(node, c) - Usage(node, c);
      if (unused > 0 && (!without_room || unused > Available(node, c))) return true;
    }
  }
  return false;
}

// Of those that a share test allowed to take, with all of them gone.
bool Oracle::Lasts(const std::vector<Taken>& taken) {
  for (const Taken& one : taken) {
    if (!one.test.has_value()) continue;
    const int queue = Work(one.victim.workload).queue;
    if (!WithinQuota(Me()) && BelowQuota(queue, true)) return false;
    int mine = 0;
    int theirs = 0;
    Sides(queue, mine, theirs);
    PutBack(one.victim.workload);
    const bool smaller = Less(ShareOf(theirs), ShareOf(mine));
    Remove(one.victim.workload);
    if (smaller) return false;
  }
  return true;
}

// A preemptor that borrows leaves those that a share test let it take from the room for their
// quota, and no single victim would have the smaller share when it came back. When the set that is
// found is not so, sets are looked for by the final share that never go below a quota.
std::vector<Victim> Oracle::FindFair() {
  for (const bool careful : {false, true}) {
    careful_ = careful;
    booked_ = true;
    Count();
    const std::vector<Taken> taken = FairSet();
    const bool lasts = Lasts(taken);
    taken_.assign(taken_.size(), false);
    booked_ = false;
    careful_ = false;
    Count();
    if (!lasts) continue;
    return Victims(taken);
  }
  return {};
}

std::vector<Oracle::Taken> Oracle::FairSet() {
  std::vector<std::vector<int>> candidates(cluster_.nodes.size());
  std::vector<std::vector<int>> later(cluster_.nodes.size());
  int root = Me();
  while (Node(root).parent >= 0) root = Node(root).parent;
  for (size_t n = 0; n < cluster_.nodes.size(); ++n) {
    const int queue = static_cast<int>(n);
    if (Node(queue).is_cohort || !IsAncestor(root, queue)) continue;
    if (queue == Me() || !WithinQuota(queue)) candidates[n] = CandidatesOf(queue);
  }
  const bool within_nominal = cluster_.preempt_within_nominal && WithinQuota(Me());
  std::vector<Taken> taken;
  const auto take = [&](int workload, Reason reason, std::optional<Strategy> test) {
    taken.push_back({{workload, reason}, test});
    Remove(workload);
    return Fits(true);
  };

  bool fits = false;
  for (int queue = ChooseFromRoot(candidates); queue >= 0 && !fits;
       queue = ChooseFromRoot(candidates)) {
    std::vector<int>& list = candidates[At(queue)];
    const Strategy strategy = cluster_.strategies.front();
    while (!list.empty()) {
      const int workload = list.front();
      list.erase(list.begin());
      if (queue != Me() && !UsesBorrowed(workload)) {
        if (within_nominal) break;
        continue;
      }
      if (queue == Me()) {
        fits = take(workload, Reason::kInClusterQueue, {});
      } else if (within_nominal) {
        fits = take(workload, Reason::kInCohortReclamation, {});
      } else if (Passes(workload, strategy)) {
        fits = take(workload, Reason::kInCohortFairSharing, strategy);
      } else {
        later[At(queue)].push_back(workload);
        continue;
      }
      break;
    }
  }
  if (!fits && cluster_.strategies.size() > 1) {
    const Strategy strategy = cluster_.strategies[1];
    for (int queue = ChooseFromRoot(later); queue >= 0 && !fits; queue = ChooseFromRoot(later)) {
      const int workload = later[At(queue)].front();
      later[At(queue)].clear();
      if ((queue == Me() || UsesBorrowed(workload)) && Passes(workload, strategy)) {
        fits = take(workload, Reason::kInCohortFairSharing, strategy);
      }
    }
  }
  return fits ? Minimal(taken, true) : std::vector<Taken>();
}

}  // namespace sluice::preemption
