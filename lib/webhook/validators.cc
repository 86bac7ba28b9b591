#include "webhook/validators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/names.h"

namespace sluice::webhook {
namespace {

constexpr size_t kMaxNamePart = 63;
constexpr size_t kMaxSubdomain = 253;
constexpr size_t kMaxAnnotationBytes = 256 * 1024;
constexpr size_t kMaxReason = 1024;
constexpr size_t kMaxGateName = 63;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }
bool IsAlphanumeric(char c) { return IsLetter(c) || IsDigit(c); }

// Letters, digits, '-', '_' and '.', with a letter or digit at both ends.
bool IsNamePart(std::string_view text) {
  if (text.empty() || !IsAlphanumeric(text.front()) || !IsAlphanumeric(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsDnsLabelText(std::string_view text) {
  const auto edge = [](char c) { return IsLower(c) || IsDigit(c); };
  if (text.empty() || !edge(text.front()) || !edge(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return edge(c) || c == '-'; });
}

bool IsDnsSubdomainText(std::string_view text) {
  while (true) {
    const size_t dot = text.find('.');
    if (!IsDnsLabelText(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::string AtMost(size_t bytes) { return fmt::format("must be no more than {} bytes", bytes); }

constexpr char kNamePartRule[] =
    "name part must consist of letters, digits, '-', '_' or '.', and must start and end with a "
    "letter or digit";
constexpr char kSubdomainRule[] =
    "must be a DNS-1123 subdomain: lower case letters, digits, '-' or '.', starting and ending "
    "with a letter or digit";

bool IsConditionReason(std::string_view reason) {
  if (!IsLetter(reason.front())) return false;
  const char last = reason.back();
  if (!IsAlphanumeric(last) && last != '_') return false;
  return std::all_of(reason.begin(), reason.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '_' || c == ',' || c == ':'; });
}

bool IsHttpPathText(std::string_view text) {
  constexpr std::string_view kOthers = "/-._~%!$&'()*+,;=:";
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return IsAlphanumeric(c) || kOthers.find(c) != std::string_view::npos;
  });
}

void AddInvalid(const Path& path, std::string_view value, Problems problems, FieldErrors* errors) {
  for (std::string& problem : problems) {
    errors->push_back(FieldError::Invalid(path, value, std::move(problem)));
  }
}

void CheckRequirement(const Path& path, const api::LabelSelectorRequirement& requirement,
                      FieldErrors* errors) {
  if (requirement.op == "In" || requirement.op == "NotIn") {
    if (requirement.values.empty()) {
      errors->push_back(
          FieldError::Required(path.Child("values"), "operators In and NotIn need values"));
    }
  } else if (requirement.op == "Exists" || requirement.op == "DoesNotExist") {
    if (!requirement.values.empty()) {
      errors->push_back(FieldError::Forbidden(path.Child("values"),
                                              "operators Exists and DoesNotExist take no values"));
    }
  } else {
    errors->push_back(
        FieldError::Invalid(path.Child("operator"), requirement.op, "not a selector operator"));
  }
  CheckLabelName(path.Child("key"), requirement.key, errors);
  for (size_t i = 0; i < requirement.values.size(); ++i) {
    CheckLabelValue(path.Child("values").Index(i), requirement.values[i], errors);
  }
}

void CheckCondition(const Path& path, const api::Condition& condition, FieldErrors* errors) {
  if (condition.type.empty()) {
    errors->push_back(FieldError::Required(path.Child("type"), ""));
  } else {
    CheckLabelName(path.Child("type"), condition.type, errors);
  }
  if (condition.observed_generation < 0) {
    errors->push_back(FieldError::Invalid(path.Child("observedGeneration"),
                                          condition.observed_generation, "must not be negative"));
  }
  if (!condition.last_transition_time) {
    errors->push_back(FieldError::Required(path.Child("lastTransitionTime"), ""));
  }
  if (condition.reason.empty()) {
    errors->push_back(FieldError::Required(path.Child("reason"), ""));
  } else {
    if (!IsConditionReason(condition.reason)) {
      errors->push_back(
          FieldError::Invalid(path.Child("reason"), condition.reason,
                              "must start with a letter, end with a letter, digit or '_', and "
                              "consist of letters, digits, '_', ',' or ':'"));
    }
    if (condition.reason.size() > kMaxReason) {
      errors->push_back(FieldError::TooLong(path.Child("reason"), kMaxReason));
    }
  }
  if (condition.message.size() > api::kMaxConditionMessage) {
    errors->push_back(FieldError::TooLong(path.Child("message"), api::kMaxConditionMessage));
  }
}

std::vector<std::string> SplitGates(std::string_view value) {
  std::vector<std::string> gates;
  while (true) {
    const size_t comma = value.find(',');
    std::string_view gate = value.substr(0, comma);
    while (!gate.empty() && (gate.front() == ' ' || gate.front() == '\t')) gate.remove_prefix(1);
    while (!gate.empty() && (gate.back() == ' ' || gate.back() == '\t')) gate.remove_suffix(1);
    gates.emplace_back(gate);
    if (comma == std::string_view::npos) return gates;
    value.remove_prefix(comma + 1);
  }
}

bool IsBlank(std::string_view value) {
  return value.find_first_not_of(" \t") == std::string_view::npos;
}

void CheckGateNames(const Path& path, const std::vector<std::string>& gates, FieldErrors* errors) {
  for (size_t i = 0; i < gates.size(); ++i) {
    const std::string& gate = gates[i];
    if (gate.empty()) {
      errors->push_back(FieldError::Invalid(path, gate, "the name of a gate must not be empty"));
      continue;
    }
    if (std::find(gates.begin(), gates.begin() + static_cast<ptrdiff_t>(i), gate) !=
        gates.begin() + static_cast<ptrdiff_t>(i)) {
      errors->push_back(FieldError::Duplicate(path, gate));
      continue;
    }
    if (gate.size() > kMaxGateName) errors->push_back(FieldError::TooLong(path, kMaxGateName));
    CheckDomainPrefixedPath(path, gate, errors);
  }
}

}  // namespace

Problems QualifiedNameProblems(std::string_view text) {
  Problems problems;
  std::string_view name = text;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string_view prefix = text.substr(0, slash);
    name = text.substr(slash + 1);
    if (name.find('/') != std::string_view::npos) {
      return {"must be a name with an optional DNS subdomain and '/' before it"};
    }
    if (prefix.empty()) {
      problems.emplace_back("prefix part must not be empty");
    } else {
      for (const std::string& problem : DnsSubdomainProblems(prefix)) {
        problems.push_back("prefix part " + problem);
      }
    }
  }
  if (name.empty()) {
    problems.emplace_back("name part must not be empty");
    return problems;
  }
  if (name.size() > kMaxNamePart) problems.push_back("name part " + AtMost(kMaxNamePart));
  if (!IsNamePart(name)) problems.emplace_back(kNamePartRule);
  return problems;
}

Problems LabelValueProblems(std::string_view text) {
  Problems problems;
  if (text.size() > kMaxNamePart) problems.push_back(AtMost(kMaxNamePart));
  if (!text.empty() && !IsNamePart(text)) {
    problems.emplace_back(
        "a label value must be empty or consist of letters, digits, '-', '_' or '.', and start "
        "and end with a letter or digit");
  }
  return problems;
}

Problems DnsLabelProblems(std::string_view text) {
  Problems problems;
  if (text.size() > kMaxNamePart) problems.push_back(AtMost(kMaxNamePart));
  if (!IsDnsLabelText(text)) {
    problems.emplace_back(
        "must be a DNS-1123 label: lower case letters, digits or '-', starting and ending with a "
        "letter or digit");
  }
  return problems;
}

Problems DnsSubdomainProblems(std::string_view text) {
  Problems problems;
  if (text.size() > kMaxSubdomain) problems.push_back(AtMost(kMaxSubdomain));
  if (!IsDnsSubdomainText(text)) problems.emplace_back(kSubdomainRule);
  return problems;
}

void CheckLabelName(const Path& path, std::string_view name, FieldErrors* errors) {
  AddInvalid(path, name, QualifiedNameProblems(name), errors);
}

void CheckLabelValue(const Path& path, std::string_view value, FieldErrors* errors) {
  AddInvalid(path, value, LabelValueProblems(value), errors);
}

void CheckDnsSubdomain(const Path& path, std::string_view name, FieldErrors* errors) {
  AddInvalid(path, name, DnsSubdomainProblems(name), errors);
}

void CheckLabels(const Path& path, const api::StringMap& labels, FieldErrors* errors) {
  for (const auto& [key, value] : labels) {
    CheckLabelName(path, key, errors);
    CheckLabelValue(path, value, errors);
  }
}

void CheckAnnotations(const Path& path, const api::StringMap& annotations, FieldErrors* errors) {
  size_t bytes = 0;
  for (const auto& [key, value] : annotations) {
    bytes += key.size() + value.size();
    std::string lower = key;
    for (char& c : lower) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    AddInvalid(path, key, QualifiedNameProblems(lower), errors);
  }
  if (bytes > kMaxAnnotationBytes) {
    errors->push_back(FieldError::TooLong(path, kMaxAnnotationBytes));
  }
}

void CheckLabelSelector(const Path& path, const api::LabelSelector& selector, FieldErrors* errors) {
  CheckLabels(path.Child("matchLabels"), selector.match_labels, errors);
  for (size_t i = 0; i < selector.match_expressions.size(); ++i) {
    CheckRequirement(path.Child("matchExpressions").Index(i), selector.match_expressions[i],
                     errors);
  }
}

void CheckConditions(const Path& path, const api::Conditions& conditions, FieldErrors* errors) {
  for (size_t i = 0; i < conditions.size(); ++i) {
    const Path item = path.Index(i);
    for (size_t before = 0; before < i; ++before) {
      if (conditions[before].type != conditions[i].type) continue;
      errors->push_back(FieldError::Duplicate(item, conditions[i].type));
      break;
    }
    CheckCondition(item, conditions[i], errors);
  }
}

void CheckDomainPrefixedPath(const Path& path, std::string_view text, FieldErrors* errors) {
  if (text.empty()) {
    errors->push_back(FieldError::Required(path, ""));
    return;
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size()) {
    errors->push_back(
        FieldError::Invalid(path, text, "must be a path with a domain before it, as in a.io/b"));
    return;
  }
  CheckDnsSubdomain(path, text.substr(0, slash), errors);
  const std::string_view rest = text.substr(slash + 1);
  if (!IsHttpPathText(rest)) {
    errors->push_back(FieldError::Invalid(path, rest, "has characters that no URL path may have"));
  }
}

void CheckAdmissionGatedBy(const api::ObjectMeta& metadata, const api::ObjectMeta* old_metadata,
                           FieldErrors* errors) {
  const std::string value = metadata.Annotation(api::kAdmissionGatedBy);
  if (value.empty()) return;
  const Path path = Path("metadata").Child("annotations").Key(api::kAdmissionGatedBy);
  // A value of nothing but spaces names no gate, but it does hold the workload.
  const std::vector<std::string> gates =
      IsBlank(value) ? std::vector<std::string>() : SplitGates(value);
  CheckGateNames(path, gates, errors);
  if (old_metadata == nullptr) return;
  const std::string old_value = old_metadata->Annotation(api::kAdmissionGatedBy);
  if (old_value.empty()) {
    errors->push_back(FieldError::Forbidden(path, "gates can be set at creation only"));
    return;
  }
  const std::vector<std::string> old_gates = SplitGates(old_value);
  for (const std::string& gate : gates) {
    if (std::find(old_gates.begin(), old_gates.end(), gate) == old_gates.end()) {
      errors->push_back(FieldError::Forbidden(
          path, fmt::format("gate {} cannot be added, gates can only be removed", Quote(gate))));
    }
  }
}

std::optional<int64_t> ParseInt64(std::string_view text) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return std::nullopt;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int32_t> ParseInt32(std::string_view text) {
  const std::optional<int64_t> value = ParseInt64(text);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return std::nullopt;
  return static_cast<int32_t>(*value);
}

std::optional<bool> ParseBool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "True", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "false", "False", "FALSE"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

}  // namespace sluice::webhook
