#include "kube/backoff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace sluice::kube {
namespace {

std::mt19937_64& Generator() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator;
}

}  // namespace

Backoff::Backoff(BackoffOptions options) : options_(options), current_(options.first) {}

absl::Duration Backoff::Next() {
  const absl::Duration full = std::min(current_, options_.cap);
  current_ = std::min(current_ * options_.factor, options_.cap);
  return RandomBetween(full * (1 - options_.jitter), full);
}

absl::Duration RandomBetween(absl::Duration low, absl::Duration high) {
  if (high <= low) return low;
  std::uniform_real_distribution<double> part(0, 1);
  return low + (high - low) * part(Generator());
}

std::string RandomHex() {
  std::random_device entropy;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", static_cast<uint32_t>(entropy()));
  return text;
}

}  // namespace sluice::kube
