#include "serve/server.h"

#include <condition_variable>
#include <thread>

#include "base/status.h"
#include "serve/beast.h"
#include "serve/session.h"
#include "serve/tls_context.h"

namespace sluice::serve {
namespace {

// Long enough for the process to get descriptors back, short enough to go unnoticed.
constexpr std::chrono::milliseconds kAcceptPause(100);
// What a session needs to see that its socket was closed.
constexpr std::chrono::seconds kForcedClose(1);

absl::StatusOr<tcp::endpoint> Endpoint(const ServerOptions& options, bool ipv6) {
  if (options.host.empty()) return tcp::endpoint(ipv6 ? tcp::v6() : tcp::v4(), options.port);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (error) return InvalidArgument("{}: \"{}\" is not an IP address", options.name, options.host);
  return tcp::endpoint(address, options.port);
}

error_code Listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool any_address) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // One socket for both families where the kernel has IPv6.
  if (any_address && endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::socket::max_listen_connections, error);
  return error;
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Router router) : host_(std::move(options), std::move(router)) {
    host_.on_session_end = [this] { SessionEnded(); };
  }
  ~Impl() { Stop(absl::ZeroDuration()); }

  absl::Status Start();
  absl::Status SetCertificate(const ServingCertificate& certificate);
  void Stop(absl::Duration drain);

  uint16_t port() const { return port_; }
  ServerStats stats() {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    ServerStats stats = host_.stats;
    stats.body_bytes = host_.body_bytes;
    return stats;
  }

 private:
  absl::Status Open();
  asio::awaitable<void> AcceptLoop();
  void Accepted(tcp::socket socket);
  bool Full();
  void MakeRoom();
  void SessionEnded();
  void CloseSessions(Session::CloseIf condition);
  bool WaitForSessions(std::chrono::nanoseconds limit);
  std::shared_ptr<asio::ssl::context> tls();

  SessionHost host_;
  asio::io_context context_;
  asio::strand<asio::io_context::executor_type> accept_strand_{asio::make_strand(context_)};
  tcp::acceptor acceptor_{accept_strand_};
  asio::steady_timer pause_{accept_strand_};  // cancelled when a session ends
  uint16_t port_ = 0;
  std::condition_variable ended_;  // with host_.mutex
  std::mutex tls_mutex_;           // guards tls_
  std::shared_ptr<asio::ssl::context> tls_;
  std::mutex stop_mutex_;  // one Stop at a time
  std::vector<std::thread> threads_;
};

absl::Status Server::Impl::Open() {
  const bool any_address = host_.options.host.empty();
  ASSIGN_OR_RETURN(tcp::endpoint endpoint, Endpoint(host_.options, true));
  error_code error = Listen(acceptor_, endpoint, any_address);
  if (error && any_address && error != asio::error::address_in_use) {
    error_code ignored;
    acceptor_.close(ignored);
    ASSIGN_OR_RETURN(endpoint, Endpoint(host_.options, false));
    error = Listen(acceptor_, endpoint, any_address);
  }
  if (error) {
    return Unavailable("{}: cannot listen on {}:{}: {}", host_.options.name, host_.options.host,
                       host_.options.port, error.message());
  }
  port_ = acceptor_.local_endpoint(error).port();
  return absl::OkStatus();
}

absl::Status Server::Impl::Start() {
  const ServerOptions& options = host_.options;
  if (options.threads < 1) return InvalidArgument("{}: no threads", options.name);
  if (options.max_connections < 1) return InvalidArgument("{}: no connections", options.name);
  if (options.tls) {
    if (!options.certificate.has_value()) {
      return InvalidArgument("{}: TLS without a certificate", options.name);
    }
    RETURN_IF_ERROR(SetCertificate(*options.certificate));
  }
  RETURN_IF_ERROR(Open());
  asio::co_spawn(
      accept_strand_, [this] { return AcceptLoop(); }, asio::detached);
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { context_.run(); });
  return absl::OkStatus();
}

absl::Status Server::Impl::SetCertificate(const ServingCertificate& certificate) {
  const ServerOptions& options = host_.options;
  if (!options.tls) return InvalidArgument("{}: the server has no TLS", options.name);
  const auto warn = [this](const std::string& message) { host_.Report(message); };
  auto context = MakeTlsContext(certificate, options.tls_options, warn);
  if (!context.ok()) return Annotate(context.status(), options.name);
  const std::lock_guard<std::mutex> lock(tls_mutex_);
  tls_ = *std::move(context);
  return absl::OkStatus();
}

std::shared_ptr<asio::ssl::context> Server::Impl::tls() {
  const std::lock_guard<std::mutex> lock(tls_mutex_);
  return tls_;
}

bool Server::Impl::Full() {
  const std::lock_guard<std::mutex> lock(host_.mutex);
  return host_.stats.open >= host_.options.max_connections;
}

asio::awaitable<void> Server::Impl::AcceptLoop() {
  while (!host_.draining) {
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    tcp::socket socket(co_await acceptor_.async_accept(asio::make_strand(context_), token));
    if (host_.draining || error == asio::error::operation_aborted) co_return;
    if (error) {
      // A client that left the queue already is no fault of ours; a lack of descriptors is.
      if (error == asio::error::connection_aborted) continue;
      host_.Report("accept: " + error.message());
      pause_.expires_after(kAcceptPause);
      co_await pause_.async_wait(token);
      continue;
    }
    while (!host_.draining && Full()) {
      MakeRoom();
      pause_.expires_after(kAcceptPause);
      co_await pause_.async_wait(token);
    }
    if (!host_.draining) Accepted(std::move(socket));
  }
}

void Server::Impl::Accepted(tcp::socket socket) {
  error_code ignored;
  // Answers are written in one piece; waiting to fill a segment would only delay them.
  socket.set_option(tcp::no_delay(true), ignored);
  std::make_shared<Session>(host_, std::move(socket), tls())->Start();
}

void Server::Impl::MakeRoom() {
  using Waiting = Session::Waiting;
  std::shared_ptr<Session> chosen;
  Waiting of_chosen;
  std::vector<std::shared_ptr<Session>> kept;  // so that none ends while the mutex is held
  const auto patient_until =
      std::chrono::steady_clock::now() - absl::ToChronoNanoseconds(host_.options.patience);
  const auto before = [](const Waiting& a, const Waiting& b) {
    return a.idle != b.idle ? b.idle : a.since < b.since;
  };
  {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    for (const std::weak_ptr<Session>& entry : host_.sessions) {
      std::shared_ptr<Session> session = entry.lock();
      if (session == nullptr) continue;
      const std::optional<Waiting> waiting = session->WaitsFor();
      const bool may_go = waiting.has_value() && (waiting->idle || waiting->since <= patient_until);
      if (may_go && (chosen == nullptr || before(*waiting, of_chosen))) {
        chosen = session;
        of_chosen = *waiting;
      }
      kept.push_back(std::move(session));
    }
  }
  if (chosen == nullptr) return;
  chosen->Close(of_chosen.idle ? Session::CloseIf::kIdle : Session::CloseIf::kUnserved);
}

void Server::Impl::SessionEnded() {
  ended_.notify_all();
  asio::post(accept_strand_, [this] { pause_.cancel(); });
}

void Server::Impl::CloseSessions(Session::CloseIf condition) {
  std::vector<std::shared_ptr<Session>> sessions;
  {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    for (const std::weak_ptr<Session>& entry : host_.sessions) {
      if (auto session = entry.lock()) sessions.push_back(std::move(session));
    }
  }
  for (const auto& session : sessions) session->Close(condition);
}

bool Server::Impl::WaitForSessions(std::chrono::nanoseconds limit) {
  std::unique_lock<std::mutex> lock(host_.mutex);
  return ended_.wait_for(lock, limit, [this] { return host_.stats.open == 0; });
}

void Server::Impl::Stop(absl::Duration drain) {
  const std::lock_guard<std::mutex> stop_lock(stop_mutex_);
  if (threads_.empty()) return;
  host_.draining = true;
  asio::post(accept_strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  });
  CloseSessions(Session::CloseIf::kIdle);
  if (!WaitForSessions(absl::ToChronoNanoseconds(drain))) {
    CloseSessions(Session::CloseIf::kAlways);
    WaitForSessions(kForcedClose);
  }
  context_.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options, Router router) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(router));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

uint16_t Server::port() const { return impl_->port(); }
absl::Status Server::SetCertificate(const ServingCertificate& certificate) {
  return impl_->SetCertificate(certificate);
}
void Server::Stop(absl::Duration drain) { impl_->Stop(drain); }
ServerStats Server::stats() const { return impl_->stats(); }

}  // namespace sluice::serve
