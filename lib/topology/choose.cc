// Choosing: the level at which the pods are kept together, and the domains of it.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "topology/search.h"

namespace sluice::topology {
namespace {

// Calls visit(domain) for all that fit, in order, until it says that it has seen enough. A domain
// takes no more slices than the one above it, and no leader that does not fit there, so most are
// passed over without a look at them.
template <typename Fits, typename Visit>
void ForFitting(const Tree& tree, const DomainStates& states, size_t level, Fits fits,
                Visit visit) {
  const auto look = [&](int32_t first, int32_t last) {
    for (int32_t at = first; at < last; ++at) {
      if (fits(states[level][static_cast<size_t>(at)]) && visit(at)) return true;
    }
    return false;
  };
  if (level == 0) {
    look(0, static_cast<int32_t>(states[0].size()));
    return;
  }
  const std::vector<int32_t>& begin = tree.level(level - 1).begin;
  for (size_t above = 0; above < states[level - 1].size(); ++above) {
    if (fits(states[level - 1][above]) && look(begin[above], begin[above + 1])) return;
  }
}

}  // namespace

// ---- orders ----

bool Searcher::PlainLess(size_t level, int32_t a, int32_t b) const {
  const State& left = At(level, a);
  const State& right = At(level, b);
  if (left.affinity != right.affinity) return left.affinity > right.affinity;
  if (left.slices != right.slices) return (left.slices > right.slices) == best_fit();
  if (left.pods != right.pods) return left.pods < right.pods;
  return a < b;
}

bool Searcher::LeaderLess(size_t level, int32_t a, int32_t b) const {
  const State& left = At(level, a);
  const State& right = At(level, b);
  if (left.leader != right.leader) return left.leader > right.leader;
  if (left.affinity != right.affinity) return left.affinity > right.affinity;
  if (left.slices_l != right.slices_l) return (left.slices_l > right.slices_l) == best_fit();
  if (left.pods_l != right.pods_l) return left.pods_l < right.pods_l;
  return a < b;
}

void Searcher::SortPlain(size_t level, List& list) const {
  std::sort(list.begin(), list.end(), [&](int32_t a, int32_t b) { return PlainLess(level, a, b); });
}

void Searcher::SortLeader(size_t level, List& list) const {
  std::sort(list.begin(), list.end(),
            [&](int32_t a, int32_t b) { return LeaderLess(level, a, b); });
}

int64_t Searcher::Capacity(size_t level, int32_t domain, bool with_leader, const Hand& hand) const {
  const State& state = At(level, domain);
  if (!hand.by_slices) return with_leader ? state.pods_l : state.pods;
  if (hand.recount) return (with_leader ? state.pods_l : state.pods) / hand.unit;
  return with_leader ? state.slices_l : state.slices;
}

// The index in `rest` of the domain that holds `amount` with the least left over; 0 without one.
size_t Searcher::TightestInRest(size_t level, std::span<const int32_t> rest, int64_t amount,
                                int leaders, const Hand& hand) const {
  std::optional<size_t> best;
  int64_t smallest = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    const State& state = At(level, rest[i]);
    // Preferred affinity comes before a tight fit: only domains of the first one's score compete.
    if (state.affinity != At(level, rest[0]).affinity) break;
    if (state.leader < leaders) continue;
    const int64_t capacity = Capacity(level, rest[i], leaders > 0, hand);
    if (capacity < amount || (best.has_value() && capacity >= smallest)) continue;
    best = i;
    smallest = capacity;
  }
  return best.value_or(0);
}

// Puts a domain first in which the leader costs so little that everything still fits.
void Searcher::LeaderFirst(size_t level, List& list, int64_t amount, int leaders,
                           const Hand& hand) const {
  if (leaders == 0 || list.size() < 2) return;
  int64_t available = 0;
  for (const int32_t domain : list) available += Capacity(level, domain, false, hand);
  for (size_t i = 0; i < list.size(); ++i) {
    if (At(level, list[i]).leader < leaders) continue;
    const int64_t loss =
        Capacity(level, list[i], false, hand) - Capacity(level, list[i], true, hand);
    if (available - loss < amount) continue;
    std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(i),
                list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

// ---- one level ----

// The first domain in leader order; with `fitting`, the first that takes everything. -1: none.
int32_t Searcher::FirstByLeader(size_t level, bool fitting) const {
  int32_t first = -1;
  const auto consider = [&](int32_t at) {
    if (first < 0 || LeaderLess(level, at, first)) first = at;
    return false;
  };
  const auto fits = [this](const State& state) {
    return state.slices_l >= needed() && state.leader >= leaders();
  };
  if (fitting) {
    ForFitting(*request_->tree, *states_, level, fits, consider);
  } else {
    for (int32_t at = 0; at < Domains(level); ++at) consider(at);
  }
  return first;
}

// Of the domains that take everything and score as well as `top`, the one with the least capacity.
int32_t Searcher::Tightest(size_t level, int32_t top) const {
  int32_t best = top;
  const auto fits = [this](const State& state) {
    return state.slices_l >= needed() && state.leader >= leaders();
  };
  ForFitting(*request_->tree, *states_, level, fits, [&](int32_t at) {
    const State& state = At(level, at);
    if (state.affinity != At(level, top).affinity) return false;
    const int64_t smallest = At(level, best).slices_l;
    if (state.slices_l < smallest || (state.slices_l == smallest && LeaderLess(level, at, best))) {
      best = at;
    }
    return false;
  });
  return best;
}

std::variant<Searcher::Choice, Failure> Searcher::Choose() const {
  for (size_t level = request_->level;; --level) {
    if (Domains(level) == 0) {
      Failure failure;
      failure.kind = Failure::Kind::kNoDomains;
      failure.topology = request_->tree->flavor().topology;
      failure.text = request_->tree->flavor().levels[level];
      return failure;
    }
    if (request_->even && request_->unconstrained) return ChooseAll();
    int32_t top = -1;
    int32_t chosen = -1;
    if (request_->even || !best_fit()) {
      chosen = FirstByLeader(level, true);
    } else {
      top = FirstByLeader(level, false);
      if (At(level, top).slices_l >= needed() && At(level, top).leader >= leaders()) {
        chosen = Tightest(level, top);
      } else if (request_->required && options_.preferred_affinity) {
        const int32_t next = FirstByLeader(level, true);
        if (next >= 0) chosen = Tightest(level, next);
      }
    }
    if (chosen >= 0) return Choice{level, {chosen}};
    if (request_->required) {
      if (top < 0) top = FirstByLeader(level, false);
      return NoRoom(level, At(level, top).slices);
    }
    if (request_->even && level == 0) return ChooseAll();
    if (request_->unconstrained || level == 0) {
      Choice choice{level, {}};
      if (std::optional<Failure> failure = SpreadOver(level, choice)) return *std::move(failure);
      return choice;
    }
  }
}

// ---- several domains ----

// The whole tree, for pods that are to be spread.
std::variant<Searcher::Choice, Failure> Searcher::ChooseAll() const {
  Choice choice{0, List((*states_)[0].size())};
  std::iota(choice.domains.begin(), choice.domains.end(), 0);
  int64_t slices = 0;
  int64_t loss = -1;
  for (const State& state : (*states_)[0]) {
    slices += state.slices;
    if (state.leader == 0) continue;
    const int64_t own = state.slices - state.slices_l;
    loss = loss < 0 ? own : std::min(loss, own);
  }
  if (leaders() > 0 && loss < 0) return NoRoom(0, 0);
  if (slices < needed()) return NoRoom(0, slices);
  if (leaders() > 0 && slices - loss < needed()) return NoRoom(0, slices - loss);
  return choice;
}

// What SpreadOver chooses where the domains with the least room come first and nothing but their
// room and their place tells them apart, without putting all of them in order. False: it is not so,
// or they are not enough.
bool Searcher::TakeSmallest(size_t level, List& chosen) const {
  constexpr size_t kMostRoom = 256;
  const SearchRequest& request = *request_;
  const bool scored = options_.preferred_affinity && !mask_->score.empty();
  if (leaders() > 0 || best_fit() || scored || request.slice_size != 1 || !request.inner.empty()) {
    return false;
  }
  const auto has_room = [](const State& state) { return state.slices > 0; };
  std::array<int64_t, kMostRoom> domains{};  // how many have so much room
  int64_t remaining = needed();
  List lasts;
  bool too_much = false;
  // Often those with the least room that there can be are enough.
  ForFitting(*request.tree, *states_, level, has_room, [&](int32_t at) {
    const int64_t room = At(level, at).slices;
    too_much = room >= static_cast<int64_t>(kMostRoom);
    if (too_much) return true;
    ++domains[static_cast<size_t>(room)];
    if (room == 1) lasts.push_back(at);
    return domains[1] >= remaining;
  });
  if (too_much) return false;
  int64_t last = 1;  // room of the last ones that are needed
  for (;; ++last) {
    if (last == static_cast<int64_t>(kMostRoom)) return false;
    const int64_t room = last * domains[static_cast<size_t>(last)];
    if (room >= remaining) break;
    remaining -= room;
  }
  if (last == 1) {
    chosen = std::move(lasts);
    return true;
  }
  lasts.clear();
  int64_t smaller = 0;
  for (int64_t room = 1; room < last; ++room) smaller += domains[static_cast<size_t>(room)];
  int64_t of_last = (remaining + last - 1) / last;
  ForFitting(*request.tree, *states_, level, has_room, [&](int32_t at) {
    const int64_t room = At(level, at).slices;
    if (room < last) {
      chosen.push_back(at);
      --smaller;
    } else if (room == last && of_last > 0) {
      lasts.push_back(at);
      --of_last;
    }
    return smaller + of_last == 0;
  });
  SortPlain(level, chosen);
  chosen.insert(chosen.end(), lasts.begin(), lasts.end());
  return true;
}

std::optional<Failure> Searcher::SpreadOver(size_t level, Choice& choice) const {
  if (TakeSmallest(level, choice.domains)) return std::nullopt;
  List list;
  for (int32_t at = 0; at < Domains(level); ++at) {
    if (At(level, at).slices > 0 || At(level, at).leader > 0) list.push_back(at);
  }
  SortLeader(level, list);
  const Hand hand{.unit = request_->slice_size, .by_slices = true, .recount = false};
  LeaderFirst(level, list, needed(), leaders(), hand);
  int64_t remaining = needed();
  int waiting = leaders();
  size_t next = 0;
  while (waiting > 0 && next < list.size() && At(level, list[next]).leader > 0) {
    size_t taken = next;
    if (best_fit() && At(level, list[next]).slices_l >= remaining) {
      const std::span<const int32_t> rest = std::span(list).subspan(next);
      taken = next + TightestInRest(level, rest, remaining, waiting, hand);
    }
    choice.domains.push_back(list[taken]);
    remaining -= At(level, list[taken]).slices_l;
    waiting -= At(level, list[taken]).leader;
    ++next;
  }
  if (waiting > 0) return NoRoom(level, leaders() - waiting);
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(next));
  if (leaders() > 0) SortPlain(level, list);
  for (next = 0; remaining > 0 && next < list.size(); ++next) {
    size_t taken = next;
    if (best_fit() && At(level, list[next]).slices >= remaining) {
      taken = next + TightestInRest(level, std::span(list).subspan(next), remaining, 0, hand);
    }
    if (At(level, list[taken]).slices == 0) continue;
    choice.domains.push_back(list[taken]);
    remaining -= At(level, list[taken]).slices;
  }
  if (remaining > 0) return NoRoom(level, needed() - remaining);
  return std::nullopt;
}

}  // namespace sluice::topology
