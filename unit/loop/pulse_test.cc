#include "loop/pulse.h"

#include "unit/catch.h"

namespace sluice::loop {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(5);

TEST_CASE("a loop that does not come round for a minute hangs") {
  Pulse pulse;
  pulse.Beat(kStart);
  CHECK(pulse.Complaint(kStart).empty());
  CHECK(pulse.Complaint(kStart + absl::Seconds(60)).empty());
  CHECK(pulse.Complaint(kStart + absl::Seconds(75)) == "the loop should have come round 15s ago");
  pulse.Beat(kStart + absl::Seconds(80));
  CHECK(pulse.Complaint(kStart + absl::Seconds(81)).empty());
}

TEST_CASE("before the first lists are complete one round may be longer") {
  Pulse pulse;
  CHECK(pulse.Complaint(kStart).empty());  // it has not begun
  CHECK(pulse.Complaint(kStart + absl::Hours(24 * 365)).empty());
  pulse.Beat(kStart, Pulse::kLongestFirstRound);
  CHECK(pulse.Complaint(kStart + absl::Minutes(5)).empty());
  CHECK_FALSE(pulse.Complaint(kStart + absl::Minutes(6)).empty());
  pulse.Beat(kStart + absl::Minutes(6));
  CHECK(pulse.Complaint(kStart + absl::Minutes(7)).empty());
  CHECK_FALSE(pulse.Complaint(kStart + absl::Minutes(8)).empty());
}

}  // namespace
}  // namespace sluice::loop
