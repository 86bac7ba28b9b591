// Plays unit/scenarios/conformance/requests.json against the simulated API server. The e2e suites
// play the same file against a real one.
//
// The file is a list of steps, carried out in order on an empty server without webhooks:
//   name     what the step shows
//   request  verb (create, update, mergePatch, jsonPatch, apply, delete), kind, namespace, name,
//            subresource, manager (field manager), force, body
//   expect   code; reason (of the Status); refused: true (any code of 400 and above); fields (JSON
//            pointer -> value), present and absent (lists of JSON pointers) of the returned object;
//            remember (name -> JSON pointer): later texts "${name}" stand for that value
#include <fstream>
#include <map>
#include <sstream>

#include "sim/api_server.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

using api::Json;

const Json* At(const Json& root, const std::string& pointer) {
  const Json* value = &root;
  std::istringstream parts(pointer.substr(1));
  for (std::string part; value != nullptr && std::getline(parts, part, '/');) {
    for (size_t at; (at = part.find("~1")) != std::string::npos;) part.replace(at, 2, "/");
    for (size_t at; (at = part.find("~0")) != std::string::npos;) part.replace(at, 2, "~");
    if (value->IsArray()) {
      const size_t index = std::stoul(part);
      value = index < value->AsArray().size() ? &value->AsArray()[index] : nullptr;
    } else {
      value = value->Find(part);
    }
  }
  return value;
}

std::string Substitute(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string mark = "${" + name + "}";
    for (size_t at; (at = text.find(mark)) != std::string::npos;) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

state::Action ActionOf(const Json& request) {
  static const std::map<std::string, state::Verb> kVerbs = {
      {"create", state::Verb::kCreate},         {"update", state::Verb::kUpdate},
      {"mergePatch", state::Verb::kMergePatch}, {"jsonPatch", state::Verb::kJsonPatch},
      {"apply", state::Verb::kApply},           {"delete", state::Verb::kDelete}};
  state::Action action;
  action.verb = kVerbs.at(request.GetString("verb"));
  bool known = false;
  for (const api::KindInfo& info : api::AllKinds()) {
    if (request.GetString("kind") != info.name) continue;
    action.kind = info.kind;
    known = true;
  }
  REQUIRE(known);
  action.key = {request.GetString("namespace"), request.GetString("name")};
  action.subresource = request.GetString("subresource");
  action.field_manager = request.GetString("manager");
  action.force = request.Has("force");
  action.body = *request.Find("body");
  return action;
}

void CheckReply(const state::Reply& reply, const Json& expect) {
  INFO(reply.code << " " << reply.reason << " " << reply.message << " " << reply.object.Text());
  if (expect.Has("refused")) {
    CHECK(reply.code >= 400);
    return;
  }
  CHECK(reply.code == expect.Find("code")->AsInt());
  if (expect.Has("reason")) CHECK(reply.reason == expect.GetString("reason"));
  if (const Json* fields = expect.Find("fields")) {
    for (const auto& [pointer, value] : fields->AsObject()) {
      INFO(pointer);
      const Json* found = At(reply.object, pointer);
      REQUIRE(found != nullptr);
      CHECK(found->Text() == value.Text());
    }
  }
  for (const char* list : {"present", "absent"}) {
    const Json* pointers = expect.Find(list);
    if (pointers == nullptr) continue;
    for (const Json& pointer : pointers->AsArray()) {
      INFO(list << " " << pointer.AsString());
      CHECK((At(reply.object, pointer.AsString()) != nullptr) == (std::string(list) == "present"));
    }
  }
}

TEST_CASE("The simulated API server answers as the conformance list says") {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/unit/scenarios/conformance/requests.json");
  std::ostringstream text;
  text << file.rdbuf();
  const absl::StatusOr<Json> steps = api::ParseJson(text.str());
  REQUIRE(steps.ok());
  REQUIRE(steps->AsArray().size() > 30);
  const state::Settings settings;
  ApiServer api(settings, {.webhooks = false});
  std::map<std::string, std::string> values;
  for (const Json& raw : steps->AsArray()) {
    const absl::StatusOr<Json> step = api::ParseJson(Substitute(raw.Text(), values));
    REQUIRE(step.ok());
    INFO(step->GetString("name"));
    const state::Reply reply =
        api.Execute(ActionOf(*step->Find("request")), absl::FromUnixSeconds(1767225600));
    CheckReply(reply, *step->Find("expect"));
    if (const Json* remember = step->Find("expect", "remember")) {
      for (const auto& [name, pointer] : remember->AsObject()) {
        const Json* value = At(reply.object, pointer.AsString());
        REQUIRE(value != nullptr);
        values[name] = value->AsString();
      }
    }
  }
}

TEST_CASE("Objects whose owners are gone are collected") {
  const state::Settings settings;
  ApiServer api(settings, {.webhooks = false});
  const absl::Time now = absl::FromUnixSeconds(1767225600);
  const auto create = [&](const char* name, const std::string& owner_uid) {
    state::Action action;
    action.verb = state::Verb::kCreate;
    action.kind = api::Kind::kSecret;
    action.key = {"default", name};
    action.body = Json::MakeObject({{"metadata", Json::MakeObject({{"name", name}})}});
    if (!owner_uid.empty()) {
      action.body["metadata"]["ownerReferences"].Append(Json::MakeObject(
          {{"apiVersion", "v1"}, {"kind", "Secret"}, {"name", "owner"}, {"uid", owner_uid}}));
    }
    return api.Execute(action, now).object.GetString("metadata", "uid");
  };
  const std::string owner = create("owner", "");
  create("child", owner);
  create("stranger", "");
  api.CollectGarbage(now);
  CHECK(api.List(api::Kind::kSecret).size() == 3);
  state::Action action;
  action.verb = state::Verb::kDelete;
  action.kind = api::Kind::kSecret;
  action.key = {"default", "owner"};
  REQUIRE(api.Execute(action, now).ok());
  CHECK(api.HasGarbage());
  api.CollectGarbage(now);
  CHECK(api.Find(api::Kind::kSecret, {"default", "child"}) == nullptr);
  CHECK(api.Find(api::Kind::kSecret, {"default", "stranger"}) != nullptr);
}

}  // namespace
}  // namespace sluice::sim
