#include "api/json.h"

#include <chrono>
#include <string>

#include "api/parse_object.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

Json Parsed(const std::string& text) {
  absl::StatusOr<Json> json = ParseJson(text);
  INFO(text << ": " << json.status().ToString());
  REQUIRE(json.ok());
  return *std::move(json);
}

TEST_CASE("JSON keeps the order of members and writes them back") {
  const std::string text = R"({"b":1,"a":[true,null,"x\"\n",-2.5,{}],"c":{"z":[]}})";
  CHECK(Parsed(text).Text() == text);
  CHECK(Parsed(" [ 1 , 2 ]\n").Text() == "[1,2]");
  CHECK(Parsed(R"("\u00e9\ud83d\ude00")").AsString() == "é😀");
  CHECK(Parsed("[1]").PrettyText() == "[\n  1\n]");
}

TEST_CASE("Of repeated keys the last value counts") {
  CHECK(Parsed(R"({"a":1,"b":2,"a":3})").Text() == R"({"a":3,"b":2})");
  CHECK(Parsed(R"({"a":1,"a":2,"a":3})").Text() == R"({"a":3})");
  std::string big = "{";
  for (int i = 0; i < 100; ++i)
    big += "\"k" + std::to_string(i % 50) + "\":" + std::to_string(i) + ",";
  big.back() = '}';
  const Json json = Parsed(big);
  REQUIRE(json.AsObject().size() == 50);
  CHECK(json.AsObject()[0].first == "k0");
  CHECK(json.Find("k0")->AsInt() == 50);
  CHECK(json.Find("k49")->AsInt() == 99);
}

TEST_CASE("A large flat object is parsed in linear time") {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"key" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  CHECK(Parsed(text).AsObject().size() == 200000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("Hostile depth is refused, allowed depth is not") {
  CHECK_FALSE(ParseJson(std::string(2000000, '[')).ok());
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK_FALSE(ParseJson(objects).ok());
  const auto nested = [](int depth) {
    const auto count = static_cast<size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  CHECK(ParseJson(nested(kMaxJsonDepth)).ok());
  const absl::StatusOr<Json> deep = ParseJson(nested(kMaxJsonDepth + 1));
  REQUIRE_FALSE(deep.ok());
  CHECK(std::string(deep.status().message()).find("200") != std::string::npos);
}

TEST_CASE("Objects of an API server come without their managedFields") {
  const auto parsed = [](const std::string& text) {
    const absl::StatusOr<Json> json = ParseObject(text);
    REQUIRE(json.ok());
    return json->Text();
  };
  CHECK(
      parsed(
          R"({"kind":"A","metadata":{"managedFields":[{"m":[{}],"n":null},7],"name":"x"},"z":1})") ==
      R"({"kind":"A","metadata":{"name":"x"},"z":1})");
  CHECK(parsed(R"({"metadata":{"managedFields":null},"items":[{"metadata":{"name":"y",)"
               R"("managedFields":"text"}}]})") ==
        R"({"metadata":{},"items":[{"metadata":{"name":"y"}}]})");
  // Members of that name elsewhere are data.
  const std::string data =
      R"({"managedFields":[1],"data":{"managedFields":{"a":1}},"metadata":[{"managedFields":2}]})";
  CHECK(parsed(data) == data);
  // What is left out has to be JSON all the same, of any depth.
  const auto inside = [](const std::string& text) {
    return ParseObject(R"({"metadata":{"managedFields":)" + text + "}}").ok();
  };
  CHECK(inside("[{}]"));
  CHECK_FALSE(inside("[{]"));
  CHECK(inside(std::string(1000000, '[') + std::string(1000000, ']')));
}

TEST_CASE("Broken documents are refused") {
  const auto text = GENERATE(values<std::string>(
      {"", "{", "[1,]", "{\"a\":1,}", "nul", "[1] x", "{'a':1}", "\"\\u12\"", "01", "1.", "+1",
       "NaN", "1e400", "1.9e308", "\"\xff\"", "[1 2]", "{\"a\" 1}", "\"tab\tis\x01\"", "{1:2}"}));
  DYNAMIC_SECTION("[" << text << "]") {
    const absl::StatusOr<Json> json = ParseJson(text);
    REQUIRE_FALSE(json.ok());
    CHECK(std::string(json.status().message()).find("byte") != std::string::npos);
  }
}

TEST_CASE("Numbers keep 64 bits and answer neutrally for the wrong type") {
  CHECK(Parsed("9223372036854775807").AsInt() == INT64_MAX);
  CHECK(Parsed("-9223372036854775808").AsInt() == INT64_MIN);
  CHECK(Parsed("-9223372036854775808").Text() == "-9223372036854775808");
  CHECK(Parsed("9223372036854775808").IsDouble());
  CHECK(Parsed("18446744073709551615").AsInt(-1) == -1);
  CHECK(Parsed("1e3").AsInt() == 1000);
  CHECK(Parsed("1.5").AsInt(7) == 7);
  CHECK(Parsed("\"5\"").AsInt(7) == 7);
  CHECK(Parsed("0.1").Text() == "0.1");
  CHECK(Parsed("5").AsString().empty());
  CHECK(Parsed("5").Find("a") == nullptr);
  CHECK(Parsed("5").AsArray().empty());
  CHECK(Parsed("-0").AsInt() == 0);
}

TEST_CASE("JSON values compare by meaning") {
  CHECK(Parsed(R"({"a":1,"b":[1.0]})") == Parsed(R"({"b":[1],"a":1.0})"));
  CHECK_FALSE(Parsed("[1,2]") == Parsed("[2,1]"));
  CHECK_FALSE(Parsed("1") == Parsed("\"1\""));
  CHECK_FALSE(Parsed("null") == Parsed("false"));
  CHECK_FALSE(Parsed(R"({"a":1})") == Parsed(R"({"a":1,"b":2})"));
}

TEST_CASE("Members are set, found along a path and erased") {
  Json json;
  json["metadata"]["name"] = "a";
  json.Set("metadata", Json::MakeObject({{"name", "b"}, {"uid", "u"}}));
  CHECK(json.GetString("metadata", "name") == "b");
  CHECK(json.GetString("metadata", "nothing").empty());
  CHECK(json.Find("metadata", "name", "deeper") == nullptr);
  CHECK(json.Find("metadata")->Has("uid"));
  CHECK(json["metadata"].Erase("uid"));
  CHECK_FALSE(json["metadata"].Erase("uid"));
  json["list"].Append(1);
  json["list"].Append("x");
  CHECK(json.Text() == R"({"metadata":{"name":"b"},"list":[1,"x"]})");
}

// RFC 7396, appendix A.
struct MergeRow {
  const char* target;
  const char* patch;
  const char* result;
};

TEST_CASE("Merge patches follow RFC 7396") {
  const auto row = GENERATE(values<MergeRow>({
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"a":"foo"})", R"(null)", R"(null)"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  }));
  DYNAMIC_SECTION(row.target << " + " << row.patch) {
    CHECK(MergePatch(Parsed(row.target), Parsed(row.patch)) == Parsed(row.result));
  }
}

struct PatchRow {
  const char* name;
  const char* target;
  const char* patch;
  const char* result;  // nullptr: refused
};

TEST_CASE("JSON patches follow RFC 6902") {
  const auto row = GENERATE(values<PatchRow>({
      {"add a member", R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])",
       R"({"baz":"qux","foo":"bar"})"},
      {"add an item", R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])",
       R"({"foo":["bar","qux","baz"]})"},
      {"add at the end", R"({"foo":["a"]})", R"([{"op":"add","path":"/foo/-","value":["b"]}])",
       R"({"foo":["a",["b"]]})"},
      {"add at the size", R"([1])", R"([{"op":"add","path":"/1","value":2}])", R"([1,2])"},
      {"add replaces", R"({"a":1})", R"([{"op":"add","path":"/a","value":null}])", R"({"a":null})"},
      {"add the root", R"({"a":1})", R"([{"op":"add","path":"","value":[]}])", R"([])"},
      {"add below nothing", R"({"foo":"bar"})", R"([{"op":"add","path":"/a/b","value":1}])",
       nullptr},
      {"add beyond the end", R"([1])", R"([{"op":"add","path":"/2","value":2}])", nullptr},
      {"add into a text", R"({"a":"b"})", R"([{"op":"add","path":"/a/x","value":2}])", nullptr},
      {"remove a member", R"({"baz":1,"foo":2})", R"([{"op":"remove","path":"/baz"}])",
       R"({"foo":2})"},
      {"remove an item", R"([1,2,3])", R"([{"op":"remove","path":"/1"}])", R"([1,3])"},
      {"remove nothing", R"({})", R"([{"op":"remove","path":"/a"}])", nullptr},
      {"remove the end mark", R"([1])", R"([{"op":"remove","path":"/-"}])", nullptr},
      {"replace", R"({"baz":1})", R"([{"op":"replace","path":"/baz","value":[2]}])",
       R"({"baz":[2]})"},
      {"replace nothing", R"({})", R"([{"op":"replace","path":"/a","value":1}])", nullptr},
      {"move a member", R"({"foo":{"bar":1,"waldo":2},"qux":{}})",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       R"({"foo":{"bar":1},"qux":{"thud":2}})"},
      {"move an item", R"({"foo":["all","grass","cows","eat"]})",
       R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
       R"({"foo":["all","cows","eat","grass"]})"},
      {"move into itself", R"({"a":{"b":1}})", R"([{"op":"move","from":"/a","path":"/a/b"}])",
       nullptr},
      {"copy", R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/c"}])",
       R"({"a":{"b":1},"c":{"b":1}})"},
      {"copy nothing", R"({})", R"([{"op":"copy","from":"/a","path":"/c"}])", nullptr},
      {"test passes", R"({"a":[1,{"b":2}]})",
       R"([{"op":"test","path":"/a","value":[1,{"b":2.0}]},{"op":"remove","path":"/a"}])", R"({})"},
      {"test fails", R"({"a":"x"})", R"([{"op":"test","path":"/a","value":"y"}])", nullptr},
      {"test compares types", R"({"a":"10"})", R"([{"op":"test","path":"/a","value":10}])",
       nullptr},
      {"escapes", R"({"a/b":1,"m~n":2,"~1":3})",
       R"([{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/m~0n"},)"
       R"({"op":"test","path":"/~01","value":3}])",
       R"({"~1":3})"},
      {"the empty key", R"({"":1})", R"([{"op":"replace","path":"/","value":2}])", R"({"":2})"},
      {"a bad escape", R"({"~":1})", R"([{"op":"remove","path":"/~"}])", nullptr},
      {"no leading slash", R"({"a":1})", R"([{"op":"remove","path":"a"}])", nullptr},
      {"a leading zero", R"([1,2])", R"([{"op":"remove","path":"/01"}])", nullptr},
      {"a negative index", R"([1,2])", R"([{"op":"remove","path":"/-1"}])", nullptr},
      {"an unknown operation", R"({})", R"([{"op":"spam","path":"/a","value":1}])", nullptr},
      {"no path", R"({})", R"([{"op":"add","value":1}])", nullptr},
      {"no value", R"({})", R"([{"op":"add","path":"/a"}])", nullptr},
      {"no from", R"({})", R"([{"op":"copy","path":"/a"}])", nullptr},
      {"no list", R"({})", R"({"op":"add"})", nullptr},
      {"nothing to do", R"({"a":1})", R"([])", R"({"a":1})"},
  }));
  DYNAMIC_SECTION(row.name) {
    const absl::StatusOr<Json> result = ApplyJsonPatch(Parsed(row.target), Parsed(row.patch));
    REQUIRE(result.ok() == (row.result != nullptr));
    if (result.ok()) CHECK(*result == Parsed(row.result));
  }
}

TEST_CASE("A refused JSON patch names the operation") {
  const absl::StatusOr<Json> result = ApplyJsonPatch(
      Parsed("{}"), Parsed(R"([{"op":"add","path":"/a","value":1},{"op":"remove","path":"/b"}])"));
  REQUIRE_FALSE(result.ok());
  CHECK(std::string(result.status().message()) ==
        "operation 1 (remove /b): there is no member \"b\"");
}

}  // namespace
}  // namespace sluice::api
