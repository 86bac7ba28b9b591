// TypeInfo: how values of one C++ type travel as JSON, and what their schema is.
//
// There is one immutable instance per type (see fields.h); everything works on untyped pointers to
// values of that type, so that the code for a struct is a table instead of a template. Thread-safe
// after construction.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

namespace sluice::api {

// The place where a decoder stands, for error messages; and the first error.
class DecodeContext {
 public:
  class Step {
   public:
    // The key of a map is shown in brackets.
    Step(DecodeContext& context, std::string_view field, bool is_key = false) : context_(context) {
      context_.path_.push_back({field, 0, is_key});
    }
    Step(DecodeContext& context, size_t index) : context_(context) {
      context_.path_.push_back({{}, index, false});
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() { context_.path_.pop_back(); }

   private:
    DecodeContext& context_;
  };

  // Records the error at the current path; always false, for `return context.Fail(...)`.
  bool Fail(const std::string& message);
  const absl::Status& status() const { return status_; }

 private:
  struct Segment {
    std::string_view field;  // empty for an index
    size_t index;
    bool is_key;
  };
  std::vector<Segment> path_;
  absl::Status status_;
};

// Rules of a schema beyond the type: constraints, documentation and how the field is written.
// The words are those of OpenAPI; values are merged into the schema of the type.
class Rules {
 public:
  Rules& Doc(const char* text) { return Put("description", text); }
  // The field must be present; the encoder always writes it.
  Rules& Required();
  // The encoder writes it even when it is empty or zero.
  Rules& Always();

  Rules& Min(int64_t value) { return Put("minimum", value); }
  Rules& MinLength(int64_t value) { return Put("minLength", value); }
  Rules& MaxLength(int64_t value) { return Put("maxLength", value); }
  Rules& MinItems(int64_t value) { return Put("minItems", value); }
  Rules& MaxItems(int64_t value) { return Put("maxItems", value); }
  Rules& MaxProperties(int64_t value) { return Put("maxProperties", value); }
  Rules& Pattern(const char* value) { return Put("pattern", value); }
  Rules& Enum(std::initializer_list<const char*> values);
  // A default as JSON value.
  Rules& Default(Json value) { return Put("default", std::move(value)); }
  Rules& Atomic() { return Put("x-kubernetes-list-type", "atomic"); }
  Rules& AtomicMap() { return Put("x-kubernetes-map-type", "atomic"); }
  Rules& Set() { return Put("x-kubernetes-list-type", "set"); }
  Rules& KeyedBy(std::initializer_list<const char*> keys);
  // Fields that are not described are kept.
  Rules& Preserve() { return Put("x-kubernetes-preserve-unknown-fields", true); }
  // A rule in CEL with the text that the user sees.
  Rules& Cel(const char* rule, const char* message);
  // Constraints of the items of a list or the values of a map.
  Rules& Each(const Rules& rules);
  // Constraints of the names in a list of {name: string}.
  Rules& EachName(const Rules& rules);

  bool required() const { return required_; }
  bool always() const { return always_; }
  // Adds these rules to the schema of a type.
  void MergeInto(Json& schema) const;

 private:
  Rules& Put(const char* key, Json value);
  bool required_ = false;
  bool always_ = false;
  Json keywords_;
  std::shared_ptr<const Rules> each_;
  std::shared_ptr<const Rules> each_name_;
};

class TypeInfo {
 public:
  TypeInfo() = default;
  TypeInfo(const TypeInfo&) = delete;
  TypeInfo& operator=(const TypeInfo&) = delete;
  virtual ~TypeInfo() = default;

  // Reads the JSON value (never null) into *value. False after an error in the context.
  virtual bool Decode(void* value, const Json& json, DecodeContext& context) const = 0;
  virtual Json Encode(const void* value) const = 0;
  // Whether the value is left out when it is not required.
  virtual bool IsEmpty(const void* value) const = 0;
  virtual Json Schema() const = 0;
};

// A struct: its fields in the order in which they are written.
class StructInfo : public TypeInfo {
 public:
  struct Field {
    std::string name;
    size_t offset = 0;
    const TypeInfo* type = nullptr;
    std::unique_ptr<TypeInfo> owned;  // of a group
    Rules rules;
  };

  bool Decode(void* value, const Json& json, DecodeContext& context) const override;
  Json Encode(const void* value) const override;
  bool IsEmpty(const void* value) const override;
  Json Schema() const override;

  Field& AddField(std::string name, size_t offset, const TypeInfo& type);
  Field& AddGroup(std::string name, std::unique_ptr<StructInfo> group);
  Rules& rules() { return rules_; }
  const std::vector<std::unique_ptr<Field>>& fields() const { return fields_; }
  // The root of an object: apiVersion and kind are written first.
  void SetRoot(std::string api_version, std::string kind);

 private:
  const Field* FindField(std::string_view name, size_t& hint) const;
  std::vector<std::unique_ptr<Field>> fields_;
  Rules rules_;
  std::string api_version_;
  std::string kind_;
};

}  // namespace sluice::api
