#include "config/yaml.h"

#include <fmt/format.h>

#include "unit/catch.h"

namespace sluice::config {
namespace {

struct Row {
  std::string name;
  std::string yaml;
  std::string json;   // expected, or
  std::string error;  // expected in the message
};

TEST_CASE("YAML becomes the Json that Go programs for Kubernetes see") {
  const Row row = GENERATE(values<Row>({
      {"empty text", "", "null", ""},
      {"only a comment", "# nothing\n", "null", ""},
      {"nested", "a:\n  b: [1, two]\n", R"({"a":{"b":[1,"two"]}})", ""},
      {"JSON", R"({"a": {"b": [true, null]}})", R"({"a":{"b":[true,null]}})", ""},
      {"YAML 1.1 booleans", "[y, Yes, on, n, NO, Off]", "[true,true,true,false,false,false]", ""},
      {"quoted words stay text", R"(["y", 'no', "1", '~'])", R"(["y","no","1","~"])", ""},
      {"nulls", "[~, null, ]", "[null,null]", ""},
      {"integers", "[10, -3, +4, 0x1f, 0b11, 0o17, 017, 1_000]", "[10,-3,4,31,3,15,15,1000]", ""},
      {"floats", "[1.5, -.5, 1e3, 5.]", "[1.5,-0.5,1000,5]", ""},
      {"not integers", "[1.2.3, 5m, 1Gi, -, ., 09, e5]", R"(["1.2.3","5m","1Gi","-",".",9,"e5"])",
       ""},
      {"tags", "[!!str 5, !!int 7, !!null x]", R"(["5",7,null])", ""},
      {"keys that read as other types", "{y: 1, 7: 2}", R"({"true":1,"7":2})", ""},
      {"an alias", "a: &x {b: 1}\nc: *x\n", R"({"a":{"b":1},"c":{"b":1}})", ""},
      {"the first document counts", "a: 1\n---\nb: 2\n", R"({"a":1})", ""},
      {"block text", "a: |\n  one\n  two\n", R"({"a":"one\ntwo\n"})", ""},
      {"a repeated key", "x:\n  a: 1\n  a: 2\n", "", "x.a: the key is given twice (line 3)"},
      {"a repeated key in JSON", R"({"a": 1, "a": 1})", "", "a: the key is given twice"},
      {"a merge key", "x: &x {a: 1}\ny:\n  <<: *x\n", "", "merge keys (<<) are not supported"},
      {"an unknown tag", "a: !secret b", "", "a: unknown tag \"!secret\""},
      {"a value that does not fit its tag", "a: !!int x", "", "a: \"x\" does not fit its tag"},
      {"a key that is a list", "? [a]\n: b\n", "", "a key must be a plain text"},
      {"an unknown alias", "a: *nowhere", "", "(line 1, column 4)"},
      {"bad indentation", "a: 1\n  b: 2\n", "", "YAML: "},
      {"an open quote", "a: \"b", "", "YAML: "},
  }));
  DYNAMIC_SECTION(row.name) {
    const absl::StatusOr<api::Json> json = ParseYaml(row.yaml);
    if (row.error.empty()) {
      REQUIRE(json.status().message() == "");
      CHECK(json->Text() == row.json);
    } else {
      REQUIRE_FALSE(json.ok());
      CHECK_THAT(std::string(json.status().message()), Catch::Contains(row.error));
    }
  }
}

TEST_CASE("A short text cannot become a huge tree") {
  std::string text = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += fmt::format("l{0}: &l{0} [", i);
    for (int j = 0; j < 10; ++j) text += fmt::format("*l{}, ", i - 1);
    text += "]\n";
  }
  const absl::StatusOr<api::Json> json = ParseYaml(text);
  REQUIRE_FALSE(json.ok());
  CHECK_THAT(std::string(json.status().message()), Catch::Contains("more than 100000 values"));
}

TEST_CASE("Deep nesting is an error, not a crash") {
  CHECK_FALSE(ParseYaml(std::string(300, '[') + std::string(300, ']')).ok());
  CHECK_FALSE(ParseYaml(std::string(100000, '[')).ok());
  CHECK_FALSE(ParseYaml("&a [*a]").ok());
}

}  // namespace
}  // namespace sluice::config
