// Preemption by fair sharing: KEP-1714.
//
// A share test compares the preemptor's side with the side of the workload that would go, at the
// lowest cohort above both. Workloads of the preemptor's own ClusterQueue that go lower its share,
// and what is not needed is given back at the end: giving back an own workload can make a test
// false that was true before. A target set with such a test lets two ClusterQueues evict each
// other for ever (Kueue issue 14543). Here the tests must hold for what is really evicted: an own
// workload is given back only while they do. For the same reason a test wants the other side's
// share to be larger now, also where only the share after the removal is compared.
//
// Two more ways in which workloads would evict each other for ever, with what is done about them.
// First, a workload can be larger than what its ClusterQueue borrows, so that evicting it leaves
// less than the nominal quota in use. When the preemptor borrows that very quota, a small workload
// of the victim's ClusterQueue evicts it by right, and in the room this leaves the victim starts
// again. So a preemptor that borrows must leave every ClusterQueue (and subtree below the common
// cohort) from which a share test let it take the room to use its quota again. Second, of several
// victims of one side those that go later lower its share below what the test of an earlier one
// saw, so that this one has the smaller share when it comes back. So with any one victim back in
// its place the other side's share must not be below the preemptor's. Where the usual search finds
// a set that does not last in this sense, a second one is more careful: every share test is of the
// final share, and leaves the quota in use.
#include <algorithm>

#include "preemption/search.h"

namespace sluice::preemption {
namespace {

class FairSharing {
 public:
  // `careful`: share tests are of the final share and let no ClusterQueue fall below its quota.
  FairSharing(const Context& context, const Preemptor& preemptor, Sparing spare, bool careful)
      : search_(context, preemptor, spare),
        preemptor_(preemptor),
        rules_(*context.fair_sharing),
        careful_(careful) {}

  std::vector<Target> Run() {
    CollectCandidates();
    search_.BookPreemptor();
    within_nominal_ = rules_.preempt_within_nominal && WithinNominal();
    bool fits = First(rules_.strategies.front());
    if (!fits && rules_.strategies.size() > 1) fits = Second(rules_.strategies[1]);
    if (!fits) return {};
    return search_.Minimised(true, [this](size_t index) { return MayReturn(index); });
  }

  // After Run: none of those that share tests allowed to take has a claim to come back at once.
  bool Lasts() {
    for (size_t i = 0; i < tests_.size(); ++i) {
      if (!tests_[i].by_share || search_.Returned(i)) continue;
      quota::Node& queue = search_.QueueOfTaken(i);
      if (!WithinNominal() && !HasRoomForQuota(queue)) return false;
      const CommonAncestor sides = BelowCommonAncestor(search_.queue(), queue);
      const quota::CellAmounts& usage = search_.taken()[i].workload->usage;
      quota::Tree::AddUsage(queue, usage);
      const bool smaller = ShareOf(*sides.theirs) < ShareOf(*sides.mine);
      quota::Tree::RemoveUsage(queue, usage);
      if (smaller) return false;
    }
    return true;
  }

 private:
  // The candidates of one ClusterQueue.
  struct Member {
    quota::Node* queue = nullptr;
    ReservedWorkloads::List candidates;
    size_t next = 0;
    ReservedWorkloads::List failed;  // in the first strategy
    bool dropped = false;

    bool Empty() const { return dropped || next == candidates.size(); }
    const ReservedWorkload& Front() const { return *candidates[next]; }
  };
  // How a target was justified; by position in search_.taken().
  struct Test {
    bool by_share = false;
    Strategy strategy = Strategy::kLessThanOrEqualToFinalShare;
  };

  void Collect(quota::Node& queue) {
    const Policy policy = search_.PolicyFor(queue);
    if (policy == Policy::kNever || !search_.IsActive(queue)) return;
    Member member;
    member.queue = &queue;
    for (const ReservedWorkload* workload : search_.InOrder(queue)) {
      if (search_.IsCandidate(*workload, policy)) member.candidates.push_back(workload);
    }
    if (!member.candidates.empty()) members_.emplace(&queue, std::move(member));
  }

  void CollectSubtree(const quota::Node& cohort) {
    for (const quota::Node* child : cohort.cohorts()) CollectSubtree(*child);
    for (quota::Node* child : cohort.queues()) {
      if (child == &search_.queue()) continue;
      const bool above =
          std::any_of(preemptor_.contested.begin(), preemptor_.contested.end(),
                      [&](auto cell) { return child->Usage(cell) > child->Nominal(cell); });
      if (above) Collect(*child);
    }
  }

  void CollectCandidates() {
    Collect(search_.queue());
    if (preemptor_.policies.reclaim_within_cohort == Policy::kNever) return;
    const quota::Node& root = search_.queue().Root();
    if (root.is_cohort()) CollectSubtree(root);
  }

  Member* FindMember(const quota::Node& queue) {
    const auto found = members_.find(&queue);
    return found == members_.end() ? nullptr : &found->second;
  }

  bool IsOwn(const Member& member) const { return member.queue == &search_.queue(); }

  // Not what others use of their own quota, also where they borrow another resource.
  bool MayLose(const Member& member, const ReservedWorkload& workload) const {
    return IsOwn(member) ||
           (search_.UsesBorrowed(*member.queue, workload) && !search_.Protected(*member.queue));
  }

  bool AboveMe(const quota::Node& cohort) const {
    for (const quota::Node* node = &search_.queue(); node != nullptr; node = node->parent()) {
      if (node == &cohort) return true;
    }
    return false;
  }

  // Ties between ClusterQueues: whose next candidate goes first by the general order.
  bool EarlierCandidate(const Member& a, const Member& b) const {
    const ReservedWorkload& first = a.Front();
    const ReservedWorkload& second = b.Front();
    if (first.evicted == second.evicted && IsOwn(a) != IsOwn(b)) return IsOwn(b);
    return search_.TakenBefore(first, second);
  }

  // The member to take from next within a cohort; nullptr when nothing is left in it.
  Member* Choose(const quota::Node& cohort) {
    while (true) {
      Member* member = nullptr;
      quota::Share share;
      for (const quota::Node* child : cohort.queues()) {
        Member* candidate = FindMember(*child);
        if (candidate == nullptr || candidate->Empty()) continue;
        if (!IsOwn(*candidate) && !child->BorrowingAnything()) continue;
        const quota::Share its = ShareOf(*child);
        if (member == nullptr || its > share ||
            (its == share && EarlierCandidate(*candidate, *member))) {
          member = candidate;
          share = its;
        }
      }
      const quota::Node* subtree = nullptr;
      quota::Share subtree_share;
      for (const quota::Node* child : cohort.cohorts()) {
        if (dropped_.contains(child)) continue;
        if (!child->BorrowingAnything() && !AboveMe(*child)) continue;
        const quota::Share its = ShareOf(*child);
        if (subtree == nullptr || its > subtree_share) {
          subtree = child;
          subtree_share = its;
        }
      }
      if (subtree == nullptr || (member != nullptr && subtree_share < share)) return member;
      Member* inner = Choose(*subtree);
      if (inner != nullptr) return inner;
      dropped_.insert(subtree);
    }
  }

  Member* Choose() {
    const quota::Node& root = search_.queue().Root();
    if (root.is_cohort()) return Choose(root);
    Member* own = FindMember(root);
    return own == nullptr || own->Empty() ? nullptr : own;
  }

  quota::Share ShareOf(const quota::Node& node) const {
    const Context& context = search_.context();
    return context.credits == nullptr ? context.tree->ShareOf(node)
                                      : context.credits->ShareOf(*context.tree, node);
  }

  // The preemptor counted, its ClusterQueue does not borrow what it lacks.
  bool WithinNominal() const {
    return std::none_of(preemptor_.contested.begin(), preemptor_.contested.end(),
                        [&](quota::CellId cell) {
                          return search_.queue().Usage(cell) > search_.queue().Nominal(cell);
                        });
  }

  // Whether `holds` is true in every contested cell of the ClusterQueue and of the cohorts around
  // it, up to the one that the preemptor's ClusterQueue is in too.
  template <typename Holds>
  bool HoldsBelowCommon(const quota::Node& queue, const Holds& holds) const {
    const quota::Node* top = BelowCommonAncestor(search_.queue(), queue).theirs;
    for (const quota::Node* node = &queue;; node = node->parent()) {
      for (const quota::CellId cell : preemptor_.contested) {
        if (!holds(*node, cell)) return false;
      }
      if (node == top) return true;
    }
  }

  bool HasRoomForQuota(const quota::Node& queue) const {
    return HoldsBelowCommon(queue, [](const quota::Node& node, quota::CellId cell) {
      const int64_t unused = quota::SubtractAmounts(node.SubtreeQuota(cell), node.Usage(cell));
      return unused <= 0 || unused <= quota::Tree::Room(node, cell);
    });
  }

  // Whether the share test allows to take the workload, as the tree is now.
  bool Passes(quota::Node& queue, const ReservedWorkload& workload, Strategy strategy) const {
    const CommonAncestor sides = BelowCommonAncestor(search_.queue(), queue);
    const quota::Share mine = ShareOf(*sides.mine);
    if (mine >= ShareOf(*sides.theirs)) return false;
    if (strategy == Strategy::kLessThanInitialShare && !careful_) return true;
    const bool leave_quota = careful_ && !WithinNominal();
    quota::Tree::RemoveUsage(queue, workload.usage);
    bool passes = mine <= ShareOf(*sides.theirs);
    if (leave_quota) {
      passes = passes && HoldsBelowCommon(queue, [](const quota::Node& node, quota::CellId cell) {
                 return node.Usage(cell) >= node.SubtreeQuota(cell);
               });
    }
    quota::Tree::AddUsage(queue, workload.usage);
    return passes;
  }

  bool Take(Member& member, const ReservedWorkload& workload, Reason reason, Test test) {
    search_.Take(*member.queue, {&workload, reason});
    tests_.push_back(test);
    return search_.Fits(true);
  }

  bool First(Strategy strategy) {
    while (Member* member = Choose()) {
      if (IsOwn(*member) || within_nominal_) {
        const ReservedWorkload& workload = member->Front();
        ++member->next;
        if (!MayLose(*member, workload)) continue;
        const Reason reason =
            IsOwn(*member) ? Reason::kInClusterQueue : Reason::kInCohortReclamation;
        if (Take(*member, workload, reason, {})) return true;
        continue;
      }
      while (!member->Empty()) {
        const ReservedWorkload& workload = member->Front();
        ++member->next;
        if (!MayLose(*member, workload)) continue;
        if (!Passes(*member->queue, workload, strategy)) {
          member->failed.push_back(&workload);
          continue;
        }
        if (Take(*member, workload, Reason::kInCohortFairSharing, {true, strategy})) return true;
        break;
      }
    }
    return false;
  }

  // At most one workload of every ClusterQueue, of those that failed before.
  bool Second(Strategy strategy) {
    for (auto& [queue, member] : members_) {
      member.candidates = std::move(member.failed);
      member.next = 0;
    }
    dropped_.clear();
    while (Member* member = Choose()) {
      const ReservedWorkload& workload = member->Front();
      member->dropped = true;
      if (!MayLose(*member, workload)) continue;
      if (!Passes(*member->queue, workload, strategy)) continue;
      if (Take(*member, workload, Reason::kInCohortFairSharing, {true, strategy})) return true;
    }
    return false;
  }

  // Whether every share test still holds for the targets that are left, with the given-back ones
  // in place from the start. Only giving back on the preemptor's side can break one.
  bool MayReturn(size_t index) {
    const quota::Node& returned = search_.QueueOfTaken(index);
    bool on_my_side = false;
    for (size_t i = 0; i < tests_.size(); ++i) {
      if (!tests_[i].by_share || search_.Returned(i)) continue;
      const quota::Node* mine = BelowCommonAncestor(search_.queue(), search_.QueueOfTaken(i)).mine;
      for (const quota::Node* node = &returned; node != nullptr; node = node->parent()) {
        on_my_side = on_my_side || node == mine;
      }
    }
    return !on_my_side || Replay();
  }

  bool Replay() {
    const std::vector<Target>& taken = search_.taken();
    for (size_t i = 0; i < taken.size(); ++i) {
      if (search_.Returned(i)) continue;
      quota::Tree::AddUsage(search_.QueueOfTaken(i), taken[i].workload->usage);
    }
    bool holds = true;
    for (size_t i = 0; i < taken.size(); ++i) {
      if (search_.Returned(i)) continue;
      quota::Node& queue = search_.QueueOfTaken(i);
      if (tests_[i].by_share) {
        holds = holds && Passes(queue, *taken[i].workload, tests_[i].strategy);
      }
      quota::Tree::RemoveUsage(queue, taken[i].workload->usage);
    }
    return holds;
  }

  Search search_;
  const Preemptor& preemptor_;
  const FairSharingRules& rules_;
  const bool careful_;
  bool within_nominal_ = false;
  absl::btree_map<const quota::Node*, Member> members_;
  absl::btree_set<const quota::Node*> dropped_;
  std::vector<Test> tests_;
};

}  // namespace

std::vector<Target> FindFairTargets(const Context& context, const Preemptor& preemptor,
                                    Sparing spare) {
  for (const bool careful : {false, true}) {
    FairSharing search(context, preemptor, spare, careful);
    std::vector<Target> targets = search.Run();
    if (targets.empty() || search.Lasts()) return targets;
  }
  return {};
}

}  // namespace sluice::preemption
