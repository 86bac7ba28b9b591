// Pod templates in JSON: cleaning for a Workload, and equality that looks at meaning.
#pragma once

#include "api/core_types.h"
#include "api/json.h"

namespace sluice::jobs {

// Reduces repeated environment variables of every container to one (at the place of the first, with
// the content of the last): the Workload's schema refuses duplicates, a Job's does not.
void RemoveDuplicateEnv(api::Json& pod_template);

// Equal in meaning: absent, null and empty are the same; quantities under "requests" and "limits"
// compare by value. Container fields that the API server fills in may be missing on one side.
bool SemanticallyEqual(const api::Json* a, const api::Json* b);

// The template's JSON; what is modelled when it was built in memory.
api::Json TemplateJson(const api::PodTemplate& pod_template);

// containers and initContainers of both are semantically equal.
bool SameContainers(const api::PodTemplate& a, const api::PodTemplate& b);

}  // namespace sluice::jobs
