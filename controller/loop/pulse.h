// Pulse: whether the loop still comes round.
//
// The loop wakes several times a second even when nothing happens, so one that has not come round
// for a minute hangs and keeps a lease that another could use. Before the first lists are complete
// one round may be much longer: the first decisions about everything that there is.
//
// Contract: Beat from one thread, Complaint from any. Instants are those of a steady clock.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

namespace sluice::loop {

class Pulse {
 public:
  static constexpr absl::Duration kLongestRound = absl::Seconds(60);
  static constexpr absl::Duration kLongestFirstRound = absl::Minutes(5);

  // The next one has to come before `now + longest`.
  void Beat(absl::Time now, absl::Duration longest = kLongestRound) {
    due_ns_ = absl::ToUnixNanos(now + longest);
  }
  // "" while all is well, and before the first Beat.
  std::string Complaint(absl::Time now) const {
    const absl::Duration late = now - absl::FromUnixNanos(due_ns_);
    if (late <= absl::ZeroDuration()) return "";
    return "the loop should have come round " + absl::FormatDuration(late) + " ago";
  }

 private:
  std::atomic<int64_t> due_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace sluice::loop
