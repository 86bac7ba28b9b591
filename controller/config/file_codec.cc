#include "config/file_codec.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <type_traits>

#include "base/time.h"
#include "config/file_fields.h"

namespace sluice::config {
namespace {

using api::Json;
using Errors = std::vector<std::string>;

std::string_view TypeName(const Json& json) {
  if (json.IsNull()) return "null";
  if (json.IsBool()) return "a boolean";
  if (json.IsNumber()) return "a number";
  if (json.IsString()) return "a string";
  return json.IsArray() ? "a list" : "an object";
}

std::string Join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

class Reader {
 public:
  Reader(FileVersion version, Errors* errors) : version_(version), errors_(errors) {}

  bool beta1() const { return version_ == FileVersion::kV1beta1; }

  // Reads an object whose fields T describes; members that no field asked for are errors.
  template <typename T>
  void ReadObject(const Json& json, const std::string& path, T& out,
                  std::set<std::string_view> known = {}) {
    if (!Expect(json.IsObject(), json, path, "an object")) return;
    FieldReader fields{*this, json, path, std::move(known)};
    Fields(fields, out);
    for (const auto& [key, value] : json.AsObject()) {
      if (!fields.known.contains(key)) Error(Join(path, key), "unknown field");
    }
  }

 private:
  // The visitor for the fields of one object.
  struct FieldReader {
    Reader& reader;
    const Json& object;
    const std::string& path;
    std::set<std::string_view> known;

    bool beta1() const { return reader.beta1(); }
    template <typename T>
    void operator()(std::string_view name, T& member) {
      known.insert(name);
      const Json* json = object.Find(name);
      if (json != nullptr && !json->IsNull()) reader.Read(*json, Join(path, name), member);
    }
  };

  void Error(const std::string& path, const std::string& what) {
    errors_->push_back(fmt::format("{}: {}", path.empty() ? "(document)" : path, what));
  }

  bool Expect(bool fits, const Json& json, const std::string& path, std::string_view wanted) {
    if (!fits) Error(path, fmt::format("must be {}, not {}", wanted, TypeName(json)));
    return fits;
  }

  void Read(const Json& json, const std::string& path, bool& out) {
    if (Expect(json.IsBool(), json, path, "a boolean")) out = json.AsBool();
  }
  void Read(const Json& json, const std::string& path, std::string& out) {
    if (Expect(json.IsString(), json, path, "a string")) out = json.AsString();
  }
  void Read(const Json& json, const std::string& path, double& out) {
    if (Expect(json.IsNumber(), json, path, "a number")) out = json.AsDouble();
  }
  void Read(const Json& json, const std::string& path, int64_t& out) {
    if (Expect(json.IsInt(), json, path, "an integer")) out = json.AsInt();
  }
  void Read(const Json& json, const std::string& path, int32_t& out) {
    if (!Expect(json.IsInt(), json, path, "an integer")) return;
    const int64_t value = json.AsInt();
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      Error(path, fmt::format("{} does not fit 32 bits", value));
      return;
    }
    out = static_cast<int32_t>(value);
  }
  void Read(const Json& json, const std::string& path, absl::Duration& out) {
    if (!Expect(json.IsString(), json, path, "a duration such as \"5m\"")) return;
    const absl::StatusOr<absl::Duration> duration = ParseDuration(json.AsString());
    // Beyond 64 bits of nanoseconds there is no duration in the file's format ("inf" neither).
    constexpr absl::Duration kLongest = absl::Nanoseconds(std::numeric_limits<int64_t>::max());
    if (!duration.ok() || absl::AbsDuration(*duration) > kLongest) {
      Error(path, fmt::format("\"{}\" is not a duration such as 90s or 1h30m", json.AsString()));
      return;
    }
    out = *duration;
  }
  void Read(const Json& json, const std::string& path, Quantity& out) {
    if (!Expect(json.IsString() || json.IsNumber(), json, path, "a quantity")) return;
    const absl::StatusOr<Quantity> quantity =
        Quantity::Parse(json.IsString() ? json.AsString() : json.Text());
    if (!quantity.ok()) {
      Error(path, std::string(quantity.status().message()));
      return;
    }
    out = *quantity;
  }
  template <typename T>
  void Read(const Json& json, const std::string& path, std::optional<T>& out) {
    Read(json, path, out.emplace());
  }
  template <typename T>
  void Read(const Json& json, const std::string& path, std::vector<T>& out) {
    if (!Expect(json.IsArray(), json, path, "a list")) return;
    int index = 0;
    for (const Json& item : json.AsArray()) {
      Read(item, fmt::format("{}[{}]", path, index++), out.emplace_back());
    }
  }
  template <typename T>
  void Read(const Json& json, const std::string& path, TextMap<T>& out) {
    if (!Expect(json.IsObject(), json, path, "an object")) return;
    for (const auto& [key, value] : json.AsObject()) {
      Read(value, fmt::format("{}[{}]", path, key), out[key]);
    }
  }
  template <typename T>
  void Read(const Json& json, const std::string& path, T& out) {
    ReadObject(json, path, out);
  }

  FileVersion version_;
  Errors* errors_;
};

class Writer {
 public:
  explicit Writer(Json* object) : object_(object) {}

  bool beta1() const { return false; }

  template <typename T>
  void operator()(std::string_view name, T& member) {
    Json value = Write(member);
    const bool empty = (value.IsString() && value.AsString().empty()) ||
                       (value.IsArray() && value.AsArray().empty()) ||
                       (value.IsObject() && value.AsObject().empty());
    if (!value.IsNull() && !empty) object_->Set(name, std::move(value));
  }
  // What is present counts even when it is empty: an empty selector matches everything.
  template <typename T>
  void operator()(std::string_view name, std::optional<T>& member) {
    if (member) object_->Set(name, Write(*member));
  }

 private:
  static Json Write(bool value) { return Json(value); }
  static Json Write(int32_t value) { return Json(value); }
  static Json Write(int64_t value) { return Json(value); }
  static Json Write(double value) { return Json(value); }
  // References to non-const: otherwise the template for structs would fit better.
  static Json Write(std::string& value) { return Json(value); }
  static Json Write(absl::Duration& value) { return Json(sluice::FormatDuration(value)); }
  static Json Write(Quantity& value) { return Json(value.ToString()); }
  template <typename T>
  static Json Write(std::vector<T>& values) {
    Json array = Json::MakeArray();
    for (T& value : values) array.Append(Write(value));
    return array;
  }
  template <typename T>
  static Json Write(TextMap<T>& values) {
    Json object = Json::MakeObject();
    for (auto& [key, value] : values) object.Set(key, Write(value));
    return object;
  }
  template <typename T>
  static Json Write(T& value) {
    Json object = Json::MakeObject();
    Writer writer(&object);
    Fields(writer, value);
    return object;
  }

  Json* object_;
};

}  // namespace

ConfigurationFile ReadConfiguration(const Json& document, FileVersion version, Errors* errors) {
  ConfigurationFile file;
  Reader(version, errors).ReadObject(document, "", file, {"apiVersion", "kind"});
  return file;
}

Json WriteConfiguration(const ConfigurationFile& file) {
  Json object = Json::MakeObject(
      {{"apiVersion", "config.kueue.x-k8s.io/v1beta2"}, {"kind", "Configuration"}});
  Writer writer(&object);
  ConfigurationFile copy = file;  // the descriptions are shared with the reader and take references
  Fields(writer, copy);
  return object;
}

}  // namespace sluice::config
