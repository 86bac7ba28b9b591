// Parts of the cycle that need nothing of its state (private to this room). Pure.
#pragma once

#include <vector>

#include "admission/cycle.h"
#include "admission/nominator.h"

namespace sluice::admission {

// What a workload that has nobody to preempt may keep others of its cycle from taking.
quota::CellAmounts KeptFrom(const Entry& entry);

// A later decision about the same workload finds its victims on their way out; whoever acts on it
// must still be told to evict them.
void KeepVictims(Decision& decision, const std::vector<Decision::Victim>& issued);

}  // namespace sluice::admission
