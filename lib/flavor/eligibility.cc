#include "flavor/eligibility.h"

#include <algorithm>
#include <charconv>

namespace sluice::flavor {
namespace {

std::optional<int64_t> ParseInteger(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

bool Contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

enum class Match { kYes, kNo, kInvalid };

// The requirement's key is a label of the flavor with this value.
Match MatchRequirement(const api::NodeSelectorRequirement& requirement, const std::string& value) {
  const auto answer = [](bool matches) { return matches ? Match::kYes : Match::kNo; };
  if (requirement.op == "In" || requirement.op == "NotIn") {
    if (requirement.values.empty()) return Match::kInvalid;
    return answer(Contains(requirement.values, value) == (requirement.op == "In"));
  }
  if (requirement.op == "Exists" || requirement.op == "DoesNotExist") {
    if (!requirement.values.empty()) return Match::kInvalid;
    return answer(requirement.op == "Exists");
  }
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    if (requirement.values.size() != 1) return Match::kInvalid;
    const std::optional<int64_t> bound = ParseInteger(requirement.values[0]);
    if (!bound.has_value()) return Match::kInvalid;
    const std::optional<int64_t> number = ParseInteger(value);
    if (!number.has_value()) return Match::kNo;
    return answer(requirement.op == "Gt" ? *number > *bound : *number < *bound);
  }
  return Match::kInvalid;
}

}  // namespace

bool Tolerates(const api::Toleration& toleration, const api::Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  if (toleration.op == "Exists") return true;
  // Only Exists can go without a key.
  if (toleration.key.empty()) return false;
  if (toleration.op.empty() || toleration.op == "Equal") return toleration.value == taint.value;
  if (toleration.op == "Gt" || toleration.op == "Lt") {
    const std::optional<int64_t> bound = ParseInteger(toleration.value);
    const std::optional<int64_t> number = ParseInteger(taint.value);
    if (!bound.has_value() || !number.has_value()) return false;
    return toleration.op == "Gt" ? *number > *bound : *number < *bound;
  }
  return false;
}

std::optional<api::Taint> FirstUntoleratedTaint(const api::ResourceFlavor& flavor,
                                                const api::PodSpec& pod) {
  for (const api::Taint& taint : flavor.spec.node_taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    const auto tolerated = [&](const api::Toleration& toleration) {
      return Tolerates(toleration, taint);
    };
    const auto& own = pod.tolerations;
    const auto& given = flavor.spec.tolerations;
    if (std::any_of(own.begin(), own.end(), tolerated)) continue;
    if (std::any_of(given.begin(), given.end(), tolerated)) continue;
    return taint;
  }
  return std::nullopt;
}

AffinityMatch MatchesAffinity(const api::ResourceFlavor& flavor, const api::PodSpec& pod) {
  const api::StringMap& labels = flavor.spec.node_labels;
  for (const auto& [key, value] : pod.node_selector) {
    auto label = labels.find(key);
    if (label != labels.end() && label->second != value) return AffinityMatch::kDiffers;
  }
  if (!pod.node_affinity.has_value() || pod.node_affinity->required.empty()) {
    return AffinityMatch::kMatches;
  }
  bool any_matches = false;
  bool invalid = false;
  for (const api::NodeSelectorTerm& term : pod.node_affinity->required) {
    bool empty = true;
    bool matches = true;
    for (const api::NodeSelectorRequirement& requirement : term.match_expressions) {
      auto label = labels.find(requirement.key);
      if (label == labels.end()) continue;
      empty = false;
      const Match match = MatchRequirement(requirement, label->second);
      if (match == Match::kInvalid) invalid = true;
      if (match != Match::kYes) matches = false;
    }
    // Terms are alternatives: one that says nothing about this flavor lets it pass.
    if (empty) return AffinityMatch::kMatches;
    if (matches) any_matches = true;
  }
  if (invalid) return AffinityMatch::kInvalid;
  return any_matches ? AffinityMatch::kMatches : AffinityMatch::kDiffers;
}

}  // namespace sluice::flavor
