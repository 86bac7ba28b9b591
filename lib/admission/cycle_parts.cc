#include "admission/cycle_parts.h"

#include <algorithm>

namespace sluice::admission {

quota::CellAmounts KeptFrom(const Entry& entry) {
  quota::CellAmounts kept;
  for (const auto& [cell, amount] : entry.usage) {
    const int64_t used = entry.queue->Usage(cell);
    const int64_t nominal = entry.queue->Nominal(cell);
    int64_t part = amount;
    if (entry.assignment.borrow_level == 0) {
      part = std::max<int64_t>(0, std::min(amount, quota::SubtractAmounts(nominal, used)));
    } else if (const auto limit = entry.queue->BorrowingLimit(cell)) {
      part = std::min(amount, quota::SubtractAmounts(quota::AddAmounts(nominal, *limit), used));
    }
    // Above its limits already: there is nothing that it could keep.
    if (part > 0) kept.push_back({cell, part});
  }
  return kept;
}

void KeepVictims(Decision& decision, const std::vector<Decision::Victim>& issued) {
  for (const Decision::Victim& victim : issued) {
    const auto same = std::find_if(decision.victims.begin(), decision.victims.end(),
                                   [&](const Decision::Victim& other) {
                                     return other.workload->Key() == victim.workload->Key();
                                   });
    if (same == decision.victims.end()) {
      decision.victims.push_back(victim);
    } else {
      same->ongoing = false;
    }
  }
}

}  // namespace sluice::admission
