// YAML documents as JSON; the only file here that sees yaml-cpp.
#include "sim/yaml.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/status.h"
#include "sim/scenario.h"

namespace sluice::sim {
namespace {

using api::Json;

// The core schema: what is quoted is a string, the rest is what it looks like.
Json Scalar(const YAML::Node& node) {
  const std::string text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "false") return text == "true";
  if (text.empty() || text == "null" || text == "~") return nullptr;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  const bool numeric = text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  double real = 0;
  if (numeric && absl::SimpleAtod(text, &real)) return real;
  return text;
}

Json Convert(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: {
      Json object = Json::MakeObject();
      for (const auto& entry : node) object.Set(entry.first.Scalar(), Convert(entry.second));
      return object;
    }
    case YAML::NodeType::Sequence: {
      Json array = Json::MakeArray();
      for (const auto& item : node) array.Append(Convert(item));
      return array;
    }
    case YAML::NodeType::Scalar:
      return Scalar(node);
    default:
      return nullptr;
  }
}

// Adds the lines of everything below `node`, whose own path is `path`.
void CollectLines(const YAML::Node& node, const std::string& path,
                  absl::btree_map<std::string, int>& lines) {
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      const std::string child = path.empty() ? key : path + "." + key;
      lines.emplace(child, entry.first.Mark().line + 1);
      CollectLines(entry.second, child, lines);
    }
  } else if (node.IsSequence()) {
    int index = 0;
    for (const auto& item : node) {
      const std::string child = fmt::format("{}[{}]", path, index++);
      lines.emplace(child, item.Mark().line + 1);
      CollectLines(item, child, lines);
    }
  }
}

// Whether the text names the path, and not only the beginning of another word.
bool Names(const std::string& text, const std::string& path) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const size_t end = at + path.size();
    const bool starts = at == 0 || !(word(text[at - 1]) || text[at - 1] == '.');
    if (starts && (end == text.size() || !word(text[end]))) return true;
  }
  return false;
}

}  // namespace

int YamlDocument::LineFor(const std::string& message) const {
  int found = line;
  size_t longest = 0;
  for (const auto& [path, at] : lines) {
    if (path.size() <= longest || !Names(message, path)) continue;
    longest = path.size();
    found = at;
  }
  return found;
}

absl::StatusOr<std::vector<YamlDocument>> YamlDocuments(const std::string& text) {
  std::vector<YamlDocument> documents;
  try {
    for (const YAML::Node& node : YAML::LoadAll(text)) {
      if (node.IsNull()) continue;
      YamlDocument document;
      document.json = Convert(node);
      document.line = node.Mark().line + 1;
      CollectLines(node, "", document.lines);
      documents.push_back(std::move(document));
    }
  } catch (const YAML::Exception& error) {
    return InvalidArgument("{}: the YAML cannot be read: {}", error.mark.line + 1, error.msg);
  }
  return documents;
}

absl::StatusOr<Json> YamlToJson(const std::string& text) {
  try {
    return Convert(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return InvalidArgument("the YAML cannot be read: {}", error.what());
  }
}

}  // namespace sluice::sim
