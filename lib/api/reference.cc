// The reference text.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "api/crd.h"
#include "api/schema.h"

namespace sluice::api {
namespace {

std::string TypeText(const Json& schema) {
  if (schema.Has("x-kubernetes-int-or-string")) return "quantity";
  const std::string format = schema.GetString("format");
  if (!format.empty()) return format == "date-time" ? "time" : format;
  if (schema.GetString("type") == "array") return "list of " + TypeText(*schema.Find("items"));
  if (const Json* values = schema.Find("additionalProperties"))
    return "map to " + TypeText(*values);
  return schema.GetString("type");
}

void AddKeyword(const Json& schema, const char* keyword, const char* words,
                std::vector<std::string>& notes) {
  const Json* value = schema.Find(keyword);
  if (value == nullptr) return;
  notes.push_back(
      fmt::format("{} {}", words, value->IsString() ? value->AsString() : value->Text()));
}

// Table cells cannot hold a bare bar.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string RulesText(const Json& schema, bool required) {
  std::vector<std::string> notes;
  if (required) notes.emplace_back("required");
  AddKeyword(schema, "default", "default", notes);
  AddKeyword(schema, "enum", "one of", notes);
  AddKeyword(schema, "minimum", "at least", notes);
  AddKeyword(schema, "minLength", "min. length", notes);
  AddKeyword(schema, "maxLength", "max. length", notes);
  AddKeyword(schema, "minItems", "min. entries", notes);
  AddKeyword(schema, "maxItems", "max. entries", notes);
  AddKeyword(schema, "maxProperties", "max. entries", notes);
  if (const Json* rules = schema.Find("x-kubernetes-validations")) {
    for (const Json& rule : rules->AsArray()) notes.push_back(rule.GetString("message"));
  }
  return Escaped(fmt::format("{}", fmt::join(notes, "; ")));
}

bool IsRequired(const Json& schema, const std::string& name) {
  const Json* required = schema.Find("required");
  if (required == nullptr) return false;
  for (const Json& entry : required->AsArray()) {
    if (entry.AsString() == name) return true;
  }
  return false;
}

void AddRows(const Json& schema, const std::string& prefix, std::string& out) {
  const Json* properties = schema.Find("properties");
  if (properties == nullptr) return;
  for (const auto& [name, field] : properties->AsObject()) {
    if (prefix.empty() && (name == "apiVersion" || name == "kind" || name == "metadata")) continue;
    const std::string path = prefix + name;
    out += fmt::format("| `{}` | {} | {} | {} |\n", path, TypeText(field),
                       RulesText(field, IsRequired(schema, name)),
                       Escaped(field.GetString("description")));
    const Json* items = field.Find("items");
    AddRows(items == nullptr ? field : *items, path + (items == nullptr ? "." : "[]."), out);
  }
}

}  // namespace

std::string ReferenceText() {
  std::string out = "# Reference of kueue.x-k8s.io/v1beta2\n";
  for (const Kind kind : DefinedKinds()) {
    const KindInfo& info = InfoOf(kind);
    if (kind == Kind::kCreditPolicy) out += "\n# Reference of sluice.dev/v1alpha1\n";
    out += fmt::format("\n## {}\n\n{} (`{}`)\n\n", info.name,
                       info.namespaced ? "In a namespace" : "Cluster-wide", info.plural);
    out += "| Field | Type | Rules | Meaning |\n|---|---|---|---|\n";
    AddRows(SchemaOf(kind), "", out);
  }
  return out;
}

}  // namespace sluice::api
