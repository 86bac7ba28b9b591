// Status helpers: formatted errors and early returns.
//
// Failures of the outside world (bad input, a refused request, a broken file) are absl::Status or
// absl::StatusOr with a canonical code; the message names the object first. Outcomes of a decision
// ("does not fit") are values, never a Status.
//
//   if (!key.valid()) return InvalidArgument("{}: empty name", path);
//   ASSIGN_OR_RETURN(auto quota, Quantity::Parse(text));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace sluice {

template <typename... Args>
absl::Status Errorf(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return Errorf(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return Errorf(absl::StatusCode::kNotFound, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return Errorf(absl::StatusCode::kUnavailable, format, std::forward<Args>(args)...);
}

// The same error with "prefix: " before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, const std::string& prefix);

}  // namespace sluice

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                       \
  do {                                                              \
    if (absl::Status sluice_status = (expr); !sluice_status.ok()) { \
      return sluice_status;                                         \
    }                                                               \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(SLUICE_CONCAT(sluice_status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  lhs = std::move(tmp).value()
