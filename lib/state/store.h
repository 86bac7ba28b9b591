// Store: the objects of one kind as last seen, by key, in order of key.
#pragma once

#include <absl/container/btree_map.h>

#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "base/object_key.h"

namespace sluice::state {

template <typename T>
class Store {
 public:
  using Map = absl::btree_map<ObjectKey, std::shared_ptr<const T>>;

  // nullptr when there is none.
  std::shared_ptr<const T> Find(const ObjectKey& key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }
  bool Contains(const ObjectKey& key) const { return objects_.contains(key); }
  void Put(const ObjectKey& key, std::shared_ptr<const T> object) {
    objects_.insert_or_assign(key, std::move(object));
  }
  void Erase(const ObjectKey& key) { objects_.erase(key); }
  const Map& all() const { return objects_; }
  size_t size() const { return objects_.size(); }

 private:
  Map objects_;
};

// Whether resource version `a` is newer than `b`. Versions of one kind are decimal numbers of any
// length (Kubernetes API concepts, "Resource versions"); an empty one is older than every other.
inline bool NewerVersion(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a > b;
}

}  // namespace sluice::state
