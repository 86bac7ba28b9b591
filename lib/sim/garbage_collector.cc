// The garbage collector of the simulated API server: objects go after their owners.
// Source: Kubernetes documentation, "Garbage Collection" (background and foreground deletion).
#include <algorithm>

#include "sim/api_server.h"
#include "sim/object_metadata.h"

namespace sluice::sim {

using api::Json;
using api::Kind;
using state::Action;
using state::Verb;

bool ApiServer::HasDependents(const std::string& uid) const {
  for (const auto& [kind, objects] : objects_) {
    for (const auto& [key, stored] : objects) {
      const Json* owners = stored.object.Find("metadata", "ownerReferences");
      if (owners == nullptr) continue;
      for (const Json& owner : owners->AsArray()) {
        if (owner.GetString("uid") == uid) return true;
      }
    }
  }
  return false;
}

void ApiServer::CollectGarbage(absl::Time now) {
  garbage_ = false;
  std::vector<std::pair<Kind, ObjectKey>> candidates;
  for (const auto& [kind, objects] : objects_) {
    for (const auto& [key, stored] : objects) {
      const bool owned = stored.object.Find("metadata", "ownerReferences") != nullptr;
      if (owned || Deleting(stored.object)) candidates.emplace_back(kind, key);
    }
  }
  const uint64_t before = version_;
  for (const auto& [kind, key] : candidates) CollectOne(kind, key, now);
  garbage_ = version_ != before;
}

void ApiServer::CollectOne(Kind kind, const ObjectKey& key, absl::Time now) {
  const Json* object = Find(kind, key);
  if (object == nullptr) return;
  const std::vector<std::string> finalizers = Finalizers(*object);
  const bool foreground =
      std::find(finalizers.begin(), finalizers.end(), kForeground) != finalizers.end();
  if (Deleting(*object)) {
    if (!foreground || HasDependents(object->GetString("metadata", "uid"))) return;
    std::vector<std::string> rest = finalizers;
    std::erase(rest, kForeground);
    Write write{kind, key, "", *object, objects_[kind][key].ownership, false};
    SetFinalizers(write.next, rest);
    Replace(std::move(write), now);
    return;
  }
  const Json* owners = object->Find("metadata", "ownerReferences");
  if (owners == nullptr) return;
  Json alive = Json::MakeArray();
  bool waits = false;  // an owner in foreground deletion wants its dependents gone first
  for (const Json& owner : owners->AsArray()) {
    if (!uids_.contains(owner.GetString("uid"))) continue;
    const api::KindInfo* info = nullptr;
    const std::string version = owner.GetString("apiVersion");
    const size_t slash = version.find('/');
    info = api::FindKind(slash == std::string::npos ? "" : version.substr(0, slash),
                         owner.GetString("kind"));
    const Json* live =
        info == nullptr
            ? nullptr
            : Find(info->kind, {info->namespaced ? key.ns : "", owner.GetString("name")});
    if (live != nullptr && Deleting(*live)) {
      const std::vector<std::string> list = Finalizers(*live);
      if (std::find(list.begin(), list.end(), kForeground) != list.end()) {
        waits = true;
        continue;
      }
    }
    alive.Append(owner);
  }
  if (alive.AsArray().size() == owners->AsArray().size()) return;
  Action action;
  action.kind = kind;
  action.key = key;
  if (alive.AsArray().empty()) {
    action.verb = Verb::kDelete;
    action.body = Json::MakeObject({{"propagationPolicy", waits ? "Foreground" : "Background"}});
  } else {
    action.verb = Verb::kMergePatch;
    action.body["metadata"].Set("ownerReferences", std::move(alive));
  }
  Execute(action, now);
}

}  // namespace sluice::sim
