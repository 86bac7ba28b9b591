// Transport: HTTP to one API server, seen as two operations. The only interface between this room
// and the HTTP library, so that replacing the library is a change of one file.
//
// Threads: Send and Stream may be called from any thread and never block. `done` of Send is called
// exactly once, on a thread of the transport that is shared by all requests: it must not wait for
// anything. The callbacks of Stream are called on the executor that was given for delivery, in
// order, and may block; while they do the socket is not read (back-pressure). Errors: an answer of
// the server, whatever its code, is a value. A Status means that there was none: DeadlineExceeded
// (no answer in time), Cancelled (the stream was cancelled, the transport is being destroyed),
// Unavailable (no connection, or it was lost), Unauthenticated (no usable credential), Aborted (the
// request may not be sent any more, and certainly was not), ResourceExhausted (a line of the stream
// is longer than what is kept in memory; what it said is lost).
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::kube {

// Who goes first when the number of requests in flight is at its bound. kUrgent (leases) never
// waits.
enum class Priority { kUrgent, kNormal, kBestEffort };

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string path_and_query = {};  // starts with "/", already percent-encoded
  HeaderList headers = {};          // besides Authorization, User-Agent and Accept of the transport
  std::string body = {};
  // Send: from the moment it is sent to the last byte of the answer.
  // Stream: the longest silence that is accepted, before and between bytes.
  absl::Duration timeout = absl::Seconds(30);
  Priority priority = Priority::kNormal;
  // Send only, and not for kUrgent. A request that waits for its turn is answered with Aborted when
  // that has not come at this instant (of SteadyNow), or when may_send, asked right before it would
  // be sent, says no. may_send is called from any thread and must not wait.
  absl::Time send_by = absl::InfiniteFuture();
  std::function<bool()> may_send = {};
};

struct HttpResponse {
  int code = 0;
  HeaderList headers = {};
  // For a stream: empty when the code is 200, else the beginning of the body (64 KiB at most).
  std::string body = {};

  // The first header of that name (compared without case), or "".
  std::string Header(std::string_view name) const;
};

using ResponseCallback = std::function<void(absl::StatusOr<HttpResponse>)>;
using LineCallback = std::function<void(std::string_view line)>;

// Owned by the caller of Stream. Destroying it does not cancel.
class StreamHandle {
 public:
  virtual ~StreamHandle() = default;
  // Closes the connection. on_end still comes, lines that are on their way may come before it.
  virtual void Cancel() = 0;
  // From now on this is the longest silence that is accepted.
  virtual void LimitSilence(absl::Duration silence) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual void Send(HttpRequest request, ResponseCallback done) = 0;
  // Answers at once what waits for its turn and may not be sent any more.
  virtual void DropRefused() {}

  // on_line gets each complete line of a 200 answer without its end-of-line; an empty line and an
  // unfinished last one are dropped. on_end is called exactly once, after the last line: with the
  // answer when the server ended it in order (code 200: a clean end), else with a Status.
  virtual std::shared_ptr<StreamHandle> Stream(HttpRequest request, LineCallback on_line,
                                               ResponseCallback on_end) = 0;

  // "https://host:port", for messages.
  virtual std::string server() const = 0;
};

}  // namespace sluice::kube
