// VisibilityServer: the aggregated API of the queues, wired to the API server that it trusts and
// asks.
//
// Reads again and again whom to trust (ConfigMap kube-system/extension-apiserver-authentication),
// so a rotated CA of the front proxy is known within a minute. Where others bring the server's
// certificate, it is read again when it changes.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>

#include "config/config.h"
#include "kube/client.h"
#include "loop/log.h"
#include "serve/certificate_follower.h"
#include "serve/server.h"
#include "serve/visibility.h"

namespace sluice {

class VisibilityServer {
 public:
  // `options` are those of the server without a certificate; `api` without access, trust and clock.
  // Unavailable when the port is taken.
  static absl::StatusOr<std::unique_ptr<VisibilityServer>> Start(
      kube::Client client, kube::Executor& timers, const config::Config& config,
      serve::ServerOptions options, serve::VisibilityOptions api, loop::Log log);
  ~VisibilityServer();

  uint16_t port() const { return server_->port(); }
  // Looks for another certificate; blocks on files. One thread.
  void LookForCertificate();
  void Stop();

 private:
  struct Trust;
  VisibilityServer() = default;

  std::shared_ptr<Trust> trust_;
  std::optional<serve::CertificateFollower> files_;  // where the certificate is not made here
  std::unique_ptr<serve::Server> server_;
};

}  // namespace sluice
