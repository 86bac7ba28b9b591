#include "api/json.h"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>

namespace sluice::api {
namespace {

const std::string kEmptyString;
const Json::Array kEmptyArray;
const Json::Object kEmptyObject;

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
