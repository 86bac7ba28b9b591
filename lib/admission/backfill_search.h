// BackfillSearch: whether there are places for a workload in a stretch of time, and which (private
// to this room).
//
// A full cluster is asked the same of many times: places for how many pods there are by then. Most
// answers are no, and counting gives them: how much room the nodes have for pods of a shape follows
// from what ends, leaf by leaf (topology/counts.h). Only where the room is enough is the placer
// asked. What was counted is kept by shape and time: the more is reserved or started, the less room
// there is, and a longer stretch never has more, so that a count that was too small stays too
// small.
//
// Contract: pure; looks show something in `places`, which only the caller restores. Every answer is
// the one that the placer would give at that time.
//
//   BackfillSearch search(inventory, places);          // when all that runs is known
//   auto& question = search.Prepare(request);
//   for each time from NotBefore(question) on:
//     if (!search.RuledOut(question, from, until)) taken = search.Look(question, from, until);
//   RuledOutUpTo before a Look can save many of them.
#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/time/time.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "admission/backfill_places.h"
#include "topology/placer.h"

namespace sluice::admission {

class BackfillSearch {
 public:
  BackfillSearch(topology::Inventory& inventory, BackfillPlaces& places);

  class Question {
   private:
    friend class BackfillSearch;
    struct Part {
      size_t shape = 0;
      int64_t slices = 0;
    };
    topology::WorkloadRequest request_;
    std::vector<Part> parts_;
    bool counted_ = true;  // counting tells of all of it
    std::optional<bool> ever_;
  };
  // Lives as long as this. For what needs places.
  Question& Prepare(topology::WorkloadRequest request);

  // Something has started since, and was added to the places: it ends then.
  void AddEnding(absl::Time end);

  // Before that there is no room, even if nothing was reserved: InfinitePast, or a deadline of what
  // runs. InfiniteFuture: never, by the bounds of what runs.
  absl::Time NotBefore(const Question& question);
  // Whether what was counted tells that there are no places from then until then.
  bool RuledOut(const Question& question, absl::Time from, absl::Time until);
  // Up to which time, at least `from`, there are no places for as long as from then until then;
  // InfinitePast where neither what was counted nor the nodes as they were shown last tell.
  absl::Time RuledOutUpTo(const Question& question, absl::Time from, absl::Time until);
  // What it takes on nodes then, beside what runs still and all that is reserved.
  std::optional<std::vector<topology::LeafUsage>> Look(const Question& question, absl::Time from,
                                                       absl::Time until);
  // On nodes on which nothing of ours runs.
  bool EverFits(Question& question);

  // How often the placer was asked, as a measure of the work; more for what cannot be counted.
  size_t asked() const { return asked_; }

 private:
  // From some time until `until` there are no more slices than `room`.
  struct Known {
    absl::Time until;
    int64_t room = 0;
  };
  using KnownAt = std::pair<absl::Time, absl::InlinedVector<Known, 2>>;
  // Pods of one shape that are placed under the same conditions.
  struct Shape {
    topology::SearchRequest search;  // of the first question
    std::vector<int64_t> room;       // at the first of the `times_`, if nothing is reserved
    std::vector<KnownAt> known;      // by time
    size_t last_known = 0;           // where the last time was found
  };
  size_t ShapeOf(const topology::SearchRequest& search);
  static size_t FindKnown(Shape& shape, absl::Time from);
  static bool TooSmall(const absl::InlinedVector<Known, 2>& known, absl::Time until,
                       int64_t slices);
  static void Note(Shape& shape, absl::Time from, Known known);
  absl::Time NotBefore(const Question::Part& part);
  std::optional<std::vector<topology::LeafUsage>> Take(const Question& question);

  BackfillPlaces& places_;
  topology::Placer placer_;
  std::vector<absl::Time> times_;  // InfinitePast, and the deadlines of what runs
  std::deque<Question> questions_;
  std::vector<Shape> shapes_;
  size_t asked_ = 0;
};

}  // namespace sluice::admission
