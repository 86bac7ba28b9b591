// CustomResourceDefinitions and reference text of our kinds, from their descriptions.
#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "api/kind.h"

namespace sluice::api {

// The definition, of a kind of kueue.x-k8s.io with v1beta2 stored and v1beta1 served. Its
// conversion strategy is None, so that it can be applied without a webhook; kinds that need the
// webhook carry kConversionAnnotation, and the chart switches them over.
Json MakeCrd(Kind kind);
inline constexpr char kConversionAnnotation[] = "sluice.dev/conversion";

// "kueue.x-k8s.io_workloads.yaml".
std::string CrdFileName(Kind kind);
// The content of that file.
std::string CrdFileText(Kind kind);

// Block style, two spaces, strings quoted where YAML would read them as something else.
std::string ToYaml(const Json& value);

// Markdown: every field of every kind with its type, default, constraints and meaning.
std::string ReferenceText();

}  // namespace sluice::api
