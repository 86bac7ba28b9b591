#include "api/parse_object.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"

namespace sluice::api {
namespace {

// Bytes that valid text never has, with which Mend marks what it changed inside of strings.
constexpr char kBrokenMark = '\xFF';
constexpr char kNumberMark = '\xFE';
constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

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

// What to do with what is not ours to keep.
struct ParseOptions {
  bool without_managed_fields = false;
  bool mend = false;  // go on without what is too deep; read the marks of Mend
};

// Builds the tree from rapidjson's events. The stack holds finished values of open containers by
// value, so a failure in the middle frees everything. Of what is left out only the depth is
// counted.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  explicit Builder(ParseOptions options) : options_(options) {}

  bool Null() { return Add(Json()); }
  bool Bool(bool value) { return Add(Json(value)); }
  bool Int(int value) { return Add(Json(value)); }
  bool Uint(unsigned value) { return Add(Json(static_cast<int64_t>(value))); }
  bool Int64(int64_t value) { return Add(Json(value)); }
  bool Uint64(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Add(Json(static_cast<double>(value)));
    return Add(Json(static_cast<int64_t>(value)));
  }
  bool Double(double value) {
    // The reader lets the last few beyond the largest one through.
    if (!left_out_ && !std::isfinite(value)) return Refuse(Refusal::kTooBig);
    return Add(Json(value));
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (left_out_) return LeaveOut(0);
    std::string value(text, length);
    if (options_.mend) ReadMarks(value);
    return Add(Json(std::move(value)));
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (left_out_) return true;
    const std::string_view key(text, length);
    if (options_.without_managed_fields && key == "managedFields" && InMetadata()) {
      left_out_ = 0;
      return true;
    }
    Json::Member& member = stack_.back().MutableObject().emplace_back(std::string(key), Json());
    if (options_.mend) ReadMarks(member.first);
    return true;
  }
  bool StartObject() { return Open(Json(Json::Object())); }
  bool EndObject(rapidjson::SizeType) {
    if (left_out_) return LeaveOut(-1);
    KeepLast(stack_.back().MutableObject());
    return Close();
  }
  bool StartArray() { return Open(Json(Json::Array())); }
  bool EndArray(rapidjson::SizeType) { return left_out_ ? LeaveOut(-1) : Close(); }

  enum class Refusal { kNone, kTooDeep, kTooBig };
  Refusal refusal() const { return refusal_; }
  Json TakeRoot() { return std::move(root_); }
  std::vector<Damage> TakeDamages() { return std::move(damages_); }

 private:
  bool Refuse(Refusal refusal) {
    refusal_ = refusal;
    return false;
  }
  bool Open(Json container) {
    if (left_out_) return LeaveOut(1);
    if (stack_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      if (!options_.mend) return Refuse(Refusal::kTooDeep);
      Note(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
      Add(Json());
      left_out_ = 0;
      return LeaveOut(1);
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
  bool LeaveOut(int64_t step) {
    *left_out_ += step;
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

  void ReadMarks(std::string& text) {
    if (text.starts_with(kNumberMark)) {
      text.erase(0, 1);
      Note("a number beyond what a double holds");
    }
    size_t at = text.find(kBrokenMark);
    if (at == std::string::npos) return;
    for (; at != std::string::npos; at = text.find(kBrokenMark, at)) {
      text.replace(at, 1, kReplacement);
    }
    Note("text that is not Unicode");
  }
  void Note(std::string what) {
    std::optional<size_t> item;
    if (stack_.size() >= 2 && stack_[0].IsObject() && stack_[1].IsArray() &&
        stack_[0].AsObject().back().first == "items") {
      item = stack_[1].AsArray().size();
    }
    if (!damages_.empty() && damages_.back().item == item) return;
    damages_.push_back({item, Place(item ? 2 : 0), std::move(what)});
  }
  // The way from that level on to what is read now; a deep one ends in dots.
  std::string Place(size_t level) const {
    constexpr size_t kMaxShown = 8;
    std::string place;
    for (size_t shown = 0; level < stack_.size(); ++level, ++shown) {
      if (shown == kMaxShown) return place + "...";
      if (stack_[level].IsArray()) {
        place += fmt::format("[{}]", stack_[level].AsArray().size());
      } else {
        place += (place.empty() ? "" : ".") + stack_[level].AsObject().back().first;
      }
    }
    return place;
  }

  const ParseOptions options_;
  std::vector<Json> stack_;
  Json root_;
  Refusal refusal_ = Refusal::kNone;
  std::optional<int64_t> left_out_;  // inside of what is left out, at this depth
  std::vector<Damage> damages_;
};

struct Outcome {
  absl::StatusOr<Json> json;
  bool mendable = false;  // JSON, but with a part that we do not take
};

template <unsigned kFlags>
Outcome Read(std::string_view text, Builder& builder) {
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(text.data(), text.size());
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.refusal() == Builder::Refusal::kTooDeep) {
    return {InvalidArgument("JSON is nested deeper than {} levels", kMaxJsonDepth), true};
  }
  if (!result.IsError()) return {builder.TakeRoot()};
  rapidjson::ParseErrorCode code = result.Code();
  if (builder.refusal() == Builder::Refusal::kTooBig) code = rapidjson::kParseErrorNumberTooBig;
  return {
      InvalidArgument("JSON: {} (at byte {})", rapidjson::GetParseError_En(code), result.Offset()),
      code == rapidjson::kParseErrorNumberTooBig ||
          code == rapidjson::kParseErrorStringInvalidEncoding ||
          code == rapidjson::kParseErrorStringUnicodeSurrogateInvalid};
}

// The code of "\uXXXX" at the start of the text, or nullopt.
std::optional<unsigned> EscapedCode(std::string_view text) {
  constexpr size_t kLength = 6;
  if (text.size() < kLength || !text.starts_with("\\u")) return std::nullopt;
  unsigned code = 0;
  for (const char c : text.substr(2, kLength - 2)) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    const unsigned digit =
        c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>((c | 0x20) - 'a') + 10;
    code = code * 16 + digit;
  }
  return code;
}

// Copies the beginning of the inside of a string: one character, escape or pair of escapes, or the
// mark in the place of what is none. Returns how much of `rest` that was.
size_t MendCharacter(std::string_view rest, std::string& mended) {
  size_t length = Utf8Length(rest);
  if (rest.front() == '\\') {
    length = std::min<size_t>(rest.size(), 2);
    if (const std::optional<unsigned> code = EscapedCode(rest)) {
      length = 6;
      const bool high = *code >= 0xD800 && *code <= 0xDBFF;
      const std::optional<unsigned> next = EscapedCode(rest.substr(length));
      if (high && next && *next >= 0xDC00 && *next <= 0xDFFF) {
        length = 12;
      } else if (high || (*code >= 0xDC00 && *code <= 0xDFFF)) {
        mended += kBrokenMark;
        return length;
      }
    }
  }
  if (length == 0) {
    mended += kBrokenMark;
    return 1;
  }
  mended += rest.substr(0, length);
  return length;
}

size_t MendNumber(std::string_view rest, std::string& mended) {
  const size_t end = rest.find_first_not_of("0123456789+-.eE");
  const std::string number(rest.substr(0, end));
  char* stopped = nullptr;
  const bool infinite = std::isinf(std::strtod(number.c_str(), &stopped));
  if (infinite && *stopped == '\0') {
    mended += fmt::format("\"{}{}\"", kNumberMark, number);
  } else {
    mended += number;
  }
  return number.size();
}

// The same document with what a parser refuses, though it is JSON, marked inside of strings.
std::string Mend(std::string_view text) {
  std::string mended;
  mended.reserve(text.size() + 16);
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      in_string = !in_string;
      mended += c;
      ++at;
    } else if (in_string) {
      at += MendCharacter(text.substr(at), mended);
    } else if (c == '-' || absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      at += MendNumber(text.substr(at), mended);
    } else {
      mended += c;
      ++at;
    }
  }
  return mended;
}

constexpr unsigned kStrict = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag |
                             rapidjson::kParseValidateEncodingFlag;
// The marks are no valid text.
constexpr unsigned kMended = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag;

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text) {
  Builder builder({});
  return Read<kStrict>(text, builder).json;
}

absl::StatusOr<Json> ParseObject(std::string_view text) {
  Builder builder({.without_managed_fields = true});
  return Read<kStrict>(text, builder).json;
}

absl::StatusOr<Answer> ParseAnswer(std::string_view text) {
  Builder strict({.without_managed_fields = true});
  Outcome first = Read<kStrict>(text, strict);
  if (first.json.ok()) return Answer{*std::move(first.json), {}};
  if (!first.mendable) return first.json.status();
  Builder builder({.without_managed_fields = true, .mend = true});
  Outcome second = Read<kMended>(Mend(text), builder);
  if (!second.json.ok()) return second.json.status();
  return Answer{*std::move(second.json), builder.TakeDamages()};
}

}  // namespace sluice::api
