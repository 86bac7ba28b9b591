// Where a server listens.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::config {

struct Endpoint {
  std::string host;   // "": every interface
  uint16_t port = 0;  // 0: any free port
  bool operator==(const Endpoint&) const = default;
};

// ":8443", "127.0.0.1:8443", "[::1]:8443"; "0" gives nullopt (the server is off).
absl::StatusOr<std::optional<Endpoint>> ParseBindAddress(const std::string& text);

}  // namespace sluice::config
