// Listing: what a list of one kind that runs has shown.
//
// While it runs the answer to a request of ours may come. Its object may be one that went before
// the list was taken, or one that came after it: only its version tells. What is newer than the
// list stays, since the watch that follows the list tells all that became of it; what is not, and
// was not listed, has gone (Kubernetes API concepts, "Efficient detection of changes" and "Resource
// versions"). Where the list does not say of which version it is, what was shown stays.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <string>

#include "base/object_key.h"
#include "state/ports.h"
#include "state/store.h"

namespace sluice::state {

class Listing {
 public:
  // An object that came while the list runs.
  void Note(const ObjectKey& key, const ObjectEvent& event) {
    if (!event.by_reply) {
      listed_.insert(key);
    } else {
      shown_[key] = event.object.GetString("metadata", "resourceVersion");
    }
  }
  void End(const ObjectEvent& end) {
    version_ = end.object.GetString("metadata", "resourceVersion");
  }

  // After the end: whether the object is there, as far as the list and replies meanwhile tell.
  bool Has(const ObjectKey& key) const {
    if (listed_.contains(key)) return true;
    const auto shown = shown_.find(key);
    return shown != shown_.end() && (version_.empty() || IsNewer(shown->second));
  }
  // Whether that version of an object is newer than the list. False where that is not known.
  bool IsNewer(const std::string& version) const {
    return !version_.empty() && NewerVersion(version, version_);
  }
  // All of which Has is true.
  absl::btree_set<ObjectKey> Keys() const {
    absl::btree_set<ObjectKey> keys = listed_;
    for (const auto& [key, version] : shown_) {
      if (Has(key)) keys.insert(key);
    }
    return keys;
  }

 private:
  absl::btree_set<ObjectKey> listed_;
  absl::btree_map<ObjectKey, std::string> shown_;  // by replies; with its version
  std::string version_;
};

}  // namespace sluice::state
