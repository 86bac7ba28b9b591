// The short notation of ClusterQueues and Cohorts in scenarios; see scenario_objects.h.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "api/json.h"

namespace sluice::sim {

// Words KEY=VALUE: the key is everything before the first equals sign.
struct ScenarioWord {
  std::string key;
  std::string value;
};

// NAME{RESOURCE=AMOUNT[/borrow=AMOUNT][/lend=AMOUNT],...} as an element of the last resource group
// of the spec, or of a new one.
absl::Status AddFlavorQuota(const std::string& text, api::Json& spec);
// Words that ClusterQueues and Cohorts share (flavor, weight); false when it is not one of them.
absl::StatusOr<bool> QuotaWord(const ScenarioWord& word, api::Json& spec);
// Preemption policies and flavor fungibility; false when it is not one of them.
absl::StatusOr<bool> PolicyWord(const ScenarioWord& word, api::Json& spec);

// Resources in braces as a JSON object: "{cpu=1,memory=1Gi}" without the braces.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> SplitPairs(
    const std::string& text);

}  // namespace sluice::sim
