// What the API server does with PodGroups and with the fields of Jobs and pods that belong to
// gangs: gated fields vanish without a word, and most of the rest cannot change. Source: KEP-4671
// "Gang Scheduling", KEP-5547 "Integrate Workload APIs with Job".
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "state/ports.h"

namespace sluice::sim {

class ApiServer;

// Takes away what a server without these features does not keep.
void DropGatedFields(api::Kind kind, const state::ClusterFeatures& features, api::Json& object);
// What a new pod or PodGroup gets from its PriorityClass, or from the one that is the default; it
// stays away when there is none. The answer says why the object is refused (403); "" when it is
// not. To be called when defaults are filled in.
std::string ResolvePriorityClass(const ApiServer& api, api::Kind kind, api::Json& object);
void DefaultPodGroup(api::Json& group);
std::vector<std::string> PodGroupErrors(const api::Json* old, const api::Json& next);
std::vector<std::string> JobSchedulingErrors(const api::Json* old, const api::Json& next);

}  // namespace sluice::sim
