#include "api/leaf_types.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "api/codec.h"
#include "api/core_fields.h"
#include "api/fields.h"
#include "base/time.h"

namespace sluice::api {
namespace {

constexpr char kQuantityPattern[] =
    R"(^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|)"
    R"(([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$)";

class StringType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsString()) return context.Fail("must be a string");
    *static_cast<std::string*>(value) = json.AsString();
    return true;
  }
  Json Encode(const void* value) const override { return *static_cast<const std::string*>(value); }
  bool IsEmpty(const void* value) const override {
    return static_cast<const std::string*>(value)->empty();
  }
  Json Schema() const override { return Json::MakeObject({{"type", "string"}}); }
};

class BoolType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsBool()) return context.Fail("must be true or false");
    *static_cast<bool*>(value) = json.AsBool();
    return true;
  }
  Json Encode(const void* value) const override { return *static_cast<const bool*>(value); }
  bool IsEmpty(const void* value) const override { return !*static_cast<const bool*>(value); }
  Json Schema() const override { return Json::MakeObject({{"type", "boolean"}}); }
};

// The integer of a JSON number; 1e3 and 2.0 are integers, as for the API server.
std::optional<int64_t> IntegerOf(const Json& json) {
  const int64_t number = json.AsInt(std::numeric_limits<int64_t>::min());
  if (!json.IsNumber() || number != json.AsInt(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return number;
}

template <typename T>
class IntType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    const std::optional<int64_t> number = IntegerOf(json);
    if (!number) return context.Fail("must be an integer");
    if (*number < std::numeric_limits<T>::min() || *number > std::numeric_limits<T>::max()) {
      return context.Fail(
          fmt::format("{} is beyond the range of {}", *number, Json(Format()).Text()));
    }
    *static_cast<T*>(value) = static_cast<T>(*number);
    return true;
  }
  Json Encode(const void* value) const override {
    return static_cast<int64_t>(*static_cast<const T*>(value));
  }
  bool IsEmpty(const void* value) const override { return *static_cast<const T*>(value) == 0; }
  Json Schema() const override {
    return Json::MakeObject({{"type", "integer"}, {"format", Format()}});
  }

 private:
  static const char* Format() { return sizeof(T) == 4 ? "int32" : "int64"; }
};

// A quantity is a string or a number on the wire and always written as a string.
class QuantityType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsString() && !json.IsNumber()) {
      return context.Fail("must be a quantity such as 2, 500m or 1Gi");
    }
    absl::StatusOr<Quantity> quantity =
        Quantity::Parse(json.IsString() ? json.AsString() : json.Text());
    if (!quantity.ok()) return context.Fail(std::string(quantity.status().message()));
    *static_cast<Quantity*>(value) = *quantity;
    return true;
  }
  Json Encode(const void* value) const override {
    return static_cast<const Quantity*>(value)->ToString();
  }
  bool IsEmpty(const void*) const override { return false; }
  Json Schema() const override {
    return Json::MakeObject({{"anyOf", Json::MakeArray({Json::MakeObject({{"type", "integer"}}),
                                                        Json::MakeObject({{"type", "string"}})})},
                             {"pattern", kQuantityPattern},
                             {"x-kubernetes-int-or-string", true}});
  }
};

class TimeType : public TypeInfo {
 public:
  explicit TimeType(bool micro) : micro_(micro) {}
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsString()) return context.Fail("must be an RFC 3339 time");
    // The parser of abseil also takes words such as "infinite-future" and white space.
    if (json.AsString().empty() || json.AsString()[0] < '0' || json.AsString()[0] > '9') {
      return context.Fail("must be an RFC 3339 time");
    }
    const absl::StatusOr<absl::Time> time = ParseTime(json.AsString());
    if (!time.ok()) return context.Fail(std::string(time.status().message()));
    *static_cast<absl::Time*>(value) = *time;
    return true;
  }
  Json Encode(const void* value) const override {
    const absl::Time time = *static_cast<const absl::Time*>(value);
    return micro_ ? sluice::FormatMicroTime(time) : sluice::FormatTime(time);
  }
  bool IsEmpty(const void*) const override { return false; }
  Json Schema() const override {
    return Json::MakeObject({{"type", "string"}, {"format", "date-time"}});
  }

 private:
  bool micro_;
};

class ConditionStatusType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    auto& status = *static_cast<ConditionStatus*>(value);
    const std::string& text = json.AsString();
    if (text == "True") {
      status = ConditionStatus::kTrue;
    } else if (text == "False") {
      status = ConditionStatus::kFalse;
    } else if (text == "Unknown") {
      status = ConditionStatus::kUnknown;
    } else {
      return context.Fail("must be True, False or Unknown");
    }
    return true;
  }
  Json Encode(const void* value) const override {
    switch (*static_cast<const ConditionStatus*>(value)) {
      case ConditionStatus::kTrue:
        return "True";
      case ConditionStatus::kFalse:
        return "False";
      case ConditionStatus::kUnknown:
        break;
    }
    return "Unknown";
  }
  bool IsEmpty(const void*) const override { return false; }
  Json Schema() const override {
    return Json::MakeObject(
        {{"type", "string"}, {"enum", Json::MakeArray({"True", "False", "Unknown"})}});
  }
};

class JsonType final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext&) const override {
    *static_cast<Json*>(value) = json;
    return true;
  }
  Json Encode(const void* value) const override { return *static_cast<const Json*>(value); }
  bool IsEmpty(const void* value) const override {
    return static_cast<const Json*>(value)->IsNull();
  }
  Json Schema() const override {
    return Json::MakeObject({{"x-kubernetes-preserve-unknown-fields", true}});
  }
};

// Whether the labels are written again as they came: texts in order of their keys.
bool FollowFromMap(const Json& labels) {
  const std::string* last = nullptr;
  for (const auto& [key, value] : labels.AsObject()) {
    if (!value.IsString() || (last != nullptr && *last >= key)) return false;
    last = &key;
  }
  return labels.IsObject();
}

// The text of a template, with `false` for labels that follow from the map of them.
std::string RawText(const Json& pod_template) {
  const Json* labels = pod_template.Find("metadata", "labels");
  if (labels == nullptr || !FollowFromMap(*labels)) return pod_template.Text();
  Json without = pod_template;
  without.Find("metadata")->Set("labels", false);
  return without.Text();
}

void PutLabels(Json& pod_template, const StringMap& labels) {
  Json* metadata = pod_template.Find("metadata");
  Json* place = metadata == nullptr ? nullptr : metadata->Find("labels");
  if (place != nullptr && place->IsBool()) *place = TypeOf<StringMap>().Encode(&labels);
}

// The typed parts, plus the whole as it came.
class PodTemplateType final : public TypeInfo {
 public:
  PodTemplateType() {
    Fields<PodTemplate> fields(parts_);
    Describe(fields);
  }
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!parts_.Decode(value, json, context)) return false;
    static_cast<PodTemplate*>(value)->raw = std::make_shared<const std::string>(RawText(json));
    return true;
  }
  Json Encode(const void* value) const override {
    const auto& pod_template = *static_cast<const PodTemplate*>(value);
    if (pod_template.raw != nullptr) {
      if (absl::StatusOr<Json> raw = ParseJson(*pod_template.raw); raw.ok()) {
        PutLabels(*raw, pod_template.labels);
        return *std::move(raw);
      }
    }
    return parts_.Encode(value);
  }
  bool IsEmpty(const void*) const override { return false; }
  Json Schema() const override { return parts_.Schema(); }

 private:
  StructInfo parts_;
};

struct Named {
  std::string name;
};
void Describe(Fields<Named>& f) { f.Field("name", &Named::name).Required(); }

class NameListTypeImpl final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    std::vector<Named> items;
    if (!list_.Decode(&items, json, context)) return false;
    auto& names = *static_cast<std::vector<std::string>*>(value);
    names.clear();
    for (Named& item : items) names.push_back(std::move(item.name));
    return true;
  }
  Json Encode(const void* value) const override {
    Json::Array items;
    for (const std::string& name : *static_cast<const std::vector<std::string>*>(value)) {
      items.push_back(Json::MakeObject({{"name", name}}));
    }
    return items;
  }
  bool IsEmpty(const void* value) const override {
    return static_cast<const std::vector<std::string>*>(value)->empty();
  }
  Json Schema() const override { return list_.Schema(); }

 private:
  const TypeInfo& list_ = TypeOf<std::vector<Named>>();
};

class ListLengthTypeImpl final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsArray()) return context.Fail("must be a list");
    *static_cast<int32_t*>(value) = static_cast<int32_t>(json.AsArray().size());
    return true;
  }
  Json Encode(const void*) const override { return Json(); }
  bool IsEmpty(const void*) const override { return true; }
  Json Schema() const override { return Json::MakeObject({{"type", "array"}}); }
};

}  // namespace

template <>
std::unique_ptr<const TypeInfo> MakeLeafType<std::string>() {
  return std::make_unique<StringType>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<bool>() {
  return std::make_unique<BoolType>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<int32_t>() {
  return std::make_unique<IntType<int32_t>>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<int64_t>() {
  return std::make_unique<IntType<int64_t>>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<Quantity>() {
  return std::make_unique<QuantityType>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<absl::Time>() {
  return std::make_unique<TimeType>(false);
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<ConditionStatus>() {
  return std::make_unique<ConditionStatusType>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<Json>() {
  return std::make_unique<JsonType>();
}
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<PodTemplate>() {
  return std::make_unique<PodTemplateType>();
}

const TypeInfo& NameListType() {
  static const NameListTypeImpl kType;
  return kType;
}

const TypeInfo& MicroTimeType() {
  static const TimeType kMicro(true);
  static const OptionalType<std::optional<absl::Time>> kType(kMicro);
  return kType;
}

const TypeInfo& ListLengthType() {
  static const ListLengthTypeImpl kType;
  return kType;
}

Json EncodePodTemplate(const PodTemplate& pod_template) {
  return TypeOf<PodTemplate>().Encode(&pod_template);
}

}  // namespace sluice::api
