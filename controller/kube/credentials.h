// Credentials: where the API server is, how to trust it and how to prove who we are.
//
// Read from a kubeconfig (client certificates, tokens, token files, exec plugins) or from the files
// that a pod gets. What can rotate is read again: a token file at least once a minute and after a
// 401, CA and client certificate for each new connection, an exec plugin when its credential
// expires or after a 401. Files are opened by path each time because they are replaced by links.
// Errors are one line that names the file and the field. Thread-safe.
// Sources: kubernetes.io "Organizing Cluster Access Using kubeconfig Files", "Authenticating"
// (client-go credential plugins), "Accessing the Kubernetes API from a Pod".
//
//   ASSIGN_OR_RETURN(std::shared_ptr<Credentials> creds, LoadCredentials({.kubeconfig = path}));
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/transport.h"

namespace sluice::kube {

// PEM texts; empty when not configured.
struct TlsMaterial {
  std::string ca = {};           // empty: the system's trust store
  std::string client_cert = {};  // chain, leaf first
  std::string client_key = {};
};

// users[].user.exec of a kubeconfig.
struct ExecPlugin {
  std::string api_version = {};  // client.authentication.k8s.io/v1 or v1beta1
  std::string command = {};
  std::vector<std::string> args = {};
  std::vector<std::pair<std::string, std::string>> env = {};
  std::string install_hint = {};
  std::string cluster_info = {};  // JSON of spec.cluster when provideClusterInfo is set
  absl::Duration timeout = absl::Seconds(60);
};

// The resolved settings of one cluster and one user.
struct CredentialConfig {
  std::string source = {};  // for messages: "/home/a/.kube/config: user \"dev\""
  std::string server = {};  // "https://10.0.0.1:6443" with an optional path
  std::string default_namespace = "default";
  std::string ca_file = {};
  std::string ca_data = {};  // data wins over file
  std::string client_cert_file = {};
  std::string client_cert_data = {};
  std::string client_key_file = {};
  std::string client_key_data = {};
  std::string tls_server_name = {};
  bool insecure_skip_tls_verify = false;
  std::string token = {};
  std::string token_file = {};  // file wins
  std::optional<ExecPlugin> exec = {};
  HeaderList impersonation = {};  // Impersonate-User, Impersonate-Group, ...
};

class Credentials {
 public:
  // Reads every file once, so that a broken one is found at start. exec plugins are not run yet.
  static absl::StatusOr<std::shared_ptr<Credentials>> Make(CredentialConfig config);

  const std::string& server() const { return config_.server; }
  const std::string& default_namespace() const { return config_.default_namespace; }
  // The name that the server's certificate must carry, or "" for the host of server().
  const std::string& tls_server_name() const { return config_.tls_server_name; }
  bool insecure_skip_tls_verify() const { return config_.insecure_skip_tls_verify; }

  // True when AuthHeaders answers from memory; otherwise it reads a file or runs a program.
  bool Fresh();
  // Authorization and impersonation headers. May block as long as an exec plugin takes.
  absl::StatusOr<HeaderList> AuthHeaders();
  // The server refused the credential: AuthHeaders fetches it again. False when that cannot change
  // anything (a fixed token, or client certificates only).
  bool Invalidate();
  // Read for each new connection.
  absl::StatusOr<TlsMaterial> Tls();

 private:
  explicit Credentials(CredentialConfig config) : config_(std::move(config)) {}
  absl::Status Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FreshLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CredentialConfig config_;
  absl::Mutex mutex_;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::string exec_cert_ ABSL_GUARDED_BY(mutex_);
  std::string exec_key_ ABSL_GUARDED_BY(mutex_);
  absl::Time steady_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // token file
  absl::Time wall_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();    // exec plugin
};

struct KubeconfigOptions {
  std::string context = {};  // "" is current-context
  bool allow_exec = true;    // false: refuse kubeconfigs from a foreign source that run programs
  bool allow_files = true;   // false: refuse references to local files
};

// The settings of the chosen context. `sources` are (name for messages, text) in order of
// precedence; the directory of a name is the base of its relative paths.
absl::StatusOr<CredentialConfig> ResolveKubeconfig(
    const std::vector<std::pair<std::string, std::string>>& sources,
    const KubeconfigOptions& options);

struct InClusterOptions {
  std::string directory = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string host = {};  // "" is $KUBERNETES_SERVICE_HOST
  std::string port = {};  // "" is $KUBERNETES_SERVICE_PORT
};
absl::StatusOr<CredentialConfig> InClusterConfig(const InClusterOptions& options);

struct LoadOptions {
  // Explicit path. When empty: the files of $KUBECONFIG, else the pod's own credentials when
  // $KUBERNETES_SERVICE_HOST is set, else $HOME/.kube/config.
  std::string kubeconfig = {};
  KubeconfigOptions kubeconfig_options = {};
};
absl::StatusOr<std::shared_ptr<Credentials>> LoadCredentials(const LoadOptions& options);

// The same from a text, for a kubeconfig that is kept in a Secret.
absl::StatusOr<std::shared_ptr<Credentials>> CredentialsFromText(const std::string& name,
                                                                 const std::string& text,
                                                                 const KubeconfigOptions& options);

}  // namespace sluice::kube
