// Json: an owned JSON value, the form in which objects travel between rooms before they are
// decoded.
//
// Contract: parsing is iterative and refuses documents deeper than kMaxJsonDepth, so hostile input
// cannot exhaust the stack. Objects keep the order of their members; when a key is repeated the
// last one wins, as in Go's decoder. Integers are exact to 64 bits; other numbers keep their text
// as a double. Text() is deterministic: members in their stored order, no spaces.
// Thread-compatible.
//
//   ASSIGN_OR_RETURN(Json doc, ParseJson(text));
//   const Json* name = doc.Find("metadata", "name");
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::api {

inline constexpr int kMaxJsonDepth = 200;

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<int64_t>(value)) {}
  Json(int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json MakeObject(std::initializer_list<Member> members = {}) {
    return Json(Object(members));
  }
  static Json MakeArray(std::initializer_list<Json> items = {}) { return Json(Array(items)); }

  bool IsNull() const { return std::holds_alternative<std::monostate>(value_); }
  bool IsBool() const { return std::holds_alternative<bool>(value_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(value_); }
  bool IsDouble() const { return std::holds_alternative<double>(value_); }
  bool IsNumber() const { return IsInt() || IsDouble(); }
  bool IsString() const { return std::holds_alternative<std::string>(value_); }
  bool IsArray() const { return std::holds_alternative<Array>(value_); }
  bool IsObject() const { return std::holds_alternative<Object>(value_); }

  // Typed reads with a neutral answer for the wrong type; nothing throws.
  bool AsBool(bool fallback = false) const;
  int64_t AsInt(int64_t fallback = 0) const;
  double AsDouble(double fallback = 0) const;
  const std::string& AsString() const;  // empty for other types
  const Array& AsArray() const;         // empty for other types
  const Object& AsObject() const;       // empty for other types

  // The member of that key (or nullptr), and the same along a path.
  const Json* Find(std::string_view key) const;
  Json* Find(std::string_view key);
  template <typename... Keys>
  const Json* Find(std::string_view key, std::string_view next, Keys... keys) const {
    const Json* child = Find(key);
    return child == nullptr ? nullptr : child->Find(next, keys...);
  }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Text of a nested string, or "".
  template <typename... Keys>
  std::string GetString(std::string_view key, Keys... keys) const {
    const Json* found = Find(key, keys...);
    return found == nullptr ? std::string() : found->AsString();
  }

  // Turns a null into an object, then sets or replaces the member. Returns the stored value.
  Json& Set(std::string_view key, Json value);
  // The member, created as null when missing.
  Json& operator[](std::string_view key);
  bool Erase(std::string_view key);
  // Turns a null into an array and appends.
  Json& Append(Json value);
  Array& MutableArray();
  Object& MutableObject();

  // Equal values; objects compare without regard to the order of members, 1 equals 1.0.
  bool operator==(const Json& other) const;

  // Compact text, or indented by two spaces.
  std::string Text() const;
  std::string PrettyText() const;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Parses one document; trailing bytes other than white space are an error that names the offset.
absl::StatusOr<Json> ParseJson(std::string_view text);

// RFC 7396: members of the patch replace, null removes. Never fails.
Json MergePatch(Json target, const Json& patch);
// RFC 6902 (add, remove, replace, move, copy, test).
absl::StatusOr<Json> ApplyJsonPatch(Json target, const Json& patch);

}  // namespace sluice::api
