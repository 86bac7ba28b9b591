#include "quota/refusal.h"

#include <algorithm>

namespace sluice::quota {

int64_t RefusalFinder::Guaranteed(const Node& node) const {
  const std::optional<int64_t> limit = lending_limit_(node);
  if (!limit.has_value()) return 0;
  return std::max<int64_t>(0, SubtractAmounts(node.SubtreeQuota(cell_), *limit));
}

// What the node keeps for itself of what its subtree has.
int64_t RefusalFinder::Kept(const Node& node, Horizon horizon) const {
  return horizon == Horizon::kNow ? node.LocalAvailable(cell_) : Guaranteed(node);
}

// What passes at the node itself: at a root all that its tree has, elsewhere what the borrowing
// limit allows, with what is left of the node's own.
int64_t RefusalFinder::RoomAt(const Node& node, Horizon horizon) const {
  const int64_t quota = node.SubtreeQuota(cell_);
  const int64_t room = horizon == Horizon::kNow ? SubtractAmounts(quota, node.Usage(cell_)) : quota;
  return node.parent() == nullptr ? room : AddAmounts(room, *node.BorrowingLimit(cell_));
}

// `most`: what the nodes above would let through of what lenders below them gave.
void RefusalFinder::VisitLender(const Node& node, Horizon horizon, int64_t most,
                                Lender& best) const {
  if (const std::optional<int64_t> limit = lending_limit_(node)) {
    const int64_t kept = std::min(most, Kept(node, horizon));
    if (kept > best.kept) best = {&node, kept};
    most = std::min(most, SubtractAmounts(*limit, node.SubtreeQuota(cell_)));
  }
  if (most > 0 && node.is_cohort()) FindLender(node, nullptr, horizon, most, best);
}

void RefusalFinder::FindLender(const Node& cohort, const Node* skipped, Horizon horizon,
                               int64_t most, Lender& best) const {
  for (const Node* child : cohort.cohorts()) {
    if (child != skipped) VisitLender(*child, horizon, most, best);
  }
  for (const Node* child : cohort.queues()) {
    if (child != skipped) VisitLender(*child, horizon, most, best);
  }
}

std::vector<Refusal> RefusalFinder::Refusals(const Node& queue, int64_t request,
                                             Horizon horizon) const {
  using Limit = Refusal::Limit;
  std::vector<Refusal> refusals;
  if (request <= 0) return refusals;
  if (!queue.Lists(cell_)) return {{&queue, Limit::kNominalQuota, nullptr, 0, request}};
  Lender lender;
  int64_t below = 0;  // kept by the nodes below
  for (const Node* node = &queue; node != nullptr; node = node->parent()) {
    const bool root = node->parent() == nullptr;
    if (root || node->BorrowingLimit(cell_).has_value()) {
      const int64_t room = AddAmounts(below, RoomAt(*node, horizon));
      if (room < request) {
        refusals.push_back({node, root ? Limit::kCapacity : Limit::kBorrowingLimit, nullptr, room,
                            SaturatingSub(request, room)});
      }
    }
    below = AddAmounts(below, Kept(*node, horizon));
    if (!root) FindLender(*node->parent(), node, horizon, kUnlimited, lender);
  }
  if (!refusals.empty() && refusals.back().limit == Limit::kCapacity) {
    Refusal& last = refusals.back();
    if (last.node == &queue) {
      last.limit = Limit::kNominalQuota;
    } else if (lender.kept >= last.missing) {
      last.limit = Limit::kLendingLimit;
      last.lender = lender.node;
    }
  }
  std::stable_sort(refusals.begin(), refusals.end(),
                   [](const Refusal& a, const Refusal& b) { return a.missing > b.missing; });
  return refusals;
}

std::vector<Holder> RefusalFinder::Holders(const Node& cohort, size_t most) const {
  std::vector<Holder> holders;
  const auto add = [&](const std::vector<Node*>& children) {
    for (const Node* child : children) {
      const int64_t usage = child->Usage(cell_);
      const int64_t counted = SubtractAmounts(usage, Guaranteed(*child));
      if (counted > 0) holders.push_back({child, usage, counted});
    }
  };
  add(cohort.cohorts());
  add(cohort.queues());
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    if (a.counted != b.counted) return a.counted > b.counted;
    return a.node->name() < b.node->name();
  });
  if (holders.size() > most) holders.resize(most);
  return holders;
}

}  // namespace sluice::quota
