#include "kube/client.h"

#include <absl/synchronization/notification.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/status.h"
#include "kube/url.h"

namespace sluice::kube {
namespace {

constexpr int kMaxListRestarts = 5;

std::string Describe(const state::Action& action) {
  static constexpr const char* kVerbs[] = {"create", "update", "patch", "patch",
                                           "apply",  "delete", "get"};
  return fmt::format("{} {} {}{}{}", kVerbs[static_cast<size_t>(action.verb)],
                     api::InfoOf(action.kind).name, action.key.ToString(),
                     action.subresource.empty() ? "" : "/", action.subresource);
}

// Completes an object with its address.
absl::Status FillAddress(const state::Action& action, bool need_name, api::Json& body) {
  if (!body.IsObject()) return InvalidArgument("{}: the body is not an object", Describe(action));
  FillKind(action.kind, body);
  api::Json& metadata = body["metadata"];
  if (!action.key.name.empty() && !metadata.Has("name")) metadata.Set("name", action.key.name);
  if (!action.key.ns.empty() && !metadata.Has("namespace")) {
    metadata.Set("namespace", action.key.ns);
  }
  if (need_name && metadata.GetString("name").empty()) {
    return InvalidArgument("{}: the object has no name", Describe(action));
  }
  return absl::OkStatus();
}

bool HasVersion(const api::Json& body) {
  return !body.GetString("metadata", "resourceVersion").empty();
}

bool HasTest(const api::Json& patch) {
  return std::any_of(patch.AsArray().begin(), patch.AsArray().end(),
                     [](const api::Json& step) { return step.GetString("op") == "test"; });
}

api::Json DefaultDeleteOptions() {
  // Jobs that are deleted without a policy leave their pods behind.
  return api::Json::MakeObject(
      {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", "Background"}});
}

absl::Status PrepareCreate(const state::Action& action, api::Json& body, PreparedWrite& write) {
  write.request.method = "POST";
  if (!action.subresource.empty()) {
    write.repeat = Repeat::kNever;  // bindings, evictions, tokens
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(FillAddress(action, false, body));
  const bool named = !body.GetString("metadata", "name").empty();
  if (!named && body.GetString("metadata", "generateName").empty()) {
    return InvalidArgument("{}: the object has neither name nor generateName", Describe(action));
  }
  // A named object that was created by the first try answers AlreadyExists to the second.
  write.repeat = named ? Repeat::kSafe : Repeat::kNever;
  return absl::OkStatus();
}

absl::Status PrepareBody(const state::Action& action, api::Json& body, PreparedWrite& write) {
  switch (action.verb) {
    case state::Verb::kCreate:
      return PrepareCreate(action, body, write);
    case state::Verb::kUpdate:
      write.request.method = "PUT";
      write.repeat = HasVersion(body) ? Repeat::kSafe : Repeat::kSafeFresh;
      return FillAddress(action, true, body);
    case state::Verb::kMergePatch:
      write.request.headers = {{"Content-Type", "application/merge-patch+json"}};
      write.repeat = HasVersion(body) ? Repeat::kSafe : Repeat::kSafeFresh;
      return absl::OkStatus();
    case state::Verb::kJsonPatch:
      write.request.headers = {{"Content-Type", "application/json-patch+json"}};
      write.repeat = HasTest(body) ? Repeat::kSafe : Repeat::kNever;
      if (!body.IsArray()) return InvalidArgument("{}: the patch is not a list", Describe(action));
      return absl::OkStatus();
    case state::Verb::kApply:
      // JSON is YAML; servers of every supported version know this media type.
      write.request.headers = {{"Content-Type", "application/apply-patch+yaml"}};
      write.repeat = HasVersion(body) ? Repeat::kSafe : Repeat::kSafeFresh;
      if (action.field_manager.empty()) {
        return InvalidArgument("{}: apply needs a field manager", Describe(action));
      }
      return FillAddress(action, true, body);
    case state::Verb::kDelete:
      write.request.method = "DELETE";
      if (body.IsNull()) body = DefaultDeleteOptions();
      // Without the UID a second run could hit a new object of the same name.
      write.repeat = body.Find("preconditions", "uid") != nullptr ? Repeat::kSafe : Repeat::kNever;
      return absl::OkStatus();
    case state::Verb::kGet:
      write.request.method = "GET";
      write.repeat = Repeat::kSafe;
      return absl::OkStatus();
  }
  return InvalidArgument("{}: unknown verb", Describe(action));
}

}  // namespace

void FillKind(api::Kind kind, api::Json& object) {
  if (!object.Has("kind")) object.Set("kind", api::InfoOf(kind).name);
  if (!object.Has("apiVersion")) object.Set("apiVersion", api::ApiVersionOf(kind));
}

std::string ListPath(api::Kind kind, const ListOptions& options,
                     const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::pair<std::string, std::string>> query = extra;
  query.emplace_back("labelSelector", options.label_selector);
  query.emplace_back("fieldSelector", options.field_selector);
  return WithQuery(api::PathOf(kind, {options.ns, ""}), query);
}

absl::StatusOr<PreparedWrite> PrepareWrite(state::Action action, bool dry_run) {
  PreparedWrite write;
  write.request.method = "PATCH";
  write.request.priority = action.best_effort ? Priority::kBestEffort : Priority::kNormal;
  api::Json body = std::move(action.body);
  RETURN_IF_ERROR(PrepareBody(action, body, write));
  const api::KindInfo& info = api::InfoOf(action.kind);
  if (info.namespaced && action.key.ns.empty()) {
    return InvalidArgument("{}: the namespace is missing", Describe(action));
  }
  ObjectKey key = action.key;
  if (action.verb == state::Verb::kCreate && action.subresource.empty()) {
    key.name.clear();
  } else if (key.name.empty()) {
    return InvalidArgument("{}: the name is missing", Describe(action));
  }
  const bool read = action.verb == state::Verb::kGet;
  const bool managed = !read && action.verb != state::Verb::kDelete;
  if (!read) write.request.body = body.Text();
  write.request.path_and_query =
      WithQuery(api::PathOf(action.kind, key, action.subresource),
                {{"fieldManager", managed ? action.field_manager : ""},
                 {"force", action.verb == state::Verb::kApply && action.force ? "true" : ""},
                 {"dryRun", dry_run ? "All" : ""}});
  return write;
}

absl::StatusOr<api::Json> ParseBody(const HttpResponse& response, const std::string& what,
                                    std::vector<api::Damage>* damages) {
  if (response.body.empty()) return api::Json();
  auto answer = api::ParseAnswer(response.body);
  if (!answer.ok()) {
    return Unavailable("{}: the answer is not JSON: {}", what,
                       std::string(answer.status().message()));
  }
  if (damages != nullptr) *damages = std::move(answer->damages);
  return std::move(answer->object);
}

// One call with its repetitions.
struct Client::Attempt {
  Client client;
  HttpRequest request;
  CallOptions options;
  std::function<void(CallResult)> done;
  absl::Time deadline;
  absl::Time send_by;
  Backoff backoff;
  int attempts = 0;
  std::optional<CallResult> before = {};  // what the attempt before this one came to
};

Client::Client(Transport& transport, Executor& timers, ClientOptions options)
    : transport_(&transport), timers_(&timers), options_(options) {}

void Client::CallAsync(HttpRequest request, const CallOptions& options,
                       std::function<void(CallResult)> done) {
  const absl::Time now = SteadyNow();
  Send(std::make_shared<Attempt>(Attempt{*this, std::move(request), options, std::move(done),
                                         now + options.deadline, now + options.send_within,
                                         Backoff(options_.backoff)}));
}

void Client::Send(std::shared_ptr<Attempt> attempt) {
  ++attempt->attempts;
  HttpRequest request = attempt->request;
  request.priority = attempt->options.priority;
  request.send_by = attempt->send_by;
  request.may_send = attempt->options.may_send;
  // Never zero: the first attempt is made even when the caller is late already.
  request.timeout = std::clamp(attempt->deadline - SteadyNow(), absl::Milliseconds(1),
                               attempt->options.attempt_timeout);
  attempt->client.transport_->Send(std::move(request),
                                   [attempt](absl::StatusOr<HttpResponse> response) {
                                     OnResponse(attempt, std::move(response));
                                   });
}

void Client::OnResponse(std::shared_ptr<Attempt> attempt, absl::StatusOr<HttpResponse> response) {
  CallResult result{std::move(response), attempt->attempts};
  if (absl::IsAborted(result.response.status()) && attempt->before) {
    // This attempt was not made, and what the one before did is as uncertain as it was.
    attempt->done(*std::move(attempt->before));
    return;
  }
  if (!result.ok() && attempt->attempts < attempt->options.max_attempts) {
    const ApiError error = result.error();
    const Advice advice = AdviceFor(error, attempt->options.repeat);
    const ClientOptions& options = attempt->client.options_;
    absl::Duration wait = absl::ZeroDuration();
    if (advice == Advice::kRetryNow) {
      wait = RandomBetween(absl::ZeroDuration(), options.retry_now_jitter);
    } else if (error.retry_after > absl::ZeroDuration()) {
      wait = RandomBetween(error.retry_after, error.retry_after * 1.25);
    } else {
      wait = attempt->backoff.Next();
    }
    if (advice != Advice::kGiveUp && SteadyNow() + wait < attempt->deadline) {
      attempt->before = std::move(result);
      attempt->client.timers_->PostAfter(wait, [attempt] { Send(attempt); });
      return;
    }
  }
  attempt->done(std::move(result));
}

CallResult Client::Call(HttpRequest request, const CallOptions& options) {
  SLUICE_CHECK(!timers_->OnThisThread(), "a blocking call on the thread of the timers");
  struct Wait {
    absl::Notification finished;
    std::optional<CallResult> result;
  };
  auto wait = std::make_shared<Wait>();
  CallAsync(std::move(request), options, [wait](CallResult result) {
    wait->result = std::move(result);
    wait->finished.Notify();
  });
  wait->finished.WaitForNotification();
  return *std::move(wait->result);
}

namespace {

absl::StatusOr<api::Json> ObjectOf(const CallResult& result, const std::string& what) {
  if (!result.response.ok()) return Annotate(result.response.status(), what);
  if (!result.ok()) return ToStatus(result.error(), what);
  return ParseBody(*result.response, what);
}

}  // namespace

absl::StatusOr<api::Json> Client::GetPath(const std::string& path_and_query) {
  HttpRequest request;
  request.path_and_query = path_and_query;
  return ObjectOf(Call(std::move(request), defaults_), "get " + path_and_query);
}

absl::StatusOr<api::Json> Client::Get(api::Kind kind, const ObjectKey& key) {
  HttpRequest request;
  request.path_and_query = api::PathOf(kind, key);
  return ObjectOf(Call(std::move(request), defaults_),
                  fmt::format("get {} {}", api::InfoOf(kind).name, key.ToString()));
}

absl::StatusOr<std::vector<api::Json>> Client::List(api::Kind kind, const ListOptions& options) {
  const std::string what = fmt::format("list {}", api::InfoOf(kind).plural);
  std::vector<api::Json> items;
  std::string token;
  int restarts = 0;
  while (true) {
    HttpRequest request;
    request.path_and_query = ListPath(
        kind, options, {{"limit", std::to_string(options.page_size)}, {"continue", token}});
    const CallResult result = Call(std::move(request), defaults_);
    if (!token.empty() && result.response.ok() && result.response->code == 410 &&
        ++restarts <= kMaxListRestarts) {
      items.clear();
      token.clear();
      continue;
    }
    ASSIGN_OR_RETURN(api::Json page, ObjectOf(result, what));
    if (api::Json* list = page.Find("items"); list != nullptr && list->IsArray()) {
      for (api::Json& item : list->MutableArray()) {
        FillKind(kind, item);
        items.push_back(std::move(item));
      }
    }
    token = page.GetString("metadata", "continue");
    if (token.empty()) return items;
  }
}

absl::StatusOr<api::Json> Client::Write(const state::Action& action, bool dry_run) {
  ASSIGN_OR_RETURN(PreparedWrite write, PrepareWrite(action, dry_run));
  CallOptions options = defaults_;
  options.repeat = write.repeat;
  return ObjectOf(Call(std::move(write.request), options), Describe(action));
}

absl::StatusOr<api::Json> Client::Create(api::Kind kind, const std::string& ns,
                                         const api::Json& object, const WriteOptions& options) {
  state::Action action;
  action.verb = state::Verb::kCreate;
  action.kind = kind;
  action.key = {ns, object.GetString("metadata", "name")};
  action.subresource = options.subresource;
  action.body = object;
  action.field_manager = options.field_manager;
  return Write(action, options.dry_run);
}

absl::StatusOr<api::Json> Client::Update(api::Kind kind, const ObjectKey& key,
                                         const api::Json& object, const WriteOptions& options) {
  return Patch(state::Verb::kUpdate, kind, key, object, options);
}

absl::StatusOr<api::Json> Client::Patch(state::Verb verb, api::Kind kind, const ObjectKey& key,
                                        const api::Json& patch, const WriteOptions& options) {
  state::Action action;
  action.verb = verb;
  action.kind = kind;
  action.key = key;
  action.subresource = options.subresource;
  action.body = patch;
  action.field_manager = options.field_manager;
  action.force = options.force;
  return Write(action, options.dry_run);
}

absl::Status Client::Delete(api::Kind kind, const ObjectKey& key, const api::Json& delete_options) {
  state::Action action;
  action.verb = state::Verb::kDelete;
  action.kind = kind;
  action.key = key;
  action.body = delete_options;
  return Write(action, false).status();
}

}  // namespace sluice::kube
