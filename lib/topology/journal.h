// Journal: which leaves changed, for readers that look at their own pace.
//
// A reader remembers how far it has read and is told each slot once that was noted since, in the
// order of its last note. Only the newest kKept notes are there: a reader that fell further behind
// looks at everything instead.
//
// Contract: thread-compatible, a reader counts as a change. Note is O(1), Since O(notes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::topology {

class Journal {
 public:
  static constexpr uint64_t kKept = 4096;

  void Note(int32_t slot) {
    // A change of several resources is one note, unless somebody has read it in between.
    if (end_ > read_ && last_ == slot) return;
    last_ = slot;
    const auto index = static_cast<size_t>(slot);
    if (newest_.size() <= index) newest_.resize(index + 1);
    newest_[index] = end_;
    if (notes_.size() < kKept) {
      notes_.push_back(slot);
    } else {
      notes_[static_cast<size_t>(end_ % kKept)] = slot;
    }
    ++end_;
  }
  // As far as there is anything to read.
  uint64_t end() const { return end_; }
  // Whether everything since then is still there.
  bool Knows(uint64_t since) const { return end_ - since <= notes_.size(); }
  // Only where Knows(since).
  template <typename Visit>
  void Since(uint64_t since, Visit visit) const {
    for (; since < end_; ++since) {
      const int32_t slot = notes_[static_cast<size_t>(since % kKept)];
      if (newest_[static_cast<size_t>(slot)] == since) visit(slot);
    }
    read_ = end_;
  }
  // Whoever looks at everything has read all of it too.
  void ReadAll() const { read_ = end_; }
  size_t MemoryBytes() const {
    return notes_.capacity() * sizeof(int32_t) + newest_.capacity() * sizeof(uint64_t);
  }

 private:
  std::vector<int32_t> notes_;    // note i is at i % kKept
  std::vector<uint64_t> newest_;  // the last note of each slot
  uint64_t end_ = 0;
  int32_t last_ = -1;
  mutable uint64_t read_ = 0;
};

}  // namespace sluice::topology
