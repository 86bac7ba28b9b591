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
#include "state/store.h"

namespace sluice::kube {
namespace {

// A watch that ends sooner, without an event, counts as a failure.
constexpr absl::Duration kHealthyWatch = absl::Seconds(1);
// A server sends a bookmark two seconds before it ends a watch, so this one shows soon how far it
// is. Source: KEP-956.
constexpr absl::Duration kHurriedWatch = absl::Seconds(3);
constexpr absl::Duration kHurriedSilence = absl::Seconds(10);
// Lines that are too long count as one trouble, which waits grow with, unless they are rarer.
constexpr absl::Duration kRarely = absl::Minutes(10);

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
        backoff(options.backoff),
        oversized_backoff({.first = options.backoff.first, .cap = kRarely / 2}) {}

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
    uint64_t asked_before = 0;
    {
      absl::MutexLock lock(&mutex);
      asked_before = asked;
    }
    hurried = !ShownAll();
    if (lost_lines || (hurried && TakeListFirst())) {
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
      interrupted = false;
      knows_bookmarks = bookmarks;
    }
    const absl::Duration limit =
        hurried ? kHurriedWatch : RandomBetween(options.watch_timeout, options.watch_timeout * 2);
    HttpRequest request;
    request.path_and_query = ListPath(
        options.kind, Selection(),
        {{"watch", "true"},
         {"resourceVersion", version},
         {"allowWatchBookmarks", "true"},
         {"timeoutSeconds", std::to_string(std::max<int64_t>(absl::ToInt64Seconds(limit), 1))}});
    request.timeout = knows_bookmarks ? options.bookmark_silence : options.watch_silence;
    if (hurried) request.timeout = kHurriedSilence;
    auto self = shared_from_this();
    auto handle = transport.Stream(
        std::move(request),
        [self](std::string_view line) { self->Inside([&] { self->OnLine(line); }); },
        [self](absl::StatusOr<HttpResponse> end) { self->Inside([&] { self->OnEnd(end); }); });
    bool too_late = false;
    {
      absl::MutexLock lock(&mutex);
      if (asked != asked_before) interrupted = true;
      too_late = stopped || stream_failed || interrupted;
      stream = handle;
      if (bookmarks && !knows_bookmarks && !hurried) handle->LimitSilence(options.bookmark_silence);
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
    if (stream != nullptr && !hurried) stream->LimitSilence(options.bookmark_silence);
  }

  void Progress(std::string seen) {
    version = std::move(seen);
    if (!watch_progress) backoff.Reset();
    watch_progress = true;
    if (catching_up) ShownAll();
  }

  void OnEnd(const absl::StatusOr<HttpResponse>& end) {
    bool ask_anew = false;
    {
      absl::MutexLock lock(&mutex);
      stream.reset();
      ask_anew = std::exchange(interrupted, false);
      // It did not show that nothing is missing; a list does.
      if (hurried && !ask_anew && !wanted.empty()) list_first = true;
    }
    if (absl::IsResourceExhausted(end.status())) {
      OnOversized(end.status());
      return;
    }
    if (ask_anew && !stream_error.has_value()) {
      After(absl::ZeroDuration(), &Core::BeginWatch);
      return;
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

  // What the line said is lost. The list has the object, if it still exists; but where it changes
  // all the time its next event is as long, and each list is much work for the server.
  void OnOversized(const absl::Status& status) {
    lost_lines = true;
    const absl::Time now = SteadyNow();
    if (now - oversized_at > kRarely) oversized_backoff.Reset();
    oversized_at = now;
    const absl::Duration wait = oversized_backoff.Next();
    Report(What::kFailed, Annotate(status, "watch " + Name()), wait, 0);
    After(wait, &Core::BeginList);
  }

  // The server ends each watch after a while; that is no failure unless it happens at once.
  void OnCleanEnd() {
    const bool healthy = watch_progress || SteadyNow() - watch_started >= kHealthyWatch;
    if (healthy) backoff.Reset();
    After(healthy && !lost_lines ? absl::ZeroDuration() : backoff.Next(), &Core::BeginWatch);
  }

  // ---- catching up ----

  void CatchUp(std::string at_least, bool few) {
    std::shared_ptr<StreamHandle> open;
    {
      absl::MutexLock lock(&mutex);
      if (stopped) return;
      wanted = std::move(at_least);
      list_first = few;
      ++asked;
      catching_up = true;
      open = stream;
      if (open != nullptr) interrupted = true;
    }
    if (open != nullptr) open->Cancel();
  }

  // Nobody waits for more than has been emitted. Tells that to the one who did.
  bool ShownAll() {
    {
      absl::MutexLock lock(&mutex);
      if (wanted.empty()) return true;
      if (state::NewerVersion(wanted, version)) return false;
      wanted.clear();
      list_first = false;
      catching_up = false;
    }
    Emit(Type::kBookmark,
         api::Json::MakeObject(
             {{"metadata", api::Json::MakeObject({{"resourceVersion", version}})}}));
    return true;
  }

  bool TakeListFirst() {
    absl::MutexLock lock(&mutex);
    return std::exchange(list_first, false);
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
  Backoff oversized_backoff;
  absl::Time oversized_at = absl::InfinitePast();
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
  bool hurried = false;  // the watch is a short one that is to show how far it is

  std::atomic<bool> stopping{false};
  std::atomic<bool> catching_up{false};  // `wanted` is not empty
  absl::Mutex mutex;
  absl::CondVar idle;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  int inside ABSL_GUARDED_BY(mutex) = 0;
  bool stream_failed ABSL_GUARDED_BY(mutex) = false;  // an ERROR event came: close the stream
  bool bookmarks ABSL_GUARDED_BY(mutex) = false;      // one has come, on this watch or before
  std::shared_ptr<StreamHandle> stream ABSL_GUARDED_BY(mutex);
  std::string wanted ABSL_GUARDED_BY(mutex);        // the version that CatchUp asked for
  bool list_first ABSL_GUARDED_BY(mutex) = false;   // a list is the next step to it
  uint64_t asked ABSL_GUARDED_BY(mutex) = 0;        // how often it did
  bool interrupted ABSL_GUARDED_BY(mutex) = false;  // the watch is ended for that
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

void Reflector::CatchUp(std::string version, bool few) { core_->CatchUp(std::move(version), few); }

void Reflector::Stop() { core_->Stop(); }

}  // namespace sluice::kube
