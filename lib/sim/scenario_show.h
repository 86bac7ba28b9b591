// How the state of a simulated cluster is written in scenarios: one line for each object.
#pragma once

#include <string>

#include "api/json.h"
#include "api/kind.h"
#include "sim/api_server.h"

namespace sluice::sim {

// Lines "  cq NAME: ...", "  wl NS/NAME: ..." for all objects of the kind, in the order of keys.
// A Workload that belongs to a Job is called by the Job's name. `start` is the instant from which
// times are counted.
std::string ShowAll(const ApiServer& api, api::Kind kind, absl::Time start);

}  // namespace sluice::sim
