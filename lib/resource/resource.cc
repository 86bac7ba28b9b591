#include "resource/resource.h"

#include <limits>

namespace sluice {
namespace {

constexpr char kHugePagesPrefix[] = "hugepages-";
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

bool CountsBytes(const ResourceName& resource) {
  return resource == kMemory || resource == kEphemeralStorage ||
         resource.starts_with(kHugePagesPrefix);
}

}  // namespace

int64_t AmountOf(const ResourceName& resource, const Quantity& quantity) {
  return resource == kCpu ? quantity.MilliValue() : quantity.Value();
}

Quantity QuantityOf(const ResourceName& resource, int64_t amount) {
  if (resource == kCpu) return Quantity::FromMilli(amount);
  return Quantity::FromInt(
      amount, CountsBytes(resource) ? Quantity::Format::kBinarySI : Quantity::Format::kDecimalSI);
}

Requests RequestsOf(const ResourceList& list) {
  Requests requests;
  for (const auto& [resource, quantity] : list) {
    requests.emplace_hint(requests.end(), resource, AmountOf(resource, quantity));
  }
  return requests;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? kMin : kMax;
}

int64_t SaturatingSub(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? kMin : kMax;
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? kMax : kMin;
}

}  // namespace sluice
