// Where a command gets its cluster from: an API server (kubeconfig, as kubectl finds it) or a file.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/objects.h"
#include "state/settings.h"

namespace CLI {
class App;
}

namespace sluice::kube {
class Client;
}

namespace sluice::cli {

struct ConnectOptions {
  std::string kubeconfig;
  std::string context;
  std::string ns;                 // "": that of the context
  std::vector<std::string> from;  // a dump or manifests in the place of a cluster
  std::string config;  // configuration file of the controller; "": the one in the cluster
};
// `namespaced`: false for a command that shows only what has no namespace.
void AddConnectOptions(CLI::App& command, ConnectOptions& options, bool namespaced = true);

// A connection to an API server; blocking.
class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const ConnectOptions& options);
  ~Connection();

  kube::Client& client();
  const std::string& default_namespace() const;
  // The object of a GET, or of a POST when there is a body.
  absl::StatusOr<api::Json> Ask(const std::string& path, const api::Json* body = nullptr);
  // Kinds that this user may not list, and what is not served, become notes.
  absl::StatusOr<ClusterObjects> Load(absl::Time now);
  // The configuration file of the controller, "" when it cannot be found or read.
  std::string ControllerConfiguration();

 private:
  struct Parts;
  Connection();
  std::unique_ptr<Parts> parts_;
};

// What a command looks at.
struct Scene {
  std::unique_ptr<Connection> connection;  // null with --from
  ClusterObjects objects;
  state::Settings settings;
  std::unique_ptr<state::World> world;
  std::string ns;
};
absl::StatusOr<Scene> OpenScene(const ConnectOptions& options, absl::Time now);

// Of a dump without a configuration.
inline constexpr char kNoConfiguration[] =
    "the dump has no configuration of the controller: its defaults are used";

// Of a text of a configuration file; errors begin with `what`.
absl::StatusOr<state::Settings> SettingsOf(const std::string& text, const std::string& what);

// The whole file; InvalidArgument names it.
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace sluice::cli
