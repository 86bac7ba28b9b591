// Share: how much of what its parent could lend a node has borrowed, by its dominant resource.
//
// For every resource the node's borrowed amount (over all flavors) is divided by what could be lent
// to it; the largest of these ratios, divided by the node's weight, is its share. Shares are kept
// as exact fractions, so equal shares compare equal. A node of weight 0 that borrows has a larger
// share than any node with a weight; two of them compare by their ratios.
// Values, pure. Source: Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), KEP-1714 of Kueue.
#pragma once

#include <compare>
#include <cstdint>

#include "resource/quantity.h"

namespace sluice::quota {

// fairSharing.weight, exact; capped at some 18 billion.
class Weight {
 public:
  Weight() = default;
  explicit Weight(const Quantity& weight);
  uint64_t nanos() const { return nanos_; }
  bool operator==(const Weight&) const = default;

 private:
  uint64_t nanos_ = 1'000'000'000;
};

class Share {
 public:
  // Nothing borrowed.
  Share() = default;
  // `borrowed` of `lendable` (> 0), both in the units of one resource.
  Share(int64_t borrowed, int64_t lendable, const Weight& weight)
      : borrowed_(borrowed), lendable_(lendable), weight_(weight) {}

  bool IsZero() const { return borrowed_ <= 0; }
  // It borrows with weight 0.
  bool IsInfinite() const { return !IsZero() && weight_.nanos() == 0; }
  // Thousandths, rounded up, as the API shows it; the largest number for an infinite share.
  int64_t Rounded() const;

  friend std::strong_ordering operator<=>(const Share& a, const Share& b);
  friend bool operator==(const Share& a, const Share& b) { return (a <=> b) == 0; }

 private:
  int64_t borrowed_ = 0;
  int64_t lendable_ = 1;
  Weight weight_;
};

}  // namespace sluice::quota
