// How large an amount of a resource may be (private to this room).
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::topology {

// Far above any machine, and low enough that sums over a cluster stay within 64 bits.
inline constexpr int64_t kMostAmount = int64_t{1} << 52;

inline int64_t Bounded(int64_t amount) { return std::clamp(amount, -kMostAmount, kMostAmount); }

}  // namespace sluice::topology
