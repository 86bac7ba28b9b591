// The rules of plain pods: what a new pod gets so that it waits, and what is refused.
// Source: Kueue documentation, "Run Plain Pods", "Run a Group of Pods".
#pragma once

#include "webhook/rules.h"

namespace sluice::webhook {

absl::StatusOr<PatchOps> DefaultPod(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidatePod(const Request& request, const View& view);

}  // namespace sluice::webhook
