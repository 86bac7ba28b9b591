// Checks of our own invariants. A broken invariant stops the process: after the restart the state
// is rebuilt from the API objects, which is safer than going on with wrong accounts.
#pragma once

#include <fmt/format.h>

#include <string>

namespace sluice::base {

// Prints "file:line: check failed: what: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* what,
                              const std::string& message);

}  // namespace sluice::base

// SLUICE_CHECK(usage >= 0, "usage of {} is {}", name, usage);
#define SLUICE_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      ::sluice::base::CheckFailed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                        \
  } while (false)
