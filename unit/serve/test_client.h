// A plain blocking HTTP client for the server's tests: it can also misbehave on purpose.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::serve {

struct Answer {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;
};

// Whom a TLS client trusts and what it offers.
struct ClientTls {
  std::string ca_bundle_pem;
  std::string name = "localhost";
  int max_version = 0;  // OpenSSL's number; 0: the newest
  std::string cert_pem = {};
  std::string key_pem = {};
};

class TestClient {
 public:
  explicit TestClient(uint16_t port) {
    std::signal(SIGPIPE, SIG_IGN);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit = {20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  TestClient(uint16_t port, const ClientTls& tls) : TestClient(port) { StartTls(tls); }
  ~TestClient() { Close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void Close() {
    if (ssl_ != nullptr) SSL_free(std::exchange(ssl_, nullptr));
    if (context_ != nullptr) SSL_CTX_free(std::exchange(context_, nullptr));
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  // Connected, and with TLS: the handshake succeeded and the server's name was verified.
  bool ok() const { return connected_ && (ssl_ == nullptr || verified_); }
  std::string alpn() const {
    const unsigned char* data = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &data, &size);
    return std::string(reinterpret_cast<const char*>(data), size);
  }
  std::string cipher() const { return SSL_get_cipher_name(ssl_); }

  bool Send(std::string_view text) {
    while (!text.empty()) {
      const auto sent = ssl_ != nullptr
                            ? SSL_write(ssl_, text.data(), static_cast<int>(text.size()))
                            : static_cast<int>(send(fd_, text.data(), text.size(), MSG_NOSIGNAL));
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // One answer with a Content-Length; what comes after it stays for the next call.
  Answer Receive(bool head_only = false) {
    Answer answer;
    size_t end = std::string::npos;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return answer;
    }
    answer.head = input_.substr(0, end + 2);
    input_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.substr(answer.head.find(' ') + 1, 3).c_str());
    const size_t field = answer.head.find("Content-Length: ");
    const size_t length = field == std::string::npos || head_only
                              ? 0
                              : std::strtoul(answer.head.c_str() + field + 16, nullptr, 10);
    while (input_.size() < length) {
      if (!Fill()) return Answer();
    }
    answer.body = input_.substr(0, length);
    input_.erase(0, length);
    return answer;
  }

  Answer Exchange(std::string_view request) { return Send(request) ? Receive() : Answer(); }
  Answer Get(const std::string& path) {
    return Exchange("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  Answer Post(const std::string& path, const std::string& body) {
    return Exchange("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  // True when the server closes the connection (within the receive timeout).
  bool WaitForClose() {
    while (true) {
      const int size = Read();
      if (size == 0) return true;
      if (size < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    }
  }

 private:
  void StartTls(const ClientTls& tls) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    BIO* bio =
        BIO_new_mem_buf(tls.ca_bundle_pem.data(), static_cast<int>(tls.ca_bundle_pem.size()));
    while (X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), ca);
      X509_free(ca);
    }
    BIO_free(bio);
    if (!tls.cert_pem.empty()) UseCertificate(tls);
    if (tls.max_version != 0) {
      SSL_CTX_set_min_proto_version(context_, 0);
      SSL_CTX_set_max_proto_version(context_, tls.max_version);
      SSL_CTX_set_cipher_list(context_, "ALL:@SECLEVEL=0");
    }
    static constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";
    SSL_CTX_set_alpn_protos(context_, kProtocols, sizeof kProtocols - 1);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    in_addr ip;
    if (inet_pton(AF_INET, tls.name.c_str(), &ip) == 1) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), tls.name.c_str());
    } else {
      SSL_set1_host(ssl_, tls.name.c_str());
      SSL_set_tlsext_host_name(ssl_, tls.name.c_str());
    }
    verified_ = connected_ && SSL_connect(ssl_) == 1;
  }

  void UseCertificate(const ClientTls& tls) {
    BIO* cert = BIO_new_mem_buf(tls.cert_pem.data(), static_cast<int>(tls.cert_pem.size()));
    X509* leaf = PEM_read_bio_X509(cert, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context_, leaf);
    X509_free(leaf);
    BIO_free(cert);
    BIO* key = BIO_new_mem_buf(tls.key_pem.data(), static_cast<int>(tls.key_pem.size()));
    EVP_PKEY* pkey = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    SSL_CTX_use_PrivateKey(context_, pkey);
    EVP_PKEY_free(pkey);
    BIO_free(key);
  }

  int Read() {
    char chunk[16384];
    const int size = ssl_ != nullptr ? SSL_read(ssl_, chunk, sizeof chunk)
                                     : static_cast<int>(recv(fd_, chunk, sizeof chunk, 0));
    if (size > 0) input_.append(chunk, static_cast<size_t>(size));
    return size;
  }
  bool Fill() { return Read() > 0; }

  int fd_ = -1;
  bool connected_ = false;
  bool verified_ = false;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  std::string input_;
};

inline size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

}  // namespace sluice::serve
