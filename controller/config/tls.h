// TLS options of our servers: the file speaks of cipher suites by their names in Go and of curves
// by their IANA numbers; our servers need the names of OpenSSL.
//
// Source: IANA "TLS Parameters" registry; OpenSSL manual, ciphers(1).
#pragma once

#include <string>
#include <vector>

#include "config/file.h"
#include "config/violations.h"

namespace sluice::config {

// Ready for the server. An empty list means the library's own choice.
struct TlsOptions {
  bool only_tls13 = false;  // else TLS 1.2 and 1.3
  std::string cipher_list;  // for TLS 1.2, as SSL_CTX_set_cipher_list takes it
  std::string groups_list;  // as SSL_CTX_set1_groups_list takes it
  bool operator==(const TlsOptions&) const = default;
};

// Of a file that passed ValidateTls and UnsupportedTls.
TlsOptions MakeTlsOptions(const TlsFile& tls);

void ValidateTls(const TlsFile& tls, Violations* violations);
// Valid values that this build of OpenSSL does not offer.
void UnsupportedTls(const TlsFile& tls, Violations* violations);

}  // namespace sluice::config
