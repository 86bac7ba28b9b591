#include "jobs/role_hash.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

namespace sluice::jobs {
namespace {

using api::Json;

constexpr size_t kHashBytes = 4;

Json Member(const Json& object, const char* key) {
  const Json* value = object.Find(key);
  return value == nullptr ? Json() : *value;
}

// A map in the order of its keys. An empty one stays.
Json Sorted(const Json& map) {
  if (!map.IsObject()) return map;
  Json::Object members = map.AsObject();
  std::sort(members.begin(), members.end(),
            [](const Json::Member& a, const Json::Member& b) { return a.first < b.first; });
  return Json(std::move(members));
}

Json RequestsOf(const Json& resources) { return Sorted(Member(resources, "requests")); }

Json Containers(const Json& spec, const char* list) {
  const Json* containers = spec.Find(list);
  if (containers == nullptr || !containers->IsArray() || containers->AsArray().empty()) {
    return Json();
  }
  Json shapes = Json::MakeArray();
  for (const Json& container : containers->AsArray()) {
    Json resources = Json::MakeObject({{"requests", RequestsOf(Member(container, "resources"))}});
    shapes.Append(Json::MakeObject(
        {{"ports", Member(container, "ports")}, {"resources", std::move(resources)}}));
  }
  return shapes;
}

// Characters that mean something in HTML are written as escapes.
std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      escaped += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string RoleText(const Json& pod_spec) {
  Json spec = Json::MakeObject();
  spec.Set("affinity", Member(pod_spec, "affinity"));
  spec.Set("containers", Containers(pod_spec, "containers"));
  spec.Set("initContainers", Containers(pod_spec, "initContainers"));
  spec.Set("nodeSelector", Sorted(Member(pod_spec, "nodeSelector")));
  spec.Set("overhead", Sorted(Member(pod_spec, "overhead")));
  spec.Set("priority", Member(pod_spec, "priority"));
  spec.Set("resourceClaims", Member(pod_spec, "resourceClaims"));
  const Json* resources = pod_spec.Find("resources");
  if (resources != nullptr && resources->IsObject()) spec.Set("resources", RequestsOf(*resources));
  spec.Set("runtimeClassName", Member(pod_spec, "runtimeClassName"));
  spec.Set("tolerations", Member(pod_spec, "tolerations"));
  spec.Set("topologySpreadConstraints", Member(pod_spec, "topologySpreadConstraints"));
  return EscapeHtml(Json::MakeObject({{"spec", std::move(spec)}}).Text());
}

std::string RoleHash(const Json& pod_spec) {
  const std::string text = RoleText(pod_spec);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hash;
  for (size_t i = 0; i < kHashBytes; ++i) hash += fmt::format("{:02x}", digest[i]);
  return hash;
}

}  // namespace sluice::jobs
