// Metadata that every API object carries, conditions and selectors.
//
// Plain values with value equality. An empty string or map means "absent" wherever the API gives
// the two the same meaning; std::optional marks the fields where absent and zero differ.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/object_key.h"

namespace sluice::api {

using StringMap = absl::btree_map<std::string, std::string>;

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool block_owner_deletion = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name;
  std::string ns;
  std::string generate_name;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::optional<absl::Time> creation_timestamp;
  std::optional<absl::Time> deletion_timestamp;
  StringMap labels;
  StringMap annotations;
  std::vector<std::string> finalizers;
  std::vector<OwnerReference> owner_references;

  ObjectKey Key() const { return {ns, name}; }
  bool Deleting() const { return deletion_timestamp.has_value(); }
  bool HasFinalizer(const std::string& finalizer) const;
  // The owner with controller: true, or nullptr.
  const OwnerReference* Controller() const;
  // Value of a label or annotation, "" when absent.
  std::string Label(const std::string& key) const;
  std::string Annotation(const std::string& key) const;
  bool operator==(const ObjectMeta&) const = default;
};

enum class ConditionStatus { kTrue, kFalse, kUnknown };

// metav1.Condition.
struct Condition {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;
  std::string message;
  int64_t observed_generation = 0;
  std::optional<absl::Time> last_transition_time;
  bool operator==(const Condition&) const = default;
};
using Conditions = std::vector<Condition>;

const Condition* FindCondition(const Conditions& conditions, const std::string& type);
bool IsTrue(const Conditions& conditions, const std::string& type);
bool IsFalse(const Conditions& conditions, const std::string& type);
// Sets status, reason, message and observed generation of the condition of that type; the
// transition time moves only with the status (or is taken from `condition` when given there for a
// new status). The message is cut to what the API accepts. Returns whether anything changed.
bool SetCondition(Conditions& conditions, Condition condition, absl::Time now);
bool RemoveCondition(Conditions& conditions, const std::string& type);

// Cut to at most `limit` bytes, ending in " ..." when something was cut.
std::string TruncateMessage(std::string message, size_t limit);
inline constexpr size_t kMaxConditionMessage = 32 * 1024;
inline constexpr size_t kMaxEventMessage = 1024;

struct LabelSelectorRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist
  std::vector<std::string> values;
  bool operator==(const LabelSelectorRequirement&) const = default;
};

// An empty selector matches everything. "No selector" is an empty std::optional at the user and
// matches what that field says (nothing, for a ClusterQueue).
struct LabelSelector {
  StringMap match_labels;
  std::vector<LabelSelectorRequirement> match_expressions;
  bool Matches(const StringMap& labels) const;
  bool operator==(const LabelSelector&) const = default;
};

}  // namespace sluice::api
