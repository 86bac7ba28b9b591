#include "sim/api_server.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "api/schema.h"
#include "base/check.h"
#include "base/time.h"
#include "sim/gang_rules.h"
#include "sim/object_metadata.h"
#include "sim/object_rules.h"
#include "sim/webhook_view.h"
#include "webhook/review.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Action;
using state::ObjectEvent;
using state::Reply;
using state::Verb;

Reply Failure(int code, std::string reason, std::string message) {
  return {0, code, std::move(reason), std::move(message), {}, {}};
}
Reply Success(int code, Json object) {
  Reply reply;
  reply.code = code;
  reply.object = std::move(object);
  return reply;
}

std::string ResourceName(Kind kind) {
  const api::KindInfo& info = api::InfoOf(kind);
  return info.group[0] == '\0' ? info.plural : fmt::format("{}.{}", info.plural, info.group);
}
Reply NotFoundReply(Kind kind, const std::string& name) {
  return Failure(404, "NotFound", fmt::format("{} \"{}\" not found", ResourceName(kind), name));
}
Reply ConflictReply(Kind kind, const std::string& name, const std::string& why) {
  return Failure(
      409, "Conflict",
      fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", ResourceName(kind), name, why));
}
Reply InvalidReply(Kind kind, const std::string& name, const std::string& why) {
  return Failure(422, "Invalid",
                 fmt::format("{} \"{}\" is invalid: {}", api::InfoOf(kind).name, name, why));
}
constexpr char kModified[] =
    "the object has been modified; please apply your changes to the latest version and try again";

const Json* SchemaFor(Kind kind) {
  const auto& kinds = api::DefinedKinds();
  const bool known = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  return known ? &api::SchemaOf(kind) : nullptr;
}

// What managers own of an object.
Json Owned(Json object) {
  object.Erase("apiVersion");
  object.Erase("kind");
  if (Json* metadata = object.Find("metadata")) {
    for (const char* field :
         {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
          "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generateName"}) {
      metadata->Erase(field);
    }
    if (metadata->AsObject().empty()) object.Erase("metadata");
  }
  return object;
}

// Everything whose change counts as a new generation.
Json Generated(Json object) {
  object.Erase("metadata");
  object.Erase("status");
  return object;
}

// Lists and maps that became empty are not stored.
void DropEmptyMetadata(Json& object) {
  Json* metadata = object.Find("metadata");
  if (metadata == nullptr || !metadata->IsObject()) return;
  for (const char* field : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    const Json* value = metadata->Find(field);
    if (value != nullptr && value->AsArray().empty() && value->AsObject().empty()) {
      metadata->Erase(field);
    }
  }
}

// A null in a body means that the member is not there.
void DropNulls(Json& value) {
  if (value.IsArray()) {
    for (Json& item : value.MutableArray()) DropNulls(item);
    return;
  }
  if (!value.IsObject()) return;
  Json::Object& members = value.MutableObject();
  std::erase_if(members, [](const Json::Member& member) { return member.second.IsNull(); });
  for (auto& [key, member] : members) DropNulls(member);
}

// Seconds that a deleted pod still has.
int64_t GraceOf(const Json& object) {
  const Json* grace = object.Find("metadata", "deletionGracePeriodSeconds");
  return grace == nullptr ? 0 : grace->AsInt();
}

// How long a pod may take to stop: not at all when it is on no node or has ended.
int64_t PodGrace(const Json& pod, const Json& options) {
  const std::string phase = pod.GetString("status", "phase");
  if (pod.GetString("spec", "nodeName").empty() || phase == "Succeeded" || phase == "Failed") {
    return 0;
  }
  const Json* wanted = options.Find("gracePeriodSeconds");
  if (wanted == nullptr) wanted = pod.Find("spec", "terminationGracePeriodSeconds");
  return wanted == nullptr ? 30 : wanted->AsInt();
}

int64_t Generation(const Json& object) {
  const Json* generation = object.Find("metadata", "generation");
  return generation == nullptr ? 0 : generation->AsInt();
}

}  // namespace

ApiServer::ApiServer(const state::Settings& settings, ApiServerOptions options)
    : settings_(settings), options_(options) {
  for (const char* name : {"default", "kube-system"}) {
    Action action;
    action.verb = Verb::kCreate;
    action.kind = Kind::kNamespace;
    action.key = {"", name};
    action.body = Json::MakeObject({{"metadata", Json::MakeObject({{"name", name}})}});
    Execute(action, absl::UnixEpoch());
  }
}

const Json* ApiServer::Find(Kind kind, const ObjectKey& key) const {
  const auto objects = objects_.find(kind);
  if (objects == objects_.end()) return nullptr;
  const auto found = objects->second.find(key);
  return found == objects->second.end() ? nullptr : &found->second.object;
}

std::vector<Json> ApiServer::List(Kind kind) const {
  std::vector<Json> list;
  const auto objects = objects_.find(kind);
  if (objects == objects_.end()) return list;
  for (const auto& [key, stored] : objects->second) list.push_back(stored.object);
  return list;
}

Reply ApiServer::Execute(const Action& action, absl::Time now) {
  Reply reply;
  const bool needs_object = action.verb != Verb::kCreate && action.verb != Verb::kApply;
  const bool unserved = action.kind == Kind::kPodGroup && !options_.features.pod_groups;
  if (unserved) {
    reply = Failure(404, "NotFound", "the server could not find the requested resource");
  } else if (!action.subresource.empty() &&
             (action.subresource != "status" || !HasStatus(action.kind))) {
    reply = Failure(404, "NotFound", "the server could not find the requested resource");
  } else if (needs_object && Find(action.kind, action.key) == nullptr) {
    reply = NotFoundReply(action.kind, action.key.name);
  } else {
    switch (action.verb) {
      case Verb::kCreate:
        reply = Create(action, now);
        break;
      case Verb::kUpdate:
      case Verb::kMergePatch:
      case Verb::kJsonPatch:
        reply = Patch(action, now);
        break;
      case Verb::kApply:
        reply = Apply(action, now);
        break;
      case Verb::kDelete:
        reply = Delete(action, now);
        break;
      case Verb::kGet:
        reply = Success(200, *Find(action.kind, action.key));
        break;
    }
  }
  reply.action_id = action.id;
  return reply;
}

Reply ApiServer::Create(const Action& action, absl::Time now) {
  Json object = action.body;
  ObjectKey key = action.key;
  if (key.name.empty()) key.name = object.GetString("metadata", "name");
  if (key.name.empty()) {
    const std::string prefix = object.GetString("metadata", "generateName");
    if (prefix.empty()) {
      return InvalidReply(action.kind, "",
                          "metadata.name: Required value: name or generateName is required");
    }
    key.name = fmt::format("{}{:05}", prefix, next_name_++);
  }
  if (Find(action.kind, key) != nullptr) {
    return Failure(409, "AlreadyExists",
                   fmt::format("{} \"{}\" already exists", ResourceName(action.kind), key.name));
  }
  return Store(action.kind, key, std::move(object),
               action.field_manager.empty() ? "unknown" : action.field_manager, false, now);
}

std::string ApiServer::NewUid(Kind kind, const ObjectKey& key, absl::Time now) const {
  const auto last = last_uid_.find(kind);
  uint64_t number = last == last_uid_.end() ? 1 : last->second + 1;
  if (options_.uids_of_names) {
    number = 14695981039346656037ULL;  // FNV-1a
    for (const char c : key.ToString() + sluice::FormatMicroTime(now)) {
      number = (number ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    number %= 10'000'000'000ULL;
  }
  return fmt::format("00000000-0000-4000-8000-{:02d}{:010d}", static_cast<int>(kind), number);
}

Reply ApiServer::Store(Kind kind, ObjectKey key, Json object, const std::string& manager,
                       bool apply, absl::Time now) {
  const api::KindInfo& info = api::InfoOf(kind);
  if (info.namespaced) {
    if (key.ns.empty()) key.ns = object.GetString("metadata", "namespace");
    const Json* ns = Find(Kind::kNamespace, {"", key.ns});
    if (ns == nullptr) return NotFoundReply(Kind::kNamespace, key.ns);
    if (Deleting(*ns)) {
      return Failure(403, "Forbidden", fmt::format("namespace {} is being terminated", key.ns));
    }
    object["metadata"].Set("namespace", key.ns);
  }
  object.Set("apiVersion", api::ApiVersionOf(kind));
  object.Set("kind", info.name);
  DropNulls(object);
  Json& metadata = object["metadata"];
  metadata.Set("name", key.name);
  for (const char* field : {"resourceVersion", "deletionTimestamp", "managedFields"}) {
    metadata.Erase(field);
  }
  const std::string uid = NewUid(kind, key, now);
  metadata.Set("uid", uid);
  metadata.Set("creationTimestamp", sluice::FormatTime(now));
  metadata.Set("generation", 1);
  if (HasStatus(kind)) object.Erase("status");
  if (kind == Kind::kPod) object["status"].Set("phase", "Pending");
  const Json* schema = SchemaFor(kind);
  if (schema != nullptr) {
    api::Prune(object, *schema);
    api::ApplyDefaults(object, *schema);
  }
  DefaultBuiltin(kind, object);
  if (std::string refused = ResolvePriorityClass(*this, kind, object); !refused.empty()) {
    return Failure(403, "Forbidden", std::move(refused));
  }
  if (Reply reply = Mutate(kind, object); !reply.ok()) return reply;
  if (schema != nullptr) api::ApplyDefaults(object, *schema);
  DropGatedFields(kind, options_.features, object);
  if (kind == Kind::kJob) AdoptJobTemplate(object);
  DropEmptyMetadata(object);
  if (Reply reply = Check(kind, "", nullptr, object); !reply.ok()) return reply;
  ++last_uid_[kind];
  object["metadata"].Set("resourceVersion", NextVersion());
  Stored stored;
  FieldSet fields = FieldsOf(Owned(object), schema);
  stored.ownership.managers[apply ? manager : manager + "#update"] = std::move(fields);
  stored.object = object;
  objects_[kind][key] = std::move(stored);
  uids_.insert(uid);
  if (object.Find("metadata", "ownerReferences") != nullptr) garbage_ = true;
  Notify(ObjectEvent::Type::kUpsert, kind, object);
  return Success(201, std::move(object));
}

// PUT, merge patch and JSON patch: all give the whole new object.
Reply ApiServer::Patch(const Action& action, absl::Time now) {
  Stored& stored = objects_[action.kind][action.key];
  Write write{action.kind, action.key, action.subresource, {}, stored.ownership, false};
  if (action.verb == Verb::kUpdate) {
    write.next = action.body;
    write.put = true;
    if (SchemaFor(action.kind) != nullptr &&
        write.next.GetString("metadata", "resourceVersion").empty()) {
      return InvalidReply(
          action.kind, action.key.name,
          "metadata.resourceVersion: Invalid value: 0: must be specified for an update");
    }
  } else if (action.verb == Verb::kMergePatch) {
    write.next = api::MergePatch(stored.object, action.body);
  } else {
    absl::StatusOr<Json> patched = api::ApplyJsonPatch(stored.object, action.body);
    if (!patched.ok()) {
      return Failure(422, "Invalid", std::string(patched.status().message()));
    }
    write.next = *std::move(patched);
  }
  DropNulls(write.next);
  const std::string version = write.next.GetString("metadata", "resourceVersion");
  if (!version.empty() && version != stored.object.GetString("metadata", "resourceVersion")) {
    return ConflictReply(action.kind, action.key.name, kModified);
  }
  const std::string uid = write.next.GetString("metadata", "uid");
  const std::string live_uid = stored.object.GetString("metadata", "uid");
  if (!uid.empty() && uid != live_uid) {
    if (write.put) {
      return ConflictReply(
          action.kind, action.key.name,
          fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                      live_uid));
    }
    return InvalidReply(action.kind, action.key.name,
                        "metadata.uid: Invalid value: field is immutable");
  }
  const std::string manager = (action.field_manager.empty() ? "unknown" : action.field_manager) +
                              (action.subresource.empty() ? "" : "/" + action.subresource);
  Json target = stored.object;
  if (!action.subresource.empty()) {
    const Json* status = write.next.Find("status");
    if (status == nullptr) {
      target.Erase("status");
    } else {
      target.Set("status", *status);
    }
  } else {
    target = write.next;
    target.Erase("status");
    if (const Json* status = stored.object.Find("status")) target.Set("status", *status);
  }
  write.ownership = OwnershipAfterUpdate(Owned(stored.object), Owned(target),
                                         SchemaFor(action.kind), stored.ownership, manager);
  return Replace(std::move(write), now);
}

Reply ApiServer::Apply(const Action& action, absl::Time now) {
  if (action.field_manager.empty()) {
    return Failure(422, "Invalid",
                   "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is "
                   "required for apply patch");
  }
  const Json* live = Find(action.kind, action.key);
  const std::string uid = action.body.GetString("metadata", "uid");
  if (live == nullptr) {
    if (!action.subresource.empty()) return NotFoundReply(action.kind, action.key.name);
    if (!uid.empty()) {
      return ConflictReply(action.kind, action.key.name,
                           "uid mismatch: the provided object specified uid " + uid +
                               ", and no existing object was found");
    }
    return Store(action.kind, action.key, action.body, action.field_manager, true, now);
  }
  Stored& stored = objects_[action.kind][action.key];
  const std::string version = action.body.GetString("metadata", "resourceVersion");
  if (!version.empty() && version != live->GetString("metadata", "resourceVersion")) {
    return ConflictReply(action.kind, action.key.name, kModified);
  }
  if (!uid.empty() && uid != live->GetString("metadata", "uid")) {
    return ConflictReply(
        action.kind, action.key.name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                    live->GetString("metadata", "uid")));
  }
  Json config = Owned(action.body);
  DropNulls(config);
  if (!action.subresource.empty()) {
    Json status = config.Find("status") == nullptr ? Json::MakeObject() : *config.Find("status");
    config = Json::MakeObject({{"status", std::move(status)}});
  } else {
    config.Erase("status");
  }
  const Json* schema = SchemaFor(action.kind);
  const std::string manager =
      action.field_manager + (action.subresource.empty() ? "" : "/" + action.subresource);
  ApplyResult result =
      ApplyConfiguration(stored.object, config, schema, stored.ownership, manager, action.force);
  if (!result.conflicts.empty()) {
    return Failure(
        409, "Conflict",
        fmt::format("Apply failed with {} conflict{}: {}", result.conflicts.size(),
                    result.conflicts.size() == 1 ? "" : "s", fmt::join(result.conflicts, ", ")));
  }
  return Replace({action.kind, action.key, action.subresource, std::move(result.object),
                  std::move(result.ownership), false},
                 now);
}

// Takes over from the new object what the request may change, checks it and stores it.
Reply ApiServer::Replace(Write write, absl::Time now) {
  Stored& stored = objects_[write.kind][write.key];
  Json next = stored.object;
  if (write.subresource.empty()) {
    next = write.next;
    next.Set("apiVersion", api::ApiVersionOf(write.kind));
    next.Set("kind", api::InfoOf(write.kind).name);
    Json& metadata = next["metadata"];
    for (const char* field : {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
                              "deletionGracePeriodSeconds", "generation", "resourceVersion"}) {
      const Json* value = stored.object.Find("metadata", field);
      if (value == nullptr) {
        metadata.Erase(field);
      } else {
        metadata.Set(field, *value);
      }
    }
    if (HasStatus(write.kind)) {
      next.Erase("status");
      if (const Json* status = stored.object.Find("status")) next.Set("status", *status);
    }
  } else {
    next.Erase("status");
    if (const Json* status = write.next.Find("status")) next.Set("status", *status);
  }
  if (const Json* schema = SchemaFor(write.kind)) {
    api::Prune(next, *schema);
    api::ApplyDefaults(next, *schema);
  }
  DropEmptyMetadata(next);
  if (Deleting(stored.object)) {
    const std::vector<std::string> old = Finalizers(stored.object);
    for (const std::string& finalizer : Finalizers(next)) {
      if (std::find(old.begin(), old.end(), finalizer) == old.end()) {
        return InvalidReply(write.kind, write.key.name,
                            "metadata.finalizers: Forbidden: no new finalizers can be added if the "
                            "object is being deleted");
      }
    }
  }
  if (next == stored.object) {
    stored.ownership = std::move(write.ownership);
    return Success(200, stored.object);
  }
  if (Reply reply = Check(write.kind, write.subresource, &stored.object, next); !reply.ok()) {
    return reply;
  }
  write.next = std::move(next);
  return Commit(std::move(write), stored, now);
}

Reply ApiServer::Commit(Write write, Stored& stored, absl::Time /*now*/) {
  Json next = std::move(write.next);
  if (!(Generated(next) == Generated(stored.object))) {
    next["metadata"].Set("generation", Generation(stored.object) + 1);
  }
  next["metadata"].Set("resourceVersion", NextVersion());
  stored.object = next;
  stored.ownership = std::move(write.ownership);
  if (next.Find("metadata", "ownerReferences") != nullptr) garbage_ = true;
  if (Deleting(next) && Finalizers(next).empty() && GraceOf(next) == 0) {
    Remove(write.kind, write.key);
  } else {
    Notify(ObjectEvent::Type::kUpsert, write.kind, next);
  }
  return Success(200, std::move(next));
}

void ApiServer::Remove(Kind kind, const ObjectKey& key) {
  const auto found = objects_[kind].find(key);
  const Json object = std::move(found->second.object);
  objects_[kind].erase(found);
  uids_.erase(object.GetString("metadata", "uid"));
  garbage_ = true;
  Notify(ObjectEvent::Type::kDelete, kind, object);
}

Reply ApiServer::Delete(const Action& action, absl::Time now) {
  Stored& stored = objects_[action.kind][action.key];
  for (const char* field : {"uid", "resourceVersion"}) {
    const std::string wanted = action.body.GetString("preconditions", field);
    const std::string have = stored.object.GetString("metadata", field);
    if (!wanted.empty() && wanted != have) {
      return ConflictReply(
          action.kind, action.key.name,
          fmt::format("Precondition failed: {} in precondition: {}, in object meta: {}", field,
                      wanted, have));
    }
  }
  std::vector<std::string> finalizers = Finalizers(stored.object);
  const bool foreground = action.body.GetString("propagationPolicy") == "Foreground" &&
                          HasDependents(stored.object.GetString("metadata", "uid"));
  if (foreground &&
      std::find(finalizers.begin(), finalizers.end(), kForeground) == finalizers.end()) {
    finalizers.push_back(kForeground);
  }
  const int64_t grace = action.kind == Kind::kPod ? PodGrace(stored.object, action.body) : 0;
  if (finalizers.empty() && grace == 0) {
    stored.object["metadata"].Set("resourceVersion", NextVersion());
    Remove(action.kind, action.key);
    return Success(
        200, Json::MakeObject({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}}));
  }
  if (Deleting(stored.object) && finalizers == Finalizers(stored.object) &&
      (action.kind != Kind::kPod || grace >= GraceOf(stored.object))) {
    return Success(200, stored.object);
  }
  if (foreground) garbage_ = true;
  Json& metadata = stored.object["metadata"];
  if (action.kind == Kind::kPod) {
    metadata.Set("deletionTimestamp", sluice::FormatTime(now + absl::Seconds(grace)));
    metadata.Set("deletionGracePeriodSeconds", grace);
  } else if (!Deleting(stored.object)) {
    metadata.Set("deletionTimestamp", sluice::FormatTime(now));
    metadata.Set("generation", Generation(stored.object) + 1);
  }
  SetFinalizers(stored.object, finalizers);
  stored.object["metadata"].Set("resourceVersion", NextVersion());
  Notify(ObjectEvent::Type::kUpsert, action.kind, stored.object);
  return Success(200, stored.object);
}

Json ApiServer::Review(const std::string& prefix, Kind kind, const std::string& subresource,
                       const Json* old, const Json& next) const {
  const api::KindInfo& info = api::InfoOf(kind);
  std::string path = prefix + info.group + "-" + info.version + "-" + info.name;
  for (char& c : path) c = c == '.' ? '-' : static_cast<char>(std::tolower(c));
  const auto paths = webhook::AdmissionPaths();
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) return Json();
  Json request = Json::MakeObject({{"uid", fmt::format("sim-{}", version_)},
                                   {"operation", old == nullptr ? "CREATE" : "UPDATE"},
                                   {"name", next.GetString("metadata", "name")},
                                   {"namespace", next.GetString("metadata", "namespace")},
                                   {"subResource", subresource},
                                   {"object", next}});
  if (old != nullptr) request.Set("oldObject", *old);
  const Json review = Json::MakeObject({{"apiVersion", "admission.k8s.io/v1"},
                                        {"kind", "AdmissionReview"},
                                        {"request", std::move(request)}});
  const Json answer = webhook::HandleAdmissionReview(path, review, ViewOf(*this, settings_));
  const Json* response = answer.Find("response");
  SLUICE_CHECK(response != nullptr, "the webhook at {} gave no response", path);
  return *response;
}

namespace {

// The reply to a request that a webhook denied; ok() when it was allowed.
Reply WebhookReply(Kind kind, const Json& response) {
  if (response.IsNull() || response.Find("allowed")->AsBool()) return Success(200, {});
  const Json* code = response.Find("status", "code");
  return Failure(code == nullptr ? 403 : static_cast<int>(code->AsInt()),
                 response.GetString("status", "reason"),
                 fmt::format("admission webhook of {} denied the request: {}",
                             api::InfoOf(kind).name, response.GetString("status", "message")));
}

}  // namespace

Reply ApiServer::Mutate(Kind kind, Json& object) const {
  if (!options_.webhooks) return Success(200, {});
  const Json response = Review("/mutate-", kind, "", nullptr, object);
  const std::string encoded = response.GetString("patch");
  if (encoded.empty()) return WebhookReply(kind, response);
  std::string text;
  SLUICE_CHECK(absl::Base64Unescape(encoded, &text), "the webhook's patch is not base64");
  const absl::StatusOr<Json> patch = api::ParseJson(text);
  SLUICE_CHECK(patch.ok(), "the webhook's patch is no JSON: {}",
               std::string(patch.status().message()));
  absl::StatusOr<Json> patched = api::ApplyJsonPatch(object, *patch);
  SLUICE_CHECK(patched.ok(), "the webhook's patch does not apply: {}",
               std::string(patched.status().message()));
  object = *std::move(patched);
  return Success(200, {});
}

Reply ApiServer::Check(Kind kind, const std::string& subresource, const Json* old,
                       const Json& next) const {
  std::vector<std::string> errors;
  if (const Json* schema = SchemaFor(kind)) {
    for (const api::SchemaError& error : api::ValidateSchema(next, *schema)) {
      errors.push_back(error.path + ": " + error.message);
    }
  }
  for (std::string& error : RuleErrors(kind, subresource, old, next)) {
    errors.push_back(std::move(error));
  }
  if (!errors.empty()) {
    return InvalidReply(kind, next.GetString("metadata", "name"),
                        fmt::format("{}", fmt::join(errors, "; ")));
  }
  // Of the subresources only the status of Workloads has a webhook.
  if (!options_.webhooks || (!subresource.empty() && kind != Kind::kWorkload)) {
    return Success(200, {});
  }
  return WebhookReply(kind, Review("/validate-", kind, subresource, old, next));
}

void ApiServer::Notify(ObjectEvent::Type type, Kind kind, const Json& object) const {
  if (listener_) listener_({type, kind, object});
}

}  // namespace sluice::sim
