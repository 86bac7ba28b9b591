#include "config/endpoint.h"

#include <charconv>

#include "base/status.h"

namespace sluice::config {

absl::StatusOr<std::optional<Endpoint>> ParseBindAddress(const std::string& text) {
  if (text == "0") return std::optional<Endpoint>();
  const absl::Status wrong =
      InvalidArgument("must have the form host:port or :port, or be \"0\" (it is \"{}\")", text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong;
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  } else if (endpoint.host.find(':') != std::string::npos) {
    return wrong;  // an IPv6 address without brackets: which colon begins the port?
  }
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (result.ec != std::errc() || result.ptr != end) return wrong;
  return std::optional<Endpoint>(endpoint);
}

}  // namespace sluice::config
