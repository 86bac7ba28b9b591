// Defaulting, pruning and validation by a structural schema.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <string>

#include "api/rules.h"
#include "api/schema.h"
#include "base/check.h"
#include "resource/quantity.h"

namespace sluice::api {
namespace {

const Json* ItemsOf(const Json& schema) { return schema.Find("items"); }

bool Preserves(const Json& schema) {
  const Json* flag = schema.Find("x-kubernetes-preserve-unknown-fields");
  return flag != nullptr && flag->AsBool();
}

// ---- patterns: the few that the schemas use, without a regular expression engine ----

bool IsAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool IsLowerAlnum(char c) { return IsAlnum(c) && std::isupper(static_cast<unsigned char>(c)) == 0; }

bool IsLabel(std::string_view text) {
  if (text.empty() || !IsLowerAlnum(text.front()) || !IsLowerAlnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool IsSubdomain(std::string_view text) {
  for (size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.')) {
    if (!IsLabel(text.substr(0, dot))) return false;
    text.remove_prefix(dot + 1);
  }
  return IsLabel(text);
}

bool IsLabelKey(std::string_view text) {
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    if (!IsSubdomain(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  if (text.empty() || !IsAlnum(text.front()) || !IsAlnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsConditionReason(std::string_view text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return false;
  if (!IsAlnum(text.back()) && text.back() != '_') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '_' || c == ',' || c == ':'; });
}

bool IsKindName(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return IsLabel(lower) && std::isdigit(static_cast<unsigned char>(lower[0])) == 0;
}

// "1h30m", "0.5s", "0".
bool IsDuration(std::string_view text) {
  if (text == "0") return true;
  if (text.empty()) return false;
  const auto digits = [&text] {
    size_t count = 0;
    while (count < text.size() && std::isdigit(static_cast<unsigned char>(text[count])) != 0) {
      ++count;
    }
    text.remove_prefix(count);
    return count > 0;
  };
  while (!text.empty()) {
    if (!digits()) return false;
    if (text.starts_with(".")) {
      text.remove_prefix(1);
      if (!digits()) return false;
    }
    const size_t unit = text.starts_with("ms") ? 2 : 1;
    if (text.empty() || (unit == 1 && text.find_first_of("smh") != 0)) return false;
    text.remove_prefix(unit);
  }
  return true;
}

bool MatchesPattern(const std::string& text, const std::string& pattern) {
  if (pattern == kSubdomainPattern) return IsSubdomain(text);
  if (pattern == kLabelPattern) return IsLabel(text);
  if (pattern == kLabelKeyPattern) return IsLabelKey(text);
  if (pattern == kReasonPattern) return IsConditionReason(text);
  if (pattern == kKindNamePattern) return IsKindName(text);
  SLUICE_CHECK(false, "no matcher for the pattern {}", pattern);
  return false;
}

// ---- validation ----

size_t CodePoints(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

class Validator {
 public:
  std::vector<SchemaError> TakeErrors() { return std::move(errors_); }

  void Check(const Json& value, const Json& schema, const std::string& path) {
    if (schema.Has("x-kubernetes-int-or-string")) {
      if (schema.GetString("pattern") == kDurationPattern) {
        CheckDuration(value, path);
      } else {
        CheckQuantity(value, path);
      }
      return;
    }
    const std::string type = schema.GetString("type");
    if (!HasType(value, type)) {
      Add(path, "FieldValueTypeInvalid",
          fmt::format("Invalid value: {}: must be of type {}", value.Text(), type));
      return;
    }
    if (value.IsObject()) CheckObject(value, schema, path);
    if (value.IsArray()) CheckList(value, schema, path);
    if (value.IsString()) CheckString(value, schema, path);
    if (value.IsNumber()) CheckNumber(value, schema, path);
    CheckEnum(value, schema, path);
  }

 private:
  void Add(const std::string& path, const char* type, std::string message) {
    errors_.push_back({path, type, std::move(message)});
  }

  static bool HasType(const Json& value, const std::string& type) {
    if (type == "object") return value.IsObject();
    if (type == "array") return value.IsArray();
    if (type == "string") return value.IsString();
    if (type == "boolean") return value.IsBool();
    if (type == "integer") {
      return value.IsNumber() && value.AsInt(0) == value.AsInt(1);
    }
    return true;
  }

  void CheckDuration(const Json& value, const std::string& path) {
    if (value.IsInt() || (value.IsString() && IsDuration(value.AsString()))) return;
    Add(path, "FieldValueInvalid",
        fmt::format("Invalid value: {}: must be a duration", value.Text()));
  }

  void CheckQuantity(const Json& value, const std::string& path) {
    const bool good = value.IsInt() || (value.IsString() && Quantity::Parse(value.AsString()).ok());
    if (good) return;
    Add(path, "FieldValueInvalid",
        fmt::format("Invalid value: {}: must be a quantity", value.Text()));
  }

  void CheckObject(const Json& value, const Json& schema, const std::string& path) {
    if (const Json* required = schema.Find("required")) {
      for (const Json& name : required->AsArray()) {
        if (value.Has(name.AsString())) continue;
        Add(Member(path, name.AsString()), "FieldValueRequired", "Required value");
      }
    }
    const Json* limit = schema.Find("maxProperties");
    if (limit != nullptr && std::ssize(value.AsObject()) > limit->AsInt()) {
      Add(path, "FieldValueTooMany",
          fmt::format("Too many: {}: must have at most {} items", value.AsObject().size(),
                      limit->AsInt()));
    }
    const Json* properties = schema.Find("properties");
    const Json* values = schema.Find("additionalProperties");
    for (const auto& [name, member] : value.AsObject()) {
      const Json* known = properties == nullptr ? nullptr : properties->Find(name);
      if (known != nullptr) Check(member, *known, Member(path, name));
      if (values != nullptr) Check(member, *values, fmt::format("{}[{}]", path, name));
    }
  }

  void CheckList(const Json& value, const Json& schema, const std::string& path) {
    const Json::Array& items = value.AsArray();
    const Json* most = schema.Find("maxItems");
    const Json* least = schema.Find("minItems");
    if (most != nullptr && std::ssize(items) > most->AsInt()) {
      Add(path, "FieldValueTooMany",
          fmt::format("Too many: {}: must have at most {} items", items.size(), most->AsInt()));
    }
    if (least != nullptr && std::ssize(items) < least->AsInt()) {
      Add(path, "FieldValueInvalid",
          fmt::format("Invalid value: {}: should have at least {} items", items.size(),
                      least->AsInt()));
    }
    std::set<std::string> seen;
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      Check(items[i], *ItemsOf(schema), at);
      const std::string key = KeyOf(items[i], schema);
      if (!key.empty() && !seen.insert(key).second) {
        Add(at, "FieldValueDuplicate", "Duplicate value: " + key);
      }
    }
  }

  // What must be unique among the items; "" when nothing must.
  static std::string KeyOf(const Json& item, const Json& schema) {
    const std::string list_type = schema.GetString("x-kubernetes-list-type");
    if (list_type == "set") return item.Text();
    if (list_type != "map") return "";
    Json key = Json::MakeObject();
    for (const Json& name : schema.Find("x-kubernetes-list-map-keys")->AsArray()) {
      const Json* part = item.Find(name.AsString());
      key.Set(name.AsString(), part == nullptr ? Json() : *part);
    }
    return key.Text();
  }

  void CheckString(const Json& value, const Json& schema, const std::string& path) {
    const std::string& text = value.AsString();
    const auto length = static_cast<int64_t>(CodePoints(text));
    const Json* most = schema.Find("maxLength");
    const Json* least = schema.Find("minLength");
    if (most != nullptr && length > most->AsInt()) {
      Add(path, "FieldValueTooLong",
          fmt::format("Too long: may not be more than {} characters", most->AsInt()));
    }
    if (least != nullptr && length < least->AsInt()) {
      Add(path, "FieldValueInvalid",
          fmt::format("Invalid value: {}: should be at least {} chars long", value.Text(),
                      least->AsInt()));
    }
    const std::string pattern = schema.GetString("pattern");
    if (!pattern.empty() && !MatchesPattern(text, pattern)) {
      Add(path, "FieldValueInvalid",
          fmt::format("Invalid value: {}: should match '{}'", value.Text(), pattern));
    }
  }

  void CheckNumber(const Json& value, const Json& schema, const std::string& path) {
    const Json* least = schema.Find("minimum");
    if (least != nullptr && value.AsDouble() < least->AsDouble()) {
      Add(path, "FieldValueInvalid",
          fmt::format("Invalid value: {}: should be greater than or equal to {}", value.Text(),
                      least->Text()));
    }
    const bool small = schema.GetString("format") == "int32";
    if (small && (value.AsInt() > std::numeric_limits<int32_t>::max() ||
                  value.AsInt() < std::numeric_limits<int32_t>::min())) {
      Add(path, "FieldValueInvalid",
          fmt::format("Invalid value: {}: must be a 32-bit integer", value.Text()));
    }
  }

  void CheckEnum(const Json& value, const Json& schema, const std::string& path) {
    const Json* allowed = schema.Find("enum");
    if (allowed == nullptr) return;
    std::string list;
    for (const Json& choice : allowed->AsArray()) {
      if (choice == value) return;
      list += (list.empty() ? "" : ", ") + choice.Text();
    }
    Add(path, "FieldValueNotSupported",
        fmt::format("Unsupported value: {}: supported values: {}", value.Text(), list));
  }

  static std::string Member(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  std::vector<SchemaError> errors_;
};

void PruneBelow(Json& value, const Json& schema, bool root) {
  if (value.IsArray()) {
    const Json* items = ItemsOf(schema);
    if (items == nullptr) return;
    for (Json& item : value.MutableArray()) PruneBelow(item, *items, false);
    return;
  }
  if (!value.IsObject()) return;
  const Json* properties = schema.Find("properties");
  const Json* values = schema.Find("additionalProperties");
  Json::Object kept;
  for (auto& [name, member] : value.MutableObject()) {
    const Json* known = properties == nullptr ? nullptr : properties->Find(name);
    if (root && name == "metadata") {
      kept.emplace_back(name, std::move(member));
      continue;
    }
    if (known == nullptr) known = values;
    if (known == nullptr && !Preserves(schema)) continue;
    if (known != nullptr) PruneBelow(member, *known, false);
    kept.emplace_back(name, std::move(member));
  }
  value.MutableObject() = std::move(kept);
}

}  // namespace

void ApplyDefaults(Json& value, const Json& schema) {
  if (value.IsArray()) {
    const Json* items = ItemsOf(schema);
    if (items == nullptr) return;
    for (Json& item : value.MutableArray()) ApplyDefaults(item, *items);
    return;
  }
  if (!value.IsObject()) return;
  if (const Json* properties = schema.Find("properties")) {
    for (const auto& [name, known] : properties->AsObject()) {
      const Json* present = value.Find(name);
      if (present != nullptr && present->IsNull()) value.Erase(name);
      const Json* fallback = known.Find("default");
      if (fallback != nullptr && !value.Has(name)) value.Set(name, *fallback);
      if (Json* member = value.Find(name)) ApplyDefaults(*member, known);
    }
  }
  if (const Json* values = schema.Find("additionalProperties")) {
    for (auto& member : value.MutableObject()) ApplyDefaults(member.second, *values);
  }
}

void Prune(Json& value, const Json& schema) { PruneBelow(value, schema, true); }

std::vector<SchemaError> ValidateSchema(const Json& value, const Json& schema) {
  Validator validator;
  validator.Check(value, schema, "");
  return validator.TakeErrors();
}

}  // namespace sluice::api
