#include "base/boxed.h"

#include <string>

#include "unit/catch.h"

namespace sluice {
namespace {

TEST_CASE("A boxed value behaves like an optional one") {
  Boxed<std::string> box;
  CHECK_FALSE(box.has_value());
  CHECK(box == Boxed<std::string>(std::nullopt));
  box = std::string("a");
  REQUIRE(box);
  CHECK(*box == "a");
  CHECK(box->size() == 1);
  CHECK_FALSE(box == Boxed<std::string>());
  CHECK(Boxed<std::string>(std::optional<std::string>("a")) == box);
  CHECK_FALSE(Boxed<std::string>(std::optional<std::string>()).has_value());
  box.emplace() = "b";
  CHECK(*box == "b");
  box.reset();
  CHECK_FALSE(box);
}

TEST_CASE("Copies of a boxed value are independent") {
  Boxed<std::string> a = std::string("a");
  Boxed<std::string> b = a;
  *b += "b";
  CHECK(*a == "a");
  CHECK(*b == "ab");
  a = b;
  *b += "c";
  CHECK(*a == "ab");
  Boxed<std::string>& same = a;
  a = same;
  CHECK(*a == "ab");
  const Boxed<std::string> moved = std::move(b);
  CHECK(*moved == "abc");
  CHECK(sizeof(a) == sizeof(void*));
}

}  // namespace
}  // namespace sluice
