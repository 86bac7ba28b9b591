// RFC 6902 on Json values, with the pointers of RFC 6901.
#include <charconv>
#include <vector>

#include "api/json.h"
#include "base/status.h"

namespace sluice::api {
namespace {

using Tokens = std::vector<std::string>;

absl::StatusOr<Tokens> ParsePointer(const std::string& pointer) {
  Tokens tokens;
  if (pointer.empty()) return tokens;
  if (pointer[0] != '/') return InvalidArgument("the path \"{}\" does not start with /", pointer);
  tokens.emplace_back();
  for (size_t i = 1; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (pointer[i] != '~') {
      tokens.back() += pointer[i];
    } else if (i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      tokens.back() += pointer[++i] == '0' ? '~' : '/';
    } else {
      return InvalidArgument("the path \"{}\" has a ~ that is neither ~0 nor ~1", pointer);
    }
  }
  return tokens;
}

// An index into an array of `size` items: digits without a leading zero, below `limit`.
absl::StatusOr<size_t> ParseIndex(const std::string& token, size_t limit) {
  size_t index = 0;
  const char* end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, index);
  if (error != std::errc() || stop != end || (token.size() > 1 && token[0] == '0')) {
    return InvalidArgument("\"{}\" is not an index of a list", token);
  }
  if (index >= limit) return InvalidArgument("the index {} is beyond the end of the list", token);
  return index;
}

absl::StatusOr<Json*> Child(Json& parent, const std::string& token) {
  if (parent.IsArray()) {
    ASSIGN_OR_RETURN(const size_t index, ParseIndex(token, parent.AsArray().size()));
    return &parent.MutableArray()[index];
  }
  Json* child = parent.Find(token);
  if (child == nullptr) return InvalidArgument("there is no member \"{}\"", token);
  return child;
}

absl::StatusOr<Json*> Locate(Json& root, const Tokens& tokens, size_t count) {
  Json* at = &root;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(at, Child(*at, tokens[i]));
  }
  return at;
}

absl::Status Add(Json& root, const Tokens& tokens, Json value) {
  if (tokens.empty()) {
    root = std::move(value);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Json * parent, Locate(root, tokens, tokens.size() - 1));
  if (parent->IsObject()) {
    parent->Set(tokens.back(), std::move(value));
    return absl::OkStatus();
  }
  if (!parent->IsArray()) {
    return InvalidArgument("\"{}\" cannot be added to a value that is no object or list",
                           tokens.back());
  }
  Json::Array& items = parent->MutableArray();
  size_t index = items.size();
  if (tokens.back() != "-") {
    ASSIGN_OR_RETURN(index, ParseIndex(tokens.back(), items.size() + 1));
  }
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(index), std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Json> Remove(Json& root, const Tokens& tokens) {
  if (tokens.empty()) return std::exchange(root, Json());
  ASSIGN_OR_RETURN(Json * parent, Locate(root, tokens, tokens.size() - 1));
  ASSIGN_OR_RETURN(Json * child, Child(*parent, tokens.back()));
  Json removed = std::move(*child);
  if (parent->IsArray()) {
    Json::Array& items = parent->MutableArray();
    items.erase(items.begin() + (child - items.data()));
  } else {
    parent->Erase(tokens.back());
  }
  return removed;
}

absl::StatusOr<Json> Copy(Json& root, const Tokens& from) {
  ASSIGN_OR_RETURN(const Json* source, Locate(root, from, from.size()));
  return *source;
}

bool IsProperPrefix(const Tokens& prefix, const Tokens& path) {
  return prefix.size() < path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

absl::Status MoveOrCopy(Json& root, const Json& operation, const Tokens& path, bool move) {
  const Json* from_text = operation.Find("from");
  if (from_text == nullptr || !from_text->IsString()) {
    return InvalidArgument("the text \"from\" is missing");
  }
  ASSIGN_OR_RETURN(const Tokens from, ParsePointer(from_text->AsString()));
  if (move && IsProperPrefix(from, path)) {
    return InvalidArgument("a value cannot be moved into itself");
  }
  ASSIGN_OR_RETURN(Json value, move ? Remove(root, from) : Copy(root, from));
  return Add(root, path, std::move(value));
}

absl::Status ApplyOperation(Json& root, const Json& operation) {
  const Json* path_text = operation.Find("path");
  if (path_text == nullptr || !path_text->IsString()) {
    return InvalidArgument("the text \"path\" is missing");
  }
  ASSIGN_OR_RETURN(const Tokens path, ParsePointer(path_text->AsString()));
  const std::string op = operation.GetString("op");
  if (op == "remove") return Remove(root, path).status();
  if (op == "move" || op == "copy") return MoveOrCopy(root, operation, path, op == "move");
  const Json* value = operation.Find("value");
  if (op != "add" && op != "replace" && op != "test") {
    return InvalidArgument("\"{}\" is not an operation of a JSON patch", op);
  }
  if (value == nullptr) return InvalidArgument("the member \"value\" is missing");
  if (op == "add") return Add(root, path, *value);
  ASSIGN_OR_RETURN(Json * target, Locate(root, path, path.size()));
  if (op == "test") {
    if (*target == *value) return absl::OkStatus();
    return InvalidArgument("the value at \"{}\" is not the expected one", path_text->AsString());
  }
  *target = *value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ApplyJsonPatch(Json target, const Json& patch) {
  if (!patch.IsArray()) return InvalidArgument("a JSON patch is a list of operations");
  for (size_t i = 0; i < patch.AsArray().size(); ++i) {
    const Json& operation = patch.AsArray()[i];
    if (absl::Status status = ApplyOperation(target, operation); !status.ok()) {
      return Annotate(status, fmt::format("operation {} ({} {})", i, operation.GetString("op"),
                                          operation.GetString("path")));
    }
  }
  return target;
}

}  // namespace sluice::api
