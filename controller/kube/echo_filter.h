// EchoFilter: recognizes watch events that show nothing but what the reply to a write has shown.
//
// Each write of the controller comes back twice, in its reply and as a watch event, and reading an
// object is most of what an event costs. Who hands a reply over notes the version that the write
// made; the watch of that kind asks before it reads an event with the same version. One version of
// one kind is one state of one object (Kubernetes API concepts, "Resource versions").
//
// Thread-safe. Remembers the last `capacity` versions: an event that comes before its reply, or
// long after it, is read as any other.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_set.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "api/kind.h"

namespace sluice::kube {

class EchoFilter {
 public:
  explicit EchoFilter(size_t capacity = 2048) : capacity_(capacity) {}

  // The object that a write of ours made was handed over.
  void Note(api::Kind kind, std::string_view version);
  // Whoever replaces all objects of the kind by those of a list drops what only a reply has shown,
  // so that its event must be read. To be called after the begin of the list was handed over.
  void Forget(api::Kind kind);
  // The version, if the line of a watch shows such an object; once for each.
  std::optional<uint64_t> TakeEcho(api::Kind kind, std::string_view line);

 private:
  using Key = std::pair<api::Kind, uint64_t>;

  const size_t capacity_;
  absl::Mutex mutex_;
  absl::flat_hash_set<Key> known_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> oldest_first_ ABSL_GUARDED_BY(mutex_);
};

// The resource version of the object in a watch line of type ADDED or MODIFIED, read without
// parsing it. nullopt where that is not certain: another type, more than one field of that name (an
// annotation can have it), or a version that is no number.
std::optional<uint64_t> VersionInLine(std::string_view line);

}  // namespace sluice::kube
