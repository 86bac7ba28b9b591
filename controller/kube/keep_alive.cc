// clang-format off: <utility> has to come before the first Boost.Asio header, which uses
// std::exchange without including it.
#include <utility>
// clang-format on
#include "kube/keep_alive.h"

#include <cpprest/base_uri.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>

namespace sluice::kube {
namespace {

using boost::asio::ip::tcp;

constexpr int kIdleSeconds = 15;
constexpr int kIntervalSeconds = 10;
constexpr int kProbes = 3;
// With data that nobody acknowledges, too, and while probes are under way.
constexpr unsigned kUserTimeoutMillis = 45'000;

// Best effort: a connection without them works as well.
void SetOptions(int socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof(kIdleSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalSeconds, sizeof(kIntervalSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMillis,
             sizeof(kUserTimeoutMillis));
}

// The family of a socket to that server; nullopt for a host name, which can have both.
std::optional<tcp> FamilyOf(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return address.is_v6() ? tcp::v6() : tcp::v4();
}

}  // namespace

std::function<void(void*)> SocketOptionsFor(const std::string& server) {
  const web::uri address(server);
  const bool tls = address.scheme() == "https";
  return [tls, family = FamilyOf(address.host())](void* handle) {
    tcp::socket& socket =
        tls ? static_cast<boost::asio::ssl::stream<tcp::socket&>*>(handle)->next_layer()
            : *static_cast<tcp::socket*>(handle);
    boost::system::error_code ignored;  // connecting tries again, and reports what is wrong
    if (!socket.is_open() && family) socket.open(*family, ignored);
    if (socket.is_open()) SetOptions(socket.native_handle());
  };
}

}  // namespace sluice::kube
