// How an ExplanationTree is written: as lines for people, as one sentence for events and logs, as
// JSON for programs.
//
// The only place that does it, so the same fact is said in the same words everywhere. Pure and
// deterministic. The sentence has at most kMaxSentence bytes.
#pragma once

#include <string>

#include "admission/explain.h"
#include "api/json.h"

namespace sluice::admission {

inline constexpr size_t kMaxSentence = 600;

// Several lines, each with its end, indented by two spaces below the first.
std::string RenderLines(const ExplanationTree& tree);
// Which nodes of the quota tree refuse, what is short there and which queues and cohorts hold it;
// "" when the quota is not what lacks. Workloads are not named: they may be of other namespaces.
std::string RenderSentence(const ExplanationTree& tree);
// What would make the controller look again, as the end of "looked at again when ...".
std::string RenderWakeUp(const WakeUp& wake_up);
// Amounts are quantities in the API's notation.
api::Json RenderJson(const ExplanationTree& tree);

}  // namespace sluice::admission
