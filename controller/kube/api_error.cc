#include "kube/api_error.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace sluice::kube {
namespace {

constexpr char kPayloadUrl[] = "sluice.dev/kubernetes-status";
constexpr size_t kMaxQuotedBody = 300;

absl::StatusCode CanonicalCode(const ApiError& error) {
  switch (error.code) {
    case 0:
      return absl::StatusCode::kUnavailable;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return error.reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists
                                             : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return error.code >= 500 ? absl::StatusCode::kUnavailable
                               : absl::StatusCode::kInvalidArgument;
  }
}

// Retry-After in seconds; the form with a date is not used by API servers and counts as absent.
absl::Duration RetryAfter(const std::string& header) {
  if (header.empty() || header.find_first_not_of("0123456789") != std::string::npos) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(std::min(std::strtol(header.c_str(), nullptr, 10), 3600L));
}

}  // namespace

ApiError ApiErrorOf(const api::Json& status_object) {
  ApiError error;
  if (const api::Json* code = status_object.Find("code"))
    error.code = static_cast<int>(code->AsInt());
  error.reason = status_object.GetString("reason");
  error.message = status_object.GetString("message");
  const api::Json* details = status_object.Find("details");
  if (details == nullptr) return error;
  if (const api::Json* seconds = details->Find("retryAfterSeconds")) {
    error.retry_after = absl::Seconds(std::clamp<int64_t>(seconds->AsInt(), 0, 3600));
  }
  if (const api::Json* causes = details->Find("causes")) {
    for (const api::Json& cause : causes->AsArray()) {
      if (cause.GetString("reason") == "FieldManagerConflict") error.field_manager_conflict = true;
    }
  }
  return error;
}

ApiError ApiErrorOf(const HttpResponse& response) {
  ApiError error;
  if (const auto body = api::ParseJson(response.body); body.ok() && body->IsObject()) {
    error = ApiErrorOf(*body);
  }
  error.code = response.code;
  if (error.message.empty()) error.message = response.body.substr(0, kMaxQuotedBody);
  if (error.message.empty()) error.message = "the server gave no explanation";
  const absl::Duration header = RetryAfter(response.Header("Retry-After"));
  error.retry_after = std::max(error.retry_after, header);
  return error;
}

ApiError ApiErrorOf(const absl::Status& status) {
  ApiError error;
  if (status.ok()) return error;
  error.message = std::string(status.message());
  if (const auto payload = status.GetPayload(kPayloadUrl)) {
    if (const auto body = api::ParseJson(std::string(*payload)); body.ok())
      return ApiErrorOf(*body);
  }
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      error.reason = "Timeout";
      break;
    case absl::StatusCode::kCancelled:
      error.reason = "Stopped";
      break;
    case absl::StatusCode::kUnavailable:
      error.reason = "ConnectionLost";
      break;
    case absl::StatusCode::kUnauthenticated:
      error.reason = "NoCredential";
      break;
    default:
      error.reason = "NotSent";
  }
  return error;
}

absl::Status ToStatus(const ApiError& error, const std::string& what) {
  std::string text = fmt::format("{}: {}", what, error.message);
  if (error.code != 0 && error.reason.empty()) text += fmt::format(" (code {})", error.code);
  if (!error.reason.empty()) {
    text += fmt::format(" (code {}, reason {})", error.code, error.reason);
  }
  absl::Status status(CanonicalCode(error), text);
  api::Json payload = api::Json::MakeObject(
      {{"code", error.code}, {"reason", error.reason}, {"message", error.message}});
  api::Json details = api::Json::MakeObject();
  if (error.retry_after > absl::ZeroDuration()) {
    details.Set("retryAfterSeconds", absl::ToInt64Seconds(error.retry_after));
  }
  if (error.field_manager_conflict) {
    details.Set("causes", api::Json::MakeArray(
                              {api::Json::MakeObject({{"reason", "FieldManagerConflict"}})}));
  }
  payload.Set("details", std::move(details));
  status.SetPayload(kPayloadUrl, absl::Cord(payload.Text()));
  return status;
}

Advice AdviceFor(const ApiError& error, Repeat repeat) {
  const bool safe = repeat != Repeat::kNever;
  switch (error.code) {
    case 0:
      // Nothing was sent for want of a credential, or nobody waits for the answer any more.
      if (error.reason == "Stopped" || error.reason == "NotSent") return Advice::kGiveUp;
      if (error.reason == "NoCredential") return Advice::kBackoff;
      return safe ? Advice::kBackoff : Advice::kGiveUp;
    case 409:
      // The writer must read again, unless it did not say which version it had read.
      return repeat == Repeat::kSafeFresh && error.reason == "Conflict" &&
                     !error.field_manager_conflict
                 ? Advice::kRetryNow
                 : Advice::kGiveUp;
    case 429:
      return Advice::kBackoff;  // refused before anything was done
    case 500:
    case 502:
    case 503:
    case 504:
      return safe ? Advice::kBackoff : Advice::kGiveUp;
    default:
      return Advice::kGiveUp;
  }
}

}  // namespace sluice::kube
