// Fence: whether what was seen of the API server is as new as it was at a certain moment.
//
// A watch tells the changes of a kind in the order of their versions, and versions of one kind
// compare as numbers. So an event tells that all up to its version has been told, as the end of a
// list does, and a bookmark. What a list that runs shows proves nothing before its end, and the
// answer to a request of ours nothing about other objects.
// Source: Kubernetes documentation, "API Concepts" (resource versions, watch bookmarks); KEP-5504.
#pragma once

#include <absl/container/btree_set.h>

#include <algorithm>
#include <string>

#include "state/ports.h"
#include "state/store.h"

namespace sluice::state {

class Fence {
 public:
  void Note(const ObjectEvent& event) {
    if (event.by_reply) return;
    if (event.type == ObjectEvent::Type::kListBegin) {
      listing_.insert(event.kind);
      return;
    }
    if (event.type == ObjectEvent::Type::kListEnd) listing_.erase(event.kind);
    if (listing_.contains(event.kind)) return;
    std::string version = event.object.GetString("metadata", "resourceVersion");
    std::string& seen = seen_[event.kind];
    if (NewerVersion(version, seen)) seen = std::move(version);
  }

  bool Reached(const Versions& at_least) const {
    return std::all_of(at_least.begin(), at_least.end(), [&](const auto& wanted) {
      const auto seen = seen_.find(wanted.first);
      return seen != seen_.end() && !NewerVersion(wanted.second, seen->second);
    });
  }

 private:
  absl::btree_set<api::Kind> listing_;  // lists that run
  Versions seen_;
};

}  // namespace sluice::state
