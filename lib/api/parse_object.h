// What an API server sends, without metadata.managedFields.
//
// Nobody here reads those, and they are half of an object and most of its members. They have to be
// JSON, but may be nested as deep as they like: the API server stores them as a client wrote them,
// parsing is iterative, and nothing of them is kept. Otherwise as ParseJson: same limits, same
// complexity. Any thread. Source: kubernetes.io "Server-Side Apply", field management.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

namespace sluice::api {

// For reviews: what is not allowed is an error.
absl::StatusOr<Json> ParseObject(std::string_view text);

// A part of an answer that could not be kept as it came.
struct Damage {
  std::optional<size_t> item;  // the index in "items" of a list, where it lies in one
  std::string path;            // where, from the item on if there is one: "spec.a[2].b"
  std::string what;
};

struct Answer {
  Json object;
  std::vector<Damage> damages;  // the first of each item; empty for almost every answer
};

// For lists, watches and replies: one object that we do not like must not hide the others. A value
// below kMaxJsonDepth becomes null; a number beyond what a double holds becomes its text, so that
// decoding refuses the field if it matters; bytes and escapes that are no Unicode become U+FFFD, as
// Go's decoder reads them. An error only for what is no JSON at all.
absl::StatusOr<Answer> ParseAnswer(std::string_view text);

}  // namespace sluice::api
