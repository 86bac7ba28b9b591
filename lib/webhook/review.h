// Admission reviews: the entry of the webhook server.
//
// Contract: pure and never fails: every input, however malformed, gets a review with a response. A
// denial carries code 403 and the text of the field errors; what cannot be read carries 400; a
// missing owner or namespace carries 404. Source: "Dynamic Admission Control" in the Kubernetes
// documentation (admission.k8s.io/v1).
//
//   api::Json answer = HandleAdmissionReview("/validate-batch-v1-job", review, *view);
#pragma once

#include <span>
#include <string_view>

#include "api/json.h"
#include "webhook/view.h"

namespace sluice::webhook {

// Every path that is answered, in a fixed order.
std::span<const std::string_view> AdmissionPaths();

// `path` may carry a query ("?timeout=10s"). An unknown path is answered with a denial of code 404.
api::Json HandleAdmissionReview(std::string_view path, const api::Json& review, const View& view);

}  // namespace sluice::webhook
