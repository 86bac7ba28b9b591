#include "resource/resource.h"

#include <limits>
#include <string>

#include "unit/catch.h"

namespace sluice {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST_CASE("cpu counts in thousandths, everything else in units") {
  const ResourceList list = {{"cpu", *Quantity::Parse("1500m")},
                             {"memory", *Quantity::Parse("1Gi")},
                             {"nvidia.com/gpu", *Quantity::Parse("2")},
                             {"pods", *Quantity::Parse("0.5")}};
  const Requests expected = {
      {"cpu", 1500}, {"memory", 1073741824}, {"nvidia.com/gpu", 2}, {"pods", 1}};
  CHECK(RequestsOf(list) == expected);
  CHECK(AmountOf("cpu", *Quantity::Parse("1n")) == 1);
  CHECK(AmountOf("cpu", *Quantity::Parse("8Ei")) == kMax);
}

TEST_CASE("Amounts are written in the format of their resource") {
  CHECK(QuantityOf("cpu", 1500).ToString() == "1500m");
  CHECK(QuantityOf("cpu", 2000).ToString() == "2");
  CHECK(QuantityOf("memory", 1073741824).ToString() == "1Gi");
  CHECK(QuantityOf("memory", 0).ToString() == "0");
  CHECK(QuantityOf("ephemeral-storage", 2048).ToString() == "2Ki");
  CHECK(QuantityOf("hugepages-2Mi", 4194304).ToString() == "4Mi");
  CHECK(QuantityOf("nvidia.com/gpu", 2048).ToString() == "2048");
  CHECK(QuantityOf("example.com/x", 3000).ToString() == "3k");
  CHECK(QuantityOf("memory", kMax).Value() == kMax);
}

TEST_CASE("Sums, differences and products saturate") {
  CHECK(SaturatingAdd(kMax, 1) == kMax);
  CHECK(SaturatingAdd(kMin, -1) == kMin);
  CHECK(SaturatingAdd(kMax, kMin) == -1);
  CHECK(SaturatingSub(kMin, 1) == kMin);
  CHECK(SaturatingSub(kMax, -1) == kMax);
  CHECK(SaturatingSub(0, kMin) == kMax);
  CHECK(SaturatingSub(5, 7) == -2);
  CHECK(SaturatingMul(kMax, 2) == kMax);
  CHECK(SaturatingMul(kMax, -2) == kMin);
  CHECK(SaturatingMul(kMin, -1) == kMax);
  CHECK(SaturatingMul(-3, 4) == -12);
}

TEST_CASE("Cells of quota are ordered by flavor, then resource") {
  CHECK(FlavorResource{"a", "memory"} < FlavorResource{"b", "cpu"});
  CHECK(FlavorResource{"a", "cpu"} < FlavorResource{"a", "memory"});
}

}  // namespace
}  // namespace sluice
