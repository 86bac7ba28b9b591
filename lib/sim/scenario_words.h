// What the lines of a scenario that describe objects have in common: words KEY=VALUE.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "api/json.h"
#include "sim/scenario_queues.h"

namespace sluice::sim {

// "prefix:rest" -> rest, or "".
std::string After(const std::string& text, const std::string& prefix);

absl::StatusOr<int64_t> Integer(const ScenarioWord& word);

// "30s" or "30" or "10s,20s" -> "30" or "10,20"; "never" stays.
absl::StatusOr<std::string> Seconds(const std::string& text);

// KEY=VALUE:EFFECT, as taint or toleration.
api::Json TaintOf(const std::string& key, const std::string& value, bool toleration);

// The error for a word that means nothing where it stands.
absl::Status Unknown(const ScenarioWord& word);

// "cpu", "memory", "pods" or "example.com/gpu"; "annotation:example.com/x" and the like are none.
bool LooksLikeResource(const std::string& key);

}  // namespace sluice::sim
