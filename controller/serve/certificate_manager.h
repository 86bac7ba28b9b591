// Where the serving certificate comes from: our own CA in a Secret, or files that somebody else
// writes.
//
// CertificateManager keeps CA and serving certificate in one Secret that all replicas share (keys
// ca.crt, ca.key, tls.crt, tls.key). Rotation never leaves an instant in which a client cannot
// verify:
//   1. a new CA is written in front of the old one; both are in the bundle, the old leaf stays;
//   2. once the caller has confirmed that the bundle with the new CA is injected everywhere, and
//      `settle` has passed for API servers to notice, a leaf of the new CA replaces the old one;
//   3. the old CA leaves the bundle `overlap` later, when every replica serves the new leaf.
// Each step is one conditional write; a replica that loses the race uses what the other wrote.
//
// FileCertificateSource re-reads a directory when a file in it changed.
//
// Contract: both block on I/O and are for one thread, not the loop's. Errors name the Secret or
// file.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/certificates.h"

namespace sluice::serve {

struct SecretData {
  std::string resource_version;                    // empty for one to be created
  absl::btree_map<std::string, std::string> data;  // decoded, not base64
};

// One Secret of the API server.
class SecretStore {
 public:
  virtual ~SecretStore() = default;
  // NotFound when there is none.
  virtual absl::StatusOr<SecretData> Get() = 0;
  // AlreadyExists when another was faster.
  virtual absl::StatusOr<SecretData> Create(const SecretData& secret) = 0;
  // Aborted when resource_version is no longer the stored one. Other keys of the Secret are kept.
  virtual absl::StatusOr<SecretData> Update(const SecretData& secret) = 0;
};

struct CertificateManagerOptions {
  std::string ca_name = "sluice-ca";
  std::vector<std::string> sans;  // required
  absl::Duration ca_lifetime = kDefaultCaLifetime;
  absl::Duration leaf_lifetime = kDefaultLeafLifetime;
  double remaining_fraction = 1.0 / 3;
  absl::Duration settle = absl::Minutes(1);
  absl::Duration overlap = absl::Hours(1);
};

class CertificateManager {
 public:
  // `store` must outlive the manager.
  CertificateManager(SecretStore* store, CertificateManagerOptions options)
      : store_(store), options_(std::move(options)) {}

  // Loads the Secret, creates or rotates what is due, and gives the certificate to serve with the
  // bundle to inject. Call it at start and then every minute or so; it writes only when something
  // is due. On error the last good certificate stays current().
  absl::StatusOr<ServingCertificate> Refresh(absl::Time now);

  // The caller saw every target carry this bundle.
  void ConfirmInjected(const std::string& ca_bundle_pem, absl::Time now);

  // Empty before the first successful Refresh.
  const std::optional<ServingCertificate>& current() const { return current_; }

 private:
  // The certificates of a Secret, judged.
  struct State;

  absl::StatusOr<SecretData> LoadOrEmpty();
  State Judge(const SecretData& secret, absl::Time now) const;
  // The Secret as it should be; nothing when it is right already.
  absl::StatusOr<std::optional<SecretData>> Plan(const SecretData& secret, absl::Time now) const;
  absl::StatusOr<SecretData> WithNewCa(const SecretData& secret, const State& state,
                                       absl::Time now) const;
  absl::StatusOr<SecretData> WithNewLeaf(const SecretData& secret, const State& state,
                                         absl::Time now) const;
  bool IsTrusted(const std::string& ca_pem, absl::Time now) const;

  SecretStore* store_;
  CertificateManagerOptions options_;
  std::optional<ServingCertificate> current_;
  std::string injected_bundle_;
  absl::Time injected_since_ = absl::InfiniteFuture();
};

class FileCertificateSource {
 public:
  // Files "tls.crt", "tls.key" and, when present, "ca.crt" of the directory.
  explicit FileCertificateSource(std::string directory) : directory_(std::move(directory)) {}

  // Looks for a change; true when the certificate is another than before. A pair that does not fit
  // together, as while files are replaced one by one, is an error and the former stays current().
  absl::StatusOr<bool> Poll();

  // Empty before the first successful Poll.
  const std::optional<ServingCertificate>& current() const { return current_; }

 private:
  std::string Signature() const;

  std::string directory_;
  std::string signature_;  // of the files that were read last
  std::optional<ServingCertificate> current_;
};

}  // namespace sluice::serve
