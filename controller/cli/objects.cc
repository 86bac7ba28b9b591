#include "cli/objects.h"

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

std::string DumpText(const ClusterObjects& objects) {
  Json items = Json::MakeArray();
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
