#include "sim/gang_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/api_server.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

constexpr char kPreempts[] = "PreemptLowerPriority";

int64_t ValueOf(const Json& priority_class) {
  const Json* value = priority_class.Find("value");
  return value == nullptr ? 0 : value->AsInt();
}

// Of several the server takes the one of the least value.
const Json* DefaultClass(const ApiServer& api) {
  const Json* lowest = nullptr;
  api.ForEach(Kind::kPriorityClass, [&](const Json& candidate) {
    const Json* is_default = candidate.Find("globalDefault");
    if (is_default == nullptr || !is_default->AsBool()) return;
    if (lowest == nullptr || ValueOf(candidate) < ValueOf(*lowest)) lowest = &candidate;
  });
  return lowest;
}

int64_t MinCount(const Json* policy, int64_t fallback) {
  const Json* count = policy == nullptr ? nullptr : policy->Find("gang", "minCount");
  return count == nullptr ? fallback : count->AsInt(fallback);
}

bool OneOf(const Json* value, const char* a, const char* b) {
  return value != nullptr && value->Has(a) != value->Has(b);
}

// Everything but the minimum of a gang.
Json WithoutMinCount(const Json* value) {
  if (value == nullptr) return Json();
  Json stripped = *value;
  if (Json* policy = stripped.Find("schedulingPolicy")) {
    if (Json* gang = policy->Find("gang")) gang->Erase("minCount");
  }
  return stripped;
}

}  // namespace

void DropGatedFields(Kind kind, const state::ClusterFeatures& features, Json& object) {
  Json* spec = object.Find("spec");
  if (spec == nullptr) return;
  if (kind == Kind::kJob) {
    if (!features.job_scheduling) spec->Erase("scheduling");
    Json* pod_template = spec->Find("template");
    Json* pod = pod_template == nullptr ? nullptr : pod_template->Find("spec");
    if (!features.pod_groups && pod != nullptr) pod->Erase("schedulingGroup");
  } else if (kind == Kind::kPod && !features.pod_groups) {
    spec->Erase("schedulingGroup");
  }
}

std::string ResolvePriorityClass(const ApiServer& api, Kind kind, Json& object) {
  if (kind != Kind::kPod && kind != Kind::kPodGroup) return "";
  const std::string name = object.GetString("spec", "priorityClassName");
  const Json* found = name.empty() ? DefaultClass(api) : api.Find(Kind::kPriorityClass, {"", name});
  Json& spec = object["spec"];
  if (found == nullptr) {
    if (name.empty() && !spec.Has("priority")) spec.Set("priority", 0);
    if (kind == Kind::kPod || name.empty()) return "";
    return fmt::format("no PriorityClass with name {} was found", name);
  }
  spec.Set("priorityClassName", found->GetString("metadata", "name"));
  const int64_t value = ValueOf(*found);
  const Json* given = spec.Find("priority");
  if (given != nullptr && given->AsInt() != value) {
    return fmt::format("priority {} must match the priority {} of the class", given->AsInt(),
                       value);
  }
  spec.Set("priority", value);
  std::string policy = found->GetString("preemptionPolicy");
  if (policy.empty()) policy = kPreempts;
  const std::string said = spec.GetString("preemptionPolicy");
  if (!said.empty() && said != policy) {
    return fmt::format(
        "the string value of PreemptionPolicy ({}) must not be provided in the spec; priority "
        "admission controller computed {} from the given PriorityClass name",
        said, policy);
  }
  spec.Set("preemptionPolicy", policy);
  return "";
}

void DefaultPodGroup(Json& group) {
  Json& spec = group["spec"];
  if (!spec.Has("disruptionMode")) {
    spec.Set("disruptionMode", Json::MakeObject({{"single", Json::MakeObject()}}));
  }
  // Before the class is looked at; see ResolvePriorityClass.
  if (!spec.Has("preemptionPolicy")) spec.Set("preemptionPolicy", kPreempts);
}

std::vector<std::string> PodGroupErrors(const Json* old, const Json& next) {
  std::vector<std::string> errors;
  const Json* policy = next.Find("spec", "schedulingPolicy");
  if (!OneOf(policy, "basic", "gang")) {
    errors.push_back(
        "spec.schedulingPolicy: Invalid value: must specify exactly one of: `basic`, `gang`");
  } else if (policy->Has("gang") && MinCount(policy, 0) < 1) {
    errors.push_back(
        "spec.schedulingPolicy.gang.minCount: Invalid value: must be greater than or equal to 1");
  }
  if (old != nullptr &&
      !(WithoutMinCount(old->Find("spec")) == WithoutMinCount(next.Find("spec")))) {
    errors.push_back("spec: Invalid value: field is immutable");
  }
  return errors;
}

std::vector<std::string> JobSchedulingErrors(const Json* old, const Json& next) {
  std::vector<std::string> errors;
  const Json* now = next.Find("spec", "scheduling");
  if (old != nullptr &&
      !(WithoutMinCount(old->Find("spec", "scheduling")) == WithoutMinCount(now))) {
    errors.push_back("spec.scheduling: Invalid value: field is immutable");
  }
  if (now == nullptr) return errors;
  const Json* parallelism = next.Find("spec", "parallelism");
  const int64_t count = MinCount(now->Find("schedulingPolicy"), 1);
  if (count < 1 ||
      count > std::max<int64_t>(1, parallelism == nullptr ? 1 : parallelism->AsInt())) {
    errors.push_back(
        "spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: must be between 1 and "
        "parallelism");
  }
  return errors;
}

}  // namespace sluice::sim
