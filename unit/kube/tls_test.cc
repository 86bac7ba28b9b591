// TLS as a cluster uses it: our own CA, host names, client certificates, rotation.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "unit/kube/certificate.h"
#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

struct ServerContext {
  // With `client_ca` set, clients must show a certificate signed by it.
  explicit ServerContext(const Certificate& pair, const std::string& client_ca = "")
      : context(SSL_CTX_new(TLS_server_method())) {
    Use(pair);
    if (client_ca.empty()) return;
    BIO* bio = BIO_new_mem_buf(client_ca.data(), static_cast<int>(client_ca.size()));
    X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
    X509_free(ca);
    BIO_free(bio);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  ~ServerContext() { SSL_CTX_free(context); }

  void Use(const Certificate& pair) {
    BIO* cert_bio = BIO_new_mem_buf(pair.cert_pem.data(), static_cast<int>(pair.cert_pem.size()));
    BIO* key_bio = BIO_new_mem_buf(pair.key_pem.data(), static_cast<int>(pair.key_pem.size()));
    X509* cert = PEM_read_bio_X509(cert_bio, nullptr, nullptr, nullptr);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context, cert);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(cert);
    EVP_PKEY_free(key);
    BIO_free(cert_bio);
    BIO_free(key_bio);
  }
  SSL_CTX* context;
};

void Answer(const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); }

CredentialConfig Trusting(const TestServer& server, const std::string& ca) {
  CredentialConfig config = Link::ConfigFor(server.url());
  config.ca_data = ca;
  return config;
}

absl::Status Try(const CredentialConfig& config) {
  Link link(config);
  return SendAndWait(*link.transport, {}).status();
}

TEST_CASE("the server must be signed by the CA and carry the name") {
  const Certificate by_address = SelfSigned("127.0.0.1");
  const Certificate by_name = SelfSigned("api.example.org");
  const Certificate stranger = SelfSigned("127.0.0.1");
  const ServerContext address_context(by_address);
  const ServerContext name_context(by_name);
  TestServer address_server(Answer, address_context.context);
  TestServer name_server(Answer, name_context.context);

  CHECK(Try(Trusting(address_server, by_address.cert_pem)).ok());

  const absl::Status untrusted = Try(Trusting(address_server, stranger.cert_pem));
  CHECK(untrusted.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(untrusted.message()), Catch::Contains("TLS handshake failed"));

  CHECK(Try(Trusting(name_server, by_name.cert_pem)).code() == absl::StatusCode::kUnavailable);
  CredentialConfig named = Trusting(name_server, by_name.cert_pem);
  named.tls_server_name = "api.example.org";
  CHECK(Try(named).ok());
  named.tls_server_name = "other.example.org";
  CHECK_FALSE(Try(named).ok());

  CredentialConfig careless = Trusting(name_server, "");
  CHECK_FALSE(Try(careless).ok());
  careless.insecure_skip_tls_verify = true;
  CHECK(Try(careless).ok());
}

TEST_CASE("what the system trusts does not count where the cluster names its own authority") {
  const Certificate server_pair = SelfSigned("127.0.0.1");
  const Certificate stranger = SelfSigned("127.0.0.1");
  const ServerContext context(server_pair);
  TestServer server(Answer, context.context);
  char path[] = "/tmp/sluice-trusted-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(path) << server_pair.cert_pem;
  setenv("SSL_CERT_FILE", path, 1);  // the authorities of the system, for OpenSSL
  CHECK_FALSE(Try(Trusting(server, stranger.cert_pem)).ok());
  CHECK(Try(Trusting(server, server_pair.cert_pem)).ok());
  unsetenv("SSL_CERT_FILE");
  std::remove(path);
}

TEST_CASE("a client certificate is shown to the server") {
  const Certificate server_pair = SelfSigned("127.0.0.1");
  const Certificate client_pair = SelfSigned("client");
  const Certificate stranger = SelfSigned("client");
  const ServerContext context(server_pair, client_pair.cert_pem);
  TestServer server(Answer, context.context);
  CredentialConfig config = Trusting(server, server_pair.cert_pem);
  CHECK_FALSE(Try(config).ok());
  config.client_cert_data = client_pair.cert_pem;
  config.client_key_data = client_pair.key_pem;
  CHECK(Try(config).ok());
  config.client_cert_data = stranger.cert_pem;
  config.client_key_data = stranger.key_pem;
  CHECK_FALSE(Try(config).ok());
}

TEST_CASE("a CA file that is replaced counts for the next connection") {
  const Certificate before = SelfSigned("127.0.0.1");
  const Certificate after = SelfSigned("127.0.0.1");
  const std::string path = std::tmpnam(nullptr);
  std::ofstream(path) << before.cert_pem;
  ServerContext context(before);
  TestServer server(
      [](const TestRequest&, TestConnection& connection) {
        connection.Respond(200, "{}", "Connection: close\r\n");
        connection.Cut();
      },
      context.context);
  CredentialConfig config = Link::ConfigFor(server.url());
  config.ca_file = path;
  Link link(config);
  CHECK(SendAndWait(*link.transport, {}).ok());
  context.Use(after);
  CHECK_FALSE(SendAndWait(*link.transport, {}).ok());
  std::ofstream(path) << after.cert_pem;
  CHECK(SendAndWait(*link.transport, {}).ok());
  std::remove(path.c_str());
}

TEST_CASE("a watch over TLS is streamed too") {
  const Certificate pair = SelfSigned("127.0.0.1");
  const ServerContext context(pair);
  TestServer server(
      [](const TestRequest&, TestConnection& connection) {
        connection.BeginChunks();
        connection.Chunk("{\"n\":1}\n{\"n\"");
        connection.Chunk(":2}\n");
        connection.WaitClosed();
      },
      context.context);
  Link link(Trusting(server, pair.cert_pem));
  Box<std::string> lines;
  Box<absl::StatusCode> ends;
  const auto handle = link.transport->Stream(
      {}, [&](std::string_view line) { lines.Add(std::string(line)); },
      [&](const absl::StatusOr<HttpResponse>& end) { ends.Add(end.status().code()); });
  REQUIRE(lines.Wait(2));
  CHECK(lines.all() == std::vector<std::string>{"{\"n\":1}", "{\"n\":2}"});
  handle->Cancel();
  REQUIRE(ends.Wait(1));
  CHECK(ends.all()[0] == absl::StatusCode::kCancelled);
}

TEST_CASE("a TLS connection has keepalive") {
  const Certificate pair = SelfSigned("127.0.0.1");
  ServerContext context(pair);
  TestServer server(Answer, context.context);
  Link link(Trusting(server, pair.cert_pem));
  REQUIRE(SendAndWait(*link.transport, {}).ok());
  // It stays open, for the next request.
  const std::vector<int> sockets = SocketsTo(server.port());
  REQUIRE(sockets.size() == 1);
  CHECK(OptionOf(sockets[0], SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(OptionOf(sockets[0], IPPROTO_TCP, TCP_USER_TIMEOUT) == 45000);
}

}  // namespace
}  // namespace sluice::kube
