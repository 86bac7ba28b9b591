// Json as YAML.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "api/crd.h"

namespace sluice::api {
namespace {

bool IsPlainCharacter(unsigned char c) {
  return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/' || c == ' ' ||
         c == '(' || c == ')' || c == ';' || c == '=';
}

// Whether a YAML 1.1 or 1.2 reader takes the bare text for a string. What is not obviously one is
// quoted.
bool IsPlain(const std::string& text) {
  static constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no",
                                                "on",   "off",   "y",    "n"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  if (text.back() == ' ' || text.find(" =") != std::string::npos) return false;
  if (!std::all_of(text.begin(), text.end(),
                   [](char c) { return IsPlainCharacter(static_cast<unsigned char>(c)); })) {
    return false;
  }
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

std::string Scalar(const Json& value) {
  if (value.IsString() && IsPlain(value.AsString())) return value.AsString();
  return value.Text();  // JSON's quoting is YAML's double-quoted style
}

bool IsBlock(const Json& value) { return !value.AsObject().empty() || !value.AsArray().empty(); }

void Write(const Json& value, size_t indent, std::string& out);

// The value after "key:" or "-".
void WriteValue(const Json& value, size_t indent, std::string& out) {
  if (!IsBlock(value)) {
    out += " " + Scalar(value) + "\n";
    return;
  }
  out += "\n";
  Write(value, indent, out);
}

void WriteMembers(const Json::Object& members, size_t indent, bool first_inline, std::string& out) {
  for (const auto& [key, value] : members) {
    if (!first_inline) out.append(indent, ' ');
    first_inline = false;
    out += Scalar(key) + ":";
    // Lists stand at the column of their key, as Kubernetes' own tools write them.
    WriteValue(value, value.IsArray() ? indent : indent + 2, out);
  }
}

void Write(const Json& value, size_t indent, std::string& out) {
  if (value.IsObject()) {
    WriteMembers(value.AsObject(), indent, false, out);
    return;
  }
  for (const Json& item : value.AsArray()) {
    out.append(indent, ' ');
    out += "-";
    if (item.IsObject() && IsBlock(item)) {
      out += " ";
      WriteMembers(item.AsObject(), indent + 2, true, out);
    } else {
      WriteValue(item, indent + 2, out);
    }
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  if (!IsBlock(value)) return Scalar(value) + "\n";
  std::string out;
  Write(value, 0, out);
  return out;
}

}  // namespace sluice::api
