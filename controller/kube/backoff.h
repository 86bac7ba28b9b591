// Exponential waiting times with jitter, so that many clients do not come back at the same moment.
#pragma once

#include <absl/time/time.h>

#include <string>

namespace sluice::kube {

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(200);
  absl::Duration cap = absl::Seconds(30);
  double factor = 2;
  double jitter = 0.5;  // a wait is between (1 - jitter) and 1 times the computed value
};

// Thread-compatible.
class Backoff {
 public:
  explicit Backoff(BackoffOptions options);
  absl::Duration Next();
  void Reset() { current_ = options_.first; }

 private:
  BackoffOptions options_;
  absl::Duration current_;
};

// A uniformly distributed duration in [low, high). Thread-safe; not for cryptography.
absl::Duration RandomBetween(absl::Duration low, absl::Duration high);
// Text of 32 hexadecimal digits from the system's entropy, for identities.
std::string RandomHex();

}  // namespace sluice::kube
