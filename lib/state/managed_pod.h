// ManagedPod: what is kept of a pod that waits for admission or holds quota by itself or in a
// group.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/core_types.h"
#include "api/json.h"

namespace sluice::state {

struct ManagedPod {
  api::ObjectMeta metadata;
  api::PodTemplate pod_template;  // the spec alone, in full
  std::string phase;              // "" counts as Pending
  std::string message;
  api::Conditions conditions;
  std::optional<int64_t> deletion_grace_period_seconds;
  std::string group;  // "" for a single pod

  const api::PodSpec& spec() const { return *pod_template.spec; }
};
using ManagedPodPtr = std::shared_ptr<const ManagedPod>;

// InvalidArgument when the object is no pod that can be read. `group` stays empty.
absl::StatusOr<ManagedPod> DecodeManagedPod(const api::Json& object);

// The group a pod belongs to, "" for none. The annotation goes before the label where
// `annotations` is on.
std::string PodGroupNameOf(const api::ObjectMeta& metadata, bool annotations);

}  // namespace sluice::state
