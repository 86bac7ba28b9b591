#include "webhook/review.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "api/kind.h"
#include "base/status.h"
#include "webhook/pod.h"
#include "webhook/rules.h"

namespace sluice::webhook {
namespace {

using api::Json;

constexpr char kReviewVersion[] = "admission.k8s.io/v1";

using Default = absl::StatusOr<PatchOps> (*)(const Request&, const View&);
using Validate = absl::StatusOr<FieldErrors> (*)(const Request&, const View&);

struct Endpoint {
  std::string_view path;
  std::string_view group;
  std::string_view version;
  std::string_view kind;
  Default defaulting;  // one of the two is set
  Validate validation;
};

constexpr Endpoint kEndpoints[] = {
    {"/mutate-kueue-x-k8s-io-v1beta2-clusterqueue", api::kKueueGroup, "v1beta2", "ClusterQueue",
     DefaultClusterQueue, nullptr},
    {"/mutate-kueue-x-k8s-io-v1beta2-resourceflavor", api::kKueueGroup, "v1beta2", "ResourceFlavor",
     DefaultResourceFlavor, nullptr},
    {"/mutate-kueue-x-k8s-io-v1beta2-workload", api::kKueueGroup, "v1beta2", "Workload",
     DefaultWorkload, nullptr},
    {"/mutate-batch-v1-job", "batch", "v1", "Job", DefaultJob, nullptr},
    {"/mutate--v1-pod", "", "v1", "Pod", DefaultPod, nullptr},
    {"/validate-kueue-x-k8s-io-v1beta2-clusterqueue", api::kKueueGroup, "v1beta2", "ClusterQueue",
     nullptr, ValidateClusterQueue},
    {"/validate-kueue-x-k8s-io-v1beta2-cohort", api::kKueueGroup, "v1beta2", "Cohort", nullptr,
     ValidateCohort},
    {"/validate-kueue-x-k8s-io-v1beta2-resourceflavor", api::kKueueGroup, "v1beta2",
     "ResourceFlavor", nullptr, ValidateResourceFlavor},
    {"/validate-kueue-x-k8s-io-v1beta2-workload", api::kKueueGroup, "v1beta2", "Workload", nullptr,
     ValidateWorkload},
    {"/validate-batch-v1-job", "batch", "v1", "Job", nullptr, ValidateJob},
    {"/validate--v1-pod", "", "v1", "Pod", nullptr, ValidatePod},
};

const Endpoint* FindEndpoint(std::string_view path) {
  for (const Endpoint& endpoint : kEndpoints) {
    if (endpoint.path == path) return &endpoint;
  }
  return nullptr;
}

Json Review(Json response) {
  Json review = Json::MakeObject();
  review.Set("kind", "AdmissionReview");
  review.Set("apiVersion", kReviewVersion);
  review.Set("response", std::move(response));
  return review;
}

Json Allowed(const std::string& uid) { return Json::MakeObject({{"uid", uid}, {"allowed", true}}); }

std::string_view ReasonOf(int code) {
  switch (code) {
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 500:
      return "InternalError";
    default:
      return "BadRequest";
  }
}

Json Denied(const std::string& uid, int code, std::string message) {
  Json status = Json::MakeObject();
  status.Set("status", "Failure");
  status.Set("message", std::move(message));
  status.Set("reason", ReasonOf(code));
  status.Set("code", code);
  Json response = Json::MakeObject();
  response.Set("uid", uid);
  response.Set("allowed", false);
  response.Set("status", std::move(status));
  return response;
}

Json DeniedBy(const std::string& uid, const absl::Status& status) {
  std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Denied(uid, 400, std::move(message));
    case absl::StatusCode::kNotFound:
      return Denied(uid, 404, std::move(message));
    default:
      return Denied(uid, 403, std::move(message));
  }
}

// The object under that key if it has the kind that the endpoint serves; `required` refuses its
// absence (null counts as absent).
absl::StatusOr<const Json*> ReadObject(const Json& request, std::string_view key, bool required,
                                       const Endpoint& endpoint) {
  const Json* object = request.Find(key);
  if (object == nullptr || object->IsNull()) {
    if (required) return InvalidArgument("request.{} is missing", key);
    return nullptr;
  }
  if (!object->IsObject()) return InvalidArgument("request.{} is not an object", key);
  const std::string expected =
      fmt::format("{}{}{}", endpoint.group, endpoint.group.empty() ? "" : "/", endpoint.version);
  const std::string api_version = object->GetString("apiVersion");
  const std::string kind = object->GetString("kind");
  if ((!api_version.empty() && api_version != expected) ||
      (!kind.empty() && kind != endpoint.kind)) {
    return InvalidArgument("request.{} is a {} of {}, but this webhook reads {} of {}", key, kind,
                           api_version, endpoint.kind, expected);
  }
  return object;
}

absl::StatusOr<Request> ReadRequest(const Json& json, const Endpoint& endpoint) {
  Request request;
  request.uid = json.GetString("uid");
  request.operation = json.GetString("operation");
  request.ns = json.GetString("namespace");
  request.sub_resource = json.GetString("subResource");
  const bool create = request.operation == "CREATE";
  const bool update = request.operation == "UPDATE";
  if (!create && !update && request.operation != "DELETE" && request.operation != "CONNECT") {
    return InvalidArgument("request.operation is {}", Quote(request.operation));
  }
  ASSIGN_OR_RETURN(request.object, ReadObject(json, "object", create || update, endpoint));
  ASSIGN_OR_RETURN(request.old_object, ReadObject(json, "oldObject", update, endpoint));
  if (create) request.old_object = nullptr;
  if (request.ns.empty() && request.object != nullptr) {
    request.ns = request.object->GetString("metadata", "namespace");
  }
  return request;
}

Json RunDefault(const Endpoint& endpoint, const Request& request, const std::string& uid,
                const View& view) {
  absl::StatusOr<PatchOps> ops = endpoint.defaulting(request, view);
  if (!ops.ok()) return DeniedBy(uid, ops.status());
  Json response = Allowed(uid);
  if (!ops->empty()) {
    response.Set("patchType", "JSONPatch");
    response.Set("patch", absl::Base64Escape(Json(std::move(ops).value()).Text()));
  }
  return response;
}

Json RunValidate(const Endpoint& endpoint, const Request& request, const std::string& uid,
                 const View& view) {
  const absl::StatusOr<FieldErrors> errors = endpoint.validation(request, view);
  if (!errors.ok()) return DeniedBy(uid, errors.status());
  return errors->empty() ? Allowed(uid) : Denied(uid, 403, Describe(*errors));
}

Json Respond(std::string_view path, const Json& review, const View& view) {
  const Endpoint* endpoint = FindEndpoint(path);
  if (endpoint == nullptr) {
    return Denied("", 404, fmt::format("no webhook is served at {}", Quote(path)));
  }
  if (!review.IsObject() || review.GetString("kind") != "AdmissionReview") {
    return Denied("", 400, "the body is not an AdmissionReview");
  }
  const Json* body = review.Find("request");
  if (body == nullptr || !body->IsObject()) {
    return Denied("", 400, "the AdmissionReview has no request");
  }
  const std::string uid = body->GetString("uid");
  if (review.GetString("apiVersion") != kReviewVersion) {
    return Denied(uid, 400, fmt::format("an AdmissionReview of {} is expected", kReviewVersion));
  }
  absl::StatusOr<Request> request = ReadRequest(*body, *endpoint);
  if (!request.ok()) return Denied(uid, 400, std::string(request.status().message()));
  // Nothing is set on an object that exists, and a deletion is never refused.
  const bool defaulting = endpoint->defaulting != nullptr;
  const bool concerned =
      request->operation == "CREATE" || (!defaulting && request->operation == "UPDATE");
  if (!concerned) return Allowed(uid);
  std::vector<std::string> warnings;
  request->warnings = &warnings;
  Json response = defaulting ? RunDefault(*endpoint, *request, uid, view)
                             : RunValidate(*endpoint, *request, uid, view);
  if (!warnings.empty()) {
    response.Set("warnings", Json::Array(warnings.begin(), warnings.end()));
  }
  return response;
}

}  // namespace

std::span<const std::string_view> AdmissionPaths() {
  static constexpr auto kPaths = [] {
    std::array<std::string_view, std::size(kEndpoints)> paths{};
    for (size_t i = 0; i < paths.size(); ++i) paths[i] = kEndpoints[i].path;
    return paths;
  }();
  return kPaths;
}

Json HandleAdmissionReview(std::string_view path, const Json& review, const View& view) {
  return Review(Respond(path.substr(0, path.find('?')), review, view));
}

}  // namespace sluice::webhook
