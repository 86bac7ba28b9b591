#include "serve/session.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <exception>

#include "base/status.h"

namespace sluice::serve {
namespace {

using Clock = std::chrono::steady_clock;

// After a refusal the client may still be sending. Closing at once would make the kernel reset the
// connection and the client could lose the answer, so input is read and dropped for a little while.
constexpr absl::Duration kLinger = absl::Seconds(2);
constexpr size_t kLingerBytes = size_t{64} << 20;
constexpr absl::Duration kCloseNotify = absl::Seconds(1);

auto Into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

// No memory left for this body.
const error_code kOverBudget = asio::error::no_memory;

int64_t NowNs() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

Response Refusal(error_code error) {
  if (error == kOverBudget) return Response::Text(503, "too many large bodies at a time\n");
  int status = 400;
  if (error == http::error::header_limit) status = 431;
  if (error == http::error::body_limit) status = 413;
  return Response::Text(status, fmt::format("{}\n", error.message()));
}

bool DeservesAnswer(error_code error) {
  if (error == kOverBudget) return true;
  return error.category() == make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

Request ToRequest(http::request<http::string_body>&& message) {
  Request request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace

bool BodyShare::Resize(size_t bytes) {
  const size_t wanted = bytes - std::min(bytes, ServerOptions::kFreeBody);
  if (wanted > held_) {
    const size_t more = wanted - held_;
    if (host_.body_bytes.fetch_add(more) > host_.options.body_budget - more ||
        more > host_.options.body_budget) {
      host_.body_bytes -= more;
      return false;
    }
  } else {
    host_.body_bytes -= held_ - wanted;
  }
  held_ = wanted;
  return true;
}

Session::Session(SessionHost& host, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls)
    : host_(host), tls_(std::move(tls)), tcp_(std::move(socket)) {
  if (tls_ != nullptr) secure_.emplace(tcp_, *tls_);
}

void Session::Start() {
  {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    host_.sessions.push_back(weak_from_this());
    position_ = std::prev(host_.sessions.end());
    owed_since_ns_ = NowNs();
    ++host_.stats.accepted;
    ++host_.stats.open;
  }
  asio::co_spawn(
      tcp_.get_executor(), [self = shared_from_this()] { return self->Run(); }, asio::detached);
}

void Session::Leave() {
  {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    host_.sessions.erase(position_);
    --host_.stats.open;
  }
  host_.on_session_end();
}

void Session::Close(CloseIf condition) {
  asio::post(tcp_.get_executor(), [self = shared_from_this(), condition] {
    const bool owed = self->owed_since_ns_ != 0;
    if (condition == CloseIf::kAlways || (condition == CloseIf::kUnserved && owed)) {
      self->tcp_.close();
      if (self->late_ != nullptr) self->late_->cancel();
    } else if (self->idle_since_ns_ != 0) {
      self->tcp_.cancel();
    }
  });
}

std::optional<Session::Waiting> Session::WaitsFor() const {
  const auto at = [](int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); };
  if (const int64_t since = owed_since_ns_; since != 0) return Waiting{at(since), false};
  if (const int64_t since = idle_since_ns_; since != 0) return Waiting{at(since), true};
  return std::nullopt;
}

void Session::ExpireAfter(absl::Duration duration) {
  tcp_.expires_after(absl::ToChronoNanoseconds(duration));
}

void Session::Note(error_code error) {
  if (error == beast::error::timeout) host_.Count([](ServerStats& stats) { ++stats.timeouts; });
}

asio::awaitable<void> Session::Run() {
  try {
    if (secure_.has_value()) {
      co_await RunTls();
    } else {
      co_await Serve(tcp_);
    }
  } catch (const std::exception& exception) {
    host_.Report(fmt::format("connection: {}", exception.what()));
  }
  error_code ignored;
  tcp_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  tcp_.socket().close(ignored);
  Leave();
}

asio::awaitable<void> Session::RunTls() {
  error_code error;
  ExpireAfter(host_.options.handshake_timeout);
  co_await secure_->async_handshake(asio::ssl::stream_base::server, Into(error));
  if (error) {
    Note(error);
    host_.Count([](ServerStats& stats) { ++stats.handshake_failures; });
    co_return;
  }
  KeepClientCertificates();
  co_await Serve(*secure_);
  if (!tcp_.socket().is_open()) co_return;
  ExpireAfter(kCloseNotify);
  co_await secure_->async_shutdown(Into(error));
}

template <typename Stream>
asio::awaitable<void> Session::Serve(Stream& stream) {
  while (!host_.draining) {
    const bool readable = co_await WaitForBytes(stream);
    if (!readable) co_return;
    const Outcome outcome = co_await ServeOne(stream);
    if (outcome == Outcome::kClose) co_return;
  }
}

// True when there is a byte to parse. Pipelined requests are already in the buffer.
template <typename Stream>
asio::awaitable<bool> Session::WaitForBytes(Stream& stream) {
  constexpr size_t kFirstRead = 4096;
  if (buffer_.size() > 0) co_return true;
  error_code error;
  ExpireAfter(host_.options.idle_timeout);
  idle_since_ns_ = NowNs();
  const size_t size = co_await stream.async_read_some(buffer_.prepare(kFirstRead), Into(error));
  idle_since_ns_ = 0;
  buffer_.commit(size);
  Note(error);
  co_return !error && size > 0;
}

template <typename Stream>
asio::awaitable<Session::Outcome> Session::ServeOne(Stream& stream) {
  if (owed_since_ns_ == 0) owed_since_ns_ = NowNs();
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(host_.options.header_limit));
  parser.body_limit(host_.max_body);

  error_code error;
  BodyShare share(host_);
  ExpireAfter(host_.options.header_timeout);
  co_await http::async_read_header(stream, buffer_, parser, Into(error));
  if (!error) error = co_await ReadBody(stream, parser, share);
  if (error) {
    Note(error);
    std::string().swap(parser.get().body());
    share.Resize(0);
    if (DeservesAnswer(error)) co_await Refuse(stream, error);
    co_return Outcome::kClose;
  }
  owed_since_ns_ = 0;

  http::request<http::string_body> message = parser.release();
  const unsigned version = message.version();
  const bool head = message.method() == http::verb::head;
  const bool client_keeps = message.keep_alive();
  Request request = ToRequest(std::move(message));
  request.client_certificates = client_certificates_;
  Response response;
  if (LateHandler late = host_.router.FindLate(request.path)) {
    response = co_await HandleLate(std::move(late), std::move(request));
  } else {
    response = Handle(std::move(request));
  }
  if (!share.Resize(response.body.size())) response = Refusal(kOverBudget);
  const bool keep_alive = client_keeps && !host_.draining;
  error = co_await Write(stream, std::move(response), version, keep_alive, head);
  Note(error);
  co_return !error && keep_alive ? Outcome::kNextRequest : Outcome::kClose;
}

template <typename Stream>
asio::awaitable<error_code> Session::ReadBody(Stream& stream,
                                              http::request_parser<http::string_body>& parser,
                                              BodyShare& share) {
  error_code error;
  const std::string target(parser.get().target());
  const std::string path = target.substr(0, target.find('?'));
  const size_t limit = host_.router.BodyLimit(path).value_or(host_.options.body_limit);
  const auto length = parser.content_length();
  if (length.has_value() && *length > limit) co_return make_error_code(http::error::body_limit);
  parser.body_limit(limit);

  ExpireAfter(host_.options.body_timeout);
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
    co_await http::async_write(stream, go_on, Into(error));
    if (error) co_return error;
  }
  while (!error && !parser.is_done()) {
    co_await http::async_read_some(stream, buffer_, parser, Into(error));
    if (!error && !share.Resize(parser.get().body().size())) co_return kOverBudget;
  }
  co_return error;
}

Response Session::Handle(Request request) {
  host_.Count([](ServerStats& stats) { ++stats.requests; });
  const std::string what = request.method + " " + request.path;
  try {
    return host_.router.Dispatch(request);
  } catch (const std::exception& exception) {
    host_.Report(fmt::format("{}: {}", what, exception.what()));
  } catch (...) {
    host_.Report(fmt::format("{}: unknown exception", what));
  }
  return Response::Text(500, "internal error\n");
}

namespace {

// Between a session that waits for an answer and whoever gives it: either may be gone first.
struct LateAnswer {
  std::mutex mutex;
  std::function<Response()> answer;
  std::function<void()> wake;  // with the mutex held; empty when nobody waits any more
};

// Also when the server ends in the middle of the wait.
struct LateGuard {
  std::shared_ptr<LateAnswer> late;
  ~LateGuard() {
    const std::lock_guard<std::mutex> lock(late->mutex);
    late->wake = nullptr;
  }
};

}  // namespace

asio::awaitable<Response> Session::HandleLate(LateHandler handler, Request request) {
  host_.Count([](ServerStats& stats) { ++stats.requests; });
  const std::string what = request.method + " " + request.path;
  const auto late = std::make_shared<LateAnswer>();
  asio::steady_timer timer(tcp_.get_executor());
  timer.expires_after(absl::ToChronoNanoseconds(host_.options.answer_timeout));
  const LateGuard at_end{late};
  late->wake = [late = std::weak_ptr<LateAnswer>(late), executor = tcp_.get_executor(), &timer] {
    // On the strand, and so after the wait has begun.
    asio::post(executor, [late, &timer] {
      const std::shared_ptr<LateAnswer> here = late.lock();
      if (here == nullptr) return;
      const std::lock_guard<std::mutex> lock(here->mutex);
      if (here->wake) timer.cancel();
    });
  };
  bool failed = false;
  try {
    handler(request, [late](std::function<Response()> answer) {
      const std::lock_guard<std::mutex> lock(late->mutex);
      if (late->answer || !late->wake) return;
      late->answer = std::move(answer);
      late->wake();
    });
  } catch (const std::exception& exception) {
    host_.Report(fmt::format("{}: {}", what, exception.what()));
    failed = true;
  }
  const auto take = [&late] {
    const std::lock_guard<std::mutex> lock(late->mutex);
    return late->answer;
  };
  std::function<Response()> answer = take();
  if (!answer && !failed && tcp_.socket().is_open()) {
    error_code ignored;
    late_ = &timer;
    co_await timer.async_wait(Into(ignored));
    late_ = nullptr;
    answer = take();
  }
  if (failed) co_return Response::Text(500, "internal error\n");
  if (!answer) co_return Response::Text(504, "the answer did not come in time\n");
  try {
    co_return answer();
  } catch (const std::exception& exception) {
    host_.Report(fmt::format("{}: {}", what, exception.what()));
  }
  co_return Response::Text(500, "internal error\n");
}

void Session::KeepClientCertificates() {
  SSL* ssl = secure_->native_handle();
  X509* leaf = SSL_get1_peer_certificate(ssl);
  if (leaf == nullptr) return;
  auto certificates = std::make_shared<std::vector<std::string>>();
  const auto keep = [&](X509* certificate) {
    unsigned char* der = nullptr;
    const int size = i2d_X509(certificate, &der);
    if (size <= 0) return;
    certificates->emplace_back(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
    OPENSSL_free(der);
  };
  keep(leaf);
  X509_free(leaf);
  // On the side of a server the chain does not have the leaf.
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; i < sk_X509_num(chain); ++i) keep(sk_X509_value(chain, i));
  client_certificates_ = std::move(certificates);
}

template <typename Stream>
asio::awaitable<error_code> Session::Write(Stream& stream, Response response, unsigned version,
                                           bool keep_alive, bool head) {
  error_code error;
  const size_t size = response.body.size();
  http::response<http::string_body> message(static_cast<http::status>(response.status), version);
  message.set(http::field::content_type, response.content_type);
  message.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive);
  // HEAD gets the length of what GET would send, and no body.
  if (!head) message.body() = std::move(response.body);
  message.content_length(size);
  ExpireAfter(host_.options.write_timeout);
  http::response_serializer<http::string_body> serializer(message);
  if (head) {
    co_await http::async_write_header(stream, serializer, Into(error));
  } else {
    co_await http::async_write(stream, serializer, Into(error));
  }
  co_return error;
}

template <typename Stream>
asio::awaitable<void> Session::Refuse(Stream& stream, error_code error) {
  error_code ignored = co_await Write(stream, Refusal(error), 11, false, false);
  if (ignored) co_return;
  if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }
  ExpireAfter(kLinger);
  buffer_.clear();
  for (size_t dropped = 0; dropped < kLingerBytes;) {
    constexpr size_t kChunk = size_t{64} << 10;
    error_code end;
    dropped += co_await stream.async_read_some(buffer_.prepare(kChunk), Into(end));
    if (end) co_return;
  }
}

}  // namespace sluice::serve
