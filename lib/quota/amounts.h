// Amounts: arithmetic with "no limit", and the forms in which cells of quota are passed around.
//
// A cell is one resource in one flavor. Amounts are in the units of resource/resource.h.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "resource/resource.h"

namespace sluice::quota {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Sums and differences in which kUnlimited absorbs bounded amounts: unlimited - bounded is
// unlimited, unlimited - unlimited is 0, bounded - unlimited is the smallest number.
int64_t AddAmounts(int64_t a, int64_t b);
int64_t SubtractAmounts(int64_t a, int64_t b);

struct Limits {
  int64_t nominal = 0;
  std::optional<int64_t> borrowing_limit{};
  std::optional<int64_t> lending_limit{};
  bool operator==(const Limits&) const = default;
};
using CellLimits = absl::btree_map<FlavorResource, Limits>;

// A cell of one quota tree, by number.
using CellId = uint32_t;
struct CellAmount {
  CellId cell = 0;
  int64_t amount = 0;
  bool operator==(const CellAmount&) const = default;
};
using CellAmounts = std::vector<CellAmount>;  // no amount is zero, no cell comes twice

}  // namespace sluice::quota
