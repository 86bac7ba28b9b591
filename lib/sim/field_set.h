// Field ownership: which manager set which field of an object, and server-side apply on top of it.
//
// A field is a path such as ".status.conditions[{"type":"Admitted"}].reason": members by name,
// items of lists of type map by their keys, items of lists of type set by their value. Atomic lists
// and values are leaves. List types come from the schema of the kind; without one, "conditions" is
// a map by type and every other list is atomic. Source: Kubernetes documentation, "Server-Side
// Apply". Pure, single thread.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <string>
#include <vector>

#include "api/json.h"

namespace sluice::sim {

using FieldPath = std::vector<std::string>;
using FieldSet = absl::btree_set<FieldPath>;

// Leaves of `value` (and the items of keyed lists), relative to the root. `schema` may be null.
FieldSet FieldsOf(const api::Json& value, const api::Json* schema);

// Fields that `after` has and `before` has not, or with another value.
FieldSet ChangedFields(const api::Json& before, const api::Json& after, const api::Json* schema);

// Managers by "name" (apply) or "name#update" (all other writes).
struct Ownership {
  absl::btree_map<std::string, FieldSet> managers;
  bool operator==(const Ownership&) const = default;
};

struct ApplyResult {
  api::Json object;
  Ownership ownership;
  std::vector<std::string>
      conflicts;  // fields of other managers with other values; not empty: refused
};

// Applies `config` (without apiVersion, kind and identifying metadata) by `manager`: its fields are
// set, fields that the manager owned before and does not mention any more are removed unless
// someone else owns them.
ApplyResult ApplyConfiguration(const api::Json& live, const api::Json& config,
                               const api::Json* schema, const Ownership& ownership,
                               const std::string& manager, bool force);

// Ownership after a write that is no apply: the writer owns what it changed; what is gone has no
// owner.
Ownership OwnershipAfterUpdate(const api::Json& before, const api::Json& after,
                               const api::Json* schema, Ownership ownership,
                               const std::string& manager);

std::string PathText(const FieldPath& path);

}  // namespace sluice::sim
