#include "admission/order.h"

#include <absl/container/btree_map.h>

#include <algorithm>
#include <utility>

#include "admission/credits.h"

namespace sluice::admission {
namespace {

using queueing::WorkloadInfo;

// The rest of both orders: priority, then time; the remaining fields make it unique.
bool MoreUrgent(const Snapshot& snapshot, const WorkloadInfo& a, const WorkloadInfo& b) {
  return queueing::OrderedBefore(a, b, snapshot.options.priority_sorting_within_cohort);
}

bool ClassicallyBefore(const Snapshot& snapshot, const Entry& a, const Entry& b) {
  if (a.claims_room != b.claims_room) return a.claims_room;
  if (snapshot.options.prioritize_preemptors && a.is_preemptor != b.is_preemptor) {
    return a.is_preemptor;
  }
  if (a.decision.borrow_level != b.decision.borrow_level) {
    return a.decision.borrow_level < b.decision.borrow_level;
  }
  return MoreUrgent(snapshot, a.info(), b.info());
}

}  // namespace

// The entries of one cohort tree.
class EntryOrder::Tournament {
 public:
  Tournament(const Snapshot& snapshot, const quota::Node& root)
      : snapshot_(&snapshot), root_(&root) {}

  void Add(Entry* entry) { contenders_.emplace(entry->queue, Contender{entry, {}, true}); }
  bool Empty() const { return contenders_.empty(); }

  Entry* Next() {
    for (auto& [queue, contender] : contenders_) {
      if (std::exchange(contender.stale, false)) Measure(contender);
    }
    Contender* winner = Winner(*root_);
    Entry* entry = winner->entry;
    contenders_.erase(entry->queue);
    // What this entry is going to use changes the sides that it shares with others.
    for (auto& [queue, contender] : contenders_) contender.stale = ShareSide(*entry, *queue);
    return entry;
  }

 private:
  // One side of the tournament: a node on the way from the ClusterQueue to below the root.
  struct Side {
    const quota::Node* node = nullptr;
    quota::Share share;
    bool borrows = false;  // in something that the entry asks for
    // The same without credits; only where there are any.
    quota::Share plain_share;
    bool plain_borrows = false;
  };
  struct Contender {
    Entry* entry = nullptr;
    std::vector<Side> sides;
    bool stale = true;
  };

  void Measure(Contender& contender) const {
    const Entry& entry = *contender.entry;
    contender.sides.clear();
    quota::Tree::AddUsage(*entry.queue, entry.usage);
    for (const quota::Node* node = entry.queue; node->parent() != nullptr; node = node->parent()) {
      Side side;
      side.node = node;
      side.share = CreditedShare(*snapshot_, *node);
      side.borrows = BorrowsBeyondCredits(*snapshot_, *node, entry.usage);
      if (snapshot_->credits != nullptr) {
        side.plain_share = snapshot_->tree.ShareOf(*node);
        side.plain_borrows =
            std::any_of(entry.usage.begin(), entry.usage.end(),
                        [&](const auto& one) { return node->Borrowing(one.cell); });
      }
      contender.sides.push_back(std::move(side));
    }
    quota::Tree::RemoveUsage(*entry.queue, entry.usage);
  }

  static bool ShareSide(const Entry& entry, const quota::Node& queue) {
    for (const quota::Node* a = entry.queue->parent(); a->parent() != nullptr; a = a->parent()) {
      for (const quota::Node* b = queue.parent(); b->parent() != nullptr; b = b->parent()) {
        if (a == b) return true;
      }
    }
    return false;
  }

  static const Side& SideBelow(const Contender& contender, const quota::Node& cohort) {
    return *std::find_if(contender.sides.begin(), contender.sides.end(),
                         [&](const Side& side) { return side.node->parent() == &cohort; });
  }

  bool Beats(const Contender& a, const Contender& b, const quota::Node& cohort) const {
    const CycleOptions& options = snapshot_->options;
    if (a.entry->claims_room != b.entry->claims_room) return a.entry->claims_room;
    if (options.prioritize_preemptors && a.entry->is_preemptor != b.entry->is_preemptor) {
      return a.entry->is_preemptor;
    }
    const Side& mine = SideBelow(a, cohort);
    const Side& theirs = SideBelow(b, cohort);
    const auto first = [&](bool i_borrow, bool they_borrow, const quota::Share& my_share,
                           const quota::Share& their_share) {
      if (options.prioritize_non_borrowing && i_borrow != they_borrow) return they_borrow;
      if (my_share != their_share) return my_share < their_share;
      return MoreUrgent(*snapshot_, a.entry->info(), b.entry->info());
    };
    const bool wins = first(mine.borrows, theirs.borrows, mine.share, theirs.share);
    if (snapshot_->credits != nullptr && wins != first(mine.plain_borrows, theirs.plain_borrows,
                                                       mine.plain_share, theirs.plain_share)) {
      NoteBehind(wins ? theirs : mine, wins ? mine : theirs, wins ? *b.entry : *a.entry);
    }
    return wins;
  }

  // Without credits the loser would have come first.
  void NoteBehind(const Side& loser, const Side& winner, Entry& behind) const {
    const auto* terms = snapshot_->credits->Of(*loser.node);
    if (terms == nullptr) terms = snapshot_->credits->Of(*winner.node);
    behind.decision.explanation.problems = {terms->policy->name};
  }

  Contender* Winner(const quota::Node& cohort) {
    Contender* best = nullptr;
    const auto compete = [&](Contender* contender) {
      if (contender != nullptr && (best == nullptr || Beats(*contender, *best, cohort))) {
        best = contender;
      }
    };
    for (const quota::Node* child : cohort.cohorts()) compete(Winner(*child));
    for (quota::Node* child : cohort.queues()) {
      const auto found = contenders_.find(child);
      if (found != contenders_.end()) compete(&found->second);
    }
    return best;
  }

  const Snapshot* snapshot_;
  const quota::Node* root_;
  absl::btree_map<const quota::Node*, Contender> contenders_;
};

EntryOrder::EntryOrder(const Snapshot& snapshot, std::vector<Entry>& entries)
    : snapshot_(snapshot) {
  absl::btree_map<std::string, Tournament> by_root;
  for (Entry& entry : entries) {
    const bool plays = snapshot.options.fair_sharing.has_value() && entry.nominated &&
                       entry.queue->parent() != nullptr;
    if (!plays) {
      sorted_.push_back(&entry);
      continue;
    }
    const quota::Node& root = entry.queue->Root();
    by_root.try_emplace(root.name(), snapshot, root).first->second.Add(&entry);
  }
  std::stable_sort(sorted_.begin(), sorted_.end(), [&](const Entry* a, const Entry* b) {
    return ClassicallyBefore(snapshot_, *a, *b);
  });
  OrderByCredits(snapshot_, sorted_);
  for (auto& [name, tournament] : by_root) tournaments_.push_back(std::move(tournament));
}

EntryOrder::~EntryOrder() = default;

Entry* EntryOrder::Next() {
  if (next_ < sorted_.size()) return sorted_[next_++];
  while (!tournaments_.empty()) {
    if (!tournaments_.back().Empty()) return tournaments_.back().Next();
    tournaments_.pop_back();
  }
  return nullptr;
}

}  // namespace sluice::admission
