#include "quota/share.h"

#include <limits>
#include <utility>

namespace sluice::quota {
namespace {

__extension__ typedef unsigned __int128 Wide;

// a/b against c/d, exactly: whole parts first, then the reciprocals of what is left. The products
// of a plain cross-multiplication would need more than 128 bits.
std::strong_ordering CompareFractions(Wide a, Wide b, Wide c, Wide d) {
  bool swapped = false;
  const auto result = [&swapped](bool less) {
    return less != swapped ? std::strong_ordering::less : std::strong_ordering::greater;
  };
  while (true) {
    const Wide whole = a / b;
    const Wide other = c / d;
    if (whole != other) return result(whole < other);
    a %= b;
    c %= d;
    if (a == 0 && c == 0) return std::strong_ordering::equal;
    if (a == 0) return result(true);
    if (c == 0) return result(false);
    std::swap(a, b);
    std::swap(c, d);
    swapped = !swapped;
  }
}

Wide Unsigned(int64_t value) { return static_cast<Wide>(value); }

}  // namespace

Weight::Weight(const Quantity& weight) {
  const Quantity::Nanos nanos = weight.nanos();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  if (nanos <= 0) {
    nanos_ = 0;
  } else {
    nanos_ = nanos > static_cast<Quantity::Nanos>(kMost) ? kMost : static_cast<uint64_t>(nanos);
  }
}

std::strong_ordering operator<=>(const Share& a, const Share& b) {
  if (a.IsZero() || b.IsZero()) return b.IsZero() <=> a.IsZero();
  if (a.IsInfinite() != b.IsInfinite()) return a.IsInfinite() <=> b.IsInfinite();
  const auto numerator = [](const Share& s) { return Unsigned(s.borrowed_) * 1'000'000'000; };
  const auto denominator = [](const Share& s) {
    return Unsigned(s.lendable_) * (s.IsInfinite() ? 1 : s.weight_.nanos());
  };
  return CompareFractions(numerator(a), denominator(a), numerator(b), denominator(b));
}

int64_t Share::Rounded() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (IsZero()) return 0;
  if (IsInfinite()) return kMost;
  // 1000 * borrowed * 10^9 stays below 2^103.
  const Wide numerator = Unsigned(borrowed_) * 1'000'000'000'000;
  const Wide denominator = Unsigned(lendable_) * weight_.nanos();
  const Wide rounded = numerator / denominator + (numerator % denominator == 0 ? 0 : 1);
  return rounded > Unsigned(kMost) ? kMost : static_cast<int64_t>(rounded);
}

}  // namespace sluice::quota
