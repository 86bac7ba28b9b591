#include "serve/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/status.h"

namespace sluice::serve {
namespace {

// The numbers are those of the IANA registry "TLS Supported Groups".
const char* GroupName(int group) {
  switch (group) {
    case 23:
      return "P-256";
    case 24:
      return "P-384";
    case 25:
      return "P-521";
    case 29:
      return "X25519";
    case 30:
      return "X448";
    default:
      return nullptr;
  }
}

absl::Status SetGroups(SSL_CTX* context, const TlsOptions& options,
                       const std::function<void(const std::string&)>& warn) {
  if (options.curve_preferences.empty()) return absl::OkStatus();
  std::string names;
  for (const int group : options.curve_preferences) {
    const char* name = GroupName(group);
    if (name == nullptr) {
      if (warn) warn(fmt::format("tls.curvePreferences: group {} is not supported here", group));
      continue;
    }
    if (!names.empty()) names += ':';
    names += name;
  }
  if (names.empty()) {
    return InvalidArgument("tls.curvePreferences: none of the groups is supported here");
  }
  if (SSL_CTX_set1_groups_list(context, names.c_str()) != 1) {
    return InvalidArgument("tls.curvePreferences: {} refused by OpenSSL", names);
  }
  return absl::OkStatus();
}

absl::Status SetCipherSuites(SSL_CTX* context, const TlsOptions& options) {
  std::string names;
  for (const std::string& suite : options.cipher_suites) {
    // Suites of TLS 1.3 are not configurable, as in Go: naming one changes nothing.
    const std::string name = OPENSSL_cipher_name(suite.c_str());
    if (name == "(NONE)") {
      return InvalidArgument("tls.cipherSuites: \"{}\" is not supported here", suite);
    }
    if (name.starts_with("TLS_")) continue;
    if (!names.empty()) names += ':';
    names += name;
  }
  if (names.empty()) return absl::OkStatus();
  if (SSL_CTX_set_cipher_list(context, names.c_str()) != 1) {
    return InvalidArgument("tls.cipherSuites: {} refused by OpenSSL", names);
  }
  return absl::OkStatus();
}

// Picks HTTP/1.1 when the client offers it; goes on without ALPN otherwise.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kHttp11, sizeof kHttp11, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

absl::Status SetCertificate(asio::ssl::context& context, const ServingCertificate& certificate) {
  RETURN_IF_ERROR(CheckKeyPair(certificate.cert_pem, certificate.key_pem));
  error_code error;
  context.use_certificate_chain(asio::buffer(certificate.cert_pem), error);
  if (!error) {
    context.use_private_key(asio::buffer(certificate.key_pem), asio::ssl::context::pem, error);
  }
  if (error) return InvalidArgument("certificate: {}", error.message());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<asio::ssl::context>> MakeTlsContext(
    const ServingCertificate& certificate, const TlsOptions& options,
    const std::function<void(const std::string&)>& warn) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(
      native, options.min_version == TlsVersion::kTls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(
      native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Sessions are not resumed: connections are few and long, and a ticket of a former certificate
  // would have no key to open it.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(native, SelectProtocol, nullptr);
  const absl::Status status = [&] {
    RETURN_IF_ERROR(SetCipherSuites(native, options));
    RETURN_IF_ERROR(SetGroups(native, options, warn));
    return SetCertificate(*context, certificate);
  }();
  ERR_clear_error();
  RETURN_IF_ERROR(status);
  if (options.ask_for_client_certificate) {
    SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_cert_verify_callback(
        native, [](X509_STORE_CTX*, void*) { return 1; }, nullptr);
  }
  return context;
}

}  // namespace sluice::serve
