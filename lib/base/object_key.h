// Names of API objects.
#pragma once

#include <compare>
#include <string>
#include <utility>

namespace sluice {

// Namespace and name; the namespace is empty for cluster-scoped objects. Ordered by (ns, name).
struct ObjectKey {
  std::string ns;
  std::string name;

  auto operator<=>(const ObjectKey&) const = default;
  bool operator==(const ObjectKey&) const = default;
  // "ns/name", or "name" for a cluster-scoped object.
  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }

  template <typename H>
  friend H AbslHashValue(H h, const ObjectKey& key) {
    return H::combine(std::move(h), key.ns, key.name);
  }
};

}  // namespace sluice
