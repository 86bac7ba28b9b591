#include "config/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace sluice::config {
namespace {

using api::Json;

// Aliases let a short text stand for a huge tree; no real configuration comes near this.
constexpr int kMaxValues = 100000;

constexpr char kStringTag[] = "tag:yaml.org,2002:str";
constexpr char kIntTag[] = "tag:yaml.org,2002:int";
constexpr char kFloatTag[] = "tag:yaml.org,2002:float";
constexpr char kBoolTag[] = "tag:yaml.org,2002:bool";
constexpr char kNullTag[] = "tag:yaml.org,2002:null";
constexpr char kMapTag[] = "tag:yaml.org,2002:map";
constexpr char kSeqTag[] = "tag:yaml.org,2002:seq";

template <std::size_t N>
bool OneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::optional<bool> AsBool(std::string_view text) {
  constexpr std::array<std::string_view, 11> kTrue = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                      "True", "TRUE", "on",  "On",  "ON"};
  constexpr std::array<std::string_view, 11> kFalse = {
      "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  if (OneOf(text, kTrue)) return true;
  if (OneOf(text, kFalse)) return false;
  return std::nullopt;
}

bool IsNullWord(std::string_view text) {
  constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  return OneOf(text, kNull);
}

template <typename T>
std::optional<T> Whole(std::string_view digits, int base) {
  T value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<int64_t> AsInteger(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  int base = 10;
  if (digits.starts_with("0x")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.starts_with("0o")) {
    base = 8;
    digits.remove_prefix(2);
  } else if (digits.starts_with("0b")) {
    base = 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  const std::optional<int64_t> value = Whole<int64_t>(digits, base);
  if (!value) return std::nullopt;
  return negative ? -*value : *value;
}

// [-+]? digits and at most one point, then an exponent: what YAML 1.1 calls a float.
std::optional<double> AsFloat(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  std::string_view body = text;
  if (body.starts_with('+')) body.remove_prefix(1);
  const std::string_view unsigned_body = body.starts_with('-') ? body.substr(1) : body;
  if (unsigned_body.empty() || unsigned_body.find_first_not_of("0123456789.eE+-") != body.npos ||
      unsigned_body.find_first_of("0123456789") == body.npos ||
      !(unsigned_body[0] == '.' || (unsigned_body[0] >= '0' && unsigned_body[0] <= '9'))) {
    return std::nullopt;
  }
  double value = 0;
  const char* end = body.data() + body.size();
  const auto result = std::from_chars(body.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

Json NumberOrString(const std::string& text) {
  if (const std::optional<int64_t> integer = AsInteger(text)) return Json(*integer);
  if (const std::optional<double> real = AsFloat(text)) {
    // 1e3 is written as 1000 when such a document becomes JSON.
    if (std::abs(*real) < 1e15 && !(std::trunc(*real) < *real) && !(std::trunc(*real) > *real)) {
      return Json(static_cast<int64_t>(*real));
    }
    return Json(*real);
  }
  return Json(text);
}

class Converter {
 public:
  absl::StatusOr<Json> Convert(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > api::kMaxJsonDepth) {
      return Error(node, path, fmt::format("nested deeper than {} levels", api::kMaxJsonDepth));
    }
    if (++values_ > kMaxValues) {
      return Error(node, path, fmt::format("more than {} values", kMaxValues));
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return Scalar(node, path);
      case YAML::NodeType::Sequence:
        return Sequence(node, path, depth);
      case YAML::NodeType::Map:
        return Mapping(node, path, depth);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return Json();
  }

 private:
  static absl::Status Error(const YAML::Node& node, const std::string& path,
                            const std::string& what) {
    const int line = node.Mark().line + 1;
    if (path.empty()) return InvalidArgument("{} (line {})", what, line);
    return InvalidArgument("{}: {} (line {})", path, what, line);
  }

  static absl::StatusOr<Json> Scalar(const YAML::Node& node, const std::string& path) {
    const std::string& tag = node.Tag();
    const std::string& text = node.Scalar();
    if (tag == "!" || tag == kStringTag) return Json(text);
    if (tag == kNullTag) return Json();
    const bool plain = tag.empty() || tag == "?";
    if (!plain && tag != kIntTag && tag != kFloatTag && tag != kBoolTag) {
      return Error(node, path, fmt::format("unknown tag \"{}\"", tag));
    }
    if (plain && IsNullWord(text)) return Json();
    Json value;
    if (const std::optional<bool> word = AsBool(text)) {
      value = Json(*word);
    } else {
      value = NumberOrString(text);
    }
    if ((tag == kBoolTag && !value.IsBool()) || (tag == kIntTag && !value.IsInt()) ||
        (tag == kFloatTag && !value.IsNumber())) {
      return Error(node, path, fmt::format("\"{}\" does not fit its tag", text));
    }
    return value;
  }

  absl::StatusOr<Json> Sequence(const YAML::Node& node, const std::string& path, int depth) {
    if (!TagAllowed(node, kSeqTag)) {
      return Error(node, path, fmt::format("unknown tag \"{}\"", node.Tag()));
    }
    Json array = Json::MakeArray();
    int index = 0;
    for (const YAML::Node& item : node) {
      ASSIGN_OR_RETURN(Json value, Convert(item, fmt::format("{}[{}]", path, index++), depth + 1));
      array.Append(std::move(value));
    }
    return array;
  }

  absl::StatusOr<Json> Mapping(const YAML::Node& node, const std::string& path, int depth) {
    if (!TagAllowed(node, kMapTag)) {
      return Error(node, path, fmt::format("unknown tag \"{}\"", node.Tag()));
    }
    Json object = Json::MakeObject();
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) return Error(pair.first, path, "a key must be a plain text");
      if (pair.first.Scalar() == "<<" && pair.first.Tag() != "!") {
        return Error(pair.first, path, "merge keys (<<) are not supported");
      }
      ASSIGN_OR_RETURN(const std::string key, Key(pair.first, path));
      const std::string child_path = path.empty() ? key : fmt::format("{}.{}", path, key);
      if (object.Has(key)) return Error(pair.first, child_path, "the key is given twice");
      ASSIGN_OR_RETURN(Json value, Convert(pair.second, child_path, depth + 1));
      object.MutableObject().emplace_back(key, std::move(value));
    }
    return object;
  }

  static bool TagAllowed(const YAML::Node& node, const char* standard) {
    return node.Tag().empty() || node.Tag() == "?" || node.Tag() == "!" || node.Tag() == standard;
  }

  // A key that reads as a boolean or a number becomes its canonical text.
  static absl::StatusOr<std::string> Key(const YAML::Node& node, const std::string& path) {
    ASSIGN_OR_RETURN(const Json value, Scalar(node, path));
    if (value.IsString()) return value.AsString();
    return value.Text();
  }

  int values_ = 0;
};

}  // namespace

absl::StatusOr<Json> ParseYaml(const std::string& text) {
  try {
    return Converter().Convert(YAML::Load(text), "", 1);
  } catch (const YAML::Exception& error) {
    if (error.mark.is_null()) return InvalidArgument("YAML: {}", error.msg);
    return InvalidArgument("YAML: {} (line {}, column {})", error.msg, error.mark.line + 1,
                           error.mark.column + 1);
  }
}

}  // namespace sluice::config
