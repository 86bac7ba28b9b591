#include "webhook/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/codec.h"
#include "api/kind.h"
#include "base/status.h"
#include "queueing/topology_encoding.h"
#include "webhook/field_error.h"

namespace sluice::webhook {
namespace {

using api::Json;
using queueing::EncodeTopologyAssignment;
using queueing::ExpandTopologyAssignment;
using queueing::TopologyAssignmentJson;
using queueing::TopologyDomain;

constexpr char kBeta1[] = "kueue.x-k8s.io/v1beta1";
constexpr char kBeta2[] = "kueue.x-k8s.io/v1beta2";
constexpr char kReviewVersion[] = "apiextensions.k8s.io/v1";
constexpr char kWorkloadPrioritySource[] = "kueue.x-k8s.io/workloadpriorityclass";
constexpr char kPodPrioritySource[] = "scheduling.k8s.io/priorityclass";

// The member along a path, nullptr where something is missing or is not an object.
Json* At(Json* json, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (json == nullptr || !json->IsObject()) return nullptr;
    json = json->Find(key);
  }
  return json;
}

Json* ObjectAt(Json* json, std::initializer_list<std::string_view> keys) {
  Json* found = At(json, keys);
  return found != nullptr && found->IsObject() ? found : nullptr;
}

// Renames a member where it stands; the value (null and empty included) stays as it is.
void Rename(Json* object, std::string_view from, std::string_view to) {
  if (object == nullptr || !object->Has(from)) return;
  object->Erase(to);
  for (Json::Member& member : object->MutableObject()) {
    if (member.first == from) member.first = std::string(to);
  }
}

void Erase(Json* object, std::string_view key) {
  if (object != nullptr) object->Erase(key);
}

// Takes a member out; null when there is none.
Json Take(Json* object, std::string_view key) {
  Json* found = object->Find(key);
  if (found == nullptr) return Json();
  Json value = std::move(*found);
  object->Erase(key);
  return value;
}

template <typename Visit>
void ForEachObject(Json* array, Visit visit) {
  if (array == nullptr || !array->IsArray()) return;
  for (Json& item : array->MutableArray()) {
    if (item.IsObject()) visit(&item);
  }
}

void EraseAdmissionFairSharing(Json* object) {
  Erase(ObjectAt(object, {"status", "fairSharing"}), "admissionFairSharingStatus");
}

// ---- ClusterQueue ----

void ReplaceText(Json* object, std::string_view key, std::string_view from, std::string_view to) {
  Json* value = At(object, {key});
  if (value != nullptr && value->AsString() == from) *value = Json(to);
}

absl::Status ClusterQueueUp(Json* object) {
  if (Json* spec = ObjectAt(object, {"spec"})) {
    Rename(spec, "cohort", "cohortName");
    const Json names = Take(spec, "admissionChecks");
    if (!names.AsArray().empty()) {
      Json::Array rules;
      for (const Json& name : names.AsArray()) rules.push_back(Json::MakeObject({{"name", name}}));
      spec->Set("admissionChecksStrategy", Json::MakeObject({{"admissionChecks", rules}}));
    }
    Json* fungibility = ObjectAt(spec, {"flavorFungibility"});
    ReplaceText(fungibility, "whenCanBorrow", "Borrow", "MayStopSearch");
    ReplaceText(fungibility, "whenCanPreempt", "Preempt", "MayStopSearch");
  }
  Erase(ObjectAt(object, {"status"}), "pendingWorkloadsStatus");
  EraseAdmissionFairSharing(object);
  return absl::OkStatus();
}

absl::Status ClusterQueueDown(Json* object) {
  Json* spec = ObjectAt(object, {"spec"});
  Rename(spec, "cohortName", "cohort");
  Erase(spec, "concurrentAdmissionPolicy");
  return absl::OkStatus();
}

// ---- LocalQueue, Cohort ----

absl::Status LocalQueueUp(Json* object) {
  Json* status = ObjectAt(object, {"status"});
  Rename(status, "flavorUsage", "flavorsUsage");
  Erase(status, "flavors");
  return absl::OkStatus();
}

absl::Status LocalQueueDown(Json* object) {
  Rename(ObjectAt(object, {"status"}), "flavorsUsage", "flavorUsage");
  return absl::OkStatus();
}

absl::Status CohortUp(Json* object) {
  EraseAdmissionFairSharing(object);
  return absl::OkStatus();
}

absl::Status CohortDown(Json*) { return absl::OkStatus(); }

// ---- Workload ----

void PriorityUp(Json* spec) {
  const std::string source = Take(spec, "priorityClassSource").AsString();
  const std::string name = Take(spec, "priorityClassName").AsString();
  Json ref = Json::MakeObject();
  if (source == kWorkloadPrioritySource) {
    ref.Set("group", api::kKueueGroup);
    ref.Set("kind", "WorkloadPriorityClass");
  } else if (source == kPodPrioritySource) {
    ref.Set("group", "scheduling.k8s.io");
    ref.Set("kind", "PriorityClass");
  } else {
    return;  // a name alone says nothing about which class it is
  }
  if (!name.empty()) ref.Set("name", name);
  spec->Set("priorityClassRef", std::move(ref));
}

void PriorityDown(Json* spec) {
  const Json ref = Take(spec, "priorityClassRef");
  const std::string group = ref.GetString("group");
  const std::string kind = ref.GetString("kind");
  const char* source = nullptr;
  if (group == api::kKueueGroup && kind == "WorkloadPriorityClass") {
    source = kWorkloadPrioritySource;
  } else if (group == "scheduling.k8s.io" && kind == "PriorityClass") {
    source = kPodPrioritySource;
  }
  if (source == nullptr) return;
  spec->Set("priorityClassSource", source);
  if (const std::string name = ref.GetString("name"); !name.empty()) {
    spec->Set("priorityClassName", name);
  }
}

absl::StatusOr<std::vector<TopologyDomain>> ReadDomains(const Json& domains, size_t levels) {
  std::vector<TopologyDomain> result;
  result.reserve(domains.AsArray().size());
  for (const Json& item : domains.AsArray()) {
    const Json* values = item.Find("values");
    TopologyDomain domain;
    if (values != nullptr) {
      for (const Json& value : values->AsArray()) domain.values.push_back(value.AsString());
    }
    if (domain.values.size() != levels) {
      return InvalidArgument("domains[{}].values has {} entries for {} levels", result.size(),
                             domain.values.size(), levels);
    }
    const Json* count = item.Find("count");
    const int64_t pods = count == nullptr ? 0 : count->AsInt();
    if (pods < 0 || pods > INT32_MAX) {
      return InvalidArgument("domains[{}].count is out of range", result.size());
    }
    domain.count = static_cast<int32_t>(pods);
    result.push_back(std::move(domain));
  }
  return result;
}

absl::Status TopologyUp(Json* assignment, const ConversionOptions& options) {
  std::vector<std::string> levels;
  if (const Json* found = assignment->Find("levels")) {
    for (const Json& level : found->AsArray()) levels.push_back(level.AsString());
  }
  const Json old = Take(assignment, "domains");
  ASSIGN_OR_RETURN(const std::vector<TopologyDomain> domains, ReadDomains(old, levels.size()));
  if (domains.empty()) return absl::OkStatus();
  Json encoded = TopologyAssignmentJson(
      EncodeTopologyAssignment(std::move(levels), domains, options.by_hostname_prefix));
  assignment->Set("slices", Take(&encoded, "slices"));
  return absl::OkStatus();
}

absl::Status TopologyDown(Json* assignment, const ConversionOptions&) {
  ASSIGN_OR_RETURN(const api::TopologyAssignment decoded,
                   api::Decode<api::TopologyAssignment>(*assignment));
  ASSIGN_OR_RETURN(std::vector<TopologyDomain> expanded, ExpandTopologyAssignment(decoded));
  Json::Array domains;
  domains.reserve(expanded.size());
  for (TopologyDomain& domain : expanded) {
    Json::Array values(std::make_move_iterator(domain.values.begin()),
                       std::make_move_iterator(domain.values.end()));
    Json item = Json::MakeObject();
    item.Set("values", std::move(values));
    item.Set("count", domain.count);
    domains.push_back(std::move(item));
  }
  assignment->Erase("slices");
  assignment->Set("domains", std::move(domains));
  return absl::OkStatus();
}

using TopologyChange = absl::Status (*)(Json*, const ConversionOptions&);

absl::Status ConvertTopologies(Json* object, const ConversionOptions& options,
                               TopologyChange change) {
  absl::Status status;
  size_t index = 0;
  ForEachObject(At(object, {"status", "admission", "podSetAssignments"}), [&](Json* item) {
    Json* assignment = ObjectAt(item, {"topologyAssignment"});
    if (assignment != nullptr && status.ok()) {
      status =
          Annotate(change(assignment, options),
                   fmt::format("status.admission.podSetAssignments[{}].topologyAssignment", index));
    }
    ++index;
  });
  return status;
}

absl::Status WorkloadUp(Json* object, const ConversionOptions& options) {
  if (Json* spec = ObjectAt(object, {"spec"})) PriorityUp(spec);
  Rename(ObjectAt(object, {"status"}), "accumulatedPastExexcutionTimeSeconds",
         "accumulatedPastExecutionTimeSeconds");
  return ConvertTopologies(object, options, TopologyUp);
}

absl::Status WorkloadDown(Json* object, const ConversionOptions& options) {
  if (Json* spec = ObjectAt(object, {"spec"})) {
    PriorityDown(spec);
    spec->Erase("preemptionGates");
    ForEachObject(spec->Find("podSets"), [](Json* pod_set) {
      Erase(ObjectAt(pod_set, {"topologyRequest"}), "podsetSliceRequiredTopologyConstraints");
    });
  }
  Json* status = ObjectAt(object, {"status"});
  Erase(status, "preemptionGates");
  Rename(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds");
  return ConvertTopologies(object, options, TopologyDown);
}

// ---- MultiKueueCluster ----

absl::Status MultiKueueClusterUp(Json* object) {
  Json* spec = ObjectAt(object, {"spec"});
  if (spec == nullptr) return absl::OkStatus();
  Json source = Json::MakeObject();
  Json kube_config = Take(spec, "kubeConfig");
  if (!kube_config.GetString("location").empty()) source.Set("kubeConfig", std::move(kube_config));
  Json profile = Take(spec, "clusterProfileRef");
  if (!profile.IsNull()) source.Set("clusterProfileRef", std::move(profile));
  spec->Set("clusterSource", std::move(source));
  return absl::OkStatus();
}

absl::Status MultiKueueClusterDown(Json* object) {
  Json* spec = ObjectAt(object, {"spec"});
  if (spec == nullptr) return absl::OkStatus();
  Json source = Take(spec, "clusterSource");
  if (!source.IsObject()) source = Json::MakeObject();
  Json kube_config = Take(&source, "kubeConfig");
  if (!kube_config.IsObject()) {
    kube_config = Json::MakeObject({{"location", ""}, {"locationType", ""}});
  }
  spec->Set("kubeConfig", std::move(kube_config));
  Json profile = Take(&source, "clusterProfileRef");
  if (!profile.IsNull()) spec->Set("clusterProfileRef", std::move(profile));
  return absl::OkStatus();
}

// ---- all kinds ----

absl::Status ConvertBody(const std::string& kind, bool up, Json* object,
                         const ConversionOptions& options) {
  if (kind == "ClusterQueue") return up ? ClusterQueueUp(object) : ClusterQueueDown(object);
  if (kind == "LocalQueue") return up ? LocalQueueUp(object) : LocalQueueDown(object);
  if (kind == "Cohort") return up ? CohortUp(object) : CohortDown(object);
  if (kind == "Workload") return up ? WorkloadUp(object, options) : WorkloadDown(object, options);
  if (kind == "MultiKueueCluster") {
    return up ? MultiKueueClusterUp(object) : MultiKueueClusterDown(object);
  }
  return InvalidArgument("this kind is not converted here");
}

std::string NameOf(const Json& object) {
  const std::string kind = object.GetString("kind");
  const std::string ns = object.GetString("metadata", "namespace");
  const std::string name = object.GetString("metadata", "name");
  return fmt::format("{} {}{}{}", kind.empty() ? "object" : kind, ns, ns.empty() ? "" : "/", name);
}

Json Review(const std::string& uid, Json result) {
  Json response = Json::MakeObject();
  response.Set("uid", uid);
  response.Set("result", std::move(result));
  Json review = Json::MakeObject();
  review.Set("kind", "ConversionReview");
  review.Set("apiVersion", kReviewVersion);
  review.Set("response", std::move(response));
  return review;
}

Json Failure(const std::string& uid, const std::string& message) {
  return Review(uid, Json::MakeObject({{"status", "Failure"}, {"message", message}}));
}

}  // namespace

ConversionOptions ConversionOptionsOf(const state::Settings& settings) {
  return {settings.gates.Enabled("TASAssignmentsEncodingByHostnamePrefix")};
}

absl::StatusOr<Json> ConvertObject(Json object, const std::string& desired_api_version,
                                   const ConversionOptions& options) {
  if (!object.IsObject()) return InvalidArgument("not an object");
  const std::string have = object.GetString("apiVersion");
  for (const std::string& version : {have, desired_api_version}) {
    if (version != kBeta1 && version != kBeta2) {
      return InvalidArgument("{}: unknown apiVersion {}", NameOf(object), Quote(version));
    }
  }
  if (have == desired_api_version) return object;
  const absl::Status status =
      ConvertBody(object.GetString("kind"), desired_api_version == kBeta2, &object, options);
  if (!status.ok()) return Annotate(status, NameOf(object));
  object.Set("apiVersion", desired_api_version);
  return object;
}

Json HandleConversionReview(Json review, const ConversionOptions& options) {
  if (!review.IsObject() || review.GetString("kind") != "ConversionReview") {
    return Failure("", "the body is not a ConversionReview");
  }
  Json* request = ObjectAt(&review, {"request"});
  if (request == nullptr) return Failure("", "the ConversionReview has no request");
  const std::string uid = request->GetString("uid");
  if (review.GetString("apiVersion") != kReviewVersion) {
    return Failure(uid, fmt::format("a ConversionReview of {} is expected", kReviewVersion));
  }
  const std::string desired = request->GetString("desiredAPIVersion");
  Json* objects = request->Find("objects");
  if (objects == nullptr || !objects->IsArray()) {
    return Failure(uid, "the request has no list of objects");
  }
  Json::Array converted;
  converted.reserve(objects->AsArray().size());
  for (Json& object : objects->MutableArray()) {
    absl::StatusOr<Json> result = ConvertObject(std::move(object), desired, options);
    if (!result.ok()) return Failure(uid, std::string(result.status().message()));
    converted.push_back(std::move(result).value());
  }
  Json answer = Review(uid, Json::MakeObject({{"status", "Success"}}));
  answer.Find("response")->Set("convertedObjects", std::move(converted));
  return answer;
}

}  // namespace sluice::webhook
