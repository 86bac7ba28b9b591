// The one description of a struct from which decoder, encoder, CRD schema and reference text
// follow.
//
//   void Describe(Fields<ResourceQuota>& f) {
//     f.Field("name", &ResourceQuota::name).Required();
//     f.Field("nominalQuota", &ResourceQuota::nominal_quota).Required();
//     f.Field("borrowingLimit", &ResourceQuota::borrowing_limit).Doc("Absent: no limit.");
//   }
//
// Describe is found by argument-dependent lookup; all overloads are declared in kueue_fields.h and
// core_fields.h. TypeOf<T>() builds the table once and keeps it for ever.
#pragma once

#include <absl/container/btree_map.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/kind.h"
#include "api/leaf_types.h"
#include "api/type_info.h"
#include "base/boxed.h"
#include "base/shared_value.h"

namespace sluice::api {

template <typename T>
const TypeInfo& TypeOf();

template <typename T>
class Fields {
 public:
  explicit Fields(StructInfo& info) : info_(info) {}

  template <typename F>
  Rules& Field(const char* name, F T::*member) {
    return Field(name, member, TypeOf<F>());
  }
  // With a wire form of its own instead of the one that the type usually has.
  template <typename F>
  Rules& Field(const char* name, F T::*member, const TypeInfo& type) {
    return info_.AddField(name, OffsetOf(member), type).rules;
  }
  // Members of the same struct that the wire has one object deeper.
  template <typename Body>
  Rules& Group(const char* name, const Body& body) {
    auto group = std::make_unique<StructInfo>();
    Fields<T> inner(*group);
    body(inner);
    return info_.AddGroup(name, std::move(group)).rules;
  }
  // The rules of the struct as a whole.
  Rules& All() { return info_.rules(); }
  void Root(Kind kind) { info_.SetRoot(ApiVersionOf(kind), InfoOf(kind).name); }

 private:
  template <typename F>
  static size_t OffsetOf(F T::*member) {
    static const T sample{};
    return static_cast<size_t>(reinterpret_cast<const char*>(&(sample.*member)) -
                               reinterpret_cast<const char*>(&sample));
  }
  StructInfo& info_;
};

template <typename T>
class ListType final : public TypeInfo {
 public:
  explicit ListType(const TypeInfo& item) : item_(item) {}

  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsArray()) return context.Fail("must be a list");
    auto& list = *static_cast<std::vector<T>*>(value);
    const Json::Array& items = json.AsArray();
    list.clear();
    list.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].IsNull()) continue;
      const DecodeContext::Step step(context, i);
      if (!item_.Decode(&list[i], items[i], context)) return false;
    }
    return true;
  }
  Json Encode(const void* value) const override {
    const auto& list = *static_cast<const std::vector<T>*>(value);
    Json::Array items;
    items.reserve(list.size());
    for (const T& item : list) items.push_back(item_.Encode(&item));
    return items;
  }
  bool IsEmpty(const void* value) const override {
    return static_cast<const std::vector<T>*>(value)->empty();
  }
  Json Schema() const override {
    return Json::MakeObject({{"type", "array"}, {"items", item_.Schema()}});
  }

 private:
  const TypeInfo& item_;
};

template <typename V>
class MapType final : public TypeInfo {
 public:
  using Map = absl::btree_map<std::string, V>;
  explicit MapType(const TypeInfo& item) : item_(item) {}

  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    if (!json.IsObject()) return context.Fail("must be an object");
    auto& map = *static_cast<Map*>(value);
    map.clear();
    for (const auto& [key, member] : json.AsObject()) {
      V& item = map.try_emplace(map.end(), key)->second;
      if (member.IsNull()) continue;
      const DecodeContext::Step step(context, key, true);
      if (!item_.Decode(&item, member, context)) return false;
    }
    return true;
  }
  Json Encode(const void* value) const override {
    Json::Object members;
    for (const auto& [key, item] : *static_cast<const Map*>(value)) {
      members.emplace_back(key, item_.Encode(&item));
    }
    return members;
  }
  bool IsEmpty(const void* value) const override { return static_cast<const Map*>(value)->empty(); }
  Json Schema() const override {
    return Json::MakeObject({{"type", "object"}, {"additionalProperties", item_.Schema()}});
  }

 private:
  const TypeInfo& item_;
};

// Optional is std::optional<T> or Boxed<T>.
template <typename Optional>
class OptionalType final : public TypeInfo {
 public:
  explicit OptionalType(const TypeInfo& item) : item_(item) {}

  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    return item_.Decode(&static_cast<Optional*>(value)->emplace(), json, context);
  }
  Json Encode(const void* value) const override {
    const auto& optional = *static_cast<const Optional*>(value);
    return optional ? item_.Encode(&*optional) : Json();
  }
  bool IsEmpty(const void* value) const override {
    return !static_cast<const Optional*>(value)->has_value();
  }
  Json Schema() const override { return item_.Schema(); }

 private:
  const TypeInfo& item_;
};

template <typename T>
class SharedType final : public TypeInfo {
 public:
  explicit SharedType(const TypeInfo& item) : item_(item) {}

  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    return item_.Decode(&**static_cast<SharedValue<T>*>(value), json, context);
  }
  Json Encode(const void* value) const override { return item_.Encode(&Value(value)); }
  bool IsEmpty(const void* value) const override { return item_.IsEmpty(&Value(value)); }
  Json Schema() const override { return item_.Schema(); }

 private:
  static const T& Value(const void* value) { return **static_cast<const SharedValue<T>*>(value); }
  const TypeInfo& item_;
};

// Chooses the TypeInfo of a type; a struct is whatever is none of the others.
template <typename T>
struct TypeChoice {
  static std::unique_ptr<const TypeInfo> Make() {
    if constexpr (HasLeafType<T>::value) {
      return MakeLeafType<T>();
    } else {
      auto info = std::make_unique<StructInfo>();
      Fields<T> fields(*info);
      Describe(fields);
      return info;
    }
  }
};
template <typename T>
struct TypeChoice<std::vector<T>> {
  static std::unique_ptr<const TypeInfo> Make() {
    return std::make_unique<ListType<T>>(TypeOf<T>());
  }
};
template <typename T>
struct TypeChoice<std::optional<T>> {
  static std::unique_ptr<const TypeInfo> Make() {
    return std::make_unique<OptionalType<std::optional<T>>>(TypeOf<T>());
  }
};
template <typename T>
struct TypeChoice<Boxed<T>> {
  static std::unique_ptr<const TypeInfo> Make() {
    return std::make_unique<OptionalType<Boxed<T>>>(TypeOf<T>());
  }
};
template <typename T>
struct TypeChoice<SharedValue<T>> {
  static std::unique_ptr<const TypeInfo> Make() {
    return std::make_unique<SharedType<T>>(TypeOf<T>());
  }
};
template <typename V>
struct TypeChoice<absl::btree_map<std::string, V>> {
  static std::unique_ptr<const TypeInfo> Make() {
    return std::make_unique<MapType<V>>(TypeOf<V>());
  }
};

template <typename T>
const TypeInfo& TypeOf() {
  static const std::unique_ptr<const TypeInfo> kInfo = TypeChoice<T>::Make();
  return *kInfo;
}

// A list of strings that the wire has as a list of {name: string}.
const TypeInfo& NameListType();
// The same for an optional time with microseconds.
const TypeInfo& MicroTimeType();
// An integer that is the length of a list on the wire (never written).
const TypeInfo& ListLengthType();

}  // namespace sluice::api
