#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice::base {

void CheckFailed(const char* file, int line, const char* what, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, what, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace sluice::base
