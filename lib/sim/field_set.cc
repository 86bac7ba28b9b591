#include "sim/field_set.h"

#include <algorithm>

namespace sluice::sim {
namespace {

using api::Json;

enum class ListType { kAtomic, kMap, kSet };

struct ListShape {
  ListType type = ListType::kAtomic;
  std::vector<std::string> keys;
};

ListShape ShapeOf(const std::string& name, const Json* schema) {
  ListShape shape;
  if (schema == nullptr) {
    if (name == "conditions") return {ListType::kMap, {"type"}};
    if (name == "finalizers") return {ListType::kSet, {}};
    if (name == "ownerReferences") return {ListType::kMap, {"uid"}};
    return shape;
  }
  const std::string type = schema->GetString("x-kubernetes-list-type");
  if (type == "set") return {ListType::kSet, {}};
  if (type != "map") return shape;
  shape.type = ListType::kMap;
  if (const Json* keys = schema->Find("x-kubernetes-list-map-keys")) {
    for (const Json& key : keys->AsArray()) shape.keys.push_back(key.AsString());
  }
  return shape;
}

bool AtomicMap(const Json* schema) {
  return schema != nullptr && schema->GetString("x-kubernetes-map-type") == "atomic";
}

// metadata is the same everywhere and has no schema of its own in a CRD.
const Json* MemberSchema(const Json* schema, const std::string& name, bool root) {
  if (schema == nullptr || (root && name == "metadata")) return nullptr;
  if (const Json* properties = schema->Find("properties")) {
    if (const Json* member = properties->Find(name)) return member;
  }
  const Json* additional = schema->Find("additionalProperties");
  return additional != nullptr && additional->IsObject() ? additional : nullptr;
}

const Json* ItemSchema(const Json* schema) {
  return schema == nullptr ? nullptr : schema->Find("items");
}

std::string ItemElement(const Json& item, const ListShape& shape) {
  if (shape.type == ListType::kSet) return "[" + item.Text() + "]";
  Json keys = Json::MakeObject();
  for (const std::string& key : shape.keys) {
    const Json* value = item.Find(key);
    keys.Set(key, value == nullptr ? Json() : *value);
  }
  return "[" + keys.Text() + "]";
}

class Collector {
 public:
  explicit Collector(FieldSet& fields) : fields_(fields) {}

  void Visit(const Json& value, const std::string& name, const Json* schema, bool root) {
    if (value.IsObject() && !value.AsObject().empty() && !AtomicMap(schema)) {
      for (const auto& [key, member] : value.AsObject()) {
        path_.push_back("." + key);
        Visit(member, key, MemberSchema(schema, key, root), false);
        path_.pop_back();
      }
      return;
    }
    const ListShape shape = ShapeOf(name, schema);
    if (!value.IsArray() || value.AsArray().empty() || shape.type == ListType::kAtomic) {
      fields_.insert(path_);
      return;
    }
    for (const Json& item : value.AsArray()) {
      path_.push_back(ItemElement(item, shape));
      fields_.insert(path_);
      if (shape.type == ListType::kMap) Visit(item, "", ItemSchema(schema), false);
      path_.pop_back();
    }
  }

 private:
  FieldSet& fields_;
  FieldPath path_;
};

// Sets every field of `config` in `live`.
Json Merge(Json live, const Json& config, const std::string& name, const Json* schema, bool root) {
  if (config.IsObject() && live.IsObject() && !AtomicMap(schema)) {
    for (const auto& [key, member] : config.AsObject()) {
      const Json* old = live.Find(key);
      live.Set(key, Merge(old == nullptr ? Json() : *old, member, key,
                          MemberSchema(schema, key, root), false));
    }
    return live;
  }
  const ListShape shape = ShapeOf(name, schema);
  if (!config.IsArray() || !live.IsArray() || shape.type == ListType::kAtomic) return config;
  for (const Json& item : config.AsArray()) {
    const std::string element = ItemElement(item, shape);
    Json::Array& items = live.MutableArray();
    const auto found = std::find_if(items.begin(), items.end(), [&](const Json& other) {
      return ItemElement(other, shape) == element;
    });
    if (found == items.end()) {
      items.push_back(item);
    } else if (shape.type == ListType::kMap) {
      *found = Merge(*found, item, "", ItemSchema(schema), false);
    }
  }
  return live;
}

// Removes the fields `gone` from the value at `path`.
class Remover {
 public:
  explicit Remover(const FieldSet& gone) : gone_(gone) {}

  // Returns whether the value itself is to be removed.
  bool Visit(Json& value, const std::string& name, const Json* schema, bool root) {
    const ListShape shape = ShapeOf(name, schema);
    if (value.IsObject() && !AtomicMap(schema)) return VisitObject(value, schema, root);
    if (value.IsArray() && shape.type != ListType::kAtomic) {
      return VisitList(value, shape, schema);
    }
    return gone_.contains(path_);
  }

 private:
  bool VisitObject(Json& value, const Json* schema, bool root) {
    if (value.AsObject().empty()) return gone_.contains(path_);
    Json::Object kept;
    for (auto& [key, member] : value.MutableObject()) {
      path_.push_back("." + key);
      const bool remove = Visit(member, key, MemberSchema(schema, key, root), false);
      path_.pop_back();
      if (!remove) kept.emplace_back(key, std::move(member));
    }
    value.MutableObject() = std::move(kept);
    return !root && value.AsObject().empty();
  }

  bool VisitList(Json& value, const ListShape& shape, const Json* schema) {
    if (value.AsArray().empty()) return gone_.contains(path_);
    Json::Array kept;
    for (Json& item : value.MutableArray()) {
      path_.push_back(ItemElement(item, shape));
      bool remove = gone_.contains(path_);
      if (!remove && shape.type == ListType::kMap) Visit(item, "", ItemSchema(schema), false);
      path_.pop_back();
      if (!remove) kept.push_back(std::move(item));
    }
    value.MutableArray() = std::move(kept);
    return value.AsArray().empty();
  }

  const FieldSet& gone_;
  FieldPath path_;
};

void TakeFromOthers(Ownership& ownership, const std::string& manager, const FieldSet& fields) {
  for (auto it = ownership.managers.begin(); it != ownership.managers.end();) {
    if (it->first != manager) {
      for (const FieldPath& path : fields) it->second.erase(path);
    }
    it = it->second.empty() ? ownership.managers.erase(it) : std::next(it);
  }
}

}  // namespace

std::string PathText(const FieldPath& path) {
  std::string text;
  for (const std::string& element : path) text += element;
  return text;
}

FieldSet FieldsOf(const Json& value, const Json* schema) {
  FieldSet fields;
  Collector(fields).Visit(value, "", schema, true);
  fields.erase(FieldPath{});
  return fields;
}

namespace {

// Leaves with their values, for comparison.
const Json* ValueAt(const Json& root, const FieldPath& path, const Json* schema) {
  const Json* value = &root;
  std::string name;
  for (size_t i = 0; i < path.size() && value != nullptr; ++i) {
    const std::string& element = path[i];
    if (element[0] == '.') {
      name = element.substr(1);
      schema = MemberSchema(schema, name, i == 0);
      value = value->Find(name);
      continue;
    }
    const ListShape shape = ShapeOf(name, schema);
    const Json* item = nullptr;
    for (const Json& candidate : value->AsArray()) {
      if (ItemElement(candidate, shape) == element) item = &candidate;
    }
    schema = ItemSchema(schema);
    name.clear();
    value = item;
  }
  return value;
}

bool IsItem(const FieldPath& path) { return path.back()[0] == '['; }

bool SameAt(const Json& a, const Json& b, const FieldPath& path, const Json* schema) {
  const Json* left = ValueAt(a, path, schema);
  const Json* right = ValueAt(b, path, schema);
  if (left == nullptr || right == nullptr) return left == right;
  return IsItem(path) || *left == *right;
}

}  // namespace

FieldSet ChangedFields(const Json& before, const Json& after, const Json* schema) {
  FieldSet changed;
  for (const FieldPath& path : FieldsOf(after, schema)) {
    if (!SameAt(before, after, path, schema)) changed.insert(path);
  }
  return changed;
}

ApplyResult ApplyConfiguration(const Json& live, const Json& config, const Json* schema,
                               const Ownership& ownership, const std::string& manager, bool force) {
  ApplyResult result;
  result.ownership = ownership;
  const FieldSet wanted = FieldsOf(config, schema);
  FieldSet taken;
  for (const auto& [other, fields] : ownership.managers) {
    if (other == manager) continue;
    for (const FieldPath& path : wanted) {
      if (!fields.contains(path) || SameAt(live, config, path, schema)) continue;
      taken.insert(path);
      if (!force) result.conflicts.push_back(PathText(path));
    }
  }
  if (!result.conflicts.empty()) return result;
  TakeFromOthers(result.ownership, manager, taken);
  FieldSet gone;
  if (const auto old = ownership.managers.find(manager); old != ownership.managers.end()) {
    for (const FieldPath& path : old->second) {
      if (wanted.contains(path)) continue;
      const bool shared = std::any_of(
          result.ownership.managers.begin(), result.ownership.managers.end(),
          [&](const auto& entry) { return entry.first != manager && entry.second.contains(path); });
      if (!shared) gone.insert(path);
    }
  }
  if (wanted.empty()) {
    result.ownership.managers.erase(manager);
  } else {
    result.ownership.managers[manager] = wanted;
  }
  result.object = Merge(live, config, "", schema, true);
  // An item that still has fields of another manager stays.
  for (const auto& [other, fields] : result.ownership.managers) {
    for (const FieldPath& path : fields) {
      for (size_t length = 1; length <= path.size(); ++length) {
        gone.erase(FieldPath(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(length)));
      }
    }
  }
  if (!gone.empty()) Remover(gone).Visit(result.object, "", schema, true);
  return result;
}

Ownership OwnershipAfterUpdate(const Json& before, const Json& after, const Json* schema,
                               Ownership ownership, const std::string& manager) {
  const std::string key = manager + "#update";
  const FieldSet changed = ChangedFields(before, after, schema);
  const FieldSet present = FieldsOf(after, schema);
  for (auto it = ownership.managers.begin(); it != ownership.managers.end();) {
    FieldSet kept;
    for (const FieldPath& path : it->second) {
      const bool lost =
          !present.contains(path) || (it->first != key && changed.contains(path) && !IsItem(path));
      if (!lost) kept.insert(path);
    }
    it->second = std::move(kept);
    it = it->second.empty() ? ownership.managers.erase(it) : std::next(it);
  }
  if (!changed.empty()) ownership.managers[key].insert(changed.begin(), changed.end());
  return ownership;
}

}  // namespace sluice::sim
