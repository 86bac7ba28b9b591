// YAML documents as JSON; the only file here that sees yaml-cpp.
#include <absl/strings/numbers.h>
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

}  // namespace

absl::StatusOr<Json> YamlToJson(const std::string& text) {
  try {
    return Convert(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return InvalidArgument("the YAML cannot be read: {}", error.what());
  }
}

}  // namespace sluice::sim
