// Client: requests to the API server with deadlines and the retry table of api_error.h.
//
// The synchronous helpers are for start-up and the command line: they block the calling thread
// until the answer or the deadline, and must not be called on threads of the transport or the
// executors. Errors are absl::Status with the server's Status object attached: see ApiErrorOf.
//
//   ASSIGN_OR_RETURN(api::Json queue, client.Get(api::Kind::kClusterQueue, {"", "a"}));
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "api/parse_object.h"
#include "base/object_key.h"
#include "kube/api_error.h"
#include "kube/backoff.h"
#include "kube/executor.h"
#include "kube/transport.h"
#include "state/ports.h"

namespace sluice::kube {

struct CallOptions {
  Repeat repeat = Repeat::kSafe;
  absl::Duration deadline = absl::Seconds(30);         // all attempts and the waits between them
  absl::Duration attempt_timeout = absl::Seconds(15);  // of one, from when it is sent
  // After the call. What waits for its turn for longer, behind other requests, is not sent: reason
  // "NotSent", unless an attempt before it may have done something.
  absl::Duration send_within = absl::Seconds(30);
  int max_attempts = 5;
  Priority priority = Priority::kNormal;
  std::function<bool()> may_send = {};  // as in HttpRequest, asked before each attempt
};

// The last answer, after repetitions.
struct CallResult {
  absl::StatusOr<HttpResponse> response;
  int attempts = 0;

  bool ok() const { return response.ok() && response->code >= 200 && response->code < 300; }
  ApiError error() const {
    return response.ok() ? ApiErrorOf(*response) : ApiErrorOf(response.status());
  }
};

struct ClientOptions {
  BackoffOptions backoff = {};  // between attempts without Retry-After
  absl::Duration retry_now_jitter = absl::Milliseconds(10);
};

struct ListOptions {
  std::string ns = {};  // "" is all namespaces
  std::string label_selector = {};
  std::string field_selector = {};
  int page_size = 500;
};

// Query parameters and headers of a write.
struct WriteOptions {
  std::string subresource = {};
  std::string field_manager = {};
  bool force = false;    // server-side apply only
  bool dry_run = false;  // the server validates and answers, but stores nothing
};

// Safe to copy. The transport must outlive every call, and the repetitions that wait on the timers:
// shut those down before the transport is destroyed.
class Client {
 public:
  Client(Transport& transport, Executor& timers, ClientOptions options = {});

  // Sends, repeats by the table, and calls done exactly once on a thread that must not be blocked.
  void CallAsync(HttpRequest request, const CallOptions& options,
                 std::function<void(CallResult)> done);
  // The same, waiting.
  CallResult Call(HttpRequest request, const CallOptions& options);

  absl::StatusOr<api::Json> Get(api::Kind kind, const ObjectKey& key);
  // All items, page by page, each with kind and apiVersion. Starts over when the pages expire.
  absl::StatusOr<std::vector<api::Json>> List(api::Kind kind, const ListOptions& options = {});
  absl::StatusOr<api::Json> Create(api::Kind kind, const std::string& ns, const api::Json& object,
                                   const WriteOptions& options = {});
  // PUT; the object must carry the resourceVersion it was read with.
  absl::StatusOr<api::Json> Update(api::Kind kind, const ObjectKey& key, const api::Json& object,
                                   const WriteOptions& options = {});
  // verb is one of kMergePatch, kJsonPatch and kApply.
  absl::StatusOr<api::Json> Patch(state::Verb verb, api::Kind kind, const ObjectKey& key,
                                  const api::Json& patch, const WriteOptions& options = {});
  // delete_options null: background propagation.
  absl::Status Delete(api::Kind kind, const ObjectKey& key, const api::Json& delete_options = {});
  // GET of any path ("/version", "/apis/batch/v1").
  absl::StatusOr<api::Json> GetPath(const std::string& path_and_query);

  // As Transport::DropRefused.
  void DropRefused() { transport_->DropRefused(); }

  // Defaults of the synchronous helpers.
  CallOptions& defaults() { return defaults_; }
  std::string server() const { return transport_->server(); }

 private:
  struct Attempt;
  static void Send(std::shared_ptr<Attempt> attempt);
  static void OnResponse(std::shared_ptr<Attempt> attempt, absl::StatusOr<HttpResponse> response);
  absl::StatusOr<api::Json> Write(const state::Action& action, bool dry_run);

  Transport* transport_;
  Executor* timers_;
  ClientOptions options_;
  CallOptions defaults_;
};

// The request of an action, and whether it may be repeated. Fills in kind, apiVersion, name and
// namespace of whole objects where they are missing. InvalidArgument when the action cannot be sent
// (apply without a field manager, an object without a name).
struct PreparedWrite {
  HttpRequest request;
  Repeat repeat = Repeat::kNever;
};
absl::StatusOr<PreparedWrite> PrepareWrite(state::Action action, bool dry_run = false);

// The object of a 2xx answer, without its managedFields; "" bodies give null. What could not be
// kept as it came is in `damages`, for callers that tell of it.
absl::StatusOr<api::Json> ParseBody(const HttpResponse& response, const std::string& what,
                                    std::vector<api::Damage>* damages = nullptr);

// Built-in kinds come without kind and apiVersion inside a list: puts them in where they are
// missing.
void FillKind(api::Kind kind, api::Json& object);

// The path of a LIST of that kind with the query of `options` and extra parameters.
std::string ListPath(api::Kind kind, const ListOptions& options,
                     const std::vector<std::pair<std::string, std::string>>& extra);

}  // namespace sluice::kube
