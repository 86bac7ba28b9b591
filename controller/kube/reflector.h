// Reflector: keeps the loop told of all objects of one kind, by list and watch.
//
// Emits ListBegin (its object has the labelSelector, if there is one), an Upsert per object,
// ListEnd (its object has the version of the list), then the changes in order. When the list has to
// start over in the middle (its pages expired), another ListBegin comes without a ListEnd before
// it: it replaces the unfinished one.
// After a lost connection the watch resumes from the last version seen; after 410 everything is
// listed again, as after a line that is too long to be read. Waits grow exponentially with jitter.
// A kind that the server does not serve is asked for again at a slow pace. Lines that are no JSON
// are reported, never end the loop, and make the next reconnect list again, since what they said is
// lost. An object with a part that cannot be kept is reported by name and emitted with the rest:
// whoever decodes it refuses it if the part matters, and knows all the same that it exists.
//
// Bookmarks are not emitted, but one where CatchUp asks for the proof that nothing is missing: a
// watch by itself shows how far it is about once a minute only.
//
// Threads: emit and report are called on the delivery executor, one at a time, and may block.
// Sources: kubernetes.io "API concepts" (efficient detection of changes, chunked lists, bookmarks);
// KEP-956 (when bookmarks are sent).
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/kind.h"
#include "kube/backoff.h"
#include "kube/echo_filter.h"
#include "kube/executor.h"
#include "kube/transport.h"
#include "state/ports.h"

namespace sluice::kube {

struct ReflectorOptions {
  api::Kind kind = api::Kind::kWorkload;
  std::string ns = {};  // "" is all namespaces
  std::string label_selector = {};
  std::string field_selector = {};
  int page_size = 500;
  // Emit an empty list once when the server does not serve the kind, so that nobody waits for it.
  bool absent_is_empty = false;
  absl::Duration list_timeout = absl::Seconds(60);
  // The server ends a watch after a random time in [watch_timeout, 2 * watch_timeout).
  absl::Duration watch_timeout = absl::Minutes(5);
  // The longest silence of a watch before it counts as lost; healthy ones carry a bookmark a
  // minute, but servers are free not to send them. Once this one has, it need not be quiet so long.
  absl::Duration watch_silence = absl::Minutes(11);
  absl::Duration bookmark_silence = absl::Seconds(150);
  BackoffOptions backoff = {.first = absl::Milliseconds(800), .cap = absl::Seconds(30)};
  absl::Duration absent_retry = absl::Seconds(30);  // 403 and 404
  // Events that it recognizes are neither read nor emitted. It must outlive the reflector.
  EchoFilter* echoes = nullptr;
};

struct ReflectorReport {
  enum class What {
    kSynced,   // a list is complete; count is its number of objects
    kExpired,  // 410: everything is listed again
    kFailed,   // a list or watch failed and is tried again after `wait`
    kAbsent,   // 404: the server does not serve the kind
    // A line or item was skipped, or an object lacks a part; count is how many so far.
    kUndecodable,
  };
  What what = What::kFailed;
  api::Kind kind = api::Kind::kWorkload;
  absl::Status status;
  absl::Duration wait = absl::ZeroDuration();
  uint64_t count = 0;
};

class Reflector {
 public:
  using EmitCallback = std::function<void(state::ObjectEvent)>;
  using ReportCallback = std::function<void(const ReflectorReport&)>;

  // The transport and the executors must outlive the reflector. report may be empty.
  Reflector(Transport& transport, Executor& timers, Executor& delivery, ReflectorOptions options,
            EmitCallback emit, ReportCallback report);
  // Stop, then waits for a callback in progress. Close a bounded inbox before, so that it returns.
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  // Emits a kBookmark as soon as all up to that version has been emitted, and hurries: where the
  // collection has few objects it is listed again, else the watch begins anew from where it is,
  // for a few seconds, before the end of which the server tells how far it is; if it does not, the
  // collection is listed. From any thread.
  void CatchUp(std::string version, bool few);
  // Cancels what is in flight; does not wait. At most the callback in progress still runs.
  // Idempotent.
  void Stop();

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace sluice::kube
