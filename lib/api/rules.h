// Rules that several fields share.
// Source of the patterns: Kubernetes documentation, "Object Names and IDs" and "Labels and
// Selectors" (RFC 1123 names, qualified names).
#pragma once

#include "api/type_info.h"

namespace sluice::api {

inline constexpr char kLabelPattern[] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
inline constexpr char kSubdomainPattern[] =
    R"(^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)";
inline constexpr char kLabelKeyPattern[] =
    R"(^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?)"
    R"((([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$)";
inline constexpr char kReasonPattern[] = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
inline constexpr char kDurationPattern[] = R"(^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$)";
inline constexpr char kKindNamePattern[] = "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$";

// The name of another object.
inline Rules& Reference(Rules& rules) { return rules.MaxLength(253).Pattern(kSubdomainPattern); }
// The name of a pod set.
inline Rules& PodSetName(Rules& rules) { return rules.MaxLength(63).Pattern(kLabelPattern); }
inline Rules& ConditionList(Rules& rules) { return rules.KeyedBy({"type"}).MaxItems(16); }
inline Rules& StopPolicy(Rules& rules) {
  return rules.Enum({"None", "Hold", "HoldAndDrain"}).Default("None");
}
// Tolerations of a flavor or of an admission check's update.
Rules& TolerationList(Rules& rules);

}  // namespace sluice::api
