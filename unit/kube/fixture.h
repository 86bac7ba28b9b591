// What the tests of this room share: a client of a test server, and a box that collects values from
// other threads and waits for them. Assertions stay on the test's thread.
#pragma once

#include <dirent.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kube/client.h"
#include "kube/cpprest_transport.h"
#include "unit/catch.h"
#include "unit/kube/test_server.h"

namespace sluice::kube {

inline constexpr absl::Duration kPatience = absl::Seconds(20);

template <typename T>
class Box {
 public:
  void Add(T value) {
    std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_all();
  }
  // Waits until `count` values are there; false when they do not come.
  bool Wait(size_t count, absl::Duration patience = kPatience) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoNanoseconds(patience),
                             [&] { return values_.size() >= count; });
  }
  std::vector<T> all() const {
    std::lock_guard lock(mutex_);
    return values_;
  }
  size_t size() const { return all().size(); }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<T> values_;
};

// A door that callbacks wait at until the test opens it.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

// Executors and transport, taken down in the right order.
struct Link {
  explicit Link(CredentialConfig config, TransportOptions options = {}) {
    if (config.source.empty()) config.source = "test";
    auto credentials = Credentials::Make(std::move(config));
    REQUIRE(credentials.ok());
    auto made = MakeTransport(*credentials, timers, delivery, std::move(options));
    REQUIRE(made.ok());
    transport = *std::move(made);
  }
  explicit Link(const TestServer& server, TransportOptions options = {})
      : Link(ConfigFor(server.url()), std::move(options)) {}
  ~Link() {
    timers.Shutdown();
    transport.reset();
    delivery.Shutdown();
  }
  static CredentialConfig ConfigFor(const std::string& url) {
    CredentialConfig config;
    config.server = url;
    return config;
  }
  Client MakeClient() {
    ClientOptions options;
    options.backoff = {.first = absl::Milliseconds(2), .cap = absl::Milliseconds(10)};
    return Client(*transport, timers, options);
  }

  Executor timers{"timers"};
  Executor delivery{"delivery"};
  std::unique_ptr<Transport> transport;
};

inline absl::StatusOr<HttpResponse> SendAndWait(Transport& transport, HttpRequest request) {
  auto box = std::make_shared<Box<absl::StatusOr<HttpResponse>>>();
  transport.Send(std::move(request),
                 [box](absl::StatusOr<HttpResponse> response) { box->Add(std::move(response)); });
  if (!box->Wait(1)) return absl::InternalError("no callback came");
  return box->all()[0];
}

// The open sockets of this process that are connected to that port of this host.
inline std::vector<int> SocketsTo(int port) {
  std::vector<int> sockets;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) sockets.push_back(fd);
  }
  closedir(directory);
  return sockets;
}

// The value of a socket option, -1 when there is none.
inline int OptionOf(int socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(socket, level, name, &value, &size) == 0 ? value : -1;
}

inline std::string StatusBody(int code, const std::string& reason, const std::string& message) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":")" + reason +
         R"(","message":")" + message + R"(","code":)" + std::to_string(code) + "}";
}

}  // namespace sluice::kube
