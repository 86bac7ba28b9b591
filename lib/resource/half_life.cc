#include "resource/half_life.h"

#include <array>
#include <bit>

namespace sluice {
namespace {

using Nanos = Quantity::Nanos;
__extension__ typedef unsigned __int128 Wide128;

constexpr Wide128 kOne = Wide128{1} << 64;

constexpr uint64_t SquareRoot(Wide128 square) {
  Wide128 root = 0;
  for (Wide128 bit = Wide128{1} << 63; bit != 0; bit >>= 1) {
    const Wide128 next = root | bit;
    if (next * next <= square) root = next;
  }
  return static_cast<uint64_t>(root);
}

// 0.5^(1/2), 0.5^(1/4), 0.5^(1/8) ... in units of 2^-64: each is the square root of the one before.
constexpr std::array<uint64_t, 64> HalfRoots() {
  std::array<uint64_t, 64> roots{};
  Wide128 last = kOne >> 1;
  for (uint64_t& root : roots) {
    root = SquareRoot(last << 64);
    last = root;
  }
  return roots;
}
constexpr std::array<uint64_t, 64> kRoots = HalfRoots();
constexpr uint64_t kFirstDigit = uint64_t{1} << 63;

}  // namespace

Share63 Alpha(absl::Duration elapsed, absl::Duration half_life) {
  if (half_life <= absl::ZeroDuration() || elapsed <= absl::ZeroDuration()) return 0;
  absl::Duration rest;
  const int64_t whole = absl::IDivDuration(elapsed, half_life, &rest);
  if (whole >= 64) return kWhole;
  // The rest as a binary fraction of the half-life: every digit that is set is one more factor.
  const auto part = static_cast<Wide128>(absl::ToInt64Nanoseconds(rest));
  const auto all = static_cast<Wide128>(absl::ToInt64Nanoseconds(half_life));
  const auto fraction = static_cast<uint64_t>((part << 64) / all);
  uint64_t digits = fraction;
  if (whole == 0 && digits == 0) return 0;
  uint64_t kept = 0;  // below one from here on, so 64 bits do
  if (whole > 0) {
    kept = static_cast<uint64_t>(kOne >> whole);
  } else {
    const int first = std::countl_zero(digits);
    kept = kRoots[static_cast<size_t>(first)];
    digits &= ~(kFirstDigit >> first);
  }
  while (digits != 0) {
    const int digit = std::countl_zero(digits);
    kept = static_cast<uint64_t>(Wide128{kept} * kRoots[static_cast<size_t>(digit)] >> 64);
    digits &= ~(kFirstDigit >> digit);
  }
  return static_cast<Share63>((kOne - kept) >> 1);
}

Nanos PartOf(Nanos amount, Share63 share) {
  const auto value = static_cast<Wide128>(amount);
  const auto high = static_cast<uint64_t>(value >> 64);
  const auto low = static_cast<uint64_t>(value);
  return static_cast<Nanos>((Wide128{high} * share << 1) + (Wide128{low} * share >> 63));
}

}  // namespace sluice
