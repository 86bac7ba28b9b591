#include "resource/half_life.h"

#include <cmath>
#include <limits>

#include "unit/catch.h"

namespace sluice {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST_CASE("the share that is gone") {
  CHECK(Alpha(absl::Minutes(10), absl::Minutes(10)) == kWhole / 2);
  CHECK(Alpha(absl::Minutes(20), absl::Minutes(10)) == kWhole / 4 * 3);
  CHECK(static_cast<double>(Alpha(absl::Minutes(5), absl::Minutes(10))) / std::ldexp(1, 63) ==
        Approx(0.292893).margin(1e-6));
  CHECK(Alpha(absl::ZeroDuration(), absl::Minutes(10)) == 0);
  CHECK(Alpha(-absl::Minutes(1), absl::Minutes(10)) == 0);
  CHECK(Alpha(absl::Minutes(5), absl::ZeroDuration()) == 0);
  CHECK(Alpha(absl::Hours(100000), absl::Seconds(1)) == kWhole);
  CHECK(Alpha(absl::InfiniteDuration(), absl::Seconds(1)) == kWhole);
  // As precise as floating point, also for an interval that is short against the half-life.
  for (int64_t seconds = 1; seconds < 100000; seconds += 1 + seconds / 3) {
    const absl::Duration half_life = absl::Hours(24 * 30);
    const double expected = -std::expm1(-std::log(2.0) * static_cast<double>(seconds) / 2592000);
    CHECK(static_cast<double>(Alpha(absl::Seconds(seconds), half_life)) / std::ldexp(1, 63) ==
          Approx(expected).epsilon(1e-10));
  }
}

TEST_CASE("a part of an amount is exact and rounded down") {
  CHECK(PartOf(1, kWhole) == 1);
  CHECK(PartOf(1, kWhole - 1) == 0);
  CHECK(PartOf(3, kWhole / 2) == 1);
  const Quantity::Nanos most = Quantity::Nanos{kMax} * 1'000'000'000;
  CHECK(PartOf(most, kWhole) == most);
  CHECK(PartOf(most, kWhole / 2) == most / 2);
  CHECK(PartOf(most, 0) == 0);
}

}  // namespace
}  // namespace sluice
