// Classical preemption: KEP-83 (within a ClusterQueue and a cohort), KEP-1337 (while borrowing) and
// KEP-79 (hierarchical cohorts).
//
// A workload of another ClusterQueue is taken only for a contested cell of which its ClusterQueue
// borrows. With two resources it could else lose what is its nominal quota because its ClusterQueue
// borrows the other one; it would evict the preemptor by right, and so on without end.
#include <algorithm>
#include <queue>

#include "preemption/search.h"

namespace sluice::preemption {
namespace {

__extension__ typedef __int128 Wide;

// How the preemptor stands to the workloads of a ClusterQueue.
enum class Kind {
  kHierarchical,  // its subtree can hold it within quota that it lent to them
  kPriority,      // another ClusterQueue without that advantage
  kOwn,
};

struct Candidates {
  quota::Node* queue = nullptr;
  Kind kind = Kind::kOwn;
  bool by_priority = true;  // the order is by priority, not by usage of LocalQueues
  // Candidates on their way out are [first, evicted_end), the others [evicted_end, last).
  const ReservedWorkload* const* first = nullptr;
  const ReservedWorkload* const* evicted_end = nullptr;
  const ReservedWorkload* const* last = nullptr;
};

struct Candidate {
  const ReservedWorkload* workload = nullptr;
  const Candidates* run = nullptr;
};

// The candidates of several runs in one order, produced as they are asked for.
class Merge {
 public:
  Merge(const Search& search, const std::vector<Candidates>& runs, Kind kind, bool evicted)
      : search_(search), heap_(Later{&search}) {
    for (const Candidates& run : runs) {
      if (run.kind != kind) continue;
      Cursor cursor{evicted ? run.first : run.evicted_end, evicted ? run.evicted_end : run.last,
                    &run};
      if (Settle(cursor)) Put(cursor);
    }
  }

  bool Empty() const { return heap_.empty() && open_.empty(); }
  Candidate Next() {
    Cursor cursor = TakeFirst();
    const Candidate candidate{*cursor.next, cursor.run};
    ++cursor.next;
    if (Settle(cursor)) Put(cursor);
    return candidate;
  }

 private:
  struct Cursor {
    const ReservedWorkload* const* next;
    const ReservedWorkload* const* end;
    const Candidates* run;
  };
  struct Later {
    const Search* search;
    bool operator()(const Cursor& a, const Cursor& b) const {
      return search->TakenBefore(**b.next, **a.next);
    }
  };

  void Put(const Cursor& cursor) {
    if (search_.context().credits == nullptr) {
      heap_.push(cursor);
    } else {
      open_.push_back(cursor);
    }
  }

  // With credits the ClusterQueue that is furthest above its standing entitlement loses first,
  // which changes with every workload that is taken.
  Cursor TakeFirst() {
    if (!heap_.empty()) {
      const Cursor cursor = heap_.top();
      heap_.pop();
      return cursor;
    }
    const quota::CreditStanding& credits = *search_.context().credits;
    size_t first = 0;
    quota::CreditStanding::Overage most = credits.OverageOf(*open_[0].run->queue);
    for (size_t i = 1; i < open_.size(); ++i) {
      const auto overage = credits.OverageOf(*open_[i].run->queue);
      if (overage < most) continue;
      if (overage == most && !search_.TakenBefore(**open_[i].next, **open_[first].next)) continue;
      first = i;
      most = overage;
    }
    const Cursor cursor = open_[first];
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(first));
    return cursor;
  }

  // Moves to the next candidate; false at the end.
  bool Settle(Cursor& cursor) const {
    const Policy policy = search_.PolicyFor(*cursor.run->queue);
    for (; cursor.next != cursor.end; ++cursor.next) {
      if (search_.IsCandidate(**cursor.next, policy)) return true;
      if (cursor.run->by_priority && search_.EndsRun(**cursor.next, policy)) return false;
    }
    return false;
  }

  const Search& search_;
  std::priority_queue<Cursor, std::vector<Cursor>, Later> heap_;  // without credits
  std::vector<Cursor> open_;                                      // with credits
};

class Classical {
 public:
  Classical(const Context& context, const Preemptor& preemptor, Sparing spare)
      : search_(context, preemptor, spare), preemptor_(preemptor) {}

  std::vector<Target> Run() {
    below_ = std::all_of(preemptor_.contested.begin(), preemptor_.contested.end(), [&](auto cell) {
      return search_.queue().Usage(cell) < search_.queue().Nominal(cell);
    });
    AddRun(search_.queue(), Kind::kOwn);
    if (preemptor_.policies.reclaim_within_cohort != Policy::kNever) AddOthers();
    for (const bool borrowing : Attempts()) {
      if (!Attempt(borrowing)) continue;
      return search_.Minimised(borrowing);
    }
    return {};
  }

 private:
  void AddRun(quota::Node& queue, Kind kind) {
    if (!search_.IsActive(queue)) return;
    const Policy policy = search_.PolicyFor(queue);
    if (policy == Policy::kNever) return;
    const ReservedWorkloads::List& list = search_.InOrder(queue);
    if (list.empty()) return;
    Candidates run;
    run.queue = &queue;
    run.kind = kind;
    run.by_priority = !search_.UsageBased(queue);
    run.first = list.data();
    run.last = list.data() + list.size();
    run.evicted_end = std::partition_point(run.first, run.last,
                                           [](const auto* workload) { return workload->evicted; });
    runs_.push_back(run);
  }

  // From the nearest cohort outwards; the advantage, once there, stays.
  void AddOthers() {
    const quota::CellAmounts& requests = preemptor_.requests;
    bool advantage = std::none_of(requests.begin(), requests.end(), [&](const auto& wanted) {
      return search_.queue().BorrowingWith(wanted.cell, wanted.amount);
    });
    std::vector<Wide> rest;
    for (const auto& [cell, amount] : requests) {
      rest.push_back(
          std::max<Wide>(0, static_cast<Wide>(amount) - search_.queue().LocalAvailable(cell)));
    }
    const quota::Node* inner = &search_.queue();
    for (const quota::Node* cohort = inner->parent(); cohort != nullptr;
         cohort = cohort->parent()) {
      // Without the advantage nothing is taken from others by one that borrows already.
      if (advantage || below_ || preemptor_.policies.borrow_within_cohort) {
        AddSubtree(*cohort, inner, advantage ? Kind::kHierarchical : Kind::kPriority);
      }
      bool holds = true;
      for (size_t i = 0; i < requests.size(); ++i) {
        const quota::CellId cell = requests[i].cell;
        const Wide total = static_cast<Wide>(cohort->Usage(cell)) + rest[i];
        holds = holds && total <= cohort->SubtreeQuota(cell);
        rest[i] = std::max<Wide>(0, rest[i] - cohort->LocalAvailable(cell));
      }
      advantage = advantage || holds;
      inner = cohort;
    }
  }

  // A subtree within its quota is left alone, whatever its members use.
  void AddSubtree(const quota::Node& cohort, const quota::Node* visited, Kind kind) {
    for (const quota::Node* child : cohort.cohorts()) {
      if (child != visited && !search_.WithinQuota(*child)) AddSubtree(*child, visited, kind);
    }
    for (quota::Node* child : cohort.queues()) {
      if (child != visited && !search_.WithinQuota(*child)) AddRun(*child, kind);
    }
  }

  bool Any(Kind kind) const {
    return !Merge(search_, runs_, kind, true).Empty() ||
           !Merge(search_, runs_, kind, false).Empty();
  }

  std::vector<bool> Attempts() const {
    const bool hierarchical = Any(Kind::kHierarchical);
    if (!hierarchical && !Any(Kind::kPriority)) return {true};
    if (!preemptor_.policies.borrow_within_cohort) {
      if (!below_) return {true};
      if (!hierarchical) return {false, true};
    }
    return {true, false};
  }

  // Of a candidate of kind kPriority: it may be taken while the preemptor borrows.
  bool WhileBorrowing(const ReservedWorkload& workload) const {
    const Policies& policies = preemptor_.policies;
    return policies.borrow_within_cohort && workload.priority < preemptor_.priority &&
           (!policies.max_priority_threshold.has_value() ||
            workload.priority <= *policies.max_priority_threshold);
  }

  // It uses some of what its ClusterQueue borrows, and all cohorts below the common one still use
  // more than their quota too.
  bool StillOver(const quota::Node& queue, const ReservedWorkload& workload) const {
    if (!search_.UsesBorrowed(queue, workload)) return false;
    const quota::Node* top = BelowCommonAncestor(search_.queue(), queue).theirs;
    for (const quota::Node* node = &queue;; node = node->parent()) {
      if (search_.WithinQuota(*node)) return false;
      if (node == top) return true;
    }
  }

  Reason ReasonFor(const Candidate& candidate) const {
    switch (candidate.run->kind) {
      case Kind::kOwn:
        return Reason::kInClusterQueue;
      case Kind::kHierarchical:
        return Reason::kInCohortReclamation;
      case Kind::kPriority:
        return WhileBorrowing(*candidate.workload) ? Reason::kInCohortReclaimWhileBorrowing
                                                   : Reason::kInCohortReclamation;
    }
    return Reason::kInClusterQueue;
  }

  bool Attempt(bool borrowing) {
    search_.TakeNone();
    for (const bool evicted : {true, false}) {
      for (const Kind kind : {Kind::kHierarchical, Kind::kPriority, Kind::kOwn}) {
        if (borrowing && kind == Kind::kPriority && !preemptor_.policies.borrow_within_cohort) {
          continue;
        }
        for (Merge merge(search_, runs_, kind, evicted); !merge.Empty();) {
          const Candidate candidate = merge.Next();
          if (kind != Kind::kOwn && search_.Protected(*candidate.run->queue)) continue;
          if (kind != Kind::kOwn && !StillOver(*candidate.run->queue, *candidate.workload)) {
            continue;
          }
          if (borrowing && kind == Kind::kPriority && !WhileBorrowing(*candidate.workload)) {
            continue;
          }
          search_.Take(*candidate.run->queue, {candidate.workload, ReasonFor(candidate)});
          if (search_.Fits(borrowing)) return true;
        }
      }
    }
    return false;
  }

  Search search_;
  const Preemptor& preemptor_;
  bool below_ = false;  // its ClusterQueue uses less than its quota of every contested cell
  std::vector<Candidates> runs_;
};

}  // namespace

std::vector<Target> FindClassicalTargets(const Context& context, const Preemptor& preemptor,
                                         Sparing spare) {
  return Classical(context, preemptor, spare).Run();
}

}  // namespace sluice::preemption
