// ApiServer: the part of a Kubernetes API server that a controller can see, in memory.
//
// Stores objects of every kind of api/kind.h as JSON. Understands get, create, update, merge patch,
// JSON patch, server-side apply and delete with preconditions; keeps uid, resourceVersion,
// generation, finalizers and deletion; separates the status subresource; prunes, defaults and
// checks the kinds of kueue.x-k8s.io by their schemas and by the rules between old and new object;
// runs the real webhook code; collects objects whose owners are gone. Refusals carry the code and
// reason of the API server; the texts are its own.
//
// Deterministic: uids and versions are counted, time is a parameter. Single thread. Not modelled:
// managedFields inside objects, field selectors, paging, priority and fairness.
// Source: Kubernetes documentation, "Kubernetes API Concepts", "Server-Side Apply", "Garbage
// Collection", "Finalizers".
//
//   ApiServer api(settings, {});
//   state::Reply reply = api.Execute(CreateAction(api::Kind::kJob, {"ns", "a"}, body), now);
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "sim/field_set.h"
#include "state/ports.h"
#include "state/settings.h"

namespace sluice::sim {

struct ApiServerOptions {
  bool webhooks = true;  // defaulting and validation of the controller are called
  // Uids follow from kind, name and instant instead of the order of the requests, so that runs in
  // which objects come in another order can be compared.
  bool uids_of_names = false;
  state::ClusterFeatures features = {};
};

class ApiServer {
 public:
  // The settings must outlive the server. Starts with the namespaces default and kube-system.
  ApiServer(const state::Settings& settings, ApiServerOptions options);

  // Carries out one request. The reply has the action's id.
  state::Reply Execute(const state::Action& action, absl::Time now);

  // nullptr when there is none.
  const api::Json* Find(api::Kind kind, const ObjectKey& key) const;
  // In the order of keys.
  std::vector<api::Json> List(api::Kind kind) const;
  // The same without copies; `visit` must not change the server.
  template <typename Visit>
  void ForEach(api::Kind kind, Visit visit) const {
    const auto objects = objects_.find(kind);
    if (objects == objects_.end()) return;
    for (const auto& [key, stored] : objects->second) visit(stored.object);
  }
  // Is told every change of an object (kUpsert, kDelete) in the order of versions.
  using Listener = std::function<void(const state::ObjectEvent&)>;
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  // Objects may have lost their owners since the last collection.
  bool HasGarbage() const { return garbage_; }
  void CollectGarbage(absl::Time now);

  // Writes that changed something.
  uint64_t versions() const { return version_; }
  void set_webhooks(bool on) { options_.webhooks = on; }
  const state::ClusterFeatures& features() const { return options_.features; }
  void set_features(const state::ClusterFeatures& features) { options_.features = features; }

 private:
  struct Stored {
    api::Json object;
    Ownership ownership;
  };
  using Objects = absl::btree_map<ObjectKey, Stored>;
  struct Write {  // a change of an object that exists
    api::Kind kind;
    ObjectKey key;
    std::string subresource;
    api::Json next;
    Ownership ownership;
    bool put = false;
  };

  state::Reply Create(const state::Action& action, absl::Time now);
  state::Reply Store(api::Kind kind, ObjectKey key, api::Json object, const std::string& manager,
                     bool apply, absl::Time now);
  state::Reply Patch(const state::Action& action, absl::Time now);
  state::Reply Apply(const state::Action& action, absl::Time now);
  state::Reply Delete(const state::Action& action, absl::Time now);
  state::Reply Replace(Write write, absl::Time now);
  state::Reply Commit(Write write, Stored& stored, absl::Time now);

  // Mutating webhook on a new object.
  state::Reply Mutate(api::Kind kind, api::Json& object) const;
  // Schema, rules and validating webhook; ok() when nothing objects.
  state::Reply Check(api::Kind kind, const std::string& subresource, const api::Json* old,
                     const api::Json& next) const;
  api::Json Review(const std::string& prefix, api::Kind kind, const std::string& subresource,
                   const api::Json* old, const api::Json& next) const;
  void Remove(api::Kind kind, const ObjectKey& key);
  void Notify(state::ObjectEvent::Type type, api::Kind kind, const api::Json& object) const;
  void CollectOne(api::Kind kind, const ObjectKey& key, absl::Time now);
  bool HasDependents(const std::string& uid) const;
  std::string NewUid(api::Kind kind, const ObjectKey& key, absl::Time now) const;
  std::string NextVersion() { return std::to_string(++version_); }

  const state::Settings& settings_;
  ApiServerOptions options_;
  absl::btree_map<api::Kind, Objects> objects_;
  absl::btree_set<std::string> uids_;
  Listener listener_;
  uint64_t version_ = 0;
  absl::btree_map<api::Kind, uint64_t>
      last_uid_;  // counted per kind, so that names stay comparable
  uint64_t next_name_ = 1;
  bool garbage_ = false;
};

}  // namespace sluice::sim
