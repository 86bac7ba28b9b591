// Server: an HTTP/1.1 server with TLS for webhooks, metrics and probes.
//
// Contract. Start() binds and returns with the port open; `options.threads` threads of its own run
// the connections and the handlers, so with more than one thread handlers must be safe to call at
// the same time. A handler may block only its own thread. SetCertificate() and Stop() may be called
// from any thread. A certificate change affects connections made after it; open ones go on with the
// old one, so no request is lost. Every phase of a connection has a deadline and every input a
// limit: handshake, header, body, response, and idle time between requests.
//
// What clients see: 404 for an unknown path, 405 with Allow for a wrong method, 400 for text that
// is not HTTP, 413 and 431 for a body or header over the limit, 500 when a handler throws, 503 when
// other bodies hold the memory that is there for them. A connection that misses a deadline is
// closed without an answer.
//
//   Router router;
//   router.Post("/mutate-batch-v1-job", handler);
//   ASSIGN_OR_RETURN(auto server, Server::Start(std::move(options), std::move(router)));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/certificates.h"
#include "serve/http.h"

namespace sluice::serve {

enum class TlsVersion { kTls12, kTls13 };

struct TlsOptions {
  TlsVersion min_version = TlsVersion::kTls12;
  // IANA names ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), in order of preference; they govern
  // TLS 1.2 only, as in Go. Empty: OpenSSL's defaults.
  std::vector<std::string> cipher_suites;
  // IANA numbers of supported groups (23 = P-256, 29 = X25519), in order of preference. Groups that
  // this OpenSSL does not have are left out with a message; none left is an error.
  std::vector<int> curve_preferences;
  // Ask clients for a certificate, and take any: whom to trust is decided for each request.
  bool ask_for_client_certificate = false;
};

struct ServerOptions {
  std::string name = "server";  // names the server in messages
  std::string host;             // IP address; empty means every address, IPv4 and IPv6
  uint16_t port = 0;            // 0: any free port, see Server::port()
  int threads = 1;

  bool tls = true;
  std::optional<ServingCertificate> certificate;  // required with tls
  TlsOptions tls_options;

  absl::Duration handshake_timeout = absl::Seconds(5);
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Seconds(10);
  absl::Duration write_timeout = absl::Seconds(10);
  // For a LateHandler; the client then gets 504.
  absl::Duration answer_timeout = absl::Seconds(20);
  // Longer than the 90 s after which Go clients (the API server among them) drop an idle
  // connection: the side that sends must be the one that closes, or a request can meet a closing
  // socket.
  absl::Duration idle_timeout = absl::Seconds(120);

  // An AdmissionReview holds the object twice on update, each up to the API server's limit of 3 MiB
  // per request. Routes may set a limit of their own.
  size_t body_limit = size_t{7} << 20;
  size_t header_limit = size_t{64} << 10;
  // How much memory all bodies together may hold, of requests from their first byte until they are
  // handled and of answers until they are sent. The first kFreeBody bytes of each do not count, so
  // that ordinary requests are served whatever others hold. Above it clients get 503.
  size_t body_budget = std::numeric_limits<size_t>::max();
  static constexpr size_t kFreeBody = size_t{128} << 10;
  // When this many connections are open, one makes room for a new one: that which has owed a
  // complete request for the longest time, if it has for `patience` (a client that is slow on
  // purpose shall not keep others out); else that which is idle for the longest time between two
  // requests. When all are being answered or have just begun, new ones wait in the listen queue.
  size_t max_connections = 512;
  absl::Duration patience = absl::Seconds(1);

  // Gets one line for each problem worth a log line (a handler that threw, a failed accept).
  std::function<void(const std::string&)> on_error;
};

// Counts since the start; for tests and metrics.
struct ServerStats {
  uint64_t accepted = 0;
  uint64_t requests = 0;
  uint64_t handshake_failures = 0;
  uint64_t timeouts = 0;
  size_t open = 0;
  size_t body_bytes = 0;  // held of body_budget
};

class Server {
 public:
  // Errors: InvalidArgument for options or a certificate that cannot be used, Unavailable when the
  // address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options, Router router);
  // Stops without waiting for open requests.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // For new connections. On error the former certificate stays.
  absl::Status SetCertificate(const ServingCertificate& certificate);
  // Closes the port and the idle connections, lets requests finish for at most `drain`, then closes
  // the rest and returns when every thread has ended. A second call does nothing.
  void Stop(absl::Duration drain);
  ServerStats stats() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::serve
