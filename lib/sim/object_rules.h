// What the API server itself adds to and demands of objects, as far as a queueing controller meets
// it: defaults and update rules of batch/v1 Jobs, and the rules between old and new version that
// the schemas of kueue.x-k8s.io express in CEL.
//
// Source: Kubernetes documentation, "Jobs" (suspending a Job, mutable scheduling directives), API
// reference of batch/v1; the schemas in crds/.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "api/kind.h"

namespace sluice::sim {

// Fills in what the API server fills in for kinds that have no schema here.
void DefaultBuiltin(api::Kind kind, api::Json& object);
// Adds the labels and the selector by which a Job finds its pods; the uid must be set.
void AdoptJobTemplate(api::Json& job);

// What is wrong, as "path: text"; `old` is null for a new object. The subresource decides which
// part may have changed.
std::vector<std::string> RuleErrors(api::Kind kind, const std::string& subresource,
                                    const api::Json* old, const api::Json& next);

// Whether the kind has a status subresource.
bool HasStatus(api::Kind kind);

}  // namespace sluice::sim
