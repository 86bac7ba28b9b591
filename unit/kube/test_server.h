// A small HTTP/1.1 server on a free loopback port, for tests of the client.
//
// Each connection has a thread that reads requests and calls the handler, which answers through the
// connection: whole, in chunks of its choice, or by cutting the line. Threads are joined by the
// destructor, which closes every socket first, so a handler that waits must use WaitClosed.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::kube {

struct TestRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  std::string Header(const std::string& name) const {
    for (const auto& [key, value] : headers) {
      if (strcasecmp(key.c_str(), name.c_str()) == 0) return value;
    }
    return "";
  }
  bool Has(const std::string& part) const { return target.find(part) != std::string::npos; }
};

class TestConnection {
 public:
  // ssl null: plain text.
  TestConnection(int fd, SSL* ssl) : fd_(fd), ssl_(ssl) {}

  void Respond(int code, const std::string& body, const std::string& extra_headers = "") {
    Raw("HTTP/1.1 " + std::to_string(code) + " X\r\nContent-Type: application/json\r\n" +
        "Content-Length: " + std::to_string(body.size()) + "\r\n" + extra_headers + "\r\n" + body);
  }
  void BeginChunks(int code = 200) {
    Raw("HTTP/1.1 " + std::to_string(code) +
        " X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  bool Chunk(const std::string& data) {
    char size[32];
    std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
    return Raw(size + data + "\r\n");
  }
  void EndChunks() { Raw("0\r\n\r\n"); }
  void Cut() {
    shutdown(fd_, SHUT_RDWR);
    cut_ = true;
  }
  bool is_cut() const { return cut_; }
  bool Raw(const std::string& data) {
    size_t sent = 0;
    while (sent < data.size()) {
      const size_t left = data.size() - sent;
      const ssize_t count = ssl_ != nullptr
                                ? SSL_write(ssl_, data.data() + sent, static_cast<int>(left))
                                : send(fd_, data.data() + sent, left, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }
  // Returns when the client (or the destructor of the server) closed the connection.
  void WaitClosed() {
    char byte = 0;
    while (Read(&byte, 1) > 0) {
    }
    cut_ = true;
  }
  ssize_t Read(char* into, size_t size) {
    return ssl_ != nullptr ? SSL_read(ssl_, into, static_cast<int>(size))
                           : recv(fd_, into, size, 0);
  }

 private:
  const int fd_;
  SSL* const ssl_;
  bool cut_ = false;
};

class TestServer {
 public:
  using Handler = std::function<void(const TestRequest&, TestConnection&)>;

  // context null: plain text; else TLS with its certificates. The context must outlive the server.
  explicit TestServer(Handler handler, SSL_CTX* context = nullptr)
      : handler_(std::move(handler)), context_(context) {
    // OpenSSL writes to sockets that the client closed; that must not end the test program.
    std::signal(SIGPIPE, SIG_IGN);
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_, 64) != 0) {
      std::perror("test server");
      std::abort();
    }
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~TestServer() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    {
      std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  std::string url() const {
    return (context_ == nullptr ? "http" : "https") + std::string("://127.0.0.1:") +
           std::to_string(port_);
  }
  int port() const { return port_; }
  int connections() const { return accepted_; }
  std::vector<TestRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Accept() {
    while (!stopping_) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) continue;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      ++accepted_;
      std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { Serve(fd); });
    }
  }

  void Serve(int fd) {
    std::string buffer;
    TestRequest request;
    SSL* ssl = nullptr;
    bool usable = true;
    if (context_ != nullptr) {
      ssl = SSL_new(context_);
      SSL_set_fd(ssl, fd);
      usable = SSL_accept(ssl) == 1;
    }
    TestConnection connection(fd, ssl);
    while (usable && !stopping_ && !connection.is_cut() &&
           ReadRequest(connection, buffer, request)) {
      {
        std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      handler_(request, connection);
    }
    SSL_free(ssl);
    std::lock_guard lock(mutex_);
    open_.remove(fd);
    close(fd);
  }

  static bool More(TestConnection& connection, std::string& buffer) {
    char piece[65536];
    const ssize_t count = connection.Read(piece, sizeof(piece));
    if (count <= 0) return false;
    buffer.append(piece, static_cast<size_t>(count));
    return true;
  }

  static bool ReadRequest(TestConnection& connection, std::string& buffer, TestRequest& request) {
    size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!More(connection, buffer)) return false;
    }
    std::string head = buffer.substr(0, end + 2);
    buffer.erase(0, end + 4);
    request = {};
    size_t line_end = head.find("\r\n");
    const std::string first = head.substr(0, line_end);
    const size_t space = first.find(' ');
    request.method = first.substr(0, space);
    request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
    head.erase(0, line_end + 2);
    while ((line_end = head.find("\r\n")) != std::string::npos) {
      const std::string line = head.substr(0, line_end);
      head.erase(0, line_end + 2);
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      const size_t value = line.find_first_not_of(' ', colon + 1);
      request.headers.emplace_back(line.substr(0, colon),
                                   value == std::string::npos ? "" : line.substr(value));
    }
    const size_t length = std::strtoul(request.Header("Content-Length").c_str(), nullptr, 10);
    while (buffer.size() < length) {
      if (!More(connection, buffer)) return false;
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
  }

  const Handler handler_;
  SSL_CTX* const context_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> accepted_{0};
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
  mutable std::mutex mutex_;
  std::list<int> open_;
  std::list<std::thread> threads_;
  std::vector<TestRequest> requests_;
};

}  // namespace sluice::kube
