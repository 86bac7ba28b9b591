// Pace: so many at once, so many a second (a token bucket), by the time and rate that the caller
// gives.
//
// Thread-compatible, no clock. Time that goes backwards adds nothing, and nothing is added before
// it has come back to where it was, unless StepBack says by how much it was set back.
#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

namespace sluice::reconcile {

class Pace {
 public:
  explicit Pace(int burst) : burst_(int64_t{burst} * kOne), left_(burst_) {}

  // Whether one can be taken now; since the last call so many a second were added.
  bool Ready(absl::Time now, int per_second) {
    if (now > filled_ && filled_ != absl::InfinitePast()) {
      const int64_t micros = absl::ToInt64Microseconds(std::min(now - filled_, absl::Hours(1)));
      left_ = std::min(burst_, left_ + micros * per_second);
    }
    filled_ = std::max(filled_, now);
    return left_ >= kOne;
  }
  // The clock was set back.
  void StepBack(absl::Duration by) { filled_ -= by; }
  void Take() { left_ -= kOne; }
  // Adds so many hundredths.
  void Give(int hundredths) { left_ = std::min(burst_, left_ + kOne / 100 * hundredths); }
  // When Ready becomes true by time alone.
  absl::Time Next(absl::Time now, int per_second) const {
    if (left_ >= kOne) return now;
    return now + absl::Microseconds((kOne - left_) / per_second + 1);
  }

 private:
  static constexpr int64_t kOne = 1'000'000;
  int64_t burst_;
  int64_t per_second_;
  int64_t left_;
  absl::Time filled_ = absl::InfinitePast();
};

}  // namespace sluice::reconcile
