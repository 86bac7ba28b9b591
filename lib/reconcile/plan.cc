#include "reconcile/plan.h"

namespace sluice::reconcile {

using api::Json;

state::Action MergePatchAction(api::Kind kind, const ObjectKey& key, std::string subresource,
                               Json body, const std::string& resource_version) {
  state::Action action;
  action.verb = state::Verb::kMergePatch;
  action.kind = kind;
  action.key = key;
  action.subresource = std::move(subresource);
  if (!resource_version.empty()) body["metadata"].Set("resourceVersion", resource_version);
  action.body = std::move(body);
  return action;
}

state::Action ApplyStatusAction(api::Kind kind, const ObjectKey& key, Json body,
                                std::string field_manager) {
  state::Action action;
  action.verb = state::Verb::kApply;
  action.kind = kind;
  action.key = key;
  action.subresource = "status";
  action.body = std::move(body);
  action.field_manager = std::move(field_manager);
  action.force = true;
  return action;
}

state::Action CreateAction(api::Kind kind, const ObjectKey& key, Json body) {
  state::Action action;
  action.verb = state::Verb::kCreate;
  action.kind = kind;
  action.key = key;
  action.body = std::move(body);
  return action;
}

state::Action DeleteAction(api::Kind kind, const ObjectKey& key, const std::string& uid) {
  state::Action action;
  action.verb = state::Verb::kDelete;
  action.kind = kind;
  action.key = key;
  action.body = Json::MakeObject({{"apiVersion", "v1"},
                                  {"kind", "DeleteOptions"},
                                  {"preconditions", Json::MakeObject({{"uid", uid}})},
                                  {"propagationPolicy", "Background"}});
  return action;
}

state::Action FinalizersAction(api::Kind kind, const ObjectKey& key,
                               const std::vector<std::string>& finalizers,
                               const std::string& resource_version) {
  Json list = Json::MakeArray();
  for (const std::string& finalizer : finalizers) list.Append(finalizer);
  Json body = Json::MakeObject();
  body["metadata"].Set("finalizers", std::move(list));
  return MergePatchAction(kind, key, "", std::move(body), resource_version);
}

std::vector<std::string> Without(std::vector<std::string> list, const std::string& item) {
  list.erase(std::remove(list.begin(), list.end(), item), list.end());
  return list;
}

std::vector<std::string> With(std::vector<std::string> list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  return list;
}

}  // namespace sluice::reconcile
