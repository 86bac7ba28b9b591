#include "serve/visibility.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "serve/endpoints.h"
#include "serve/visibility_documents.h"

namespace sluice::serve {
namespace {

using api::Json;

constexpr int64_t kDefaultLimit = 1000;
constexpr int64_t kMaxLimit = 100000;
constexpr char kAggregatedForm[] = "as=APIGroupDiscoveryList";

std::vector<std::string> Segments(const std::string& path) {
  std::vector<std::string> segments;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start) {
      segments.push_back(PercentDecoded(std::string_view(path).substr(start, end - start)));
    }
    start = end + 1;
  }
  return segments;
}

std::string VerbOf(const std::string& method) {
  if (method == "GET" || method == "HEAD") return "get";
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return "delete";
  return "";
}

// The first value of the parameter; nullopt when it is absent.
std::optional<std::string> Parameter(const std::string& query, std::string_view name) {
  for (size_t start = 0; start < query.size();) {
    const size_t end = std::min(query.find('&', start), query.size());
    const std::string_view pair = std::string_view(query).substr(start, end - start);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (PercentDecoded(pair.substr(0, equals)) == name) {
      return PercentDecoded(pair.substr(std::min(equals + 1, pair.size())));
    }
    start = end + 1;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> Number(const std::string& query, const char* name) {
  const std::optional<std::string> text = Parameter(query, name);
  if (!text) return 0;
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value)) {
    return InvalidArgument("{}: \"{}\" is not an integer", name, *text);
  }
  return value;
}

struct Range {
  int64_t offset = 0;
  int64_t limit = 0;
};

absl::StatusOr<Range> RangeOf(const std::string& query) {
  Range range;
  ASSIGN_OR_RETURN(range.limit, Number(query, "limit"));
  ASSIGN_OR_RETURN(range.offset, Number(query, "offset"));
  // Absent and zero are the same thing to the API's defaults.
  if (range.limit == 0) range.limit = kDefaultLimit;
  range.limit = std::clamp<int64_t>(range.limit, 0, kMaxLimit);
  range.offset = std::max<int64_t>(range.offset, 0);
  return range;
}

std::string Quoted(const std::string& text) { return Json(text).Text(); }

void AppendItem(const PendingPosition& entry, size_t position, std::string& out) {
  const PendingItem& item = *entry.item;
  out += fmt::format(R"({{"metadata":{{"name":{},"namespace":{})", Quoted(item.key.name),
                     Quoted(item.key.ns));
  if (item.created) {
    out += fmt::format(R"(,"creationTimestamp":"{}")", sluice::FormatTime(*item.created));
  }
  if (!item.owners.empty()) {
    out += R"(,"ownerReferences":[)";
    for (size_t i = 0; i < item.owners.size(); ++i) {
      const api::OwnerReference& owner = item.owners[i];
      out += fmt::format(R"({}{{"apiVersion":{},"kind":{},"name":{},"uid":{}}})", i == 0 ? "" : ",",
                         Quoted(owner.api_version), Quoted(owner.kind), Quoted(owner.name),
                         Quoted(owner.uid));
    }
    out += ']';
  }
  out += fmt::format(
      R"(}},"priority":{},"localQueueName":{},"positionInClusterQueue":{},"positionInLocalQueue":{})",
      item.priority, Quoted(item.local_queue.name), position, entry.in_local_queue);
  if (!item.reason.empty()) out += R"(,"structuredReason":)" + Quoted(item.reason);
  if (!item.sentence.empty()) out += R"(,"sentence":)" + Quoted(item.sentence);
  out += '}';
}

// Those of `only` alone where it is set.
std::string SummaryText(const std::string& version, const PendingView& view, const Range& range,
                        const std::optional<ObjectKey>& only) {
  std::string text =
      fmt::format(R"({{"kind":"PendingWorkloadsSummary","apiVersion":"{}/{}","metadata":{{}},)"
                  R"("items":[)",
                  kVisibilityGroup, version);
  int64_t seen = 0;
  int64_t taken = 0;
  for (size_t i = 0; i < view.entries.size() && taken < range.limit; ++i) {
    if (only && view.entries[i].item->local_queue != *only) continue;
    if (seen++ < range.offset) continue;
    if (taken++ > 0) text += ',';
    AppendItem(view.entries[i], i, text);
  }
  return text + "]}\n";
}

Response JsonText(std::string text) {
  Response response;
  response.content_type = "application/json";
  response.body = std::move(text);
  return response;
}

Response Document(const Json& json) { return JsonText(json.Text() + "\n"); }

// In the form that the media type asks for; it can be asked for again by its digest.
Response Aggregated(const std::string& discovery_version, bool what_if) {
  Response response = Document(ApiGroupDiscoveryList(discovery_version, what_if));
  response.content_type = fmt::format("application/json;g=apidiscovery.k8s.io;v={};{}",
                                      discovery_version, kAggregatedForm);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(response.body.data()), response.body.size(),
         digest);
  std::string tag;
  for (const unsigned char byte : digest) tag += fmt::format("{:02X}", byte);
  response.headers = {{"ETag", fmt::format("\"{}\"", tag)}, {"Vary", "Accept"}};
  return response;
}

Response NotThere() {
  return StatusResponse(404, "NotFound", "the server could not find the requested resource");
}

}  // namespace

// What a request is about.
struct VisibilityApi::Target {
  enum class Kind { kNothing, kDocument, kMetrics, kParent, kPending, kWhatIf };
  Kind kind = Kind::kNothing;
  AccessQuestion question;

  bool cluster() const { return question.ns.empty(); }
  const char* singular() const { return cluster() ? "clusterqueue" : "localqueue"; }
};

Response StatusResponse(int code, const std::string& reason, const std::string& message,
                        Json details) {
  Json status = Json::MakeObject({{"kind", "Status"},
                                  {"apiVersion", "v1"},
                                  {"metadata", Json::MakeObject()},
                                  {"status", "Failure"},
                                  {"message", message},
                                  {"reason", reason}});
  if (!details.IsNull()) status.Set("details", std::move(details));
  status.Set("code", code);
  return Response::JsonText(code, status);
}

VisibilityApi::VisibilityApi(VisibilityOptions options) : options_(std::move(options)) {
  const bool what_if = static_cast<bool>(options_.what_if);
  const std::string group = std::string("/apis/") + kVisibilityGroup;
  documents_["/apis"] = Document(ApiGroupList());
  documents_[group] = Document(ApiGroup());
  documents_["/openapi/v2"] = Document(OpenApiV2(what_if));
  documents_["/openapi/v3"] = Document(OpenApiV3Index());
  for (const char* version : kVisibilityVersions) {
    const std::string path = fmt::format("{}/{}", group, version);
    documents_[path] = Document(ApiResourceList(version, what_if));
    documents_["/openapi/v3" + path] = Document(OpenApiV3(version, what_if));
  }
  // The version of the API machinery that clients may count on, as the API server's own.
  documents_["/version"] = Document(Json::MakeObject({{"major", "1"},
                                                      {"minor", "37"},
                                                      {"gitVersion", "v" + options_.version},
                                                      {"platform", "linux/amd64"}}));
  documents_["/api"] =
      Document(Json::MakeObject({{"kind", "APIVersions"}, {"versions", Json::MakeArray()}}));
  aggregated_["v2"] = Aggregated("v2", what_if);
  aggregated_["v2beta1"] = Aggregated("v2beta1", what_if);
}

std::shared_ptr<VisibilityApi> VisibilityApi::Make(VisibilityOptions options) {
  return std::shared_ptr<VisibilityApi>(new VisibilityApi(std::move(options)));
}

void VisibilityApi::AddTo(Router& router, std::shared_ptr<VisibilityApi> api) {
  const Handler live = [](const Request&) { return Response::Text(200, "ok"); };
  const Handler ready = [pending = api->options_.pending](const Request&) {
    return pending->synced() ? Response::Text(200, "ok")
                             : Response::Text(500, "not ready: caches are not synced\n");
  };
  router.Get("/healthz", live).Get("/livez", live).Get("/readyz", ready);
  router.Otherwise([api = std::move(api)](const Request& request, Finish finish) {
    api->Handle(request, std::move(finish));
  });
}

VisibilityApi::Target VisibilityApi::TargetOf(const Request& request) const {
  Target target;
  AccessQuestion& question = target.question;
  question.verb = VerbOf(request.method);
  question.path = request.path;
  if (documents_.contains(request.path)) {
    target.kind = Target::Kind::kDocument;
    return target;
  }
  if (request.path == "/metrics" && options_.metrics) {
    target.kind = Target::Kind::kMetrics;
    return target;
  }
  const std::vector<std::string> parts = Segments(request.path);
  const auto part = [&](size_t i) { return i < parts.size() ? parts[i] : std::string(); };
  const std::string version = part(2);
  if (part(0) != "apis" || part(1) != kVisibilityGroup || parts.size() < 4 ||
      std::find(kVisibilityVersions.begin(), kVisibilityVersions.end(), version) ==
          kVisibilityVersions.end()) {
    return target;
  }
  size_t at = 3;
  if (part(at) == "namespaces" && parts.size() > 5) {
    question.ns = part(at + 1);
    at += 2;
  }
  question.group = kVisibilityGroup;
  question.version = version;
  question.resource = part(at);
  question.name = part(at + 1);
  question.subresource = part(at + 2);
  const char* expected = question.ns.empty() ? "clusterqueues" : "localqueues";
  if (question.resource != expected || parts.size() > at + 3) return target;
  target.kind = Target::Kind::kParent;
  if (question.subresource == "pendingworkloads") target.kind = Target::Kind::kPending;
  if (question.subresource == "whatif" && target.cluster() && options_.what_if) {
    target.kind = Target::Kind::kWhatIf;
  }
  return target;
}

void VisibilityApi::Handle(const Request& original, Finish finish) {
  const std::shared_ptr<const RequestTrust> trust = options_.trust();
  if (trust == nullptr) {
    return finish([] {
      return StatusResponse(503, "ServiceUnavailable",
                            "it is not known yet which front proxies may be trusted");
    });
  }
  auto request = std::make_shared<const Request>(original);
  if (const std::optional<User> user = trust->UserOf(*request, options_.now())) {
    return Authorize(*user, std::move(request), std::move(finish));
  }
  const std::string token = request->BearerToken();
  if (token.empty()) return Authorize(Anonymous(), std::move(request), std::move(finish));
  options_.access->OwnerOf(
      token, [self = shared_from_this(), request = std::move(request),
              finish = std::move(finish)](absl::StatusOr<std::optional<User>> owner) {
        if (!owner.ok()) {
          return finish([message = std::string(owner.status().message())] {
            return StatusResponse(503, "ServiceUnavailable", message);
          });
        }
        if (!owner->has_value()) {
          return finish([] { return StatusResponse(401, "Unauthorized", "Unauthorized"); });
        }
        self->Authorize(**owner, request, finish);
      });
}

void VisibilityApi::Authorize(const User& user, std::shared_ptr<const Request> request,
                              Finish finish) {
  const Target target = TargetOf(*request);
  options_.access->MayDo(
      user, target.question,
      [self = shared_from_this(), target, name = user.name, request = std::move(request),
       finish = std::move(finish)](absl::StatusOr<bool> allowed) {
        if (!allowed.ok()) {
          return finish([message = std::string(allowed.status().message())] {
            return StatusResponse(503, "ServiceUnavailable", message);
          });
        }
        if (*allowed) return self->Answer(target, request, finish);
        finish([question = target.question, name] {
          if (question.resource.empty()) {
            return StatusResponse(403, "Forbidden",
                                  fmt::format("forbidden: User \"{}\" cannot {} path \"{}\"", name,
                                              question.verb, question.path));
          }
          const std::string scope = question.ns.empty()
                                        ? "at the cluster scope"
                                        : fmt::format("in the namespace \"{}\"", question.ns);
          std::string resource = question.resource;
          if (!question.subresource.empty()) resource += "/" + question.subresource;
          return StatusResponse(
              403, "Forbidden",
              fmt::format("{}.{} \"{}\" is forbidden: User \"{}\" cannot {} resource \"{}\" in API "
                          "group \"{}\" {}",
                          question.resource, question.group, question.name, name, question.verb,
                          resource, question.group, scope),
              Json::MakeObject({{"name", question.name},
                                {"group", question.group},
                                {"kind", question.resource}}));
        });
      });
}

void VisibilityApi::Answer(const Target& target, std::shared_ptr<const Request> request,
                           Finish finish) {
  if (target.kind == Target::Kind::kWhatIf && request->method == "POST") {
    return AskWhatIf(target, *request, std::move(finish));
  }
  const bool pending = target.kind == Target::Kind::kPending && target.question.verb == "get";
  auto answer = [self = shared_from_this(), target, request = std::move(request),
                 finish = std::move(finish)] {
    finish([self, target, request] { return self->AnswerNow(target, *request); });
  };
  if (!pending) return answer();
  options_.pending->Prepare(options_.now(), std::move(answer));
}

Response VisibilityApi::AnswerNow(const Target& target, const Request& request) const {
  if (target.kind == Target::Kind::kNothing || target.kind == Target::Kind::kParent) {
    return NotThere();
  }
  if (target.question.verb != "get" || target.kind == Target::Kind::kWhatIf) {
    Response response = StatusResponse(405, "MethodNotAllowed",
                                       "the server does not allow this method on the requested "
                                       "resource");
    response.headers.emplace_back("Allow", target.kind == Target::Kind::kWhatIf ? "POST" : "GET");
    return response;
  }
  if (target.kind == Target::Kind::kPending) return Pending(target, request);
  if (target.kind == Target::Kind::kMetrics) {
    Response response = Response::Text(200, options_.metrics());
    response.content_type = kMetricsContentType;
    return response;
  }
  const std::string accept(request.Header("Accept"));
  if (request.path == "/apis" && absl::StrContains(accept, kAggregatedForm)) {
    // The first form that is asked for.
    const size_t v2 = accept.find("v=v2;");
    const size_t beta = accept.find("v=v2beta1;");
    if (v2 != std::string::npos || beta != std::string::npos) {
      Response response = aggregated_.at(v2 < beta ? "v2" : "v2beta1");
      if (request.Header("If-None-Match") == response.headers.front().second) {
        response.status = 304;
        response.body.clear();
      }
      return response;
    }
  }
  return documents_.at(request.path);
}

Response VisibilityApi::Pending(const Target& target, const Request& request) const {
  const AccessQuestion& question = target.question;
  const absl::StatusOr<Range> range = RangeOf(request.query);
  if (!range.ok()) {
    return StatusResponse(400, "BadRequest", std::string(range.status().message()));
  }
  if (!options_.pending->filled()) {
    return StatusResponse(503, "ServiceUnavailable", "the queues are not known yet");
  }
  const ObjectKey local{question.ns, question.name};
  const std::shared_ptr<const PendingView> view =
      target.cluster() ? options_.pending->OfClusterQueue(question.name, options_.now())
                       : options_.pending->OfLocalQueue(local, options_.now());
  if (view == nullptr) {
    return StatusResponse(
        404, "NotFound",
        fmt::format("{}.{} \"{}\" not found", target.singular(), question.group, question.name),
        Json::MakeObject(
            {{"name", question.name}, {"group", question.group}, {"kind", target.singular()}}));
  }
  return JsonText(SummaryText(question.version, *view, *range,
                              target.cluster() ? std::nullopt : std::optional<ObjectKey>(local)));
}

void VisibilityApi::AskWhatIf(const Target& target, const Request& request, Finish finish) {
  const absl::StatusOr<Json> body = ParseBounded(request.body, api::ParseJson);
  if (!body.ok() || !body->IsObject()) {
    const std::string why = body.ok() ? "not an object" : std::string(body.status().message());
    return finish([why] { return StatusResponse(400, "BadRequest", "body: " + why); });
  }
  options_.what_if(target.question.name, *body,
                   [finish = std::move(finish), version = target.question.version](
                       absl::StatusOr<VisibilityOptions::WhatIfAnswer> answer) {
                     finish([answer = std::move(answer), version] {
                       if (answer.ok()) {
                         Json json = Json::MakeObject(
                             {{"kind", "WhatIf"},
                              {"apiVersion", fmt::format("{}/{}", kVisibilityGroup, version)}});
                         const Json written = (*answer)();
                         for (const auto& [key, value] : written.AsObject()) json.Set(key, value);
                         return Response::JsonText(200, json);
                       }
                       const std::string message(answer.status().message());
                       switch (answer.status().code()) {
                         case absl::StatusCode::kInvalidArgument:
                           return StatusResponse(422, "Invalid", message);
                         case absl::StatusCode::kNotFound:
                           return StatusResponse(404, "NotFound", message);
                         default:
                           return StatusResponse(503, "ServiceUnavailable", message);
                       }
                     });
                   });
}

}  // namespace sluice::serve
