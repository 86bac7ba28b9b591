#include "api/type_info.h"

#include "base/status.h"

namespace sluice::api {

bool DecodeContext::Fail(const std::string& message) {
  if (!status_.ok()) return false;
  std::string where;
  for (const Segment& segment : path_) {
    if (segment.is_key) {
      where += fmt::format("[{}]", segment.field);
    } else if (segment.field.empty()) {
      where += fmt::format("[{}]", segment.index);
    } else {
      where += (where.empty() ? "" : ".") + std::string(segment.field);
    }
  }
  status_ =
      where.empty() ? InvalidArgument("{}", message) : InvalidArgument("{}: {}", where, message);
  return false;
}

Rules& Rules::Required() {
  required_ = true;
  return *this;
}

Rules& Rules::Always() {
  always_ = true;
  return *this;
}

Rules& Rules::Enum(std::initializer_list<const char*> values) {
  Json list = Json::MakeArray();
  for (const char* value : values) list.Append(value);
  return Put("enum", std::move(list));
}

Rules& Rules::KeyedBy(std::initializer_list<const char*> keys) {
  Json list = Json::MakeArray();
  for (const char* key : keys) list.Append(key);
  Put("x-kubernetes-list-type", "map");
  return Put("x-kubernetes-list-map-keys", std::move(list));
}

Rules& Rules::Cel(const char* rule, const char* message) {
  keywords_["x-kubernetes-validations"].Append(
      Json::MakeObject({{"rule", rule}, {"message", message}}));
  return *this;
}

Rules& Rules::Each(const Rules& rules) {
  each_ = std::make_shared<const Rules>(rules);
  return *this;
}

Rules& Rules::EachName(const Rules& rules) {
  each_name_ = std::make_shared<const Rules>(rules);
  return *this;
}

Rules& Rules::Put(const char* key, Json value) {
  keywords_.Set(key, std::move(value));
  return *this;
}

void Rules::MergeInto(Json& schema) const {
  for (const auto& [key, value] : keywords_.AsObject()) {
    if (key != "x-kubernetes-validations") {
      schema.Set(key, value);
      continue;
    }
    for (const Json& rule : value.AsArray()) schema[key].Append(rule);
  }
  Json* items = schema.Find("items");
  if (items == nullptr) items = schema.Find("additionalProperties");
  if (items == nullptr) return;
  if (each_ != nullptr) each_->MergeInto(*items);
  if (each_name_ != nullptr) each_name_->MergeInto((*items)["properties"]["name"]);
}

StructInfo::Field& StructInfo::AddField(std::string name, size_t offset, const TypeInfo& type) {
  auto field = std::make_unique<Field>();
  field->name = std::move(name);
  field->offset = offset;
  field->type = &type;
  return *fields_.emplace_back(std::move(field));
}

StructInfo::Field& StructInfo::AddGroup(std::string name, std::unique_ptr<StructInfo> group) {
  Field& field = AddField(std::move(name), 0, *group);
  field.owned = std::move(group);
  return field;
}

void StructInfo::SetRoot(std::string api_version, std::string kind) {
  api_version_ = std::move(api_version);
  kind_ = std::move(kind);
}

// Members mostly come in the order of the description or of the alphabet, so the search starts
// where the last one ended.
const StructInfo::Field* StructInfo::FindField(std::string_view name, size_t& hint) const {
  const size_t count = fields_.size();
  for (size_t i = 0; i < count; ++i) {
    if (hint >= count) hint = 0;
    const Field& field = *fields_[hint++];
    if (field.name == name) return &field;
  }
  return nullptr;
}

bool StructInfo::Decode(void* value, const Json& json, DecodeContext& context) const {
  if (!json.IsObject()) return context.Fail("must be an object");
  size_t hint = 0;
  for (const auto& [name, member] : json.AsObject()) {
    if (member.IsNull()) continue;
    const Field* field = FindField(name, hint);
    if (field == nullptr) continue;
    const DecodeContext::Step step(context, field->name);
    if (!field->type->Decode(static_cast<char*>(value) + field->offset, member, context)) {
      return false;
    }
  }
  return true;
}

Json StructInfo::Encode(const void* value) const {
  Json::Object members;
  members.reserve(fields_.size() + 2);
  if (!kind_.empty()) {
    members.emplace_back("apiVersion", api_version_);
    members.emplace_back("kind", kind_);
  }
  for (const auto& field : fields_) {
    const void* at = static_cast<const char*>(value) + field->offset;
    const bool forced = field->rules.required() || field->rules.always();
    if (!forced && field->type->IsEmpty(at)) continue;
    Json encoded = field->type->Encode(at);
    // A required optional that is absent has nothing to write.
    if (!encoded.IsNull()) members.emplace_back(field->name, std::move(encoded));
  }
  return members;
}

bool StructInfo::IsEmpty(const void* value) const {
  for (const auto& field : fields_) {
    if (!field->type->IsEmpty(static_cast<const char*>(value) + field->offset)) return false;
  }
  return true;
}

Json StructInfo::Schema() const {
  Json properties = Json::MakeObject();
  if (!kind_.empty()) {
    properties.Set("apiVersion", Json::MakeObject({{"type", "string"}}));
    properties.Set("kind", Json::MakeObject({{"type", "string"}}));
  }
  Json required;
  for (const auto& field : fields_) {
    Json schema = !kind_.empty() && field->name == "metadata"
                      ? Json::MakeObject({{"type", "object"}})
                      : field->type->Schema();
    field->rules.MergeInto(schema);
    properties.Set(field->name, std::move(schema));
    if (field->rules.required()) required.Append(field->name);
  }
  Json schema = Json::MakeObject({{"type", "object"}, {"properties", std::move(properties)}});
  if (required.IsArray()) schema.Set("required", std::move(required));
  rules_.MergeInto(schema);
  return schema;
}

}  // namespace sluice::api
