#include "admission/backfill_search.h"

#include <algorithm>

namespace sluice::admission {
namespace {

using topology::LeafUsage;
using topology::Need;
using topology::Needs;
using topology::SearchRequest;

// What counting does not tell takes a look at all nodes each time.
constexpr size_t kCostUncounted = 4;

bool SameNeeds(const Needs& a, const Needs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Need& x, const Need& y) {
    return x.resource == y.resource && x.amount == y.amount;
  });
}

// Whether Placer::RoomFor says the same of both.
bool SameRoom(const SearchRequest& a, const SearchRequest& b) {
  return a.tree == b.tree && a.required == b.required && (!a.required || a.level == b.level) &&
         a.even == b.even && a.unconstrained == b.unconstrained && a.slice_level == b.slice_level &&
         a.slice_size == b.slice_size && a.inner == b.inner &&
         a.simulate_empty == b.simulate_empty && SameNeeds(a.worker, b.worker) &&
         a.leader.has_value() == b.leader.has_value() &&
         (!a.leader.has_value() || SameNeeds(*a.leader, *b.leader)) && *a.filter == *b.filter;
}

}  // namespace

BackfillSearch::BackfillSearch(topology::Inventory& inventory, BackfillPlaces& places)
    : places_(places), placer_(inventory), times_(places.Endings()) {
  times_.insert(times_.begin(), absl::InfinitePast());
}

// Without what has started there was as much room then as at the time before.
void BackfillSearch::AddEnding(absl::Time end) {
  const auto place = std::lower_bound(times_.begin() + 1, times_.end(), end);
  if (end == absl::InfiniteFuture() || (place != times_.end() && *place == end)) return;
  const auto index = place - times_.begin();
  times_.insert(place, end);
  for (Shape& shape : shapes_) {
    if (static_cast<std::ptrdiff_t>(shape.room.size()) <= index) continue;
    const int64_t before = shape.room[static_cast<size_t>(index) - 1];
    shape.room.insert(shape.room.begin() + index, before);
  }
}

size_t BackfillSearch::ShapeOf(const SearchRequest& search) {
  const auto known = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& shape) {
    return SameRoom(shape.search, search);
  });
  if (known != shapes_.end()) return static_cast<size_t>(known - shapes_.begin());
  shapes_.push_back({search, {}, {}, 0});
  return shapes_.size() - 1;
}

BackfillSearch::Question& BackfillSearch::Prepare(topology::WorkloadRequest request) {
  Question& question = questions_.emplace_back();
  question.request_ = std::move(request);
  const topology::Placer::Parts parts = placer_.PartsOf(question.request_);
  question.counted_ = parts.all;
  for (const SearchRequest& search : parts.searches) {
    question.parts_.push_back({ShapeOf(search), search.count / search.slice_size});
  }
  return question;
}

// The more has ended, the more room there is.
absl::Time BackfillSearch::NotBefore(const Question::Part& part) {
  Shape& shape = shapes_[part.shape];
  while (shape.room.size() < times_.size() &&
         (shape.room.empty() || shape.room.back() < part.slices)) {
    places_.ShowWithoutReservations(times_[shape.room.size()]);
    const int64_t room = placer_.RoomFor(shape.search);
    shape.room.push_back(shape.room.empty() ? room : std::max(room, shape.room.back()));
  }
  const auto first = std::lower_bound(shape.room.begin(), shape.room.end(), part.slices);
  if (first == shape.room.end()) return absl::InfiniteFuture();
  return times_[static_cast<size_t>(first - shape.room.begin())];
}

absl::Time BackfillSearch::NotBefore(const Question& question) {
  absl::Time first = absl::InfinitePast();
  for (const Question::Part& part : question.parts_) first = std::max(first, NotBefore(part));
  return first;
}

// Times are mostly asked about in their order.
size_t BackfillSearch::FindKnown(Shape& shape, absl::Time from) {
  const std::vector<KnownAt>& known = shape.known;
  for (size_t i = shape.last_known; i < std::min(known.size(), shape.last_known + 2); ++i) {
    if (known[i].first == from) return shape.last_known = i;
  }
  const auto found =
      std::lower_bound(known.begin(), known.end(), from,
                       [](const KnownAt& one, absl::Time time) { return one.first < time; });
  return shape.last_known = static_cast<size_t>(found - known.begin());
}

bool BackfillSearch::TooSmall(const absl::InlinedVector<Known, 2>& known, absl::Time until,
                              int64_t slices) {
  return std::any_of(known.begin(), known.end(),
                     [&](const Known& one) { return one.until <= until && one.room < slices; });
}

bool BackfillSearch::RuledOut(const Question& question, absl::Time from, absl::Time until) {
  return std::any_of(question.parts_.begin(), question.parts_.end(),
                     [&](const Question::Part& part) {
                       Shape& shape = shapes_[part.shape];
                       const size_t at = FindKnown(shape, from);
                       if (at == shape.known.size() || shape.known[at].first != from) return false;
                       return TooSmall(shape.known[at].second, until, part.slices);
                     });
}

// To go back in time puts back all that ended in between, so later times come first. There all that
// ended earlier has ended too. Of the reservations only those count that hold for a part of the
// stretch wherever it begins between the two times: those that begin before the first stretch is
// over, and end after the later time.
absl::Time BackfillSearch::RuledOutUpTo(const Question& question, absl::Time from,
                                        absl::Time until) {
  for (const Question::Part& part : question.parts_) {
    const std::vector<KnownAt>& known = shapes_[part.shape].known;
    for (auto one = known.rbegin(); one != known.rend() && one->first >= from; ++one) {
      if (TooSmall(one->second, until, part.slices)) return one->first;
    }
  }
  const absl::Time later = places_.shown_at();
  if (later <= from || later == absl::InfiniteFuture()) return absl::InfinitePast();
  places_.Show(later, until);
  for (const Question::Part& part : question.parts_) {
    Shape& shape = shapes_[part.shape];
    const int64_t room = placer_.RoomFor(shape.search);
    Note(shape, later, {until, room});
    if (room < part.slices) return later;
  }
  return absl::InfinitePast();
}

// What is longer and had no less room tells nothing more; few are kept.
void BackfillSearch::Note(Shape& shape, absl::Time from, Known known) {
  constexpr size_t kMostKnown = 4;
  const size_t at = FindKnown(shape, from);
  if (at == shape.known.size() || shape.known[at].first != from) {
    shape.known.insert(shape.known.begin() + static_cast<std::ptrdiff_t>(at), {from, {known}});
    return;
  }
  auto& all = shape.known[at].second;
  const auto end = std::remove_if(all.begin(), all.end(), [&](const Known& one) {
    return one.until >= known.until && one.room >= known.room;
  });
  all.erase(end, all.end());
  if (all.size() == kMostKnown) all.erase(all.begin());
  all.push_back(known);
}

// Of the nodes as they are shown.
std::optional<std::vector<LeafUsage>> BackfillSearch::Take(const Question& question) {
  asked_ += question.counted_ ? 1 : kCostUncounted;
  return placer_.TakeOf(question.request_);
}

std::optional<std::vector<LeafUsage>> BackfillSearch::Look(const Question& question,
                                                           absl::Time from, absl::Time until) {
  places_.Show(from, until);
  for (const Question::Part& part : question.parts_) {
    Shape& shape = shapes_[part.shape];
    const int64_t room = placer_.RoomFor(shape.search);
    Note(shape, from, {until, room});
    if (room < part.slices) return std::nullopt;
  }
  return Take(question);
}

bool BackfillSearch::EverFits(Question& question) {
  if (!question.ever_) {
    places_.ShowWithoutReservations(absl::InfiniteFuture());
    question.ever_ = Take(question).has_value();
  }
  return *question.ever_;
}

}  // namespace sluice::admission
