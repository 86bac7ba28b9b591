// The role of a pod in its group: pods that ask for the same place in the cluster play the same
// role, and a role is a pod set of the group's Workload.
//
// What counts is what scheduling and quota look at: ports and requests of containers, affinity,
// node selector, tolerations, priority, overhead, runtime class, claims, spread constraints.
// Images, names, environment, volumes, labels do not. The hash is part of the API (annotation
// kueue.x-k8s.io/role-hash), and other programs compute the same one, so its input is spelled
// exactly as they spell it. Source: Kueue documentation, "Run a Group of Pods".
#pragma once

#include <string>

#include "api/json.h"

namespace sluice::jobs {

// What is hashed: compact JSON.
std::string RoleText(const api::Json& pod_spec);
// 8 hexadecimal digits. `pod_spec` is the spec as the API server sends it: members of its parts in
// the order of the API, quantities in canonical form.
std::string RoleHash(const api::Json& pod_spec);

}  // namespace sluice::jobs
