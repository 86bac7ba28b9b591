#include "cli/objects.h"

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/strings/match.h>

#include <algorithm>
#include <utility>

#include "api/crd.h"
#include "base/status.h"
#include "base/time.h"
#include "sim/yaml.h"
#include "webhook/conversion.h"

namespace sluice::cli {
namespace {

using api::Json;
using api::Kind;
using state::ObjectEvent;

std::string GroupOf(const std::string& api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string::npos ? "" : api_version.substr(0, slash);
}

absl::Status Take(Json object, const state::Settings& settings, ClusterObjects& objects) {
  const std::string version = object.GetString("apiVersion");
  const std::string name = object.GetString("kind");
  if (version.empty() || name.empty())
    return InvalidArgument("an object without apiVersion or kind");
  if (name == "ConfigMap" && !object.GetString("data", kConfigKey).empty()) {
    objects.configuration = object.GetString("data", kConfigKey);
    return absl::OkStatus();
  }
  const api::KindInfo* info = api::FindKind(GroupOf(version), name);
  if (info == nullptr) {
    objects.notes.push_back(fmt::format("{} {} is left out: its kind is not known here", name,
                                        object.GetString("metadata", "name")));
    return absl::OkStatus();
  }
  if (GroupOf(version) == api::kKueueGroup) {
    absl::StatusOr<Json> converted = webhook::ConvertObject(
        std::move(object), api::ApiVersionOf(info->kind), webhook::ConversionOptionsOf(settings));
    if (!converted.ok()) return converted.status();
    object = *std::move(converted);
  }
  if (info->namespaced && object.GetString("metadata", "namespace").empty()) {
    object["metadata"].Set("namespace", "default");
  }
  objects.kinds[info->kind].push_back(std::move(object));
  return absl::OkStatus();
}

}  // namespace

std::vector<Kind> DumpedKinds() {
  return {Kind::kNamespace,
          Kind::kLimitRange,
          Kind::kRuntimeClass,
          Kind::kPriorityClass,
          Kind::kNode,
          Kind::kTopology,
          Kind::kResourceFlavor,
          Kind::kAdmissionCheck,
          Kind::kWorkloadPriorityClass,
          Kind::kCohort,
          Kind::kClusterQueue,
          Kind::kLocalQueue,
          Kind::kCreditPolicy,
          Kind::kCreditAccount,
          Kind::kWorkload,
          Kind::kPod};
}

bool IsDump(const std::string& text) { return absl::StrContains(text, kTakenAt); }

absl::StatusOr<ClusterObjects> ParseObjects(const std::string& source, const std::string& text,
                                            absl::Time now) {
  absl::StatusOr<std::vector<sim::YamlDocument>> documents = sim::YamlDocuments(text);
  if (!documents.ok()) {
    return InvalidArgument("{}:{}", source, std::string(documents.status().message()));
  }
  const state::Settings settings;
  ClusterObjects objects;
  objects.source = source;
  objects.taken = now;
  for (sim::YamlDocument& document : *documents) {
    const std::string taken = document.json.GetString("metadata", "annotations", kTakenAt);
    if (!taken.empty()) {
      const absl::StatusOr<absl::Time> time = sluice::ParseTime(taken);
      if (!time.ok()) return InvalidArgument("{}: {}: not a time: {}", source, kTakenAt, taken);
      objects.taken = *time;
    }
    const auto take = [&](Json object, const std::string& where) -> absl::Status {
      const absl::Status status = Take(std::move(object), settings, objects);
      if (status.ok()) return status;
      return InvalidArgument("{}:{}: {}{}", source, document.LineFor(where), where,
                             std::string(status.message()));
    };
    Json* items = document.json.Find("items");
    if (items == nullptr || !document.json.GetString("kind").ends_with("List")) {
      RETURN_IF_ERROR(take(std::move(document.json), ""));
      continue;
    }
    for (size_t i = 0; i < items->AsArray().size(); ++i) {
      RETURN_IF_ERROR(take(std::move(items->MutableArray()[i]), fmt::format("items[{}]: ", i)));
    }
  }
  return objects;
}

bool HasTopology(const ClusterObjects& objects) {
  const auto flavors = objects.kinds.find(Kind::kResourceFlavor);
  if (flavors == objects.kinds.end()) return false;
  return std::any_of(flavors->second.begin(), flavors->second.end(), [](const Json& flavor) {
    return !flavor.GetString("spec", "topologyName").empty();
  });
}

namespace {

using Names = absl::btree_set<std::string>;

const std::vector<Json>& Of(const ClusterObjects& objects, Kind kind) {
  static const std::vector<Json> none;
  const auto found = objects.kinds.find(kind);
  return found == objects.kinds.end() ? none : found->second;
}

// "namespace/name", or the name alone.
std::string KeyOf(const Json& object) {
  const std::string ns = object.GetString("metadata", "namespace");
  return (ns.empty() ? "" : ns + "/") + object.GetString("metadata", "name");
}

Names KeysOf(const ClusterObjects& objects, Kind kind) {
  Names keys;
  for (const Json& object : Of(objects, kind)) keys.insert(KeyOf(object));
  return keys;
}

void AddFlavors(const Json& object, Names& flavors) {
  const Json* groups = object.Find("spec", "resourceGroups");
  if (groups == nullptr || !groups->IsArray()) return;
  for (const Json& group : groups->AsArray()) {
    const Json* list = group.Find("flavors");
    if (list == nullptr || !list->IsArray()) continue;
    for (const Json& flavor : list->AsArray()) flavors.insert(flavor.GetString("name"));
  }
}

// What the objects name, of one kind.
Names Named(const ClusterObjects& objects, Kind kind) {
  Names names;
  const auto add = [&](Kind of, const char* field, bool local = false) {
    for (const Json& object : Of(objects, of)) {
      const std::string name = object.GetString("spec", field);
      if (name.empty()) continue;
      names.insert(local ? object.GetString("metadata", "namespace") + "/" + name : name);
    }
  };
  switch (kind) {
    case Kind::kNamespace:
      for (const auto& [of, list] : objects.kinds) {
        if (!api::InfoOf(of).namespaced) continue;
        for (const Json& object : list) names.insert(object.GetString("metadata", "namespace"));
      }
      break;
    case Kind::kLocalQueue:
      add(Kind::kWorkload, "queueName", true);
      break;
    case Kind::kClusterQueue:
      add(Kind::kLocalQueue, "clusterQueue");
      break;
    case Kind::kCohort:
      add(Kind::kClusterQueue, "cohortName");
      add(Kind::kCohort, "parentName");
      break;
    case Kind::kResourceFlavor:
      for (const Kind of : {Kind::kClusterQueue, Kind::kCohort}) {
        for (const Json& object : Of(objects, of)) AddFlavors(object, names);
      }
      break;
    case Kind::kTopology:
      add(Kind::kResourceFlavor, "topologyName");
      break;
    default:
      break;
  }
  return names;
}

}  // namespace

std::vector<Kind> MissingKinds(const ClusterObjects& objects) {
  std::vector<Kind> missing;
  for (const Kind kind : {Kind::kNamespace, Kind::kLocalQueue, Kind::kClusterQueue, Kind::kCohort,
                          Kind::kResourceFlavor, Kind::kTopology}) {
    if (!objects.kinds.contains(kind)) continue;  // it could not be read at all
    const Names there = KeysOf(objects, kind);
    const Names named = Named(objects, kind);
    if (!std::includes(there.begin(), there.end(), named.begin(), named.end())) {
      missing.push_back(kind);
    }
  }
  return missing;
}

void Absorb(Kind kind, std::vector<Json> newer, ClusterObjects& objects) {
  std::vector<Json>& list = objects.kinds[kind];
  absl::btree_map<std::string, size_t> at;
  for (size_t i = 0; i < list.size(); ++i) at[KeyOf(list[i])] = i;
  for (Json& object : newer) {
    const auto found = at.find(KeyOf(object));
    if (found != at.end()) {
      list[found->second] = std::move(object);
    } else {
      list.push_back(std::move(object));
    }
  }
}

void LeaveOutHomeless(ClusterObjects& objects) {
  if (!objects.kinds.contains(Kind::kNamespace)) return;
  const Names homes = KeysOf(objects, Kind::kNamespace);
  absl::btree_map<std::string, int> left_out;  // by namespace
  for (auto& [kind, list] : objects.kinds) {
    if (!api::InfoOf(kind).namespaced) continue;
    std::erase_if(list, [&](const Json& object) {
      const std::string ns = object.GetString("metadata", "namespace");
      if (homes.contains(ns)) return false;
      ++left_out[ns];
      return true;
    });
  }
  for (const auto& [ns, count] : left_out) {
    objects.notes.push_back(
        fmt::format("{} object{} of namespace {} {} left out: there is no such namespace", count,
                    count == 1 ? "" : "s", ns, count == 1 ? "is" : "are"));
  }
}

std::string DumpText(const ClusterObjects& objects) {
  Json items = Json::MakeArray();
  if (!objects.configuration.empty()) {
    items.Append(
        Json::MakeObject({{"apiVersion", "v1"},
                          {"kind", "ConfigMap"},
                          {"metadata", Json::MakeObject({{"name", "controller-configuration"}})},
                          {"data", Json::MakeObject({{kConfigKey, objects.configuration}})}}));
  }
  for (const Kind kind : DumpedKinds()) {
    const auto found = objects.kinds.find(kind);
    if (found == objects.kinds.end()) continue;
    for (Json object : found->second) {
      if (Json* metadata = object.Find("metadata")) metadata->Erase("managedFields");
      items.Append(std::move(object));
    }
  }
  return api::ToYaml(Json::MakeObject(
      {{"apiVersion", "v1"},
       {"kind", "List"},
       {"metadata",
        Json::MakeObject(
            {{"annotations", Json::MakeObject({{kTakenAt, sluice::FormatTime(objects.taken)}})}})},
       {"items", std::move(items)}}));
}

std::unique_ptr<state::World> WorldOf(ClusterObjects& objects, const state::Settings& settings) {
  using Type = ObjectEvent::Type;
  auto world = std::make_unique<state::World>(settings);
  state::Refs touched;
  for (const Kind kind : state::World::WatchedKinds(settings)) {
    world->Apply({Type::kListBegin, kind, {}}, objects.taken, touched);
    const auto found = objects.kinds.find(kind);
    if (found != objects.kinds.end()) {
      for (const Json& object : found->second) {
        const auto rejection = world->Apply({Type::kUpsert, kind, object}, objects.taken, touched);
        if (!rejection) continue;
        objects.notes.push_back(fmt::format("{} {} cannot be read and is left out: {}",
                                            api::InfoOf(kind).name, rejection->ref.key.ToString(),
                                            rejection->error));
      }
    }
    world->Apply({Type::kListEnd, kind, {}}, objects.taken, touched);
  }
  world->PrepareCredits(objects.taken, touched);
  return world;
}

}  // namespace sluice::cli
