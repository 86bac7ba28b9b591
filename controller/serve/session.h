// Session: one connection of a Server, from accept to close. Private to this room.
//
// A session lives on a strand of its own: everything it does runs there, one thing at a time. It is
// kept alive by its coroutine and leaves the server's list when that ends, on whatever path.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "serve/beast.h"
#include "serve/server.h"

namespace sluice::serve {

class Session;

// What the sessions of a server share. The mutex guards the list and the stats.
struct SessionHost {
  SessionHost(ServerOptions opts, Router table)
      : options(std::move(opts)),
        router(std::move(table)),
        max_body(router.MaxBodyLimit(options.body_limit)) {}

  const ServerOptions options;
  const Router router;
  const size_t max_body;
  std::atomic<bool> draining = false;

  std::mutex mutex;
  std::list<std::weak_ptr<Session>> sessions;
  ServerStats stats;
  std::atomic<size_t> body_bytes = 0;    // what bodies hold of options.body_budget
  std::function<void()> on_session_end;  // called without the mutex

  void Report(const std::string& message) const {
    if (options.on_error) options.on_error(options.name + ": " + message);
  }
  template <typename Change>
  void Count(Change change) {
    const std::lock_guard<std::mutex> lock(mutex);
    change(stats);
  }
};

// The part of the memory for bodies that a request or its answer holds.
class BodyShare {
 public:
  explicit BodyShare(SessionHost& host) : host_(host) {}
  ~BodyShare() { Resize(0); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // The body has this many bytes now. False, and nothing changes, when that is more than is left.
  bool Resize(size_t bytes);

 private:
  SessionHost& host_;
  size_t held_ = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(SessionHost& host, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls);

  // Enters the list and starts.
  void Start();
  enum class CloseIf {
    kIdle,      // nothing has come of the next request
    kUnserved,  // the next request is not complete
    kAlways,
  };
  // Any thread: ends the session if it is in that state.
  void Close(CloseIf condition);

  // What a session waits for, and since when; nothing while it is busy. Any thread.
  struct Waiting {
    std::chrono::steady_clock::time_point since;
    bool idle = false;  // between two requests; else the client owes the rest of one, or its first
  };
  std::optional<Waiting> WaitsFor() const;

 private:
  enum class Outcome { kNextRequest, kClose };

  asio::awaitable<void> Run();
  asio::awaitable<void> RunTls();
  template <typename Stream>
  asio::awaitable<void> Serve(Stream& stream);
  template <typename Stream>
  asio::awaitable<bool> WaitForBytes(Stream& stream);
  template <typename Stream>
  asio::awaitable<Outcome> ServeOne(Stream& stream);
  template <typename Stream>
  asio::awaitable<error_code> ReadBody(Stream& stream,
                                       http::request_parser<http::string_body>& parser,
                                       BodyShare& share);
  template <typename Stream>
  asio::awaitable<void> Refuse(Stream& stream, error_code error);
  template <typename Stream>
  asio::awaitable<error_code> Write(Stream& stream, Response response, unsigned version,
                                    bool keep_alive, bool head);
  Response Handle(Request request);
  asio::awaitable<Response> HandleLate(LateHandler handler, Request request);
  void KeepClientCertificates();

  void Leave();
  void ExpireAfter(absl::Duration duration);
  // Counts a missed deadline; every other error is the client's business.
  void Note(error_code error);

  SessionHost& host_;
  std::shared_ptr<asio::ssl::context> tls_;
  beast::tcp_stream tcp_;                                        // plain connections
  std::optional<beast::ssl_stream<beast::tcp_stream&>> secure_;  // around tcp_
  beast::flat_buffer buffer_;
  std::list<std::weak_ptr<Session>>::iterator position_;
  std::atomic<int64_t> idle_since_ns_ = 0;  // waits for the first byte; 0: does not
  std::atomic<int64_t> owed_since_ns_ = 0;  // waits for a request that has begun, or the first one
  asio::steady_timer* late_ = nullptr;      // of the answer that is waited for; on the strand
  std::shared_ptr<const std::vector<std::string>> client_certificates_;
};

}  // namespace sluice::serve
