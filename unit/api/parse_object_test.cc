// Answers of an API server: one part that we do not take must not hide the rest.
#include "api/parse_object.h"

#include <string>

#include "unit/catch.h"

namespace sluice::api {
namespace {

std::string Nested(size_t depth) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += R"({"f:a":)";
  return text + "1" + std::string(depth, '}');
}

Answer Parsed(const std::string& text) {
  absl::StatusOr<Answer> answer = ParseAnswer(text);
  INFO(answer.status().ToString());
  REQUIRE(answer.ok());
  return *std::move(answer);
}

std::string Described(const Damage& damage) {
  return (damage.item ? std::to_string(*damage.item) : std::string("-")) + " " + damage.path +
         ": " + damage.what;
}

TEST_CASE("managedFields may be nested as deep as they like") {
  const std::string item = R"({"metadata":{"name":"a","managedFields":[{"fieldsV1":)" +
                           Nested(300) + R"(}],"uid":"u"},"spec":{"b":1}})";
  const std::string kept = R"({"metadata":{"name":"a","uid":"u"},"spec":{"b":1}})";
  CHECK(ParseObject(item)->Text() == kept);
  const Answer page = Parsed(R"({"items":[)" + item + "," + item + "]}");
  CHECK(page.object.Text() == R"({"items":[)" + kept + "," + kept + "]}");
  CHECK(page.damages.empty());
}

TEST_CASE(
    "what is too deep elsewhere is left out of an answer and named, and refused in a review") {
  const std::string deep = R"({"metadata":{"name":"b"},"spec":{"x":[7,)" + Nested(300) + "]}}";
  CHECK_FALSE(ParseObject(deep).ok());
  const Answer page =
      Parsed(R"({"metadata":{"resourceVersion":"5"},"items":[{"n":1},)" + deep + R"(,{"n":3}]})");
  const Json::Array& items = page.object.Find("items")->AsArray();
  REQUIRE(items.size() == 3);
  CHECK(items[0].Text() == R"({"n":1})");
  CHECK(items[1].GetString("metadata", "name") == "b");
  CHECK(items[1].Find("spec", "x")->AsArray()[0].AsInt() == 7);
  CHECK(items[2].Text() == R"({"n":3})");
  CHECK(page.object.GetString("metadata", "resourceVersion") == "5");
  REQUIRE(page.damages.size() == 1);
  CHECK(Described(page.damages[0]) ==
        "1 spec.x[1].f:a.f:a.f:a.f:a.f:a...: nested deeper than 200 levels");
  // What is kept of it has the allowed depth.
  CHECK(ParseJson(page.object.Text()).ok());
  CHECK(ParseAnswer(std::string(500000, '[') + std::string(500000, ']')).ok());
}

struct DamageRow {
  const char* name;
  const char* text;
  const char* kept;
  const char* damage;
};

TEST_CASE("numbers and text that cannot be kept are replaced in their place") {
  const auto row = GENERATE(values<DamageRow>({
      {"a large exponent", R"({"a":{"b":[1,-1e400]}})", R"({"a":{"b":[1,"-1e400"]}})",
       "- a.b[1]: a number beyond what a double holds"},
      {"just beyond", R"({"a":1.9e308,"b":1e308})", R"({"a":"1.9e308","b":1e308})",
       "- a: a number beyond what a double holds"},
      {"broken bytes", "{\"a\":\"x\xC3(\xFF\xFE\"}", "{\"a\":\"x\uFFFD(\uFFFD\uFFFD\"}",
       "- a: text that is not Unicode"},
      {"half a pair", R"({"a":"x\ud83dy","b":"\ud83d\ude00"})", "{\"a\":\"x\uFFFDy\",\"b\":\"😀\"}",
       "- a: text that is not Unicode"},
      {"half a pair before another escape", R"({"a":"\ud83d\u0041\"\\"})",
       "{\"a\":\"\uFFFDA\\\"\\\\\"}", "- a: text that is not Unicode"},
      {"in a key", "{\"a\xFF\":1}", "{\"a\uFFFD\":1}", "- a\uFFFD: text that is not Unicode"},
      {"in an item", R"({"items":[1,{"a":1e999},{"a":[]}]})",
       R"({"items":[1,{"a":"1e999"},{"a":[]}]})", "1 a: a number beyond what a double holds"},
      {"an item itself", R"({"items":[1,1e999]})", R"({"items":[1,"1e999"]})",
       "1 : a number beyond what a double holds"},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK_FALSE(ParseObject(row.text).ok());
    const Answer answer = Parsed(row.text);
    CHECK(answer.object.Text() == row.kept);
    REQUIRE(answer.damages.size() == 1);
    CHECK(Described(answer.damages[0]) == row.damage);
  }
}

TEST_CASE("of each item the first damage is named, and none of managedFields") {
  const Answer page =
      Parsed(R"({"items":[{"a":1e999,"b":1e999},{"metadata":{"managedFields":1e999}},{"c":1e999}],)"
             R"("d":1e999,"e":1e999})");
  REQUIRE(page.damages.size() == 3);
  CHECK(page.damages[0].path == "a");
  CHECK(page.damages[1].item == size_t{2});
  CHECK(page.damages[2].path == "d");
  CHECK(page.object.Find("items")->AsArray()[1].Text() == R"({"metadata":{}})");
}

TEST_CASE("a repeated key, an empty name and an empty list are no damage") {
  const Answer page = Parsed(R"({"items":[{"metadata":{"name":"","name":"b"}}],"items":[]})");
  CHECK(page.object.Text() == R"({"items":[]})");
  CHECK(page.damages.empty());
  CHECK(Parsed(R"({"items":null})").object.Find("items")->IsNull());
}

TEST_CASE("an answer that is no JSON is an error") {
  for (const char* text : {"", "<html>", "{", R"({"a":1e999)", "[01e999x]", "{\"a\xFF", "[1] x"}) {
    CHECK_FALSE(ParseAnswer(text).ok());
  }
}

}  // namespace
}  // namespace sluice::api
