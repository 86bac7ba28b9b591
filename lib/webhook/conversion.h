// Conversion of the kinds of kueue.x-k8s.io between v1beta1 and v1beta2: the rules, and the
// ConversionReview around them.
//
// Contract: pure; works on JSON values, so that members which nobody here knows survive. Metadata
// is never touched. What one version cannot express is left out without a trace, as the Kueue API
// reference documents for each field; everything else comes back unchanged from a round trip.
// The review format is that of "Webhook conversion" in the Kubernetes documentation on custom
// resources (apiextensions.k8s.io/v1).
//
//   api::Json answer = HandleConversionReview(std::move(review), {.by_hostname_prefix = true});
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "api/json.h"
#include "state/settings.h"

namespace sluice::webhook {

inline constexpr char kConversionPath[] = "/convert";

struct ConversionOptions {
  // Feature gate TASAssignmentsEncodingByHostnamePrefix: how domains become slices.
  bool by_hostname_prefix = true;
};
ConversionOptions ConversionOptionsOf(const state::Settings& settings);

// One object, for example to "kueue.x-k8s.io/v1beta2". An object that is already of that version
// comes back unchanged. An error names the kind, the object and the reason.
absl::StatusOr<api::Json> ConvertObject(api::Json object, const std::string& desired_api_version,
                                        const ConversionOptions& options);

// Answers a ConversionReview: all objects in their order, or a failure that names the first object
// that cannot be converted. Never fails itself; a review that makes no sense gets a failure too.
api::Json HandleConversionReview(api::Json review, const ConversionOptions& options);

}  // namespace sluice::webhook
