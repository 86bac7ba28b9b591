// What several equal pods ask for together.
//
// Contract: pure, constant time. Beyond 64 bits the result is the largest multiple of the number of
// pods that is left, because the API takes the usage of a pod set only as a multiple of its count.
// Source: Kueue documentation of the Workload API (podSetAssignments[].resourceUsage).
#pragma once

#include <cstdint>
#include <limits>

#include "resource/resource.h"

namespace sluice {

inline int64_t TimesPods(int64_t amount, int32_t pods) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(amount, int64_t{pods}, &product)) return product;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return kMost - kMost % pods;
}

}  // namespace sluice
