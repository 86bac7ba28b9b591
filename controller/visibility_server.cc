#include "visibility_server.h"

#include <absl/time/clock.h>

#include <utility>

#include "base/status.h"
#include "views.h"

namespace sluice {
namespace {

constexpr absl::Duration kTrustInterval = absl::Minutes(1);
constexpr absl::Duration kTrustRetry = absl::Seconds(3);
// Where others put certificates for this server when they are not made here.
constexpr char kCertificateDirectory[] = "/visibility";

// Questions to the API server that nobody waits for.
serve::AccessReviewer::Post PostTo(kube::Client client) {
  return [client](const std::string& path, const api::Json& body,
                  serve::AccessReviewer::Answer done) mutable {
    kube::HttpRequest request;
    request.method = "POST";
    request.path_and_query = path;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body.Text();
    kube::CallOptions options;
    options.deadline = absl::Seconds(10);
    client.CallAsync(std::move(request), options,
                     [path, done = std::move(done)](const kube::CallResult& result) {
                       if (!result.ok()) return done(kube::ToStatus(result.error(), path));
                       done(kube::ParseBody(*result.response, path));
                     });
  };
}

}  // namespace

// Whom to trust, read again for as long as the server is there.
struct VisibilityServer::Trust : std::enable_shared_from_this<VisibilityServer::Trust> {
  Trust(kube::Client api, kube::Executor& executor, loop::Log log_to)
      : client(std::move(api)), timers(executor), log(std::move(log_to)) {}

  void Read() {
    kube::HttpRequest request;
    request.path_and_query = serve::kTrustPath;
    client.CallAsync(std::move(request), {},
                     [weak = weak_from_this()](const kube::CallResult& result) {
                       if (const std::shared_ptr<Trust> self = weak.lock()) self->Take(result);
                     });
  }

  void Take(const kube::CallResult& result) {
    const absl::Status status = [&]() -> absl::Status {
      const std::string what = "ConfigMap kube-system/extension-apiserver-authentication";
      if (!result.ok()) return kube::ToStatus(result.error(), what);
      ASSIGN_OR_RETURN(const api::Json config_map, kube::ParseBody(*result.response, what));
      absl::StatusOr<std::shared_ptr<const serve::RequestTrust>> read =
          serve::RequestTrust::Parse(config_map);
      if (!read.ok()) return Annotate(read.status(), what);
      trusted.Store(*std::move(read));
      return absl::OkStatus();
    }();
    if (!status.ok()) log.Warn("visibility: front proxies", {{"error", status}});
    timers.PostAfter(status.ok() ? kTrustInterval : kTrustRetry, [weak = weak_from_this()] {
      if (const std::shared_ptr<Trust> self = weak.lock()) self->Read();
    });
  }

  kube::Client client;
  kube::Executor& timers;
  loop::Log log;
  Published<serve::RequestTrust> trusted;
};

VisibilityServer::~VisibilityServer() = default;

absl::StatusOr<std::unique_ptr<VisibilityServer>> VisibilityServer::Start(
    kube::Client client, kube::Executor& timers, const config::Config& config,
    serve::ServerOptions options, serve::VisibilityOptions api, loop::Log log) {
  std::unique_ptr<VisibilityServer> result(new VisibilityServer);
  result->trust_ = std::make_shared<Trust>(client, timers, log);
  api.trust = [trust = result->trust_] { return trust->trusted.Load(); };
  api.now = [] { return absl::Now(); };
  api.access = std::make_shared<serve::AccessReviewer>(PostTo(client), api.now);
  absl::StatusOr<serve::ServingCertificate> certificate = serve::SelfSigned(
      {"localhost", "127.0.0.1", "sluice-visibility"}, absl::Now(), serve::kDefaultLeafLifetime);
  if (!certificate.ok()) return Annotate(certificate.status(), options.name);
  if (!config.file.internal_cert_management.enable.value_or(true)) {
    result->files_.emplace(kCertificateDirectory, [log](const absl::Status& status) {
      log.Warn("visibility: certificate", {{"error", status}});
    });
    *certificate = result->files_->First(*certificate);
  }
  options.certificate = *std::move(certificate);
  options.tls_options.ask_for_client_certificate = true;
  serve::Router router;
  serve::VisibilityApi::AddTo(router, serve::VisibilityApi::Make(std::move(api)));
  ASSIGN_OR_RETURN(result->server_, serve::Server::Start(std::move(options), std::move(router)));
  result->trust_->Read();
  return result;
}

void VisibilityServer::LookForCertificate() {
  if (!files_) return;
  files_->Look(
      [this](const serve::ServingCertificate& next) { return server_->SetCertificate(next); });
}

void VisibilityServer::Stop() { server_->Stop(absl::ZeroDuration()); }

}  // namespace sluice
