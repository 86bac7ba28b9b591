// What an API server tells about itself, for the group visibility.kueue.x-k8s.io: discovery in both
// forms and OpenAPI in both versions. Private to this room.
//
// Source: Kubernetes documentation, "The Kubernetes API" (discovery API, OpenAPI specification).
#pragma once

#include <array>
#include <string>

#include "api/json.h"

namespace sluice::serve {

// The preferred one first.
inline constexpr std::array<const char*, 2> kVisibilityVersions = {"v1beta2", "v1beta1"};

api::Json ApiGroup();                                                 // /apis/GROUP
api::Json ApiGroupList();                                             // /apis
api::Json ApiResourceList(const std::string& version, bool what_if);  // /apis/GROUP/VERSION
api::Json ApiGroupDiscoveryList(const std::string& discovery_version, bool what_if);
api::Json OpenApiV3Index();  // /openapi/v3
api::Json OpenApiV3(const std::string& version, bool what_if);
api::Json OpenApiV2(bool what_if);

}  // namespace sluice::serve
