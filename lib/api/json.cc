#include "api/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "api/parse_object.h"
#include "base/status.h"

namespace sluice::api {
namespace {

const std::string kEmptyString;
const Json::Array kEmptyArray;
const Json::Object kEmptyObject;

// Of members with the same key the last value stays, at the place of the first. Large objects go
// through a hash table, so that a hostile document cannot make this quadratic.
void KeepLast(Json::Object& members) {
  constexpr size_t kSmall = 16;
  std::vector<bool> dropped;
  const auto drop = [&](size_t first, size_t again) {
    dropped.resize(members.size());
    dropped[again] = true;
    members[first].second = std::move(members[again].second);
  };
  if (members.size() <= kSmall) {
    for (size_t i = 1; i < members.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if ((!dropped.empty() && dropped[j]) || members[j].first != members[i].first) continue;
        drop(j, i);
        break;
      }
    }
  } else {
    std::unordered_map<std::string, size_t> first;
    first.reserve(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      const auto [found, is_new] = first.emplace(members[i].first, i);
      if (!is_new) drop(found->second, i);
    }
  }
  if (dropped.empty()) return;
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (dropped[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

// Builds the tree from rapidjson's events. The stack holds finished values of open containers by
// value, so a failure in the middle frees everything. Of what is left out only the depth is
// counted.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  explicit Builder(bool without_managed_fields) : without_managed_fields_(without_managed_fields) {}

  bool Null() { return Add(Json()); }
  bool Bool(bool value) { return Add(Json(value)); }
  bool Int(int value) { return Add(Json(value)); }
  bool Uint(unsigned value) { return Add(Json(static_cast<int64_t>(value))); }
  bool Int64(int64_t value) { return Add(Json(value)); }
  bool Uint64(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Add(Json(static_cast<double>(value)));
    return Add(Json(static_cast<int64_t>(value)));
  }
  bool Double(double value) { return Add(Json(value)); }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (left_out_) return LeaveOut(0);
    return Add(Json(std::string(text, length)));
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (left_out_) return true;
    const std::string_view key(text, length);
    if (without_managed_fields_ && key == "managedFields" && InMetadata()) {
      left_out_ = 0;
      return true;
    }
    stack_.back().MutableObject().emplace_back(std::string(key), Json());
    return true;
  }
  bool StartObject() { return left_out_ ? LeaveOut(1) : Open(Json(Json::Object())); }
  bool EndObject(rapidjson::SizeType) {
    if (left_out_) return LeaveOut(-1);
    KeepLast(stack_.back().MutableObject());
    return Close();
  }
  bool StartArray() { return left_out_ ? LeaveOut(1) : Open(Json(Json::Array())); }
  bool EndArray(rapidjson::SizeType) { return left_out_ ? LeaveOut(-1) : Close(); }

  Json TakeRoot() { return std::move(root_); }
  bool too_deep() const { return too_deep_; }

 private:
  bool Open(Json container) {
    if (stack_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      too_deep_ = true;
      return false;
    }
    stack_.push_back(std::move(container));
    return true;
  }
  bool Close() {
    Json done = std::move(stack_.back());
    stack_.pop_back();
    return Add(std::move(done));
  }
  bool InMetadata() const {
    if (stack_.size() < 2 || !stack_[stack_.size() - 2].IsObject()) return false;
    const Json::Object& outer = stack_[stack_.size() - 2].AsObject();
    return !outer.empty() && outer.back().first == "metadata";
  }
  // A part of what is left out: a value (0), or the begin (1) or end (-1) of a container.
  bool LeaveOut(int step) {
    *left_out_ += step;
    if (stack_.size() + static_cast<size_t>(*left_out_) > static_cast<size_t>(kMaxJsonDepth)) {
      too_deep_ = true;
      return false;
    }
    if (*left_out_ == 0) left_out_.reset();
    return true;
  }
  // In an object the key has come before its value.
  bool Add(Json value) {
    if (left_out_) return LeaveOut(0);
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (stack_.back().IsArray()) {
      stack_.back().MutableArray().push_back(std::move(value));
    } else {
      stack_.back().MutableObject().back().second = std::move(value);
    }
    return true;
  }

  std::vector<Json> stack_;
  Json root_;
  bool too_deep_ = false;
  const bool without_managed_fields_;
  std::optional<int> left_out_;  // inside of what is left out, at this depth
};

template <typename Writer>
void Write(const Json& json, Writer& writer) {
  if (json.IsNull()) {
    writer.Null();
  } else if (json.IsBool()) {
    writer.Bool(json.AsBool());
  } else if (json.IsInt()) {
    writer.Int64(json.AsInt());
  } else if (json.IsDouble()) {
    writer.Double(json.AsDouble());
  } else if (json.IsString()) {
    writer.String(json.AsString().data(), static_cast<rapidjson::SizeType>(json.AsString().size()));
  } else if (json.IsArray()) {
    writer.StartArray();
    for (const Json& item : json.AsArray()) Write(item, writer);
    writer.EndArray();
  } else {
    writer.StartObject();
    for (const auto& [key, value] : json.AsObject()) {
      writer.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
      Write(value, writer);
    }
    writer.EndObject();
  }
}

}  // namespace

bool Json::AsBool(bool fallback) const {
  const bool* value = std::get_if<bool>(&value_);
  return value == nullptr ? fallback : *value;
}

int64_t Json::AsInt(int64_t fallback) const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    // Only exact integers count: 1e3 is one, 1.5 is not.
    if (std::trunc(*value) >= *value && std::trunc(*value) <= *value && std::abs(*value) < 9e15) {
      return static_cast<int64_t>(*value);
    }
  }
  return fallback;
}

double Json::AsDouble(double fallback) const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  return fallback;
}

const std::string& Json::AsString() const {
  const std::string* value = std::get_if<std::string>(&value_);
  return value == nullptr ? kEmptyString : *value;
}

const Json::Array& Json::AsArray() const {
  const Array* value = std::get_if<Array>(&value_);
  return value == nullptr ? kEmptyArray : *value;
}

const Json::Object& Json::AsObject() const {
  const Object* value = std::get_if<Object>(&value_);
  return value == nullptr ? kEmptyObject : *value;
}

const Json* Json::Find(std::string_view key) const {
  for (const Member& member : AsObject()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::Find(std::string_view key) {
  return const_cast<Json*>(static_cast<const Json*>(this)->Find(key));
}

Json& Json::Set(std::string_view key, Json value) {
  if (Json* existing = Find(key)) {
    *existing = std::move(value);
    return *existing;
  }
  return MutableObject().emplace_back(std::string(key), std::move(value)).second;
}

Json& Json::operator[](std::string_view key) {
  if (Json* existing = Find(key)) return *existing;
  return Set(key, Json());
}

bool Json::Erase(std::string_view key) {
  if (!IsObject()) return false;
  Object& members = MutableObject();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.first == key; });
  if (found == members.end()) return false;
  members.erase(found);
  return true;
}

Json& Json::Append(Json value) { return MutableArray().emplace_back(std::move(value)); }

Json::Array& Json::MutableArray() {
  if (!IsArray()) value_ = Array();
  return std::get<Array>(value_);
}

Json::Object& Json::MutableObject() {
  if (!IsObject()) value_ = Object();
  return std::get<Object>(value_);
}

bool Json::operator==(const Json& other) const {
  if (IsNumber() && other.IsNumber()) {
    if (IsInt() && other.IsInt()) return AsInt() == other.AsInt();
    return !(AsDouble() < other.AsDouble()) && !(AsDouble() > other.AsDouble());
  }
  if (value_.index() != other.value_.index()) return false;
  if (IsObject()) {
    if (AsObject().size() != other.AsObject().size()) return false;
    return std::all_of(AsObject().begin(), AsObject().end(), [&](const Member& member) {
      const Json* twin = other.Find(member.first);
      return twin != nullptr && *twin == member.second;
    });
  }
  if (IsArray()) return AsArray() == other.AsArray();
  if (IsString()) return AsString() == other.AsString();
  return IsNull() || AsBool() == other.AsBool();
}

std::string Json::Text() const {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  Write(*this, writer);
  return std::string(buffer.GetString(), buffer.GetSize());
}

std::string Json::PrettyText() const {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  Write(*this, writer);
  return std::string(buffer.GetString(), buffer.GetSize());
}

namespace {

absl::StatusOr<Json> Parse(std::string_view text, bool without_managed_fields) {
  Builder builder(without_managed_fields);
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(text.data(), text.size());
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag |
                              rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.too_deep()) {
    return InvalidArgument("JSON is nested deeper than {} levels", kMaxJsonDepth);
  }
  if (result.IsError()) {
    return InvalidArgument("JSON: {} (at byte {})", rapidjson::GetParseError_En(result.Code()),
                           result.Offset());
  }
  return builder.TakeRoot();
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text) { return Parse(text, false); }

absl::StatusOr<Json> ParseObject(std::string_view text) { return Parse(text, true); }

Json MergePatch(Json target, const Json& patch) {
  if (!patch.IsObject()) return patch;
  if (!target.IsObject()) target = Json(Json::Object());
  for (const auto& [key, value] : patch.AsObject()) {
    if (value.IsNull()) {
      target.Erase(key);
      continue;
    }
    Json* existing = target.Find(key);
    Json merged = MergePatch(existing == nullptr ? Json() : std::move(*existing), value);
    target.Set(key, std::move(merged));
  }
  return target;
}

}  // namespace sluice::api
