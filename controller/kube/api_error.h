// Answers of the API server as values: the Status object of a refusal, and the one table that says
// what to do about each kind of answer.
//
// Sources: Kubernetes API conventions (Response Status Kind, HTTP status codes); RFC 9110 for
// Retry-After; API Priority and Fairness documentation for 429.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>

#include "api/json.h"
#include "kube/transport.h"

namespace sluice::kube {

// A refused or failed request. code is 0 when no answer came.
struct ApiError {
  int code = 0;
  // Status.reason: "Conflict", "AlreadyExists", "Invalid", ... Without an answer: "Timeout",
  // "ConnectionLost", "Stopped", or what says that nothing was sent: "NoCredential", "NotSent".
  std::string reason = {};
  std::string message = {};  // Status.message, or the beginning of a body that is no Status
  absl::Duration retry_after = absl::ZeroDuration();
  bool field_manager_conflict = false;  // server-side apply without force met another owner
};

// Reads code, headers and body of an answer that is not 2xx.
ApiError ApiErrorOf(const HttpResponse& response);
// What is known about a failure: the error that ToStatus attached, or code 0 and the message.
ApiError ApiErrorOf(const absl::Status& status);
// The error of a Status object that came inside a stream or an answer.
ApiError ApiErrorOf(const api::Json& status_object);

// "what: message (code 409, reason Conflict)" with the canonical code and the error attached:
// 400, 422 InvalidArgument; 401 Unauthenticated; 403 PermissionDenied; 404 NotFound; 409
// AlreadyExists or Aborted; 410 OutOfRange; 429 ResourceExhausted; 504 DeadlineExceeded; other 5xx
// Unavailable.
absl::Status ToStatus(const ApiError& error, const std::string& what);

enum class Advice {
  kGiveUp,    // the same request would be refused again, or repeating is not safe
  kRetryNow,  // lost a race inside the server: repeat with a small jitter
  kBackoff,   // repeat later: after retry_after when given, else exponentially
};

// What a repetition of the request may do.
enum class Repeat {
  kNever,      // generateName, JSON patch without a test: a second run could do it twice
  kSafe,       // reads, and writes that end in the same state however often they run
  kSafeFresh,  // kSafe and carries no resourceVersion: also after a conflict
};

// The table. `ambiguous` answers (none at all, 500, 502, 503, 504) may hide a write that happened.
Advice AdviceFor(const ApiError& error, Repeat repeat);

}  // namespace sluice::kube
