#include "serve/endpoints.h"

#include <utility>

#include "base/status.h"

namespace sluice::serve {
namespace {

// Nothing when the caller may read the path.
std::optional<Response> Refusal(Authorizer& authorizer, const Request& request) {
  const std::string token = request.BearerToken();
  if (token.empty()) return Response::Text(401, "Unauthorized: a bearer token is required\n");
  const absl::StatusOr<Access> access = authorizer.Authorize(token, request.path, "get");
  if (!access.ok()) {
    return Response::Text(503, fmt::format("the caller cannot be checked: {}\n",
                                           std::string(access.status().message())));
  }
  switch (*access) {
    case Access::kAllowed:
      return std::nullopt;
    case Access::kUnauthenticated:
      return Response::Text(401, "Unauthorized: the bearer token is not valid\n");
    case Access::kForbidden:
      break;
  }
  return Response::Text(403, fmt::format("Forbidden: get {} is not allowed\n", request.path));
}

}  // namespace

void AddHealth(Router& router, const HealthPaths& paths, HealthCheck live, HealthCheck ready) {
  const auto probe = [](std::string what, HealthCheck check) -> Handler {
    return [what = std::move(what), check = std::move(check)](const Request&) {
      const std::string reason = check();
      return reason.empty() ? Response::Text(200, "ok")
                            : Response::Text(500, fmt::format("{}: {}\n", what, reason));
    };
  };
  const Handler liveness = probe("not live", std::move(live));
  const Handler readiness = probe("not ready", std::move(ready));
  router.Get(paths.liveness, liveness).Get(paths.liveness + "/healthz", liveness);
  router.Get(paths.readiness, readiness).Get(paths.readiness + "/readyz", readiness);
}

void AddMetrics(Router& router, std::function<std::string()> text,
                std::shared_ptr<Authorizer> authorizer, const std::string& path) {
  router.Get(path,
             [text = std::move(text), authorizer = std::move(authorizer)](const Request& request) {
               if (authorizer != nullptr) {
                 if (std::optional<Response> refusal = Refusal(*authorizer, request))
                   return *refusal;
               }
               Response response = Response::Text(200, text());
               response.content_type = kMetricsContentType;
               return response;
             });
}

}  // namespace sluice::serve
