#include "base/shared_value.h"

#include <string>

#include "unit/catch.h"

namespace sluice {
namespace {

TEST_CASE("A shared value that was never set reads as a new one") {
  const SharedValue<std::string> none;
  CHECK(none->empty());
  CHECK(none.holders() == 0);
  CHECK(none == SharedValue<std::string>(std::string()));
}

TEST_CASE("Copies share until one of them is changed") {
  SharedValue<std::string> a = std::string("text");
  const SharedValue<std::string> b = a;
  CHECK(b.SharesWith(a));
  CHECK(b.holders() == 2);
  CHECK(*b == "text");
  CHECK(b.SharesWith(a));  // reading through a const one took no copy
  *a += "s";
  CHECK_FALSE(b.SharesWith(a));
  CHECK(*b == "text");
  CHECK(*a == "texts");
  CHECK_FALSE(a == b);

  // An own value is changed in place.
  const SharedValue<std::string>& view = a;
  const std::string* before = &*view;
  a->push_back('!');
  CHECK(&*view == before);
  CHECK(*view == "texts!");
}

}  // namespace
}  // namespace sluice
