// Decoding and encoding of API objects.
//
// Decode<T> reads what T models and ignores the rest (a newer API server may send more); a value of
// the wrong type or a malformed quantity or time is an error that names the field's path, for
// example "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota: ...". Encode<T> writes
// exactly what T models, in the order of its description, with apiVersion and kind for root
// objects. Both are instantiated for every struct of the kinds in api/kind.h and their parts, for
// ResourceList, StringMap, Conditions and the lists of parts that patches are made of.
//
// An absent member and a null leave the field as T constructs it. Empty fields are not written,
// except those that the API requires and those whose zero says something (counters, `message`).
//
// Decode<AdmissionRequest> and Decode<ConversionRequest> take the whole review and read its
// "request"; Encode gives the request alone.
#pragma once

#include <absl/status/statusor.h>

#include "api/core_types.h"
#include "api/json.h"
#include "api/kueue_types.h"

namespace sluice::api {

template <typename T>
absl::StatusOr<T> Decode(const Json& json);

template <>
absl::StatusOr<AdmissionRequest> Decode<AdmissionRequest>(const Json& review);
template <>
absl::StatusOr<ConversionRequest> Decode<ConversionRequest>(const Json& review);

template <typename T>
Json Encode(const T& value);

// A pod template in full: its raw form when there is one, else what is modelled.
Json EncodePodTemplate(const PodTemplate& pod_template);

}  // namespace sluice::api
