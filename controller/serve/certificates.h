// Certificates of our own servers: generation, parsing, rotation rules.
//
// Everything here is a pure function of its arguments and fresh randomness for the keys: no files,
// no network, no clock. Keys are ECDSA P-256. A serving certificate carries its names as SANs (RFC
// 5280 4.2.1.6; Go clients ignore the common name). Certificates are valid from
// kCertificateBackdate before the given instant, so that a client whose clock is a little behind
// accepts them at once.
//
// Errors: InvalidArgument for PEM text that cannot be used, Internal when OpenSSL fails.
// Thread-safe.
//
//   ASSIGN_OR_RETURN(KeyPair ca, GenerateCa("sluice-ca", now, kDefaultCaLifetime));
//   ASSIGN_OR_RETURN(KeyPair leaf, IssueServing(ca, {"sluice.ns.svc"}, now, kDefaultLeafLifetime));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

namespace sluice::serve {

inline constexpr absl::Duration kCertificateBackdate = absl::Minutes(5);
inline constexpr absl::Duration kDefaultCaLifetime = absl::Hours(24 * 3650);
inline constexpr absl::Duration kDefaultLeafLifetime = absl::Hours(24 * 365);

// A certificate and the private key that belongs to it, both PEM.
struct KeyPair {
  std::string cert_pem;
  std::string key_pem;
};

// What a server presents, and what its clients must trust.
struct ServingCertificate {
  std::string cert_pem;  // leaf first, then intermediates
  std::string key_pem;
  std::string ca_bundle_pem;  // one or more CAs; empty when the source does not know them

  bool operator==(const ServingCertificate&) const = default;
};

// The parts of a certificate that the rotation rules need.
struct CertificateInfo {
  std::string subject;  // common name
  absl::Time not_before;
  absl::Time not_after;
  bool is_ca = false;
  std::vector<std::string> sans;  // DNS names and IP addresses, sorted
};

// A self-signed CA that may only sign end-entity certificates.
absl::StatusOr<KeyPair> GenerateCa(const std::string& name, absl::Time now,
                                   absl::Duration lifetime);

// A serving certificate for the names (a text that parses as an IP address becomes an IP SAN).
// Never outlives the CA. The first name is also the common name, cut to the 64 bytes X.509 allows.
absl::StatusOr<KeyPair> IssueServing(const KeyPair& ca, const std::vector<std::string>& sans,
                                     absl::Time now, absl::Duration lifetime);

// A certificate that vouches for itself, for servers whose clients do not verify.
absl::StatusOr<ServingCertificate> SelfSigned(const std::vector<std::string>& sans, absl::Time now,
                                              absl::Duration lifetime);

// The first certificate of a PEM text.
absl::StatusOr<CertificateInfo> ParseCertificate(const std::string& pem);

// The certificates of a bundle, one PEM block each, in order. An empty text is an empty list.
absl::StatusOr<std::vector<std::string>> SplitBundle(const std::string& pem);

// OK when the key belongs to the first certificate.
absl::Status CheckKeyPair(const std::string& cert_pem, const std::string& key_pem);

// True when the signature of the first certificate verifies with the CA's key.
absl::StatusOr<bool> IsSignedBy(const std::string& cert_pem, const std::string& ca_pem);

// The names as a certificate shows them: IP addresses in canonical form, sorted, none twice.
std::vector<std::string> NormalizedSans(std::vector<std::string> sans);

// True when no more than `remaining_fraction` of the life is left (a third by default), or when the
// certificate is not valid yet.
bool NeedsRotation(const CertificateInfo& info, absl::Time now,
                   double remaining_fraction = 1.0 / 3);

}  // namespace sluice::serve
