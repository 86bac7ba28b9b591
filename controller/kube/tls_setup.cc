// clang-format off: <utility> has to come before the first Boost.Asio header, which uses
// std::exchange without including it.
#include <utility>
// clang-format on
#include "kube/tls_setup.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

// The HTTP library calls this for every connection, before it asks us: OpenSSL then reads all
// authorities of the system, which takes tens of milliseconds and a megabyte that the connection
// keeps. A definition in the program comes before that of the shared library; whom to trust is
// decided in SetUpTls alone. Nothing else in this process uses the function.
extern "C" int SSL_CTX_set_default_verify_paths(SSL_CTX* /*context*/) { return 1; }

namespace sluice::kube {
namespace {

// The authorities that the system trusts, read once.
X509_STORE* SystemAuthorities() {
  static X509_STORE* const kStore = [] {
    X509_STORE* store = X509_STORE_new();
    if (store != nullptr) X509_STORE_set_default_paths(store);
    return store;
  }();
  return kStore;
}

// Only these are trusted: an empty store to which the cluster's own authority is added, or the one
// with the system's that all connections share.
void ReplaceAuthorities(boost::asio::ssl::context& context, bool use_system) {
  X509_STORE* store = use_system ? SystemAuthorities() : X509_STORE_new();
  if (store == nullptr) return;
  if (use_system) X509_STORE_up_ref(store);
  SSL_CTX_set_cert_store(context.native_handle(), store);  // takes it over
}

}  // namespace

void SetUpTls(Credentials& credentials, boost::asio::ssl::context& context) {
  boost::system::error_code ignored;
  context.set_options(
      boost::asio::ssl::context::default_workarounds | boost::asio::ssl::context::no_sslv2 |
          boost::asio::ssl::context::no_sslv3 | boost::asio::ssl::context::no_tlsv1 |
          boost::asio::ssl::context::no_tlsv1_1,
      ignored);
  const auto tls = credentials.Tls();
  if (!tls.ok()) return ReplaceAuthorities(context, false);  // trusts nobody
  ReplaceAuthorities(context, tls->ca.empty());
  if (!tls->ca.empty()) {
    context.add_certificate_authority(boost::asio::buffer(tls->ca), ignored);
  }
  if (tls->client_cert.empty()) return;
  context.use_certificate_chain(boost::asio::buffer(tls->client_cert), ignored);
  context.use_private_key(boost::asio::buffer(tls->client_key), boost::asio::ssl::context::pem,
                          ignored);
}

}  // namespace sluice::kube
