#include "webhook/field_error.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace sluice::webhook {
namespace {

// Longer values tell the reader nothing that the path does not, and end up in logs.
constexpr size_t kMaxShownJson = 512;

void AppendEscaped(char c, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\a':
      *out += "\\a";
      return;
    case '\b':
      *out += "\\b";
      return;
    case '\f':
      *out += "\\f";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\v':
      *out += "\\v";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code < 0x20 || code >= 0x7F) {
    *out += fmt::format("\\x{:02x}", code);
  } else {
    out->push_back(c);
  }
}

bool ShowsValue(FieldError::Type type) {
  switch (type) {
    case FieldError::Type::kInvalid:
    case FieldError::Type::kDuplicate:
    case FieldError::Type::kNotSupported:
    case FieldError::Type::kNotFound:
      return true;
    case FieldError::Type::kRequired:
    case FieldError::Type::kForbidden:
    case FieldError::Type::kTooLong:
      return false;
  }
  return false;
}

FieldError Make(FieldError::Type type, const Path& path, std::string value, std::string detail) {
  return {type, path.text(), std::move(value), std::move(detail)};
}

}  // namespace

Path Path::Child(std::string_view name) const {
  Path child = *this;
  child.text_.reserve(text_.size() + name.size() + 1);
  child.text_ += '.';
  child.text_ += name;
  return child;
}

Path Path::Index(size_t index) const { return Key(std::to_string(index)); }

Path Path::Key(std::string_view key) const {
  Path child = *this;
  child.text_.reserve(text_.size() + key.size() + 2);
  child.text_ += '[';
  child.text_ += key;
  child.text_ += ']';
  return child;
}

ShownValue::ShownValue(std::string_view text) : text_(Quote(text)) {}

ShownValue::ShownValue(const api::Json& json) {
  if (json.IsString()) {
    text_ = Quote(json.AsString());
    return;
  }
  text_ = json.Text();
  if (text_.size() <= kMaxShownJson) return;
  size_t end = kMaxShownJson;
  // Not in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) --end;
  text_.resize(end);
  text_ += "...";
}

FieldError FieldError::Invalid(const Path& path, const ShownValue& value, std::string detail) {
  return Make(Type::kInvalid, path, value.text(), std::move(detail));
}

FieldError FieldError::Duplicate(const Path& path, const ShownValue& value) {
  return Make(Type::kDuplicate, path, value.text(), "");
}

FieldError FieldError::NotSupported(const Path& path, const ShownValue& value,
                                    const std::vector<std::string>& supported) {
  std::string detail;
  for (const std::string& each : supported) {
    detail += detail.empty() ? "supported values: " : ", ";
    detail += Quote(each);
  }
  return Make(Type::kNotSupported, path, value.text(), std::move(detail));
}

FieldError FieldError::Required(const Path& path, std::string detail) {
  return Make(Type::kRequired, path, "", std::move(detail));
}

FieldError FieldError::Forbidden(const Path& path, std::string detail) {
  return Make(Type::kForbidden, path, "", std::move(detail));
}

FieldError FieldError::NotFound(const Path& path, const ShownValue& value) {
  return Make(Type::kNotFound, path, value.text(), "");
}

FieldError FieldError::TooLong(const Path& path, size_t limit_bytes) {
  return Make(
      Type::kTooLong, path, "",
      fmt::format("may not be more than {} {}", limit_bytes, limit_bytes == 1 ? "byte" : "bytes"));
}

std::string FieldError::Text() const {
  std::string text = fmt::format("{}: {}", field, TypeText(type));
  if (ShowsValue(type)) text += ": " + value;
  if (!detail.empty()) text += ": " + detail;
  return text;
}

std::string_view TypeText(FieldError::Type type) {
  switch (type) {
    case FieldError::Type::kInvalid:
      return "Invalid value";
    case FieldError::Type::kDuplicate:
      return "Duplicate value";
    case FieldError::Type::kNotSupported:
      return "Unsupported value";
    case FieldError::Type::kRequired:
      return "Required value";
    case FieldError::Type::kForbidden:
      return "Forbidden";
    case FieldError::Type::kNotFound:
      return "Not found";
    case FieldError::Type::kTooLong:
      return "Too long";
  }
  return "Invalid value";
}

std::string Describe(const FieldErrors& errors) {
  std::vector<std::string> texts;
  for (const FieldError& error : errors) {
    std::string text = error.Text();
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(std::move(text));
    }
  }
  if (texts.size() == 1) return texts.front();
  std::string joined = "[";
  for (const std::string& text : texts) {
    if (joined.size() > 1) joined += ", ";
    joined += text;
  }
  joined += ']';
  return joined;
}

std::string Quote(std::string_view text) {
  std::string quoted;
  quoted.reserve(text.size() + 2);
  quoted.push_back('"');
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length > 1) {
      quoted += text.substr(i, length);
      i += length;
    } else {
      AppendEscaped(text[i], &quoted);
      ++i;
    }
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace sluice::webhook
