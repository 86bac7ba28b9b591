#include "quota/amounts.h"

namespace sluice::quota {

int64_t AddAmounts(int64_t a, int64_t b) {
  if (a == kUnlimited || b == kUnlimited) return kUnlimited;
  return SaturatingAdd(a, b);
}

int64_t SubtractAmounts(int64_t a, int64_t b) {
  if (a == kUnlimited) return b == kUnlimited ? 0 : kUnlimited;
  if (b == kUnlimited) return std::numeric_limits<int64_t>::min();
  return SaturatingSub(a, b);
}

}  // namespace sluice::quota
