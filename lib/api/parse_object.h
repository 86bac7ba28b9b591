// ParseObject: what an API server answers, without metadata.managedFields.
//
// Nobody here reads those, and they are half of an object and most of its members. Otherwise as
// ParseJson: same limits, same errors, same complexity; what is left out is checked, too. Any
// thread. Source: kubernetes.io "Server-Side Apply", field management.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "api/json.h"

namespace sluice::api {

absl::StatusOr<Json> ParseObject(std::string_view text);

}  // namespace sluice::api
