#include "kube/reflector.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "api/parse_object.h"
#include "base/status.h"
#include "kube/client.h"

namespace sluice::kube {
namespace {

// A watch that ends sooner, without an event, counts as a failure.
constexpr absl::Duration kHealthyWatch = absl::Seconds(1);

using Type = state::ObjectEvent::Type;
using What = ReflectorReport::What;

}  // namespace

struct Reflector::Core : std::enable_shared_from_this<Reflector::Core> {
  using Step = void (Core::*)();

  Core(Transport& transport_in, Executor& timers_in, Executor& delivery_in,
       ReflectorOptions options_in, EmitCallback emit_in, ReportCallback report_in)
      : transport(transport_in),
        timers(timers_in),
        delivery(delivery_in),
        options(std::move(options_in)),
        emit(std::move(emit_in)),
        report(std::move(report_in)),
        backoff(options.backoff) {}

  // Runs `body` unless the reflector is stopped; its destructor waits for the end of it.
  template <typename F>
  void Inside(F body) {
    {
      absl::MutexLock lock(&mutex);
      if (stopped) return;
      ++inside;
    }
    body();
    absl::MutexLock lock(&mutex);
    if (--inside == 0) idle.SignalAll();
  }

  void After(absl::Duration wait, Step step) {
    timers.PostAfter(wait, [weak = weak_from_this(), step] {
      if (const auto self = weak.lock()) self->Inside([&] { (self.get()->*step)(); });
    });
  }

  void Report(What what, absl::Status status, absl::Duration wait, uint64_t count) {
    if (!report) return;
    ReflectorReport note;
    note.what = what;
    note.kind = options.kind;
    note.status = std::move(status);
    note.wait = wait;
    note.count = count;
    report(note);
  }

  void Emit(Type type, api::Json object = {}) {
    if (stopping) return;
    emit(state::ObjectEvent{type, options.kind, std::move(object)});
  }

  std::string Name() const { return api::InfoOf(options.kind).plural; }

  // ---- list ----

  void BeginList() {
    continue_token.clear();
    list_open = false;
    RequestPage();
  }

  void RequestPage() {
    HttpRequest request;
    request.path_and_query =
        ListPath(options.kind, Selection(),
                 {{"limit", std::to_string(options.page_size)}, {"continue", continue_token}});
    request.timeout = options.list_timeout;
    transport.Send(
        std::move(request), [self = shared_from_this()](absl::StatusOr<HttpResponse> response) {
          auto shared = std::make_shared<absl::StatusOr<HttpResponse>>(std::move(response));
          self->delivery.Post(
              [self, shared] { self->Inside([&] { self->OnPage(std::move(*shared)); }); });
        });
  }

  ListOptions Selection() const {
    return {options.ns, options.label_selector, options.field_selector, options.page_size};
  }

  void OnPage(absl::StatusOr<HttpResponse> response) {
    if (!response.ok() || response->code != 200) {
      OnListFailure(response);
      return;
    }
    std::vector<api::Damage> damages;
    auto page = ParseBody(*response, "list " + Name(), &damages);
    response->body = {};  // a page is large, and emitting it may take long
    if (!page.ok()) {
      OnListFailure(page.status());
      return;
    }
    if (page->GetString("metadata", "resourceVersion").empty()) {
      OnListFailure(Unavailable("the answer is not a list: it has no resourceVersion"));
      return;
    }
    if (!list_open) {
      list_open = true;
      listed = 0;
      absent = false;
      lost_lines = false;
      api::Json narrowed;
      if (!options.label_selector.empty()) {
        narrowed = api::Json::MakeObject({{"labelSelector", options.label_selector}});
      }
      Emit(Type::kListBegin, std::move(narrowed));
      // What replies have shown before is gone if the list does not have it.
      if (options.echoes != nullptr) options.echoes->Forget(options.kind);
    }
    if (api::Json* items = page->Find("items"); items != nullptr && items->IsArray()) {
      for (const api::Damage& damage : damages) {
        if (!damage.item || *damage.item >= items->AsArray().size()) continue;
        ReportDamage("list", items->AsArray()[*damage.item], damage);
      }
      for (api::Json& item : items->MutableArray()) EmitItem(std::move(item));
    }
    continue_token = page->GetString("metadata", "continue");
    if (!continue_token.empty()) {
      RequestPage();
      return;
    }
    version = page->GetString("metadata", "resourceVersion");
    Emit(Type::kListEnd,
         api::Json::MakeObject(
             {{"metadata", api::Json::MakeObject({{"resourceVersion", version}})}}));
    backoff.Reset();
    Report(What::kSynced, absl::OkStatus(), absl::ZeroDuration(), listed);
    BeginWatch();
  }

  void EmitItem(api::Json item) {
    if (item.GetString("metadata", "name").empty()) {
      CountUndecodable(InvalidArgument("list {}: an item without a name", Name()));
      return;
    }
    FillKind(options.kind, item);
    ++listed;
    Emit(Type::kUpsert, std::move(item));
  }

  void ReportDamage(std::string_view verb, const api::Json& object, const api::Damage& damage) {
    const ObjectKey key{object.GetString("metadata", "namespace"),
                        object.GetString("metadata", "name")};
    CountUndecodable(InvalidArgument("{} {}: {}: {}: {}; the rest is used", verb, Name(),
                                     key.ToString(), damage.path, damage.what));
  }

  void OnListFailure(const absl::StatusOr<HttpResponse>& response) {
    const int code = response.ok() ? response->code : 0;
    const ApiError error = response.ok() ? ApiErrorOf(*response) : ApiErrorOf(response.status());
    const absl::Status status = response.ok() ? ToStatus(error, "list " + Name())
                                              : Annotate(response.status(), "list " + Name());
    absl::Duration wait = backoff.Next();
    What what = What::kFailed;
    if (code == 404) {
      what = What::kAbsent;
      wait = options.absent_retry;
      if (options.absent_is_empty && !absent) {
        Emit(Type::kListBegin);
        Emit(Type::kListEnd);
      }
      absent = true;
    } else if (code == 403) {
      wait = options.absent_retry;
    } else if (code == 410) {
      what = What::kExpired;
    } else if (error.retry_after > absl::ZeroDuration()) {
      wait = RandomBetween(error.retry_after, error.retry_after * 1.25);
    }
    Report(what, status, wait, 0);
    After(wait, &Core::BeginList);
  }

  // ---- watch ----

  void BeginWatch() {
    if (lost_lines) {
      BeginList();
      return;
    }
    watch_started = SteadyNow();
    watch_progress = false;
    stream_error.reset();
    bool knows_bookmarks = false;
    {
      absl::MutexLock lock(&mutex);
      stream_failed = false;
      knows_bookmarks = bookmarks;
    }
    const absl::Duration limit = RandomBetween(options.watch_timeout, options.watch_timeout * 2);
    HttpRequest request;
    request.path_and_query = ListPath(
        options.kind, Selection(),
        {{"watch", "true"},
         {"resourceVersion", version},
         {"allowWatchBookmarks", "true"},
         {"timeoutSeconds", std::to_string(std::max<int64_t>(absl::ToInt64Seconds(limit), 1))}});
    request.timeout = knows_bookmarks ? options.bookmark_silence : options.watch_silence;
    auto self = shared_from_this();
    auto handle = transport.Stream(
        std::move(request),
        [self](std::string_view line) { self->Inside([&] { self->OnLine(line); }); },
        [self](absl::StatusOr<HttpResponse> end) { self->Inside([&] { self->OnEnd(end); }); });
    bool too_late = false;
    {
      absl::MutexLock lock(&mutex);
      too_late = stopped || stream_failed;
      stream = handle;
      if (bookmarks && !knows_bookmarks) handle->LimitSilence(options.bookmark_silence);
    }
    if (too_late) handle->Cancel();
  }

  void OnLine(std::string_view line) {
    if (stream_error.has_value()) return;  // nothing good comes after an error
    if (options.echoes != nullptr) {
      if (const std::optional<uint64_t> seen = options.echoes->TakeEcho(options.kind, line)) {
        Progress(std::to_string(*seen));
        return;
      }
    }
    auto event = api::ParseAnswer(line);
    if (!event.ok()) {
      lost_lines = true;
      CountUndecodable(Annotate(event.status(), "watch " + Name()));
      return;
    }
    const std::string type = event->object.GetString("type");
    api::Json* object = event->object.Find("object");
    if (type == "ERROR") {
      stream_error = ApiErrorOf(object == nullptr ? api::Json() : *object);
      absl::MutexLock lock(&mutex);
      stream_failed = true;
      if (stream != nullptr) stream->Cancel();
      return;
    }
    const std::string seen =
        object == nullptr ? "" : object->GetString("metadata", "resourceVersion");
    const bool bookmark = type == "BOOKMARK";
    const bool removed = type == "DELETED";
    if (seen.empty() || (!bookmark && !removed && type != "ADDED" && type != "MODIFIED") ||
        (!bookmark && object->GetString("metadata", "name").empty())) {
      lost_lines = true;
      CountUndecodable(InvalidArgument("watch {}: an event of type \"{}\" without a usable object",
                                       Name(), type));
      return;
    }
    for (const api::Damage& damage : event->damages) ReportDamage("watch", *object, damage);
    if (bookmark) {
      NoteBookmark();
    } else {
      FillKind(options.kind, *object);
      Emit(removed ? Type::kDelete : Type::kUpsert, std::move(*object));
    }
    Progress(seen);
  }

  // A server that sends them does so again and again.
  void NoteBookmark() {
    absl::MutexLock lock(&mutex);
    if (std::exchange(bookmarks, true)) return;
    if (stream != nullptr) stream->LimitSilence(options.bookmark_silence);
  }

  void Progress(std::string seen) {
    version = std::move(seen);
    if (!watch_progress) backoff.Reset();
    watch_progress = true;
  }

  void OnEnd(const absl::StatusOr<HttpResponse>& end) {
    {
      absl::MutexLock lock(&mutex);
      stream.reset();
    }
    ApiError error;
    if (stream_error.has_value()) {
      error = *stream_error;
    } else if (end.ok() && end->code == 200) {
      OnCleanEnd();
      return;
    } else {
      error = end.ok() ? ApiErrorOf(*end) : ApiErrorOf(end.status());
    }
    const bool expired = error.code == 410 || error.reason == "Expired" || error.reason == "Gone";
    const bool relist = expired || error.code == 404 || error.code == 400;
    absl::Duration wait = backoff.Next();
    if (error.retry_after > absl::ZeroDuration()) {
      wait = RandomBetween(error.retry_after, error.retry_after * 1.25);
    }
    const absl::Status status = error.code == 0 && !end.ok()
                                    ? Annotate(end.status(), "watch " + Name())
                                    : ToStatus(error, "watch " + Name());
    Report(expired ? What::kExpired : What::kFailed, status, wait, 0);
    After(wait, relist ? &Core::BeginList : &Core::BeginWatch);
  }

  // The server ends each watch after a while; that is no failure unless it happens at once.
  void OnCleanEnd() {
    const bool healthy = watch_progress || SteadyNow() - watch_started >= kHealthyWatch;
    if (healthy) backoff.Reset();
    After(healthy && !lost_lines ? absl::ZeroDuration() : backoff.Next(), &Core::BeginWatch);
  }

  void CountUndecodable(absl::Status status) {
    ++undecodable;
    Report(What::kUndecodable, std::move(status), absl::ZeroDuration(), undecodable);
  }

  void Stop() {
    std::shared_ptr<StreamHandle> open;
    {
      absl::MutexLock lock(&mutex);
      stopped = true;
      stopping = true;
      open = stream;
    }
    if (open != nullptr) open->Cancel();
  }

  Transport& transport;
  Executor& timers;
  Executor& delivery;
  const ReflectorOptions options;
  const EmitCallback emit;
  const ReportCallback report;

  // Used by one callback at a time: each step starts the next one when it is done.
  Backoff backoff;
  std::string version;  // of the last event, bookmark or list
  std::string continue_token;
  bool list_open = false;   // ListBegin was emitted for the list in progress
  bool absent = false;      // the last list was answered with 404
  bool lost_lines = false;  // something could not be decoded since the last list
  uint64_t listed = 0;
  uint64_t undecodable = 0;
  absl::Time watch_started;
  bool watch_progress = false;
  std::optional<ApiError> stream_error;

  std::atomic<bool> stopping{false};
  absl::Mutex mutex;
  absl::CondVar idle;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  int inside ABSL_GUARDED_BY(mutex) = 0;
  bool stream_failed ABSL_GUARDED_BY(mutex) = false;  // an ERROR event came: close the stream
  bool bookmarks ABSL_GUARDED_BY(mutex) = false;      // one has come, on this watch or before
  std::shared_ptr<StreamHandle> stream ABSL_GUARDED_BY(mutex);
};

Reflector::Reflector(Transport& transport, Executor& timers, Executor& delivery,
                     ReflectorOptions options, EmitCallback emit, ReportCallback report)
    : core_(std::make_shared<Core>(transport, timers, delivery, std::move(options), std::move(emit),
                                   std::move(report))) {}

Reflector::~Reflector() {
  core_->Stop();
  absl::MutexLock lock(&core_->mutex);
  while (core_->inside > 0) core_->idle.Wait(&core_->mutex);
}

void Reflector::Start() { core_->After(absl::ZeroDuration(), &Core::BeginList); }

void Reflector::Stop() { core_->Stop(); }

}  // namespace sluice::kube
