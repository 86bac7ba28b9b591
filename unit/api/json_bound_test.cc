#include "api/json_bound.h"

#include <string>

#include "api/json.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

size_t ValuesOf(const Json& json) {
  size_t values = 1;
  for (const Json& item : json.AsArray()) values += ValuesOf(item);
  for (const auto& [key, value] : json.AsObject()) values += ValuesOf(value);
  return values;
}

TEST_CASE("values are counted without parsing") {
  const auto [text, values] = GENERATE(table<std::string, size_t>({
      {"0", 1},
      {R"("a,b[{\",\\")", 1},
      {"[1,2,3]", 4},
      {R"({"a":1,"b,":[2,{"c":null}]})", 6},
      {R"(["\\",1])", 3},
  }));
  CAPTURE(text);
  CHECK(MostJsonValues(text) == values);
  CHECK(ValuesOf(*ParseJson(text)) == values);
}

TEST_CASE("what is no JSON is counted as well, and never too low") {
  CHECK(MostJsonValues("") == 1);
  CHECK(MostJsonValues("\"") == 1);
  CHECK(MostJsonValues("\"\\") == 1);
  CHECK(MostJsonValues(",,,") == 4);
  // An empty container counts for the value that it does not have.
  CHECK(MostJsonValues("[[],[]]") == 5);
  CHECK(ValuesOf(*ParseJson("[[],[]]")) == 3);
}

}  // namespace
}  // namespace sluice::api
