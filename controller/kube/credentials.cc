#include "kube/credentials.h"

#include <absl/time/clock.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/status.h"
#include "kube/exec_plugin.h"
#include "kube/executor.h"

namespace sluice::kube {
namespace {

constexpr absl::Duration kTokenFilePeriod = absl::Minutes(1);
// An exec credential is renewed a little before it expires, so that no request carries a dead one.
constexpr absl::Duration kExpiryLeeway = absl::Seconds(10);

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return InvalidArgument("cannot read {}: {}", path,
                           errno != 0 ? std::strerror(errno) : "unknown error");
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return InvalidArgument("cannot read {}", path);
  return text;
}

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

absl::StatusOr<std::string> DataOrFile(const std::string& data, const std::string& file) {
  if (!data.empty() || file.empty()) return data;
  return ReadFile(file);
}

struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
std::unique_ptr<BIO, BioDeleter> Reader(const std::string& text) {
  return std::unique_ptr<BIO, BioDeleter>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool HasCertificate(const std::string& pem) {
  const auto reader = Reader(pem);
  X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr);
  X509_free(certificate);
  return certificate != nullptr;
}

// An encrypted key would ask for a pass phrase on the terminal: refused by an empty answer.
int NoPassPhrase(char*, int, int, void*) { return 0; }

enum class KeyState { kGood, kUnreadable, kMismatch };

KeyState CheckKey(const std::string& cert_pem, const std::string& key_pem) {
  const auto cert_reader = Reader(cert_pem);
  const auto key_reader = Reader(key_pem);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(key_reader.get(), nullptr, &NoPassPhrase, nullptr);
  if (key == nullptr) return KeyState::kUnreadable;
  X509* certificate = PEM_read_bio_X509(cert_reader.get(), nullptr, nullptr, nullptr);
  const bool match = X509_check_private_key(certificate, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  return match ? KeyState::kGood : KeyState::kMismatch;
}

// "certificate-authority-data" or "certificate-authority (/path)".
std::string FieldName(const char* field, const std::string& data, const std::string& file) {
  return data.empty() ? fmt::format("{} ({})", field, file) : fmt::format("{}-data", field);
}

absl::Status CheckServer(const CredentialConfig& config) {
  const std::string& server = config.server;
  if (server.empty()) return InvalidArgument("{}: server is empty", config.source);
  const size_t scheme_end = server.find("://");
  const std::string scheme = server.substr(0, scheme_end == std::string::npos ? 0 : scheme_end);
  if ((scheme != "https" && scheme != "http") || server.size() <= scheme_end + 3) {
    return InvalidArgument("{}: server \"{}\" is not an http or https address", config.source,
                           server);
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const CredentialConfig& config, const TlsMaterial& tls) {
  if (!tls.ca.empty() && !HasCertificate(tls.ca)) {
    return InvalidArgument("{}: {} holds no PEM certificate", config.source,
                           FieldName("certificate-authority", config.ca_data, config.ca_file));
  }
  const std::string cert_field =
      FieldName("client-certificate", config.client_cert_data, config.client_cert_file);
  const std::string key_field =
      FieldName("client-key", config.client_key_data, config.client_key_file);
  if (tls.client_cert.empty() && tls.client_key.empty()) return absl::OkStatus();
  if (tls.client_key.empty()) {
    return InvalidArgument("{}: client-certificate is given without client-key", config.source);
  }
  if (tls.client_cert.empty()) {
    return InvalidArgument("{}: client-key is given without client-certificate", config.source);
  }
  if (!HasCertificate(tls.client_cert)) {
    return InvalidArgument("{}: {} holds no PEM certificate", config.source, cert_field);
  }
  switch (CheckKey(tls.client_cert, tls.client_key)) {
    case KeyState::kUnreadable:
      return InvalidArgument("{}: {} holds no PEM private key without a pass phrase", config.source,
                             key_field);
    case KeyState::kMismatch:
      return InvalidArgument("{}: {} does not belong to {}", config.source, key_field, cert_field);
    case KeyState::kGood:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Credentials>> Credentials::Make(CredentialConfig config) {
  RETURN_IF_ERROR(CheckServer(config));
  std::shared_ptr<Credentials> credentials(new Credentials(std::move(config)));
  const CredentialConfig& kept = credentials->config_;
  if (kept.insecure_skip_tls_verify && !(kept.ca_data.empty() && kept.ca_file.empty())) {
    return InvalidArgument(
        "{}: insecure-skip-tls-verify together with certificate-authority makes no sense",
        kept.source);
  }
  ASSIGN_OR_RETURN(const TlsMaterial tls, credentials->Tls());
  RETURN_IF_ERROR(CheckTls(kept, tls));
  if (!kept.token_file.empty()) {
    absl::MutexLock lock(&credentials->mutex_);
    RETURN_IF_ERROR(credentials->Refresh());
  }
  return credentials;
}

bool Credentials::FreshLocked() const {
  if (config_.token_file.empty() && !config_.exec.has_value()) return true;
  return loaded_ && SteadyNow() < steady_expiry_ && absl::Now() < wall_expiry_;
}

bool Credentials::Fresh() {
  // The lock is held while a plugin runs: whoever asks now would have to wait for it.
  if (!mutex_.TryLock()) return false;
  const bool fresh = FreshLocked();
  mutex_.Unlock();
  return fresh;
}

absl::Status Credentials::Refresh() {
  if (!config_.token_file.empty()) {
    auto text = ReadFile(config_.token_file);
    if (!text.ok()) {
      return Errorf(absl::StatusCode::kUnauthenticated, "{}: tokenFile: {}", config_.source,
                    std::string(text.status().message()));
    }
    token_ = Trim(*text);
    if (token_.empty()) {
      return Errorf(absl::StatusCode::kUnauthenticated, "{}: tokenFile: {} is empty",
                    config_.source, config_.token_file);
    }
    steady_expiry_ = SteadyNow() + kTokenFilePeriod;
    loaded_ = true;
  } else if (config_.exec.has_value()) {
    auto credential = RunExecPlugin(*config_.exec, config_.source);
    if (!credential.ok()) {
      return absl::Status(absl::StatusCode::kUnauthenticated, credential.status().message());
    }
    token_ = credential->token;
    exec_cert_ = credential->client_cert;
    exec_key_ = credential->client_key;
    wall_expiry_ = credential->expires - kExpiryLeeway;
    loaded_ = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<HeaderList> Credentials::AuthHeaders() {
  HeaderList headers = config_.impersonation;
  absl::MutexLock lock(&mutex_);
  if (!FreshLocked()) {
    const absl::Status refreshed = Refresh();
    // A file that is being replaced must not stop us while the token of before may still be good.
    if (!refreshed.ok() && (!loaded_ || config_.exec.has_value())) return refreshed;
  }
  const std::string& token =
      config_.token_file.empty() && !config_.exec.has_value() ? config_.token : token_;
  if (!token.empty()) headers.emplace_back("Authorization", "Bearer " + token);
  return headers;
}

bool Credentials::Invalidate() {
  if (config_.token_file.empty() && !config_.exec.has_value()) return false;
  absl::MutexLock lock(&mutex_);
  steady_expiry_ = absl::InfinitePast();
  if (config_.exec.has_value()) loaded_ = false;
  return true;
}

absl::StatusOr<TlsMaterial> Credentials::Tls() {
  TlsMaterial tls;
  auto read = [this](const char* field, const std::string& data,
                     const std::string& file) -> absl::StatusOr<std::string> {
    auto text = DataOrFile(data, file);
    if (!text.ok()) {
      return InvalidArgument("{}: {}: {}", config_.source, field,
                             std::string(text.status().message()));
    }
    return text;
  };
  ASSIGN_OR_RETURN(tls.ca, read("certificate-authority", config_.ca_data, config_.ca_file));
  ASSIGN_OR_RETURN(tls.client_cert,
                   read("client-certificate", config_.client_cert_data, config_.client_cert_file));
  ASSIGN_OR_RETURN(tls.client_key,
                   read("client-key", config_.client_key_data, config_.client_key_file));
  absl::MutexLock lock(&mutex_);
  if (!exec_cert_.empty()) {
    tls.client_cert = exec_cert_;
    tls.client_key = exec_key_;
  }
  return tls;
}

absl::StatusOr<CredentialConfig> InClusterConfig(const InClusterOptions& options) {
  auto setting = [](const std::string& given, const char* variable) -> std::string {
    if (!given.empty()) return given;
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  std::string host = setting(options.host, "KUBERNETES_SERVICE_HOST");
  const std::string port = setting(options.port, "KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return InvalidArgument(
        "in-cluster credentials: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  CredentialConfig config;
  config.source = "in-cluster credentials";
  config.server = "https://" + host + ":" + port;
  config.ca_file = options.directory + "/ca.crt";
  config.token_file = options.directory + "/token";
  if (const auto ns = ReadFile(options.directory + "/namespace"); ns.ok() && !Trim(*ns).empty()) {
    config.default_namespace = Trim(*ns);
  }
  return config;
}

}  // namespace sluice::kube
