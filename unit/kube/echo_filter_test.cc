#include "kube/echo_filter.h"

#include "unit/catch.h"

namespace sluice::kube {
namespace {

using api::Kind;

std::string Line(const std::string& type, const std::string& metadata) {
  return R"({"type":")" + type + R"(","object":{"metadata":{)" + metadata + "}}}";
}

TEST_CASE("the version is read where it is certain") {
  CHECK(VersionInLine(Line("MODIFIED", R"("name":"a","resourceVersion":"12")")) == 12);
  CHECK(VersionInLine(Line("ADDED", R"("resourceVersion":"18446744073709551615")")) ==
        18446744073709551615U);
  for (const char* type : {"DELETED", "BOOKMARK", "ERROR"}) {
    CHECK_FALSE(VersionInLine(Line(type, R"("resourceVersion":"12")")).has_value());
  }
  CHECK_FALSE(VersionInLine(Line("MODIFIED", R"("name":"a")")).has_value());
  CHECK_FALSE(VersionInLine(Line("MODIFIED", R"("resourceVersion":"x7")")).has_value());
  CHECK_FALSE(VersionInLine(Line("MODIFIED", R"("resourceVersion":"12)").substr(0, 60)));
  CHECK_FALSE(VersionInLine("").has_value());
}

TEST_CASE("an annotation with the name of the field does not pass for the version") {
  CHECK_FALSE(VersionInLine(
      Line("MODIFIED", R"("annotations":{"resourceVersion":"7"},"resourceVersion":"12")")));
  // Inside a text the quotes are escaped.
  CHECK(VersionInLine(Line("MODIFIED", R"("annotations":{"a":"{\"resourceVersion\":\"7\"}"},)"
                                       R"("resourceVersion":"12")")) == 12);
}

TEST_CASE("each version is an echo once, for its kind, and old ones are forgotten") {
  EchoFilter filter(2);
  const auto line = [](int version) {
    return Line("MODIFIED", R"("resourceVersion":")" + std::to_string(version) + "\"");
  };
  CHECK_FALSE(filter.TakeEcho(Kind::kWorkload, line(1)).has_value());
  filter.Note(Kind::kWorkload, "1");
  CHECK_FALSE(filter.TakeEcho(Kind::kJob, line(1)).has_value());
  CHECK(filter.TakeEcho(Kind::kWorkload, line(1)) == 1);
  CHECK_FALSE(filter.TakeEcho(Kind::kWorkload, line(1)).has_value());
  filter.Note(Kind::kWorkload, "1");
  filter.Note(Kind::kJob, "5");
  filter.Forget(Kind::kWorkload);
  CHECK_FALSE(filter.TakeEcho(Kind::kWorkload, line(1)).has_value());
  CHECK(filter.TakeEcho(Kind::kJob, line(5)) == 5);
  filter.Note(Kind::kWorkload, "");
  filter.Note(Kind::kWorkload, "0x3");
  for (const char* version : {"2", "3", "4"}) filter.Note(Kind::kWorkload, version);
  CHECK_FALSE(filter.TakeEcho(Kind::kWorkload, line(2)).has_value());
  CHECK(filter.TakeEcho(Kind::kWorkload, line(3)) == 3);
  CHECK(filter.TakeEcho(Kind::kWorkload, line(4)) == 4);
}

}  // namespace
}  // namespace sluice::kube
