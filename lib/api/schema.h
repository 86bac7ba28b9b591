// OpenAPI schemas of the kinds of kueue.x-k8s.io and sluice.dev, made from the descriptions of
// their fields, and the parts of the API server's work with them that need no CEL.
//
// Source: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions"
// (structural schemas, defaulting, pruning).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/kind.h"

namespace sluice::api {

// The kinds of kueue.x-k8s.io, in the order of the enum.
const std::vector<Kind>& KueueKinds();
// Those, and the kinds of sluice.dev after them.
const std::vector<Kind>& DefinedKinds();

// The schema of a version, "v1beta2" or "v1beta1"; kinds of sluice.dev have only one. The kind must
// be one of DefinedKinds().
const Json& SchemaOf(Kind kind, std::string_view version = "v1beta2");

// Fills in the defaults of missing members where their parent is present; a null where the schema
// has a default counts as missing.
void ApplyDefaults(Json& value, const Json& schema);
// Removes members that the schema does not know; apiVersion, kind and metadata of the root stay.
void Prune(Json& value, const Json& schema);

// One violation of a schema, in the words of the API server ("Invalid value", "Required value",
// ...).
struct SchemaError {
  std::string path;  // "spec.podSets[0].count"; empty for the root
  std::string type;  // FieldValueInvalid, FieldValueRequired, FieldValueNotSupported, ...
  std::string message;
};
// Checks types, required members, enumerations, bounds, lengths, patterns and unique keys of lists.
// CEL rules are the API server's alone.
std::vector<SchemaError> ValidateSchema(const Json& value, const Json& schema);

}  // namespace sluice::api
