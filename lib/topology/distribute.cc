// Distributing: from the chosen domains down to the leaves.
#include <algorithm>
#include <numeric>
#include <utility>

#include "topology/search.h"

namespace sluice::topology {
namespace {

size_t Index(int32_t value) { return static_cast<size_t>(value); }

}  // namespace

// Hands `amount` pods out over the list, in its order: whole capacities first, and what is left to
// the tightest domain that holds it.
void Searcher::Distribute(size_t level, List& list, int64_t amount, int leaders, const Hand& hand,
                          std::vector<Given>& out) const {
  if (request_->even) {
    DistributeEvenly(level, list, amount, leaders, hand, out);
    return;
  }
  int64_t remaining = hand.by_slices ? amount / hand.unit : amount;
  const int64_t pods_each = hand.by_slices ? hand.unit : 1;
  LeaderFirst(level, list, remaining, leaders, hand);
  for (size_t next = 0; next < list.size() && (remaining > 0 || leaders > 0); ++next) {
    const bool with_leader = leaders > 0;
    int32_t domain = list[next];
    int64_t capacity = Capacity(level, domain, with_leader, hand);
    if (best_fit() && capacity >= remaining && At(level, domain).leader >= leaders) {
      domain = list[next +
                    TightestInRest(level, std::span(list).subspan(next), remaining, leaders, hand)];
      capacity = Capacity(level, domain, with_leader, hand);
    }
    const bool leads = with_leader && At(level, domain).leader > 0;
    const int64_t given = std::min(capacity, remaining);
    if (given > 0 || leads) out.push_back({domain, given * pods_each, leads});
    remaining -= given;
    if (leads) --leaders;
  }
}

// What SortPlain and Distribute without a leader do, for a list of which little is looked at: a
// heap gives the next domain without putting the others in order.
void Searcher::DistributePlain(size_t level, List& list, int64_t amount, const Hand& hand,
                               std::vector<Given>& out) const {
  const auto later = [&](int32_t a, int32_t b) { return PlainLess(level, b, a); };
  std::make_heap(list.begin(), list.end(), later);
  int64_t remaining = hand.by_slices ? amount / hand.unit : amount;
  const int64_t pods_each = hand.by_slices ? hand.unit : 1;
  for (auto end = list.end(); end != list.begin() && remaining > 0; --end) {
    int32_t domain = list.front();
    int64_t capacity = Capacity(level, domain, false, hand);
    if (best_fit() && capacity >= remaining) {
      // The tightest of those that score as well; of equally tight ones the first in order.
      const int64_t affinity = At(level, domain).affinity;
      for (auto other = list.begin(); other != end; ++other) {
        if (At(level, *other).affinity != affinity) continue;
        const int64_t room = Capacity(level, *other, false, hand);
        if (room < remaining || room > capacity) continue;
        if (room == capacity && !PlainLess(level, *other, domain)) continue;
        domain = *other;
        capacity = room;
      }
    }
    const int64_t given = std::min(capacity, remaining);
    if (given > 0) out.push_back({domain, given * pods_each, false});
    remaining -= given;
    std::pop_heap(list.begin(), end, later);
  }
}

Searcher::Range Searcher::ChildrenOf(size_t level, int32_t domain) const {
  const Tree::Level& layout = request_->tree->level(level);
  return {layout.begin[Index(domain)], layout.begin[Index(domain) + 1]};
}

void Searcher::AddChildren(size_t level, int32_t domain, List& list) const {
  const Range children = ChildrenOf(level, domain);
  const size_t before = list.size();
  list.resize(before + Index(children.last - children.first));
  std::iota(list.begin() + static_cast<std::ptrdiff_t>(before), list.end(), children.first);
}

std::vector<Searcher::Given> Searcher::StepDown(size_t level, const std::vector<Given>& current,
                                                bool parents_bind) const {
  const int64_t size = request_->slice_size;
  std::vector<Given> next;
  List children;
  if (level < request_->slice_level && !parents_bind && !request_->even) {
    for (const Given& parent : current) AddChildren(level, parent.domain, children);
    const Hand slices{.unit = size, .by_slices = true, .recount = false};
    if (leaders() == 0) {
      DistributePlain(level + 1, children, request_->count, slices, next);
      return next;
    }
    SortPlain(level + 1, children);
    Distribute(level + 1, children, request_->count, leaders(), slices, next);
    return next;
  }
  if (level < request_->slice_level && request_->even) {
    const Hand slices{.unit = size, .by_slices = true, .recount = false};
    for (const Given& parent : current) {
      children.clear();
      AddChildren(level, parent.domain, children);
      DistributeEvenly(level + 1, children, parent.pods, parent.leader ? 1 : 0, slices, next);
    }
    return next;
  }
  int64_t unit = request_->inner.empty() ? 1 : std::max<int64_t>(1, request_->inner[level + 1]);
  if (level < request_->slice_level) unit = size;
  const Hand hand{.unit = unit, .by_slices = unit > 1, .recount = true};
  for (const Given& parent : current) {
    children.clear();
    AddChildren(level, parent.domain, children);
    if (!parent.leader && !request_->even) {
      DistributePlain(level + 1, children, parent.pods, hand, next);
      continue;
    }
    SortPlain(level + 1, children);
    Distribute(level + 1, children, parent.pods, parent.leader ? 1 : 0, hand, next);
  }
  return next;
}

std::variant<Found, Failure> Searcher::Descend(size_t level, std::vector<Given> current,
                                               bool parents_bind) const {
  for (; level < bottom(); ++level) current = StepDown(level, current, parents_bind);
  Found found;
  int64_t placed = 0;
  for (const Given& leaf : current) {
    if (leaf.pods > 0) found.workers.emplace_back(leaf.domain, leaf.pods);
    if (leaf.leader) found.leader = leaf.domain;
    placed += leaf.pods;
  }
  // Mostly they are.
  if (!std::is_sorted(found.workers.begin(), found.workers.end())) {
    std::sort(found.workers.begin(), found.workers.end());
  }
  const bool complete = placed == needed() * request_->slice_size;
  if (!complete || (leaders() > 0) != (found.leader >= 0)) return Incomplete(placed);
  return found;
}

// ---- even ----

// As many to each as it can take, level by level of water: nobody gets one more while another could
// have one less. The leader goes where it costs least.
void Searcher::DistributeEvenly(size_t level, List& list, int64_t amount, int leaders,
                                const Hand& hand, std::vector<Given>& out) const {
  std::sort(list.begin(), list.end());
  const int64_t total = hand.by_slices ? amount / hand.unit : amount;
  const int64_t pods_each = hand.by_slices ? hand.unit : 1;
  int32_t leading = -1;
  const auto loss = [&](int32_t domain) {
    return Capacity(level, domain, false, hand) - Capacity(level, domain, true, hand);
  };
  for (const int32_t domain : list) {
    if (leaders == 0 || At(level, domain).leader == 0) continue;
    if (leading < 0 || loss(domain) < loss(leading)) leading = domain;
  }
  std::vector<std::pair<int64_t, int32_t>> room;  // capacity, domain
  for (const int32_t domain : list) {
    room.emplace_back(Capacity(level, domain, domain == leading, hand), domain);
  }
  // What does not divide evenly falls to the roomiest, and among equals to the first in tree order.
  std::sort(room.begin(), room.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  int64_t remaining = total;
  std::vector<Given> given;
  for (size_t i = 0; i < room.size(); ++i) {
    const int64_t share = remaining / static_cast<int64_t>(room.size() - i);
    const int64_t taken = std::min(room[i].first, share);
    remaining -= taken;
    given.push_back({room[i].second, taken, room[i].second == leading});
  }
  std::sort(given.begin(), given.end(),
            [](const Given& a, const Given& b) { return a.domain < b.domain; });
  for (Given& one : given) {
    one.pods *= pods_each;
    if (one.pods > 0 || one.leader) out.push_back(one);
  }
}

}  // namespace sluice::topology
