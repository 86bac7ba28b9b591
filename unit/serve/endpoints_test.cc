#include "serve/endpoints.h"

#include "api/parse_object.h"
#include "base/status.h"
#include "unit/catch.h"

namespace sluice::serve {
namespace {

using api::Json;

Request Get(const std::string& path, const std::string& authorization = "") {
  Request request;
  request.method = "GET";
  request.path = path;
  if (!authorization.empty()) request.headers = {{"authorization", authorization}};
  return request;
}

TEST_CASE("the router knows exact paths and methods") {
  Router router;
  router.Get("/a", [](const Request& request) { return Response::Text(200, request.method); });
  router.Post(
      "/a", [](const Request&) { return Response::Text(201, "posted"); }, 10);
  CHECK(router.Dispatch(Get("/a")).body == "GET");
  CHECK(router.Dispatch(Get("/a/")).status == 404);
  CHECK(router.Dispatch(Get("/")).status == 404);
  Request request = Get("/a");
  request.method = "HEAD";
  CHECK(router.Dispatch(request).status == 200);
  request.method = "POST";
  CHECK(router.Dispatch(request).status == 201);
  request.method = "DELETE";
  const Response refused = router.Dispatch(request);
  CHECK(refused.status == 405);
  CHECK(refused.headers ==
        std::vector<std::pair<std::string, std::string>>{{"Allow", "GET, HEAD, POST"}});
  CHECK(router.BodyLimit("/a") == 10);
  CHECK_FALSE(router.BodyLimit("/b").has_value());
  CHECK(router.MaxBodyLimit(5) == 10);
  CHECK(router.MaxBodyLimit(50) == 50);
}

TEST_CASE("a bearer token is taken from the header") {
  CHECK(Get("/", "Bearer abc").BearerToken() == "abc");
  CHECK(Get("/", "bearer  abc").BearerToken() == "abc");
  CHECK(Get("/", "Basic abc").BearerToken().empty());
  CHECK(Get("/", "Bearer").BearerToken().empty());
  CHECK(Get("/").BearerToken().empty());
}

TEST_CASE("probes") {
  Router router;
  std::string hung;
  std::string reason = "certificates are not ready";
  AddHealth(
      router, {"/livez", "/ready"}, [&] { return hung; }, [&] { return reason; });
  CHECK(router.Dispatch(Get("/livez")).status == 200);
  CHECK(router.Dispatch(Get("/healthz")).status == 404);
  const Response waiting = router.Dispatch(Get("/ready"));
  CHECK(waiting.status == 500);
  CHECK(waiting.body == "not ready: certificates are not ready\n");
  reason.clear();
  CHECK(router.Dispatch(Get("/ready")).body == "ok");
  CHECK(router.Dispatch(Get("/ready/readyz")).body == "ok");
  hung = "the loop hangs";
  CHECK(router.Dispatch(Get("/livez")).status == 500);
  CHECK(router.Dispatch(Get("/livez/healthz")).body == "not live: the loop hangs\n");
  CHECK(router.Dispatch(Get("/ready")).status == 200);
}

// Answers as the API server would for one known token.
struct FakeReviews {
  ReviewAuthorizer::Post Post() {
    return [this](const std::string& path, const Json& body) -> absl::StatusOr<Json> {
      ++calls;
      if (!error.ok()) return error;
      const Json* spec = body.Find("spec");
      if (path == "/apis/authentication.k8s.io/v1/tokenreviews") {
        const bool known = spec->GetString("token") != "unknown";
        return *api::ParseJson(fmt::format(
            R"({{"status":{{"authenticated":{},"user":{{"username":"{}","groups":["g"]}}}}}})",
            known, spec->GetString("token")));
      }
      CHECK(path == "/apis/authorization.k8s.io/v1/subjectaccessreviews");
      CHECK(spec->Find("nonResourceAttributes")->Text() == R"({"path":"/metrics","verb":"get"})");
      CHECK(spec->Find("groups")->Text() == R"(["g"])");
      return *api::ParseJson(
          fmt::format(R"({{"status":{{"allowed":{}}}}})", spec->GetString("user") == "prometheus"));
    };
  }
  absl::Status error;
  int calls = 0;
};

TEST_CASE("metrics are for callers the API server allows") {
  FakeReviews reviews;
  Router router;
  AddMetrics(
      router, [] { return std::string("text"); },
      std::make_shared<ReviewAuthorizer>(reviews.Post()));
  CHECK(router.Dispatch(Get("/metrics")).status == 401);
  CHECK(reviews.calls == 0);
  CHECK(router.Dispatch(Get("/metrics", "Bearer unknown")).status == 401);
  CHECK(router.Dispatch(Get("/metrics", "Bearer somebody")).status == 403);
  const Response allowed = router.Dispatch(Get("/metrics", "Bearer prometheus"));
  CHECK(allowed.status == 200);
  CHECK(allowed.body == "text");
  CHECK(allowed.content_type == "text/plain; version=0.0.4; charset=utf-8");
  reviews.error = Unavailable("no answer");
  CHECK(router.Dispatch(Get("/metrics", "Bearer prometheus")).status == 503);
}

TEST_CASE("metrics without an authorizer are open") {
  Router router;
  AddMetrics(
      router, [] { return std::string("text"); }, nullptr);
  CHECK(router.Dispatch(Get("/metrics")).status == 200);
}

TEST_CASE("answers are remembered for a while, errors are not") {
  FakeReviews reviews;
  absl::Time now = absl::UnixEpoch();
  CachingAuthorizer cache(
      std::make_unique<ReviewAuthorizer>(reviews.Post()), [&] { return now; }, absl::Minutes(1), 2);
  reviews.error = Unavailable("no answer");
  CHECK_FALSE(cache.Authorize("prometheus", "/metrics", "get").ok());
  reviews.error = absl::OkStatus();
  CHECK(*cache.Authorize("prometheus", "/metrics", "get") == Access::kAllowed);
  CHECK(*cache.Authorize("somebody", "/metrics", "get") == Access::kForbidden);
  const int calls = reviews.calls;
  CHECK(*cache.Authorize("prometheus", "/metrics", "get") == Access::kAllowed);
  CHECK(*cache.Authorize("somebody", "/metrics", "get") == Access::kForbidden);
  CHECK(reviews.calls == calls);
  // Full of answers that still hold: a third is asked for each time.
  cache.Authorize("unknown", "/metrics", "get").IgnoreError();
  cache.Authorize("unknown", "/metrics", "get").IgnoreError();
  CHECK(reviews.calls == calls + 2);
  now += absl::Minutes(1);
  CHECK(*cache.Authorize("prometheus", "/metrics", "get") == Access::kAllowed);
  CHECK(reviews.calls == calls + 4);
}

TEST_CASE("JSON handlers") {
  const Handler handler = JsonHandler([](const Json& input) -> absl::StatusOr<Json> {
    if (input.Has("bad")) return InvalidArgument("request: missing");
    if (input.Has("broken")) return absl::InternalError("oops");
    return Json::MakeObject({{"got", input}});
  });
  Request request;
  request.method = "POST";
  request.body = R"({"a":1})";
  CHECK(handler(request).status == 415);
  request.headers = {{"Content-Type", "application/json; charset=utf-8"}};
  const Response good = handler(request);
  CHECK(good.status == 200);
  CHECK(good.content_type == "application/json");
  CHECK(good.body == R"({"got":{"a":1}})");
  request.body = "{";
  CHECK(handler(request).status == 400);
  request.body = std::string(100000, '[');
  CHECK(handler(request).status == 400);
  request.body = R"({"bad":1})";
  CHECK(handler(request).status == 400);
  request.body = R"({"broken":1})";
  CHECK(handler(request).status == 500);

  // Few bytes that would be millions of values, and many bytes that are one.
  std::string many = "[0";
  for (size_t i = 1; i <= kMaxReviewValues; ++i) many += ",0";
  request.body = many + "]";
  const Response refused = handler(request);
  CHECK(refused.status == 413);
  CHECK(refused.body == "body: more than 500000 JSON values\n");
  request.body = "[\"" + std::string(4 * kMaxReviewValues, ',') + "\"]";
  CHECK(handler(request).status == 200);

  const auto echo = [](const Json& input) -> absl::StatusOr<Json> { return input; };
  request.body = R"({"object":{"metadata":{"managedFields":[{}],"name":"a"}}})";
  CHECK(JsonHandler(echo)(request).body == request.body);
  CHECK(JsonHandler(echo, api::ParseObject)(request).body ==
        R"({"object":{"metadata":{"name":"a"}}})");
}

}  // namespace
}  // namespace sluice::serve
