#include "base/time.h"

#include "base/status.h"
#include "unit/catch.h"

namespace sluice {
namespace {

TEST_CASE("times are written as the API writes them and read back") {
  const absl::Time time = absl::FromUnixMicros(1787392800123456);
  CHECK(FormatMicroTime(time) == "2026-08-22T10:00:00.123456Z");
  CHECK(sluice::FormatTime(time) == "2026-08-22T10:00:00Z");
  CHECK(*sluice::ParseTime("2026-08-22T10:00:00.123456Z") == time);
  CHECK(*sluice::ParseTime("2026-08-22T12:00:00.123456+02:00") == time);
  CHECK_FALSE(sluice::ParseTime("2026-08-22 10:00").ok());
  CHECK_FALSE(sluice::ParseTime("").ok());
}

TEST_CASE("whole seconds are read and written as the general routines do it") {
  const auto general = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
  };
  // A step that is no multiple of anything, from before 1970 to after the year 10000.
  for (int64_t second = -3'000'000'000; second < 260'000'000'000; second += 7'654'321) {
    const absl::Time time = absl::FromUnixSeconds(second);
    const std::string text = general(time);
    REQUIRE(sluice::FormatTime(time) == text);
    REQUIRE(sluice::FormatTime(time + absl::Milliseconds(999)) == text);
    if (text.size() == 20) REQUIRE(*sluice::ParseTime(text) == time);
  }
  CHECK(*sluice::ParseTime("2024-02-29T23:59:59Z") == absl::FromUnixSeconds(1709251199));
  CHECK(*sluice::ParseTime("2024-02-28T23:59:60Z") == absl::FromUnixSeconds(1709164800));
  CHECK(sluice::FormatTime(absl::InfiniteFuture()) == general(absl::InfiniteFuture()));
  for (const char* bad : {"2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z",
                          "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:61Z",
                          "2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-01-0aT00:00:00Z"}) {
    CAPTURE(bad);
    CHECK_FALSE(sluice::ParseTime(bad).ok());
  }
}

TEST_CASE("durations are those of Go") {
  CHECK(*sluice::ParseDuration("1h30m") == absl::Minutes(90));
  CHECK(*sluice::ParseDuration("300ms") == absl::Milliseconds(300));
  CHECK(*sluice::ParseDuration("-2s") == absl::Seconds(-2));
  CHECK_FALSE(sluice::ParseDuration("").ok());
  CHECK_FALSE(sluice::ParseDuration("5").ok());
  CHECK(sluice::FormatDuration(absl::ZeroDuration()) == "0s");
  CHECK(sluice::FormatDuration(absl::Minutes(1)) == "1m0s");
  CHECK(sluice::FormatDuration(absl::Hours(1) + absl::Seconds(5)) == "1h0m5s");
  CHECK(sluice::FormatDuration(absl::Seconds(-90)) == "-1m30s");
  CHECK(sluice::FormatDuration(absl::Milliseconds(300)) == "300ms");
}

TEST_CASE("an annotated error keeps its code and says what it is about") {
  const absl::Status status = Annotate(NotFound("no {}", "a"), "queue b");
  CHECK(absl::IsNotFound(status));
  CHECK(std::string(status.message()) == "queue b: no a");
  CHECK(Annotate(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace sluice
