// What the status of a CreditAccount tells a replay (private to this room). Pure.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include "api/credit_types.h"
#include "quota/credit_timeline.h"
#include "resource/quantity.h"

namespace sluice::state {

// The balance that was written down; nothing, since it was made, of an account without one.
quota::CreditTimeline::Checkpoint CheckpointOf(const api::CreditAccount& account, absl::Time now);
// By resource, as CreditWeights takes them.
absl::btree_map<ResourceName, Quantity> WeightsOf(const api::CreditAccountRules& rules);

}  // namespace sluice::state
