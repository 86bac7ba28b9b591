#include "state/recording.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "base/time.h"

namespace sluice::state {
namespace {

using api::Json;

constexpr std::array<std::pair<ObjectEvent::Type, const char*>, 5> kTypes = {
    {{ObjectEvent::Type::kListBegin, "listBegin"},
     {ObjectEvent::Type::kUpsert, "upsert"},
     {ObjectEvent::Type::kDelete, "delete"},
     {ObjectEvent::Type::kListEnd, "listEnd"},
     {ObjectEvent::Type::kBookmark, "bookmark"}}};

Json EncodeObject(const ObjectEvent& event) {
  const auto name = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& entry) { return entry.first == event.type; });
  const api::KindInfo& info = api::InfoOf(event.kind);
  Json json =
      Json::MakeObject({{"type", name->second}, {"group", info.group}, {"kind", info.name}});
  if (!event.object.IsNull()) json.Set("object", event.object);
  return json;
}

absl::StatusOr<Event> DecodeObject(const Json& json) {
  const std::string type = json.GetString("type");
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& entry) { return type == entry.second; });
  if (found == kTypes.end()) return InvalidArgument("object.type: \"{}\" is not known", type);
  const api::KindInfo* info = api::FindKind(json.GetString("group"), json.GetString("kind"));
  if (info == nullptr) {
    return InvalidArgument("object.kind: \"{}\" is not known", json.GetString("kind"));
  }
  ObjectEvent event;
  event.type = found->first;
  event.kind = info->kind;
  if (const Json* object = json.Find("object")) event.object = *object;
  return Event(std::move(event));
}

Event DecodeReply(const Json& json) {
  Reply reply;
  if (const Json* id = json.Find("id")) reply.action_id = static_cast<uint64_t>(id->AsInt());
  if (const Json* code = json.Find("code")) reply.code = static_cast<int>(code->AsInt());
  reply.reason = json.GetString("reason");
  reply.message = json.GetString("message");
  if (const Json* seconds = json.Find("retryAfterSeconds")) {
    reply.retry_after = absl::Seconds(seconds->AsInt());
  }
  if (const Json* object = json.Find("object")) reply.object = *object;
  return Event(std::move(reply));
}

Json EncodeReply(const Reply& reply) {
  Json json = Json::MakeObject({{"id", static_cast<int64_t>(reply.action_id)},
                                {"code", reply.code},
                                {"reason", reply.reason},
                                {"message", reply.message},
                                {"object", reply.object}});
  if (reply.retry_after > absl::ZeroDuration()) {
    json.Set("retryAfterSeconds", absl::ToInt64Seconds(reply.retry_after));
  }
  return json;
}

Json EncodeVersions(const Versions& versions) {
  Json list = Json::MakeArray();
  for (const auto& [kind, version] : versions) {
    const api::KindInfo& info = api::InfoOf(kind);
    list.Append(Json::MakeObject(
        {{"group", info.group}, {"kind", info.name}, {"resourceVersion", version}}));
  }
  return list;
}

absl::StatusOr<Event> DecodeLeader(const Json& json) {
  LeaderChange change;
  change.leading = json.Find("leading")->AsBool();
  const Json* versions = json.Find("atLeast");
  if (versions == nullptr) return Event(std::move(change));
  for (const Json& entry : versions->AsArray()) {
    const api::KindInfo* info = api::FindKind(entry.GetString("group"), entry.GetString("kind"));
    if (info == nullptr) {
      return InvalidArgument("atLeast.kind: \"{}\" is not known", entry.GetString("kind"));
    }
    change.at_least[info->kind] = entry.GetString("resourceVersion");
  }
  return Event(std::move(change));
}

Json LineAt(absl::Time time) {
  return Json::MakeObject(
      {{"time", absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone())}});
}

}  // namespace

std::string EncodeRun(absl::Time time) {
  Json json = LineAt(time);
  json.Set("run", true);
  return json.Text();
}

std::string EncodeEvent(const Event& event, absl::Time time) {
  Json json = LineAt(time);
  if (const auto* object = std::get_if<ObjectEvent>(&event)) {
    json.Set("object", EncodeObject(*object));
  } else if (const auto* reply = std::get_if<Reply>(&event)) {
    json.Set("reply", EncodeReply(*reply));
  } else if (const auto* leader = std::get_if<LeaderChange>(&event)) {
    json.Set("leading", leader->leading);
    if (!leader->at_least.empty()) json.Set("atLeast", EncodeVersions(leader->at_least));
  } else {
    const auto& features = std::get<ClusterFeatures>(event);
    json.Set("features", Json::MakeObject({{"podGroups", features.pod_groups},
                                           {"jobScheduling", features.job_scheduling}}));
  }
  return json.Text();
}

absl::StatusOr<RecordedLine> DecodeLine(const std::string& line) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(line));
  RecordedLine recorded;
  ASSIGN_OR_RETURN(recorded.time, ParseTime(json.GetString("time")));
  if (const Json* object = json.Find("object")) {
    ASSIGN_OR_RETURN(recorded.event, DecodeObject(*object));
  } else if (const Json* reply = json.Find("reply")) {
    recorded.event = DecodeReply(*reply);
  } else if (json.Find("leading") != nullptr) {
    ASSIGN_OR_RETURN(recorded.event, DecodeLeader(json));
  } else if (const Json* features = json.Find("features")) {
    const Json* groups = features->Find("podGroups");
    const Json* scheduling = features->Find("jobScheduling");
    recorded.event = ClusterFeatures{groups != nullptr && groups->AsBool(),
                                     scheduling != nullptr && scheduling->AsBool()};
  } else if (json.Find("run") == nullptr) {
    return InvalidArgument("the line has none of object, reply, leading, features and run");
  }
  return recorded;
}

}  // namespace sluice::state
