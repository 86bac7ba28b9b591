#include "topology/node_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sluice::topology {
namespace {

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

bool Compares(const std::string& op, std::string_view value, const std::string& bound) {
  const std::optional<int64_t> number = ParseInteger(value);
  const std::optional<int64_t> limit = ParseInteger(bound);
  if (!number.has_value() || !limit.has_value()) return false;
  return op == "Gt" ? *number > *limit : *number < *limit;
}

bool Satisfies(const Requirement& requirement, std::optional<std::string_view> value) {
  const std::string& op = requirement.op;
  const auto among = [&] {
    return std::any_of(requirement.values.begin(), requirement.values.end(),
                       [&](const std::string& one) { return one == *value; });
  };
  if (op == "Exists") return value.has_value();
  if (op == "DoesNotExist") return !value.has_value();
  if (op == "In") return value.has_value() && among();
  // A node without the label is not in the list either.
  if (op == "NotIn") return !value.has_value() || !among();
  return value.has_value() && Compares(op, *value, requirement.values[0]);
}

std::optional<std::string> FindInvalidRequirement(const Requirement& requirement, bool field) {
  const std::string& op = requirement.op;
  const size_t values = requirement.values.size();
  if (field) {
    if (requirement.key != "metadata.name") {
      return fmt::format("there is no node field \"{}\"", requirement.key);
    }
    if ((op != "In" && op != "NotIn") || values != 1) {
      return fmt::format("field \"{}\" needs In or NotIn with one value", requirement.key);
    }
    return std::nullopt;
  }
  if (op == "In" || op == "NotIn") {
    if (values > 0) return std::nullopt;
    return fmt::format("key \"{}\": {} needs a value", requirement.key, op);
  }
  if (op == "Exists" || op == "DoesNotExist") {
    if (values == 0) return std::nullopt;
    return fmt::format("key \"{}\": {} takes no value", requirement.key, op);
  }
  if (op == "Gt" || op == "Lt") {
    if (values == 1 && ParseInteger(requirement.values[0]).has_value()) return std::nullopt;
    return fmt::format("key \"{}\": {} needs one integer", requirement.key, op);
  }
  return fmt::format("key \"{}\": \"{}\" is not an operator", requirement.key, op);
}

std::optional<std::string> FindInvalidTerm(const SelectorTerm& term) {
  for (const Requirement& requirement : term.labels) {
    if (auto error = FindInvalidRequirement(requirement, false)) return error;
  }
  for (const Requirement& requirement : term.fields) {
    if (auto error = FindInvalidRequirement(requirement, true)) return error;
  }
  return std::nullopt;
}

}  // namespace

uint32_t KeyTable::Intern(const std::string& key) {
  return ids_.try_emplace(key, static_cast<uint32_t>(ids_.size())).first->second;
}

uint32_t KeyTable::Find(const std::string& key) const {
  auto found = ids_.find(key);
  return found == ids_.end() ? kUnknown : found->second;
}

NodeLabels::NodeLabels(const Labels& labels, KeyTable& keys) {
  std::vector<std::pair<uint32_t, const std::string*>> sorted;
  sorted.reserve(labels.size());
  size_t bytes = 0;
  for (const auto& [key, value] : labels) {
    sorted.emplace_back(keys.Intern(key), &value);
    bytes += value.size();
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  index_.reserve(sorted.size());
  values_.reserve(bytes);
  for (const auto& [key, value] : sorted) {
    values_ += *value;
    index_.emplace_back(key, static_cast<uint32_t>(values_.size()));
  }
}

std::optional<std::string_view> NodeLabels::Get(uint32_t key) const {
  auto found =
      std::lower_bound(index_.begin(), index_.end(), key,
                       [](const auto& entry, uint32_t wanted) { return entry.first < wanted; });
  if (found == index_.end() || found->first != key) return std::nullopt;
  const size_t begin = found == index_.begin() ? 0 : std::prev(found)->second;
  return std::string_view(values_).substr(begin, found->second - begin);
}

size_t NodeLabels::MemoryBytes() const {
  return index_.capacity() * sizeof(index_[0]) + values_.capacity();
}

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  if (toleration.op == "Exists") return true;
  // Only Exists can go without a key.
  if (toleration.key.empty()) return false;
  if (toleration.op.empty() || toleration.op == "Equal") return toleration.value == taint.value;
  if (toleration.op != "Gt" && toleration.op != "Lt") return false;
  return Compares(toleration.op, taint.value, toleration.value);
}

std::string TaintText(const Taint& taint) {
  if (taint.value.empty()) return fmt::format("{}:{}", taint.key, taint.effect);
  return fmt::format("{}={}:{}", taint.key, taint.value, taint.effect);
}

std::optional<std::string> FindInvalid(const NodeFilter& filter) {
  for (const SelectorTerm& term : filter.required) {
    if (auto error = FindInvalidTerm(term)) return "invalid node affinity: " + *error;
  }
  for (const PreferredTerm& preferred : filter.preferred) {
    if (auto error = FindInvalidTerm(preferred.term)) return "invalid node affinity: " + *error;
  }
  return std::nullopt;
}

NodeMatcher::NodeMatcher(const NodeFilter& filter, const std::vector<Toleration>& more_tolerations,
                         const KeyTable& keys)
    : filter_(filter), tolerations_(filter.tolerations) {
  tolerations_.insert(tolerations_.end(), more_tolerations.begin(), more_tolerations.end());
  for (const auto& [key, value] : filter_.node_selector) {
    selector_.emplace_back(keys.Find(key), value);
  }
  for (const SelectorTerm& term : filter_.required) required_.push_back(Prepare(term, keys));
  for (const PreferredTerm& term : filter_.preferred) {
    preferred_.emplace_back(term.weight, Prepare(term.term, keys));
  }
}

NodeMatcher::Term NodeMatcher::Prepare(const SelectorTerm& term, const KeyTable& keys) {
  Term prepared;
  prepared.source = &term;
  for (const Requirement& requirement : term.labels) {
    prepared.labels.push_back({keys.Find(requirement.key), &requirement});
  }
  return prepared;
}

bool NodeMatcher::Matches(const Term& term, const NodeLabels& labels, const NodeName& name) {
  if (term.labels.empty() && term.source->fields.empty()) return false;
  for (const Check& check : term.labels) {
    const auto value = check.key == KeyTable::kUnknown ? std::nullopt : labels.Get(check.key);
    if (!Satisfies(*check.requirement, value)) return false;
  }
  for (const Requirement& requirement : term.source->fields) {
    if (!Satisfies(requirement, std::string_view(name))) return false;
  }
  return true;
}

const Taint* NodeMatcher::FirstUntolerated(const std::vector<Taint>& taints) const {
  for (const Taint& taint : taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    const bool tolerated =
        std::any_of(tolerations_.begin(), tolerations_.end(),
                    [&](const Toleration& toleration) { return Tolerates(toleration, taint); });
    if (!tolerated) return &taint;
  }
  return nullptr;
}

bool NodeMatcher::SelectorMatches(const NodeLabels& labels) const {
  return std::all_of(selector_.begin(), selector_.end(), [&](const auto& wanted) {
    return wanted.first != KeyTable::kUnknown && labels.Get(wanted.first) == wanted.second;
  });
}

bool NodeMatcher::AffinityMatches(const NodeLabels& labels, const NodeName& name) const {
  if (required_.empty()) return true;
  return std::any_of(required_.begin(), required_.end(),
                     [&](const Term& term) { return Matches(term, labels, name); });
}

int64_t NodeMatcher::Score(const NodeLabels& labels, const NodeName& name) const {
  int64_t score = 0;
  for (const auto& [weight, term] : preferred_) {
    if (Matches(term, labels, name)) score += weight;
  }
  return score;
}

}  // namespace sluice::topology
