#include "jobs/pod_template.h"

#include <algorithm>
#include <map>

#include "api/codec.h"
#include "resource/quantity.h"

namespace sluice::jobs {
namespace {

bool Empty(const api::Json* json) {
  if (json == nullptr || json->IsNull()) return true;
  if (json->IsObject()) return json->AsObject().empty();
  if (json->IsArray()) return json->AsArray().empty();
  if (json->IsString()) return json->AsString().empty();
  return json->IsBool() && !json->AsBool();
}

std::string QuantityText(const api::Json& json) {
  return json.IsString() ? json.AsString() : json.Text();
}

bool SameQuantities(const api::Json* a, const api::Json* b) {
  static const api::Json kEmpty;
  const api::Json& left = a == nullptr ? kEmpty : *a;
  const api::Json& right = b == nullptr ? kEmpty : *b;
  if (left.AsObject().size() != right.AsObject().size()) return false;
  return std::all_of(left.AsObject().begin(), left.AsObject().end(), [&](const auto& member) {
    const api::Json* twin = right.Find(member.first);
    if (twin == nullptr) return false;
    const auto x = Quantity::Parse(QuantityText(member.second));
    const auto y = Quantity::Parse(QuantityText(*twin));
    return x.ok() && y.ok() ? *x == *y : member.second == *twin;
  });
}

// Fields of a container that the API server fills in for a Job but not inside a Workload. A
// Workload written by hand need not repeat them.
bool DefaultedByServer(const std::string& field) {
  return field == "imagePullPolicy" || field == "terminationMessagePath" ||
         field == "terminationMessagePolicy";
}

bool SameMembers(const api::Json& a, const api::Json& b) {
  // Every member of one side must mean the same on the other; absent members are empty.
  const auto covers = [](const api::Json& left, const api::Json& right) {
    return std::all_of(left.AsObject().begin(), left.AsObject().end(), [&](const auto& member) {
      const api::Json* twin = right.Find(member.first);
      if (member.first == "requests" || member.first == "limits") {
        return SameQuantities(&member.second, twin);
      }
      if (twin == nullptr && DefaultedByServer(member.first)) return true;
      return SemanticallyEqual(&member.second, twin);
    });
  };
  return covers(a, b) && covers(b, a);
}

}  // namespace

bool SemanticallyEqual(const api::Json* a, const api::Json* b) {
  if (Empty(a) || Empty(b)) return Empty(a) && Empty(b);
  if (a->IsObject() && b->IsObject()) return SameMembers(*a, *b);
  if (a->IsArray() && b->IsArray()) {
    return std::equal(
        a->AsArray().begin(), a->AsArray().end(), b->AsArray().begin(), b->AsArray().end(),
        [](const api::Json& x, const api::Json& y) { return SemanticallyEqual(&x, &y); });
  }
  return *a == *b;
}

void RemoveDuplicateEnv(api::Json& pod_template) {
  for (const char* list : {"containers", "initContainers"}) {
    api::Json* spec = pod_template.Find("spec");
    api::Json* containers = spec == nullptr ? nullptr : spec->Find(list);
    if (containers == nullptr || !containers->IsArray()) continue;
    for (api::Json& container : containers->MutableArray()) {
      const api::Json* env = container.Find("env");
      if (env == nullptr) continue;
      api::Json::Array kept;
      std::map<std::string, size_t> position;
      for (const api::Json& variable : env->AsArray()) {
        const auto [found, inserted] = position.emplace(variable.GetString("name"), kept.size());
        if (inserted) {
          kept.push_back(variable);
        } else {
          kept[found->second] = variable;
        }
      }
      container.Set("env", api::Json(std::move(kept)));
    }
  }
}

api::Json TemplateJson(const api::PodTemplate& pod_template) {
  return api::EncodePodTemplate(pod_template);
}

bool SameContainers(const api::PodTemplate& a, const api::PodTemplate& b) {
  if (a.raw != nullptr && b.raw != nullptr && *a.raw == *b.raw) return true;
  const api::Json left = TemplateJson(a);
  const api::Json right = TemplateJson(b);
  return SemanticallyEqual(left.Find("spec", "containers"), right.Find("spec", "containers")) &&
         SemanticallyEqual(left.Find("spec", "initContainers"),
                           right.Find("spec", "initContainers"));
}

}  // namespace sluice::jobs
