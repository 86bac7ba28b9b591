#include "serve/session.h"

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

int RefusalStatus(error_code error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

bool IsHttpError(error_code error) {
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

Session::Session(SessionHost& host, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls)
    : host_(host), tls_(std::move(tls)), tcp_(std::move(socket)) {
  if (tls_ != nullptr) secure_.emplace(tcp_, *tls_);
}

void Session::Start() {
  {
    const std::lock_guard<std::mutex> lock(host_.mutex);
    host_.sessions.push_back(weak_from_this());
    position_ = std::prev(host_.sessions.end());
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

void Session::Close(bool force) {
  asio::post(tcp_.get_executor(), [self = shared_from_this(), force] {
    if (force) {
      self->tcp_.close();
    } else if (self->idle_since_ns_ != 0) {
      self->tcp_.cancel();
    }
  });
}

std::optional<Clock::time_point> Session::IdleSince() const {
  const int64_t since = idle_since_ns_;
  if (since == 0) return std::nullopt;
  return Clock::time_point(std::chrono::nanoseconds(since));
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
  idle_since_ns_ = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  const size_t size = co_await stream.async_read_some(buffer_.prepare(kFirstRead), Into(error));
  idle_since_ns_ = 0;
  buffer_.commit(size);
  Note(error);
  co_return !error && size > 0;
}

template <typename Stream>
asio::awaitable<Session::Outcome> Session::ServeOne(Stream& stream) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(host_.options.header_limit));
  parser.body_limit(host_.max_body);

  error_code error;
  ExpireAfter(host_.options.header_timeout);
  co_await http::async_read_header(stream, buffer_, parser, Into(error));
  if (!error) error = co_await ReadBody(stream, parser);
  if (error) {
    Note(error);
    if (IsHttpError(error)) co_await Refuse(stream, error);
    co_return Outcome::kClose;
  }

  http::request<http::string_body> message = parser.release();
  const unsigned version = message.version();
  const bool head = message.method() == http::verb::head;
  const bool client_keeps = message.keep_alive();
  Response response = Handle(ToRequest(std::move(message)));
  const bool keep_alive = client_keeps && !host_.draining;
  error = co_await Write(stream, std::move(response), version, keep_alive, head);
  Note(error);
  co_return !error && keep_alive ? Outcome::kNextRequest : Outcome::kClose;
}

template <typename Stream>
asio::awaitable<error_code> Session::ReadBody(Stream& stream,
                                              http::request_parser<http::string_body>& parser) {
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
  co_await http::async_read(stream, buffer_, parser, Into(error));
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
  const int status = RefusalStatus(error);
  Response response = Response::Text(status, fmt::format("{}\n", error.message()));
  error_code ignored = co_await Write(stream, std::move(response), 11, false, false);
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
