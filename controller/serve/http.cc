#include "serve/http.h"

#include <absl/strings/match.h>

#include <algorithm>

#include "api/json_bound.h"
#include "base/check.h"

namespace sluice::serve {
namespace {

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(absl::string_view(a.data(), a.size()),
                                absl::string_view(b.data(), b.size()));
}

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kOutOfRange:
      return 413;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

std::string_view Request::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (SameIgnoringCase(key, name)) return value;
  }
  return {};
}

std::string Request::BearerToken() const {
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view value = Header("Authorization");
  if (value.size() <= kScheme.size() ||
      !SameIgnoringCase(value.substr(0, kScheme.size()), kScheme)) {
    return "";
  }
  value.remove_prefix(kScheme.size());
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return std::string(value);
}

Response Response::Text(int status, std::string body) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

Response Response::JsonText(int status, const api::Json& body) {
  Response response;
  response.status = status;
  response.content_type = "application/json";
  response.body = body.Text();
  return response;
}

Router& Router::Get(const std::string& path, Handler handler) {
  Route& route = routes_[path];
  SLUICE_CHECK(!route.methods.contains("GET"), "two GET handlers for {}", path);
  route.methods["GET"] = std::move(handler);
  return *this;
}

Router& Router::Post(const std::string& path, Handler handler, std::optional<size_t> body_limit) {
  Route& route = routes_[path];
  SLUICE_CHECK(!route.methods.contains("POST"), "two POST handlers for {}", path);
  route.methods["POST"] = std::move(handler);
  route.body_limit = body_limit;
  return *this;
}

Router& Router::Otherwise(LateHandler handler) {
  SLUICE_CHECK(!otherwise_, "two handlers for all other paths");
  otherwise_ = std::move(handler);
  return *this;
}

LateHandler Router::FindLate(const std::string& path) const {
  return routes_.contains(path) ? LateHandler() : otherwise_;
}

Response Router::Dispatch(const Request& request) const {
  const auto route = routes_.find(request.path);
  if (route == routes_.end()) return Response::Text(404, "404 page not found\n");
  const auto& methods = route->second.methods;
  const auto handler = methods.find(request.method == "HEAD" ? "GET" : request.method);
  if (handler != methods.end()) return handler->second(request);

  Response response = Response::Text(405, "method not allowed\n");
  std::string allow;
  for (const auto& [method, unused] : methods) {
    if (!allow.empty()) allow += ", ";
    allow += method == "GET" ? "GET, HEAD" : method;
  }
  response.headers.emplace_back("Allow", allow);
  return response;
}

std::optional<size_t> Router::BodyLimit(std::string_view path) const {
  const auto route = routes_.find(std::string(path));
  return route == routes_.end() ? std::nullopt : route->second.body_limit;
}

size_t Router::MaxBodyLimit(size_t fallback) const {
  size_t limit = fallback;
  for (const auto& [path, route] : routes_) limit = std::max(limit, route.body_limit.value_or(0));
  return limit;
}

absl::StatusOr<api::Json> ParseBounded(std::string_view text, JsonParser parse) {
  // A value is two characters at least, so short texts need no second look.
  if (text.size() / 2 > kMaxReviewValues && api::MostJsonValues(text) > kMaxReviewValues) {
    return absl::OutOfRangeError(fmt::format("more than {} JSON values", kMaxReviewValues));
  }
  return parse(text);
}

Handler JsonHandler(std::function<absl::StatusOr<api::Json>(const api::Json&)> function,
                    JsonParser parse) {
  return [function = std::move(function), parse](const Request& request) {
    const std::string_view type = request.Header("Content-Type");
    const std::string_view media_type = type.substr(0, std::min(type.find(';'), type.size()));
    if (!SameIgnoringCase(media_type, "application/json")) {
      return Response::Text(415,
                            fmt::format("content type \"{}\" is not application/json\n", type));
    }
    absl::StatusOr<api::Json> input = ParseBounded(request.body, parse);
    if (!input.ok()) {
      return Response::Text(HttpStatusOf(input.status()),
                            fmt::format("body: {}\n", std::string(input.status().message())));
    }
    absl::StatusOr<api::Json> output = function(*input);
    if (!output.ok()) {
      return Response::Text(HttpStatusOf(output.status()),
                            std::string(output.status().message()) + "\n");
    }
    return Response::JsonText(200, *output);
  };
}

}  // namespace sluice::serve
