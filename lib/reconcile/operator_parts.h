// What the source files of Operator share about answers of the API server. For nobody else.
#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <string>

#include "api/json.h"
#include "state/ports.h"
#include "state/store.h"

namespace sluice::reconcile {

inline constexpr int kNotFound = 404;

// How long the API server asks to wait. No longer than a minute: nobody may stop us by one answer.
inline absl::Duration AskedPause(const state::Reply& reply) {
  constexpr absl::Duration kLongest = absl::Minutes(1);
  return std::min(reply.retry_after, kLongest);
}

inline std::string VersionOf(const api::Json& object) {
  return object.GetString("metadata", "resourceVersion");
}

// Whether an answer shows an object of which the watch has told that it went at `deleted_version`;
// "": it has not.
inline bool ShowsDeleted(const api::Json& object, const std::string& deleted_version) {
  return !deleted_version.empty() && !state::NewerVersion(VersionOf(object), deleted_version);
}

}  // namespace sluice::reconcile
