// View: what the webhooks know of the cluster and of the configuration.
//
// Contract: an immutable value. The loop builds one after a batch of changes and publishes it by
// pointer; the server thread reads it without locks. Members that seldom change are shared, so that
// building a View is cheap however large the cluster is. A View lags behind the API server by the
// latency of a watch, as any cache does.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <memory>
#include <optional>
#include <string>

#include "api/meta_types.h"
#include "base/object_key.h"
#include "state/ports.h"
#include "state/settings.h"

namespace sluice::webhook {

struct NamespaceView {
  api::StringMap labels;
  bool has_default_queue = false;  // a LocalQueue of the name "default" exists
};
using NamespaceViews = absl::btree_map<std::string, NamespaceView>;

// What is known of an object that owns a job.
struct Owner {
  std::string uid;
  std::string queue_name;                         // label kueue.x-k8s.io/queue-name
  std::optional<api::OwnerReference> controller;  // its own controller
};

// Finds the owners of jobs. Implementations are immutable (or lock by themselves) and answer at
// once.
class OwnerLookup {
 public:
  struct Answer {
    enum class Kind {
      kFound,
      kMissing,     // objects of this kind are watched, and this one does not exist
      kNotWatched,  // nothing is known of objects of this kind
    };
    Kind kind = Kind::kNotWatched;
    Owner owner;  // of kFound
  };

  virtual ~OwnerLookup() = default;
  virtual Answer Find(const std::string& api_version, const std::string& kind,
                      const ObjectKey& key) const = 0;
};

// The PriorityClasses whose pods never preempt others.
struct NeverPreempting {
  absl::btree_set<std::string> classes;
  bool by_default = false;  // pods without a class are of such a class
  bool Contains(const std::string& name) const {
    return name.empty() ? by_default : classes.contains(name);
  }
};

struct View {
  const state::Settings* settings = nullptr;  // never null when used; outlives the View
  std::shared_ptr<const NamespaceViews> namespaces = std::make_shared<NamespaceViews>();
  // A WorkloadPriorityClass of the name "default" exists.
  bool has_default_priority_class = false;
  NeverPreempting never_preempting;
  state::ClusterFeatures features;
  // nullptr: no kind of owner is watched.
  std::shared_ptr<const OwnerLookup> owners;

  bool GateOn(std::string_view gate) const { return settings->gates.Enabled(gate); }
  // nullptr when the namespace is not known.
  const NamespaceView* FindNamespace(const std::string& name) const {
    const auto found = namespaces->find(name);
    return found == namespaces->end() ? nullptr : &found->second;
  }
};

}  // namespace sluice::webhook
