// YAML text to Json, so that every decoder exists only once, for JSON.
//
// Contract: the first document of the text counts (an empty text gives null). Plain scalars follow
// the rules of YAML 1.1 that Go programs for Kubernetes use: yes, no, on, off, y and n are
// booleans, 0x1f, 0o17, 0b11 and 017 are integers, ~ and an empty value are null. A key that is
// repeated in its mapping, a merge key (<<), an unknown tag, too much nesting and too many values
// behind aliases are errors that name the path and the line. Pure; never throws.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "api/json.h"

namespace sluice::config {

absl::StatusOr<api::Json> ParseYaml(const std::string& text);

}  // namespace sluice::config
