// Balanced placement: every domain that is used gets about the same number of slices.
//
// Looks for the set of domains with the largest threshold T such that the request still fits when
// domains that could take less than T slices are left out; then every domain gets T and the rest is
// handed out in order. Source: KEP-2724, "Balanced placement".
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "topology/search.h"

namespace sluice::topology {
namespace {

// A search through more partial choices than this costs more than a balanced result is worth.
constexpr size_t kMostPartials = 500000;

size_t Index(int32_t value) { return static_cast<size_t>(value); }

}  // namespace

// The level whose domains are counted: one below the requested one, unless slices end there.
size_t Searcher::LowLevel() const {
  return request_->level < request_->slice_level ? request_->level + 1 : request_->level;
}

Searcher::List Searcher::LowList(const List& set) const {
  if (LowLevel() == request_->level) return set;
  List low;
  for (const int32_t domain : set) AddChildren(request_->level, domain, low);
  return low;
}

// Whole domains in best-fit orders until everything is placed.
Searcher::Greedy Searcher::TestGreedily(size_t level, List list) const {
  Greedy result;
  int64_t remaining = needed();
  int waiting = leaders();
  if (waiting > 0) SortLeader(level, list);
  size_t next = 0;
  for (; waiting > 0 && next < list.size() && At(level, list[next]).leader > 0; ++next) {
    ++result.domains;
    result.last_leader = list[next];
    remaining -= At(level, list[next]).slices_l;
    waiting -= At(level, list[next]).leader;
  }
  if (waiting > 0) return result;
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(next));
  // Few of many are taken as a rule: a heap gives them in order without sorting the others.
  const auto later = [&](int32_t a, int32_t b) { return PlainLess(level, b, a); };
  std::make_heap(list.begin(), list.end(), later);
  for (auto end = list.end(); remaining > 0 && end != list.begin(); --end) {
    const int32_t domain = list.front();
    if (At(level, domain).slices <= 0) break;
    ++result.domains;
    result.last_worker = domain;
    remaining -= At(level, domain).slices;
    std::pop_heap(list.begin(), end, later);
  }
  result.fits = remaining <= 0;
  return result;
}

// Changes a domain's numbers so that Unprune can put them back.
Searcher::State& Searcher::Touch(size_t level, int32_t domain) {
  State& state = StateOf(level, domain);
  undo_.push_back({level, domain, state});
  return state;
}

void Searcher::Unprune() {
  for (; !undo_.empty(); undo_.pop_back()) {
    StateOf(undo_.back().level, undo_.back().domain) = undo_.back().state;
  }
}

void Searcher::ClearBelow(size_t level, int32_t domain) {
  State& state = Touch(level, domain);
  const int64_t affinity = state.affinity;
  state = State();
  state.affinity = affinity;
  if (level == bottom()) return;
  const Range children = ChildrenOf(level, domain);
  for (int32_t child = children.first; child < children.last; ++child) {
    ClearBelow(level + 1, child);
  }
}

// Leaves out what could not take `threshold` slices: first the children of the set's domains, then
// these themselves.
Searcher::Greedy Searcher::Prune(const List& set, int64_t threshold) {
  const size_t level = request_->level;
  const auto prune = [&](size_t at_level, int32_t domain) {
    if (At(at_level, domain).slices < threshold) {
      ClearBelow(at_level, domain);
      return true;
    }
    if (At(at_level, domain).leader > 0 && At(at_level, domain).slices_l < threshold) {
      State& state = Touch(at_level, domain);
      state.leader = 0;
      state.slices_l = 0;
      state.pods_l = 0;
      return true;
    }
    return false;
  };
  for (const int32_t domain : set) {
    if (level == bottom()) break;
    bool pruned = false;
    const Range children = ChildrenOf(level, domain);
    for (int32_t child = children.first; child < children.last; ++child) {
      pruned = prune(level + 1, child) || pruned;
    }
    if (!pruned) continue;
    Touch(level, domain);
    CountParent(level, domain);
  }
  for (const int32_t domain : set) prune(level, domain);
  return TestGreedily(level, set);
}

// The threshold that the set allows; nothing when it is below `best` or the request does not fit.
std::optional<Searcher::Pruned> Searcher::TryThreshold(const List& set, int64_t best) {
  const size_t low = LowLevel();
  const Greedy greedy = TestGreedily(low, LowList(set));
  if (!greedy.fits || greedy.domains == 0) return std::nullopt;
  int64_t threshold = needed() / static_cast<int64_t>(greedy.domains);
  if (greedy.last_leader >= 0) {
    threshold = std::min(threshold, At(low, greedy.last_leader).slices_l);
  }
  if (greedy.last_worker >= 0) {
    threshold = std::min(threshold, At(low, greedy.last_worker).slices);
  }
  if (threshold < best || threshold <= 0) return std::nullopt;
  const int64_t second = greedy.last_worker >= 0 ? At(low, greedy.last_worker).slices_l : 0;
  Greedy pruned = Prune(set, threshold);
  Unprune();
  if (!pruned.fits && leaders() > 0 && second < threshold && second > 0 && second >= best) {
    threshold = second;
    pruned = Prune(set, threshold);
    Unprune();
  }
  if (!pruned.fits) return std::nullopt;
  return Pruned{threshold, pruned.domains};
}

double Searcher::EntropyOf(size_t level, int32_t domain) const {
  if (level == bottom()) return 0;
  std::vector<int64_t> shares;
  int64_t total = 0;
  const Range children = ChildrenOf(level, domain);
  for (int32_t child = children.first; child < children.last; ++child) {
    const int64_t pods = At(level + 1, child).pods;
    if (pods <= 0) continue;
    shares.push_back(pods);
    total += pods;
  }
  // A fixed order of adding, so that equal sets of shares have equal entropy to the last bit.
  std::sort(shares.begin(), shares.end());
  double entropy = 0;
  int64_t before = 0;
  double term = 0;
  for (const int64_t pods : shares) {
    if (pods != before) {
      const double share = static_cast<double>(pods) / static_cast<double>(total);
      term = share * std::log2(share);
      before = pods;
    }
    entropy -= term;
  }
  return entropy;
}

// Roomiest first, and of those the most even ones.
void Searcher::SortByEntropy(size_t level, List& list) const {
  std::vector<std::pair<double, int32_t>> keyed;
  for (const int32_t domain : list) keyed.emplace_back(EntropyOf(level, domain), domain);
  std::sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const State& left = At(level, a.second);
    const State& right = At(level, b.second);
    return std::tie(right.leader, right.slices_l, b.first, a.second) <
           std::tie(left.leader, left.slices_l, a.first, b.second);
  });
  for (size_t i = 0; i < keyed.size(); ++i) list[i] = keyed[i].second;
}

// Exactly `size` domains that take the leader and leave no pod over, with the least surplus. Among
// equals the first that a walk over the list finds, each partial choice being kept once.
std::optional<Searcher::List> Searcher::OptimalSubset(size_t level, const List& list,
                                                      size_t size) const {
  using Key = std::pair<int, int64_t>;  // leaders left, pods left (may be below 0)
  struct Link {
    int32_t domain;
    int32_t previous;
  };
  std::vector<Link> chain;
  // Partial choices by number of domains; the value is the end of its chain.
  std::vector<std::map<Key, int32_t>> partial(size + 1);
  partial[0][{leaders(), needed() * request_->slice_size}] = -1;
  for (const int32_t domain : list) {
    if (chain.size() > kMostPartials) return std::nullopt;
    const State& state = At(level, domain);
    for (size_t used = std::min(size, list.size()); used-- > 0;) {
      for (const auto& [key, end] : partial[used]) {
        const auto& [waiting, left] = key;
        if (waiting <= 0 && left <= 0) continue;
        const auto extend = [&, at = end](int leaders_left, int64_t pods_left) {
          auto [place, is_new] = partial[used + 1].try_emplace({leaders_left, pods_left}, 0);
          if (!is_new) return;
          place->second = static_cast<int32_t>(chain.size());
          chain.push_back({domain, at});
        };
        if (waiting > 0 && state.leader > 0) extend(waiting - 1, left - state.pods_l);
        if (state.slices > 0) extend(waiting, left - state.pods);
      }
    }
  }
  // The least surplus is the largest value that is not above 0.
  std::optional<int32_t> best;
  int64_t closest = 0;
  for (const auto& [key, end] : partial[size]) {
    if (key.first > 0 || key.second > 0) continue;
    if (best.has_value() && key.second <= closest) continue;
    best = end;
    closest = key.second;
  }
  if (!best.has_value()) return std::nullopt;
  List chosen;
  for (int32_t at = *best; at >= 0; at = chain[Index(at)].previous) {
    chosen.push_back(chain[Index(at)].domain);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

std::optional<Searcher::Balanced> Searcher::Balance() {
  if (needed() <= 0) return std::nullopt;
  const size_t level = request_->level;
  std::vector<List> sets;
  if (level == 0) {
    sets.emplace_back((*states_)[0].size());
    std::iota(sets[0].begin(), sets[0].end(), 0);
  } else {
    for (int32_t at = 0; at < Domains(level - 1); ++at) {
      AddChildren(level - 1, at, sets.emplace_back());
    }
  }
  std::optional<Pruned> best;
  const List* best_set = nullptr;
  for (const List& set : sets) {
    std::optional<Pruned> tried = TryThreshold(set, best.has_value() ? best->threshold : 0);
    if (!tried.has_value()) continue;
    if (best.has_value() &&
        (tried->threshold < best->threshold ||
         (tried->threshold == best->threshold && tried->domains >= best->domains))) {
      continue;
    }
    best = tried;
    best_set = &set;
  }
  if (!best.has_value()) return std::nullopt;
  Prune(*best_set, best->threshold);
  return BalanceIn(*best_set, best->threshold);
}

// Hands out inside the chosen set.
std::optional<Searcher::Balanced> Searcher::BalanceIn(const List& set, int64_t threshold) {
  size_t level = request_->level;
  List list = set;
  if (level < request_->slice_level) {
    const Greedy greedy = TestGreedily(level, list);
    SortByEntropy(level, list);
    const auto subset = OptimalSubset(level, list, greedy.domains);
    if (!greedy.fits || !subset.has_value()) return std::nullopt;
    list.clear();
    for (const int32_t domain : *subset) AddChildren(level, domain, list);
    ++level;
  }
  std::sort(list.begin(), list.end());
  const Greedy greedy = TestGreedily(level, list);
  if (!greedy.fits) return std::nullopt;
  std::optional<List> subset = OptimalSubset(level, list, greedy.domains);
  if (!subset.has_value()) return std::nullopt;
  int64_t extra = needed() - static_cast<int64_t>(subset->size()) * threshold;
  if (extra < 0) return std::nullopt;
  SortLeader(level, *subset);
  Balanced balanced{level, {}};
  for (size_t i = 0; i < subset->size(); ++i) {
    const bool leads = i == 0 && leaders() > 0;
    const State& state = At(level, (*subset)[i]);
    const int64_t capacity = leads ? state.slices_l : state.slices;
    const int64_t more = std::clamp<int64_t>(capacity - threshold, 0, extra);
    extra -= more;
    balanced.given.push_back({(*subset)[i], (threshold + more) * request_->slice_size, leads});
  }
  if (extra > 0) return std::nullopt;
  return balanced;
}

}  // namespace sluice::topology
