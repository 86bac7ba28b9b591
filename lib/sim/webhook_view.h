// What the webhooks would know of the objects in the simulated API server.
#pragma once

#include "state/settings.h"
#include "webhook/view.h"

namespace sluice::sim {

class ApiServer;

// Reads the server at every call; the view must not outlive either argument.
webhook::View ViewOf(const ApiServer& api, const state::Settings& settings);

}  // namespace sluice::sim
