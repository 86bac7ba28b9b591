#include "unit/preemption/oracle.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::preemption {

bool Oracle::Less(const Share& a, const Share& b) {
  if (a.Infinite() != b.Infinite()) return b.Infinite();
  const bool plain = a.Infinite();
  const int64_t a_weight = plain ? 1 : a.weight_milli;
  const int64_t b_weight = plain ? 1 : b.weight_milli;
  if (a.borrowed == 0) return b.borrowed > 0;
  if (b.borrowed == 0) return false;
  return a.borrowed * b.lendable * b_weight < b.borrowed * a.lendable * a_weight;
}

Oracle::Oracle(const Cluster& cluster) : cluster_(cluster), taken_(cluster.running.size(), false) {
  CountQuota();
  Count();
  for (size_t c = 0; c < cluster.CellCount(); ++c) {
    if (cluster.contested[c]) contested_.push_back(c);
  }
  if (!contested_.empty()) return;
  for (size_t c = 0; c < cluster.CellCount(); ++c) {
    if (cluster.preemptor.amounts[c] > std::max<int64_t>(0, Available(Me(), c))) {
      contested_.push_back(c);
    }
  }
}

// ---- the quota tree ----

void Oracle::CountQuota() {
  const size_t count = cluster_.nodes.size();
  quota_.assign(count, {});
  guaranteed_.assign(count, {});
  potential_.assign(count, {});
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    for (size_t n = count; n-- > 0;) {  // children stand behind their parents
      const CellSpec& cell = cluster_.nodes[n].cells[c];
      quota_[n][c] = cell.nominal;
      for (size_t child = n + 1; child < count; ++child) {
        if (cluster_.nodes[child].parent != static_cast<int>(n)) continue;
        quota_[n][c] += quota_[child][c] - guaranteed_[child][c];
      }
      if (cell.lending != kNoLimit) {
        guaranteed_[n][c] = std::max<int64_t>(0, quota_[n][c] - cell.lending);
      }
    }
    for (size_t n = 0; n < count; ++n) {
      const int parent = cluster_.nodes[n].parent;
      const CellSpec& cell = cluster_.nodes[n].cells[c];
      potential_[n][c] = parent < 0 ? quota_[n][c] : guaranteed_[n][c] + potential_[At(parent)][c];
      if (parent >= 0 && cell.borrowing != kNoLimit) {
        potential_[n][c] = std::min(potential_[n][c], quota_[n][c] + cell.borrowing);
      }
    }
  }
}

void Oracle::Count() {
  usage_.assign(cluster_.nodes.size(), {});
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    for (size_t w = 0; w < cluster_.running.size(); ++w) {
      if (!taken_[w])
        usage_[At(Work(static_cast<int>(w)).queue)][c] += Work(static_cast<int>(w)).amounts[c];
    }
    if (booked_) usage_[At(Me())][c] += cluster_.preemptor.amounts[c];
    for (size_t n = cluster_.nodes.size(); n-- > 0;) {
      const int parent = cluster_.nodes[n].parent;
      if (parent < 0) continue;
      usage_[At(parent)][c] += std::max<int64_t>(0, usage_[n][c] - guaranteed_[n][c]);
    }
  }
}

void Oracle::Remove(int workload) {
  taken_[At(workload)] = true;
  Count();
}

void Oracle::PutBack(int workload) {
  taken_[At(workload)] = false;
  Count();
}

int64_t Oracle::LocalAvailable(int node, size_t cell) const {
  return std::max<int64_t>(0, Guaranteed(node, cell) - Usage(node, cell));
}

int64_t Oracle::Available(int node, size_t cell) const {
  if (Node(node).parent < 0) return Quota(node, cell) - Usage(node, cell);
  int64_t shared = Available(Node(node).parent, cell);
  if (Node(node).cells[cell].borrowing != kNoLimit) {
    const int64_t lent = Quota(node, cell) - Guaranteed(node, cell);
    const int64_t used = std::max<int64_t>(0, Usage(node, cell) - Guaranteed(node, cell));
    shared = std::min(shared, lent - used + Node(node).cells[cell].borrowing);
  }
  return LocalAvailable(node, cell) + shared;
}

Oracle::Share Oracle::ShareOf(int node) const {
  const int parent = Node(node).parent;
  Share dominant;
  if (parent < 0) return dominant;
  for (int r = 0; r < cluster_.resources; ++r) {
    Share share{0, 0, Node(node).weight_milli};
    for (int f = 0; f < cluster_.flavors; ++f) {
      const size_t cell = At(f * cluster_.resources + r);
      share.borrowed += std::max<int64_t>(0, Usage(node, cell) - Quota(node, cell));
      share.lendable += Potential(parent, cell);
    }
    if (share.lendable > 0 && Less(dominant, share)) dominant = share;
  }
  return dominant;
}

int Oracle::Height(int node) const {
  int height = 0;
  for (size_t child = 0; child < cluster_.nodes.size(); ++child) {
    if (cluster_.nodes[child].parent == node) {
      height = std::max(height, 1 + Height(static_cast<int>(child)));
    }
  }
  return height;
}

Oracle::Level Oracle::LevelFor(int queue, size_t cell, int64_t request) const {
  const bool cohort = Node(queue).parent >= 0;
  if (!cohort || Usage(queue, cell) + request <= Quota(queue, cell)) return {0, cohort};
  int64_t rest = request - LocalAvailable(queue, cell);
  for (int node = Node(queue).parent;; node = Node(node).parent) {
    const bool root = Node(node).parent < 0;
    if (Usage(node, cell) + rest <= Quota(node, cell)) return {Height(node), !root};
    if (root) return {Height(node), false};
    rest -= LocalAvailable(node, cell);
  }
}

// ---- questions of both algorithms ----

bool Oracle::IsAncestor(int cohort, int node) const {
  for (; node >= 0; node = Node(node).parent) {
    if (node == cohort) return true;
  }
  return false;
}

bool Oracle::FitsNow() { return Fits(true); }

bool Oracle::Fits(bool borrowing) {
  const bool was_booked = booked_;
  booked_ = false;
  Count();
  bool fits = true;
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    const int64_t wanted = cluster_.preemptor.amounts[c];
    if (wanted == 0) continue;
    fits = fits && Node(Me()).cells[c].listed && wanted <= std::max<int64_t>(0, Available(Me(), c));
    fits = fits && (borrowing || Usage(Me(), c) + wanted <= Quota(Me(), c));
  }
  booked_ = was_booked;
  Count();
  return fits;
}

bool Oracle::WithinQuota(int node) const {
  return std::all_of(contested_.begin(), contested_.end(),
                     [&](size_t c) { return Usage(node, c) <= Quota(node, c); });
}

bool Oracle::Borrowing(int node) const {
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    if (Usage(node, c) > Quota(node, c)) return true;
  }
  return false;
}

bool Oracle::Qualifies(int workload) const {
  const WorkloadSpec& work = Work(workload);
  const WorkloadSpec& mine = cluster_.preemptor;
  if (!Node(work.queue).active || taken_[At(workload)]) return false;
  const Policies& policies = Node(Me()).policies;
  const Policy policy =
      work.queue == Me() ? policies.within_cluster_queue : policies.reclaim_within_cohort;
  const bool lower = work.priority < mine.priority;
  const bool newer = work.priority == mine.priority && work.order_time > mine.order_time;
  if (policy == Policy::kNever) return false;
  if (policy == Policy::kLowerPriority && !lower) return false;
  if (policy == Policy::kLowerOrNewerEqualPriority && !lower && !newer) return false;
  if (Protected(work) || (spare_often_ && Often(work))) return false;
  return std::any_of(contested_.begin(), contested_.end(),
                     [&](size_t c) { return work.amounts[c] > 0; });
}

bool Oracle::Before(int a, int b, bool by_usage) const {
  const WorkloadSpec& x = Work(a);
  const WorkloadSpec& y = Work(b);
  if (x.evicted != y.evicted) return x.evicted;
  if ((x.queue == Me()) != (y.queue == Me())) return y.queue == Me();
  if (by_usage && x.queue == y.queue && Node(x.queue).usage_based &&
      x.local_queue != y.local_queue) {
    const int x_used = cluster_.local_queue_usage[At(x.local_queue)];
    const int y_used = cluster_.local_queue_usage[At(y.local_queue)];
    if (x_used != y_used) return x_used > y_used;
  }
  if (x.priority != y.priority) return x.priority < y.priority;
  if (by_cost_ && CostOf(a) != CostOf(b)) return CostOf(a) < CostOf(b);
  if (x.reserved_at != y.reserved_at) return x.reserved_at > y.reserved_at;
  return a < b;
}

std::vector<int> Oracle::CandidatesOf(int queue) const {
  std::vector<int> list;
  for (size_t w = 0; w < cluster_.running.size(); ++w) {
    const int workload = static_cast<int>(w);
    if (Work(workload).queue == queue && Qualifies(workload)) list.push_back(workload);
  }
  std::sort(list.begin(), list.end(), [&](int a, int b) { return Before(a, b, true); });
  return list;
}

std::vector<Victim> Oracle::Victims(const std::vector<Taken>& taken) {
  std::vector<Victim> victims;
  for (const Taken& one : taken) victims.push_back(one.victim);
  return victims;
}

// Backwards from the second-last, or by what they cost; what can come back stays back. A set whose
// share tests do not hold is no set, and what comes back later can make room for what could not
// come back before.
std::vector<Oracle::Taken> Oracle::Minimal(std::vector<Taken> taken, bool borrowing) {
  const std::vector<int> order = ReturnOrder(taken);
  for (bool changed = true; changed;) {
    changed = false;
    for (const int workload : order) {
      const auto place = std::find_if(taken.begin(), taken.end(), [&](const Taken& one) {
        return one.victim.workload == workload;
      });
      if (place == taken.end()) continue;
      const auto index = place - taken.begin();
      const Taken one = *place;
      taken.erase(place);
      PutBack(workload);
      if (Fits(borrowing) && TestsHold(taken)) {
        changed = true;
        continue;
      }
      Remove(workload);
      taken.insert(taken.begin() + index, one);
    }
  }
  return taken;
}

bool Oracle::TestsHold(const std::vector<Taken>& taken) {
  for (const Taken& one : taken) PutBack(one.victim.workload);
  bool hold = true;
  for (const Taken& one : taken) {
    if (one.test.has_value()) hold = hold && Passes(one.victim.workload, *one.test);
    Remove(one.victim.workload);
  }
  return hold;
}

std::vector<Victim> Oracle::Find() {
  borrows_ = false;
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    const int wanted = cluster_.preemptor.amounts[c];
    borrows_ = borrows_ || (wanted > 0 && Usage(Me(), c) + wanted > Quota(Me(), c));
  }
  bool any_often = false;
  for (const WorkloadSpec& work : cluster_.running) any_often = any_often || Often(work);
  for (const bool spare : {true, false}) {
    if (spare && !any_often) continue;
    spare_often_ = spare;
    by_cost_ = AnyCost();
    std::vector<Victim> victims = cluster_.strategies.empty() ? FindClassical() : FindFair();
    if (!victims.empty()) return victims;
  }
  return {};
}

std::string Oracle::Judge(const std::vector<Victim>& victims) {
  std::string wrong;
  booked_ = !cluster_.strategies.empty();
  Count();
  for (const Victim& victim : victims) {
    const int queue = Work(victim.workload).queue;
    if (queue != Me()) {
      if (!UsesBorrowed(victim.workload)) {
        wrong += fmt::format("{} is within its quota; ", Node(queue).name);
      }
      if (!booked_ && !StillOver(queue)) {
        wrong += fmt::format("a subtree around {} is within its quota; ", Node(queue).name);
      }
    }
    if (victim.reason == Reason::kInCohortFairSharing &&
        !Passes(victim.workload, Strategy::kLessThanInitialShare)) {
      wrong += fmt::format("the share of {} is not larger; ", Node(queue).name);
    }
    Remove(victim.workload);
  }
  if (!victims.empty() && !Fits(true)) wrong += "it does not fit without the victims; ";
  for (size_t i = 0; i < victims.size(); ++i) {
    std::vector<Taken> rest;
    for (size_t j = 0; j < victims.size(); ++j) {
      if (i == j) continue;
      // The strictest reading of its test: a set that passes that passes any.
      std::optional<Strategy> test;
      if (victims[j].reason == Reason::kInCohortFairSharing) {
        test = Strategy::kLessThanOrEqualToFinalShare;
      }
      rest.push_back({victims[j], test});
    }
    PutBack(victims[i].workload);
    careful_ = true;
    const bool needless = Fits(false) || (Fits(true) && booked_);
    if (needless && TestsHold(rest)) {
      wrong += Work(victims[i].workload).name + " is superfluous; ";
    }
    careful_ = false;
    Remove(victims[i].workload);
  }
  for (const Victim& victim : victims) taken_[At(victim.workload)] = false;
  booked_ = false;
  Count();
  return wrong;
}

// ---- classical ----

std::vector<Oracle::Candidate> Oracle::ClassicalCandidates() const {
  std::vector<Candidate> all;
  for (const int workload : CandidatesOf(Me())) all.push_back({workload, 2});
  if (Node(Me()).policies.reclaim_within_cohort == Policy::kNever) return all;
  const auto& request = cluster_.preemptor.amounts;
  bool advantage = true;
  Row rest{};
  for (size_t c = 0; c < cluster_.CellCount(); ++c) {
    if (request[c] == 0) continue;
    advantage = advantage && Usage(Me(), c) + request[c] <= Quota(Me(), c);
    rest[c] = std::max<int64_t>(0, request[c] - LocalAvailable(Me(), c));
  }
  int visited = Me();
  for (int cohort = Node(Me()).parent; cohort >= 0; cohort = Node(cohort).parent) {
    for (size_t n = 0; n < cluster_.nodes.size(); ++n) {
      const int queue = static_cast<int>(n);
      if (Node(queue).is_cohort || !IsAncestor(cohort, queue) || IsAncestor(visited, queue)) {
        continue;
      }
      bool open = true;  // nothing between the ancestor and the queue is within its quota
      for (int node = queue; node != cohort; node = Node(node).parent) {
        open = open && !WithinQuota(node);
      }
      if (!open) continue;
      for (const int workload : CandidatesOf(queue)) all.push_back({workload, advantage ? 0 : 1});
    }
    bool holds = true;
    for (size_t c = 0; c < cluster_.CellCount(); ++c) {
      if (request[c] == 0) continue;
      holds = holds && Usage(cohort, c) + rest[c] <= Quota(cohort, c);
      rest[c] = std::max<int64_t>(0, rest[c] - LocalAvailable(cohort, c));
    }
    advantage = advantage || holds;
    visited = cohort;
  }
  return all;
}

// Those of one queue stay in its own order, which can be by usage of LocalQueues; of several
// queues always the one whose next candidate goes first.
std::vector<Oracle::Candidate> Oracle::Ordered(std::vector<Candidate> all) const {
  std::vector<Candidate> ordered;
  for (const bool evicted : {true, false}) {
    for (const int list : {0, 1, 2}) {
      std::vector<Candidate> part;
      for (const Candidate& one : all) {
        if (one.list == list && Work(one.workload).evicted == evicted) part.push_back(one);
      }
      while (!part.empty()) {
        size_t first = 0;
        for (size_t i = 1; i < part.size(); ++i) {
          const bool same = Work(part[i].workload).queue == Work(part[first].workload).queue;
          if (same) continue;  // `part` has every queue in its own order
          bool head = true;
          for (size_t j = 0; j < i; ++j) {
            head = head && Work(part[j].workload).queue != Work(part[i].workload).queue;
          }
          if (head && Before(part[i].workload, part[first].workload, false)) first = i;
        }
        ordered.push_back(part[first]);
        part.erase(part.begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
  }
  return ordered;
}

bool Oracle::MayTakeWhileBorrowing(int workload) const {
  const Policies& policies = Node(Me()).policies;
  return policies.borrow_within_cohort && Work(workload).priority < cluster_.preemptor.priority &&
         Work(workload).priority <= policies.max_priority_threshold.value_or(1000);
}

// A rule of our own: others lose only what they use of what they borrow.
bool Oracle::UsesBorrowed(int workload) const {
  const int queue = Work(workload).queue;
  return std::any_of(contested_.begin(), contested_.end(), [&](size_t c) {
    return Work(workload).amounts[c] > 0 && Usage(queue, c) > Quota(queue, c);
  });
}

bool Oracle::StillOver(int queue) const {
  for (int node = queue; !IsAncestor(node, Me()); node = Node(node).parent) {
    if (WithinQuota(node)) return false;
  }
  return true;
}

Reason Oracle::ClassicalReason(const Candidate& candidate) const {
  if (candidate.list == 2) return Reason::kInClusterQueue;
  if (candidate.list == 1 && MayTakeWhileBorrowing(candidate.workload)) {
    return Reason::kInCohortReclaimWhileBorrowing;
  }
  return Reason::kInCohortReclamation;
}

std::vector<Victim> Oracle::FindClassical() {
  const std::vector<Candidate> candidates = Ordered(ClassicalCandidates());
  const auto any = [&](int list) {
    return std::any_of(candidates.begin(), candidates.end(),
                       [&](const Candidate& one) { return one.list == list; });
  };
  const bool below = std::all_of(contested_.begin(), contested_.end(),
                                 [&](size_t c) { return Usage(Me(), c) < Quota(Me(), c); });
  std::vector<bool> attempts{true, false};
  if (!any(0) && !any(1)) {
    attempts = {true};
  } else if (!Node(Me()).policies.borrow_within_cohort && !below) {
    attempts = {true};
  } else if (!Node(Me()).policies.borrow_within_cohort && !any(0)) {
    attempts = {false, true};
  }
  for (const bool borrowing : attempts) {
    std::vector<Taken> taken;
    for (const Candidate& candidate : candidates) {
      if (candidate.list != 2 && !StillOver(Work(candidate.workload).queue)) continue;
      if (candidate.list != 2 && !UsesBorrowed(candidate.workload)) continue;
      if (borrowing && candidate.list == 1 && !MayTakeWhileBorrowing(candidate.workload)) continue;
      taken.push_back({{candidate.workload, ClassicalReason(candidate)}, {}});
      Remove(candidate.workload);
      if (!Fits(borrowing)) continue;
      const std::vector<Victim> victims = Victims(Minimal(taken, borrowing));
      taken_.assign(taken_.size(), false);
      Count();
      return victims;
    }
    taken_.assign(taken_.size(), false);
    Count();
  }
  return {};
}

}  // namespace sluice::preemption
