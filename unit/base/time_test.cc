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
