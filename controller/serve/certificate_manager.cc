#include "serve/certificate_manager.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/status.h"

namespace sluice::serve {
namespace {

constexpr char kCaCert[] = "ca.crt";
constexpr char kCaKey[] = "ca.key";
constexpr char kTlsCert[] = "tls.crt";
constexpr char kTlsKey[] = "tls.key";
constexpr int kMaxAttempts = 5;
// A leaf whose CA is not confirmed as trusted is replaced all the same when this little of its life
// is left: an untrusted certificate and an expired one are equally useless.
constexpr double kLastResortFraction = 0.05;

std::string Value(const SecretData& secret, const char* key) {
  const auto found = secret.data.find(key);
  return found == secret.data.end() ? std::string() : found->second;
}

ServingCertificate ServingOf(const SecretData& secret) {
  return {Value(secret, kTlsCert), Value(secret, kTlsKey), Value(secret, kCaCert)};
}

bool LostRace(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsAlreadyExists(status) || absl::IsNotFound(status);
}

}  // namespace

struct CertificateManager::State {
  std::vector<std::string> bundle;  // newest first; what can be read of it
  bool ca_usable = false;           // the first CA has its key and is not due
  bool leaf_usable = false;         // trusted by the bundle, in time, with the right names
  bool leaf_by_newest = false;
  std::optional<CertificateInfo> leaf;
  std::string leaf_ca;  // the CA of the bundle that signed the leaf
};

CertificateManager::State CertificateManager::Judge(const SecretData& secret,
                                                    absl::Time now) const {
  State state;
  // A broken bundle or certificate counts as a missing one: it is replaced.
  if (auto bundle = SplitBundle(Value(secret, kCaCert)); bundle.ok()) state.bundle = *bundle;
  if (!state.bundle.empty() && CheckKeyPair(state.bundle.front(), Value(secret, kCaKey)).ok()) {
    const auto ca = ParseCertificate(state.bundle.front());
    state.ca_usable = ca.ok() && ca->is_ca && !NeedsRotation(*ca, now, options_.remaining_fraction);
  }
  const std::string leaf_pem = Value(secret, kTlsCert);
  if (!CheckKeyPair(leaf_pem, Value(secret, kTlsKey)).ok()) return state;
  const auto leaf = ParseCertificate(leaf_pem);
  if (!leaf.ok()) return state;
  state.leaf = *leaf;
  for (const std::string& ca : state.bundle) {
    if (!IsSignedBy(leaf_pem, ca).value_or(false)) continue;
    state.leaf_ca = ca;
    state.leaf_by_newest = ca == state.bundle.front();
    break;
  }
  state.leaf_usable = !state.leaf_ca.empty() && !NeedsRotation(*leaf, now, 0) &&
                      leaf->sans == NormalizedSans(options_.sans);
  return state;
}

absl::StatusOr<SecretData> CertificateManager::LoadOrEmpty() {
  absl::StatusOr<SecretData> secret = store_->Get();
  if (absl::IsNotFound(secret.status())) return SecretData();
  return secret;
}

bool CertificateManager::IsTrusted(const std::string& ca_pem, absl::Time now) const {
  return injected_bundle_.find(ca_pem) != std::string::npos &&
         now - injected_since_ >= options_.settle;
}

absl::StatusOr<SecretData> CertificateManager::WithNewLeaf(const SecretData& secret,
                                                           const State& state,
                                                           absl::Time now) const {
  const KeyPair ca{state.bundle.front(), Value(secret, kCaKey)};
  ASSIGN_OR_RETURN(KeyPair leaf,
                   IssueServing(ca, NormalizedSans(options_.sans), now, options_.leaf_lifetime));
  SecretData next = secret;
  next.data[kTlsCert] = std::move(leaf.cert_pem);
  next.data[kTlsKey] = std::move(leaf.key_pem);
  return next;
}

absl::StatusOr<SecretData> CertificateManager::WithNewCa(const SecretData& secret,
                                                         const State& state, absl::Time now) const {
  ASSIGN_OR_RETURN(KeyPair ca, GenerateCa(options_.ca_name, now, options_.ca_lifetime));
  SecretData next = secret;
  next.data[kCaKey] = std::move(ca.key_pem);
  next.data[kCaCert] = ca.cert_pem + (state.leaf_usable ? state.leaf_ca : "");
  if (state.leaf_usable) return next;
  State fresh;
  fresh.bundle = {ca.cert_pem};
  return WithNewLeaf(next, fresh, now);
}

absl::StatusOr<std::optional<SecretData>> CertificateManager::Plan(const SecretData& secret,
                                                                   absl::Time now) const {
  const State state = Judge(secret, now);
  if (!state.ca_usable) return WithNewCa(secret, state, now);
  if (!state.leaf_usable) return WithNewLeaf(secret, state, now);
  if (state.leaf_by_newest) {
    if (NeedsRotation(*state.leaf, now, options_.remaining_fraction)) {
      return WithNewLeaf(secret, state, now);
    }
    const absl::Time issued = state.leaf->not_before + kCertificateBackdate;
    if (state.bundle.size() > 1 && now - issued >= options_.overlap) {
      SecretData next = secret;
      next.data[kCaCert] = state.bundle.front();
      return next;
    }
    return std::nullopt;
  }
  if (IsTrusted(state.bundle.front(), now) ||
      NeedsRotation(*state.leaf, now, kLastResortFraction)) {
    return WithNewLeaf(secret, state, now);
  }
  return std::nullopt;
}

absl::StatusOr<ServingCertificate> CertificateManager::Refresh(absl::Time now) {
  absl::Status lost;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    ASSIGN_OR_RETURN(SecretData secret, LoadOrEmpty());
    ASSIGN_OR_RETURN(std::optional<SecretData> plan, Plan(secret, now));
    if (plan.has_value()) {
      absl::StatusOr<SecretData> stored =
          plan->resource_version.empty() ? store_->Create(*plan) : store_->Update(*plan);
      if (!stored.ok() && LostRace(stored.status())) {
        lost = stored.status();
        continue;
      }
      RETURN_IF_ERROR(stored.status());
      secret = *std::move(stored);
    }
    current_ = ServingOf(secret);
    return *current_;
  }
  return Annotate(lost, fmt::format("{} attempts to write the certificates", kMaxAttempts));
}

void CertificateManager::ConfirmInjected(const std::string& ca_bundle_pem, absl::Time now) {
  if (ca_bundle_pem == injected_bundle_) return;
  injected_bundle_ = ca_bundle_pem;
  injected_since_ = now;
}

namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return NotFound("{}: {}", path, std::strerror(errno));
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return Unavailable("{}: cannot be read", path);
  return content;
}

}  // namespace

// Follows symbolic links: a mounted Secret changes by moving the link of its directory.
std::string FileCertificateSource::Signature() const {
  std::string signature;
  for (const char* name : {kTlsCert, kTlsKey, kCaCert}) {
    struct stat info = {};
    if (stat((directory_ + "/" + name).c_str(), &info) != 0) {
      signature += "-;";
      continue;
    }
    signature += fmt::format("{}:{}:{}:{}.{:09};", info.st_dev, info.st_ino, info.st_size,
                             info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return signature;
}

absl::StatusOr<bool> FileCertificateSource::Poll() {
  const std::string signature = Signature();
  if (current_.has_value() && signature == signature_) return false;
  ServingCertificate next;
  ASSIGN_OR_RETURN(next.cert_pem, ReadFile(directory_ + "/" + kTlsCert));
  ASSIGN_OR_RETURN(next.key_pem, ReadFile(directory_ + "/" + kTlsKey));
  if (absl::StatusOr<std::string> ca = ReadFile(directory_ + "/" + kCaCert); ca.ok()) {
    next.ca_bundle_pem = *std::move(ca);
  }
  RETURN_IF_ERROR(Annotate(CheckKeyPair(next.cert_pem, next.key_pem), directory_));
  signature_ = signature;
  const bool changed = !current_.has_value() || *current_ != next;
  current_ = std::move(next);
  return changed;
}

}  // namespace sluice::serve
