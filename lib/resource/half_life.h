// Half-lives: what is left of an amount after some time, in fixed point.
//
// The share that is gone, 1 - 0.5^(elapsed / half-life), is a multiple of 2^-63 with an error below
// 2^-57 (none for whole half-lives). There is no floating point: equal inputs give equal results
// everywhere. Pure; some hundred nanoseconds a call.
#pragma once

#include <absl/time/time.h>

#include <cstdint>

#include "resource/quantity.h"

namespace sluice {

// A share of one, in units of 2^-63.
using Share63 = uint64_t;
inline constexpr Share63 kWhole = Share63{1} << 63;

// How much is gone. 0 without a half-life and without elapsed time.
Share63 Alpha(absl::Duration elapsed, absl::Duration half_life);
// The part of an amount (not negative), rounded down to whole units.
Quantity::Nanos PartOf(Quantity::Nanos amount, Share63 share);

}  // namespace sluice
