// Field errors: what is wrong with which field of an object, in the words that users of Kubernetes
// know ("spec.weight: Invalid value: "-1": must be positive").
//
// Contract: plain values, no I/O; any thread. The kinds of errors, the way a value is shown and the
// joining of several errors follow the Kubernetes API conventions ("Response Status Kind") and what
// the API server prints for built-in kinds, so that one habit of reading serves for both.
//
//   FieldErrors errors;
//   const Path path = Path("spec").Child("flavors").Index(2);   // spec.flavors[2]
//   errors.push_back(FieldError::Duplicate(path.Child("name"), "on-demand"));
//   std::string text = Describe(errors);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

namespace sluice::webhook {

// Address of a field: members joined by dots, list indexes and map keys in brackets.
class Path {
 public:
  explicit Path(std::string_view root) : text_(root) {}

  Path Child(std::string_view name) const;
  // Child of child: Path("metadata").Child("labels", "app") is metadata.labels.app.
  template <typename... Names>
  Path Child(std::string_view name, std::string_view next, Names... names) const {
    return Child(name).Child(next, names...);
  }
  Path Index(size_t index) const;
  Path Key(std::string_view key) const;

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A value as an error shows it: text in quotes with escapes, numbers and booleans bare, everything
// else as compact JSON (cut when it is very long).
class ShownValue {
 public:
  ShownValue(const char* text) : ShownValue(std::string_view(text)) {}
  ShownValue(const std::string& text) : ShownValue(std::string_view(text)) {}
  ShownValue(std::string_view text);
  ShownValue(int32_t number) : text_(std::to_string(number)) {}
  ShownValue(int64_t number) : text_(std::to_string(number)) {}
  ShownValue(const api::Json& json);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct FieldError {
  enum class Type {
    kInvalid,
    kDuplicate,
    kNotSupported,
    kRequired,
    kForbidden,
    kNotFound,
    kTooLong
  };

  static FieldError Invalid(const Path& path, const ShownValue& value, std::string detail);
  static FieldError Duplicate(const Path& path, const ShownValue& value);
  static FieldError NotSupported(const Path& path, const ShownValue& value,
                                 const std::vector<std::string>& supported);
  static FieldError Required(const Path& path, std::string detail);
  static FieldError Forbidden(const Path& path, std::string detail);
  static FieldError NotFound(const Path& path, const ShownValue& value);
  static FieldError TooLong(const Path& path, size_t limit_bytes);

  Type type = Type::kInvalid;
  std::string field;
  std::string value;  // already in shown form; empty for the types that show none
  std::string detail;

  std::string Text() const;
};

using FieldErrors = std::vector<FieldError>;

// "Invalid value", "Required value", ...
std::string_view TypeText(FieldError::Type type);

// One error as it is; several as "[a, b]", each text once.
std::string Describe(const FieldErrors& errors);

// The text in double quotes, with the escapes of Go's %q (which the API server uses).
std::string Quote(std::string_view text);

}  // namespace sluice::webhook
