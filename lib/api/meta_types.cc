#include "api/meta_types.h"

#include <algorithm>
#include <utility>

namespace sluice::api {
namespace {

constexpr char kCutMark[] = " ...";

std::string ValueOf(const StringMap& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

bool MatchesRequirement(const LabelSelectorRequirement& requirement, const StringMap& labels) {
  const auto found = labels.find(requirement.key);
  const bool present = found != labels.end();
  if (requirement.op == "Exists") return present;
  if (requirement.op == "DoesNotExist") return !present;
  const bool listed = present && std::find(requirement.values.begin(), requirement.values.end(),
                                           found->second) != requirement.values.end();
  if (requirement.op == "In") return listed;
  // An unknown operator is refused by the API server; should one come anyhow, it selects nothing.
  return requirement.op == "NotIn" && !listed;
}

}  // namespace

bool ObjectMeta::HasFinalizer(const std::string& finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

const OwnerReference* ObjectMeta::Controller() const {
  const auto found = std::find_if(owner_references.begin(), owner_references.end(),
                                  [](const OwnerReference& owner) { return owner.controller; });
  return found == owner_references.end() ? nullptr : &*found;
}

std::string ObjectMeta::Label(const std::string& key) const { return ValueOf(labels, key); }

std::string ObjectMeta::Annotation(const std::string& key) const {
  return ValueOf(annotations, key);
}

const Condition* FindCondition(const Conditions& conditions, const std::string& type) {
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool IsTrue(const Conditions& conditions, const std::string& type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->status == ConditionStatus::kTrue;
}

bool IsFalse(const Conditions& conditions, const std::string& type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->status == ConditionStatus::kFalse;
}

bool SetCondition(Conditions& conditions, Condition condition, absl::Time now) {
  condition.message = TruncateMessage(std::move(condition.message), kMaxConditionMessage);
  const absl::Time transition = condition.last_transition_time.value_or(now);
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const Condition& c) { return c.type == condition.type; });
  if (found == conditions.end()) {
    condition.last_transition_time = transition;
    conditions.push_back(std::move(condition));
    return true;
  }
  const bool same_status = found->status == condition.status;
  // A stored condition without a time (written by hand) gets one as soon as it is set.
  condition.last_transition_time =
      same_status && found->last_transition_time ? *found->last_transition_time : transition;
  const bool changed = !same_status || found->reason != condition.reason ||
                       found->message != condition.message ||
                       found->observed_generation != condition.observed_generation;
  if (changed) *found = std::move(condition);
  return changed;
}

bool RemoveCondition(Conditions& conditions, const std::string& type) {
  const auto keep_end =
      std::remove_if(conditions.begin(), conditions.end(),
                     [&](const Condition& condition) { return condition.type == type; });
  const bool removed = keep_end != conditions.end();
  conditions.erase(keep_end, conditions.end());
  return removed;
}

std::string TruncateMessage(std::string message, size_t limit) {
  if (message.size() <= limit) return message;
  const size_t mark = sizeof(kCutMark) - 1;
  size_t keep = limit > mark ? limit - mark : 0;
  // Not in the middle of a UTF-8 sequence: the API server refuses broken text.
  while (keep > 0 && (static_cast<unsigned char>(message[keep]) & 0xC0) == 0x80) --keep;
  message.resize(keep);
  return message + std::string(kCutMark).substr(0, limit);
}

bool LabelSelector::Matches(const StringMap& labels) const {
  for (const auto& [key, value] : match_labels) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) return false;
  }
  return std::all_of(match_expressions.begin(), match_expressions.end(),
                     [&](const LabelSelectorRequirement& requirement) {
                       return MatchesRequirement(requirement, labels);
                     });
}

}  // namespace sluice::api
