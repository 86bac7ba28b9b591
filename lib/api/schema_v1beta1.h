// What the schemas of v1beta1 have different from those of v1beta2.
#pragma once

#include "api/json.h"
#include "api/kind.h"

namespace sluice::api {

// The schema of the older version, made from that of v1beta2.
Json SchemaV1beta1(Kind kind, const Json& v1beta2);

}  // namespace sluice::api
