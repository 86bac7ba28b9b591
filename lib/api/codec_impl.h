// Bodies of Decode and Encode, included only by the files that instantiate them.
#pragma once

#include "api/codec.h"
#include "api/fields.h"

namespace sluice::api {

template <typename T>
absl::StatusOr<T> Decode(const Json& json) {
  T value{};
  DecodeContext context;
  if (!TypeOf<T>().Decode(&value, json, context)) return context.status();
  return value;
}

template <typename T>
Json Encode(const T& value) {
  return TypeOf<T>().Encode(&value);
}

// A review is decoded from its "request".
template <typename T>
absl::StatusOr<T> DecodeReview(const Json& review) {
  const Json* request = review.Find("request");
  if (request == nullptr || !request->IsObject()) {
    return absl::InvalidArgumentError("request: must be an object");
  }
  T value{};
  DecodeContext context;
  const DecodeContext::Step step(context, "request");
  if (!TypeOf<T>().Decode(&value, *request, context)) return context.status();
  return value;
}

}  // namespace sluice::api

#define SLUICE_CODEC(T)                                   \
  template absl::StatusOr<T> Decode<T>(const Json& json); \
  template Json Encode<T>(const T& value)

#define SLUICE_REVIEW_CODEC(T)                      \
  template <>                                       \
  absl::StatusOr<T> Decode<T>(const Json& review) { \
    return DecodeReview<T>(review);                 \
  }                                                 \
  template Json Encode<T>(const T& value)
