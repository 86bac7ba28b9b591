// Requests, responses and the table of paths; what handlers see of HTTP.
//
// Contract: plain values, no I/O. A Router is filled before the server starts and only read after.
//
// A Handler answers at once. A LateHandler may wait for somebody else: it keeps `finish` and calls
// it at most once, from any thread, with a function that makes the answer; that function runs on a
// thread of the server, so large answers cost the caller of `finish` nothing. No thread waits.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json.h"

namespace sluice::serve {

struct Request {
  std::string method;  // "GET", "POST", ...
  std::string path;    // as sent, not percent-decoded
  std::string query;   // after '?', without it
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // What the client presented, leaf first, as DER; null: nothing, or it was not asked for. Only
  // the possession of the leaf's key was verified.
  std::shared_ptr<const std::vector<std::string>> client_certificates;

  // Value of the first header of that name, in any case; "" when there is none.
  std::string_view Header(std::string_view name) const;
  // The token of "Authorization: Bearer ..."; "" when there is none.
  std::string BearerToken() const;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;

  static Response Text(int status, std::string body);
  static Response JsonText(int status, const api::Json& body);
};

using Handler = std::function<Response(const Request&)>;
using Finish = std::function<void(std::function<Response()> answer)>;
using LateHandler = std::function<void(const Request&, Finish finish)>;

// Exact paths, and one handler for all others. A path with a GET handler answers HEAD too.
class Router {
 public:
  Router& Get(const std::string& path, Handler handler);
  // `body_limit` replaces the server's limit for this path.
  Router& Post(const std::string& path, Handler handler, std::optional<size_t> body_limit = {});

  // For every path that has no handler of its own.
  Router& Otherwise(LateHandler handler);

  // Not empty when the path is one of those.
  LateHandler FindLate(const std::string& path) const;
  // The handler's answer, or 404 or 405.
  Response Dispatch(const Request& request) const;
  // The limit of the path's own, if it has one.
  std::optional<size_t> BodyLimit(std::string_view path) const;
  // The greatest limit of any path, at least `fallback`.
  size_t MaxBodyLimit(size_t fallback) const;

 private:
  struct Route {
    absl::btree_map<std::string, Handler> methods;
    std::optional<size_t> body_limit;
  };
  absl::btree_map<std::string, Route> routes_;
  LateHandler otherwise_;
};

// An object of the greatest size that etcd takes (1.5 MiB), in the old and the new form, has fewer
// JSON values than this; parsed they take some tens of megabytes.
inline constexpr size_t kMaxReviewValues = 500'000;

using JsonParser = absl::StatusOr<api::Json> (*)(std::string_view text);
// OutOfRange for a text that may have more than kMaxReviewValues values; it is not parsed.
absl::StatusOr<api::Json> ParseBounded(std::string_view text, JsonParser parse);

// A POST handler for JSON in, JSON out (admission and conversion reviews): 415 for another content
// type, 400 for text that is not JSON or an InvalidArgument of the function, 413 for too many
// values, 500 for other errors of the function. Both reviews can be read with api::ParseObject: of
// the metadata of a converted object the API server takes labels and annotations only.
Handler JsonHandler(std::function<absl::StatusOr<api::Json>(const api::Json&)> function,
                    JsonParser parse = api::ParseJson);

}  // namespace sluice::serve
