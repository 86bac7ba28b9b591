// What the tests of this room share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "api/json.h"
#include "sim/simulation.h"

namespace sluice::sim {

// Creates an object given in the notation of scenario_objects.h, with its status.
state::Reply TryMake(Simulation& sim, const std::string& text);
// The same; the API server must accept it.
void Make(Simulation& sim, const std::string& text);

bool ConditionTrue(const api::Json& object, const std::string& type);

// Runs the check with `count` seeds, the same ones in each run, so that a change is what makes a
// test fail. SLUICE_SEED: with this one only, or from a random one on ("random"); SLUICE_ROUNDS: so
// many.
void ForSeeds(int count, const std::function<void(uint64_t seed)>& check);

}  // namespace sluice::sim
