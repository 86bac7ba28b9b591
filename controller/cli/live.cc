#include "cli/live.h"

#include <absl/container/btree_set.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>

#include "api/codec.h"
#include "base/status.h"
#include "config/load.h"
#include "kube/client.h"
#include "kube/cpprest_transport.h"
#include "queueing/topology_inputs.h"

namespace sluice::cli {
namespace {

using api::Json;
using api::Kind;

constexpr char kConfigMaps[] =
    "/api/v1/configmaps?labelSelector=control-plane%3Dcontroller-manager";

// Pods without a Workload that take room on nodes.
absl::StatusOr<std::vector<Json>> ForeignPods(kube::Client& client) {
  kube::ListOptions bound;
  bound.field_selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
  ASSIGN_OR_RETURN(std::vector<Json> pods, client.List(Kind::kPod, bound));
  std::erase_if(pods, [](const Json& object) {
    const absl::StatusOr<api::Pod> pod = api::Decode<api::Pod>(object);
    return pod.ok() && !queueing::IsForeignPod(*pod);
  });
  return pods;
}

// Adds what another file has.
void Merge(ClusterObjects more, bool dump, ClusterObjects& objects) {
  if (dump) objects.taken = more.taken;
  if (!more.configuration.empty()) objects.configuration = std::move(more.configuration);
  objects.source += (objects.source.empty() ? "" : ", ") + more.source;
  for (auto& [kind, list] : more.kinds) {
    std::vector<Json>& all = objects.kinds[kind];
    all.insert(all.end(), std::make_move_iterator(list.begin()),
               std::make_move_iterator(list.end()));
  }
  objects.notes.insert(objects.notes.end(), more.notes.begin(), more.notes.end());
}

}  // namespace

absl::StatusOr<state::Settings> SettingsOf(const std::string& text, const std::string& what) {
  absl::StatusOr<config::Config> config = config::Load(text, {}, "kueue-system");
  if (!config.ok()) return Annotate(config.status(), what);
  return std::move(config->settings);
}

void AddConnectOptions(CLI::App& command, ConnectOptions& options, bool namespaced) {
  CLI::Option* kubeconfig =
      command.add_option("--kubeconfig", options.kubeconfig, "Path of the kubeconfig file");
  CLI::Option* context =
      command.add_option("--context", options.context, "Context of the kubeconfig file");
  if (namespaced) {
    command.add_option("-n,--namespace", options.ns,
                       "Namespace; the one of the context when absent");
  }
  command
      .add_option("--from", options.from,
                  "Look at this file (of `dump`, or manifests) and not at a cluster; may be "
                  "repeated")
      ->excludes(kubeconfig)
      ->excludes(context);
  command.add_option("--config", options.config,
                     "Configuration file of the controller; the one in the cluster or the dump "
                     "when absent");
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || std::filesystem::is_directory(path) ||
      !(text << file.rdbuf() || text.str().empty())) {
    return InvalidArgument("{}: cannot be read", path);
  }
  return text.str();
}

struct Connection::Parts {
  ~Parts() {
    timers.Shutdown();
    transport.reset();
    delivery.Shutdown();
  }
  std::string ns;
  kube::Executor timers{"timers"};
  kube::Executor delivery{"delivery"};
  std::unique_ptr<kube::Transport> transport;
  std::optional<kube::Client> client;
};

Connection::Connection() : parts_(std::make_unique<Parts>()) {}
Connection::~Connection() = default;
kube::Client& Connection::client() { return *parts_->client; }
const std::string& Connection::default_namespace() const { return parts_->ns; }

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectOptions& options) {
  kube::InitTransport();
  kube::LoadOptions load;
  load.kubeconfig = options.kubeconfig;
  load.kubeconfig_options.context = options.context;
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Credentials> credentials, kube::LoadCredentials(load));
  std::unique_ptr<Connection> connection(new Connection);
  Parts& parts = *connection->parts_;
  parts.ns = credentials->default_namespace();
  kube::TransportOptions transport;
  transport.user_agent = "kubectl-sluice";
  ASSIGN_OR_RETURN(parts.transport, kube::MakeTransport(std::move(credentials), parts.timers,
                                                        parts.delivery, transport));
  parts.client.emplace(*parts.transport, parts.timers);
  return connection;
}

absl::StatusOr<Json> Connection::Ask(const std::string& path, const Json* body) {
  kube::HttpRequest request;
  request.path_and_query = path;
  if (body != nullptr) {
    request.method = "POST";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body->Text();
  }
  const kube::CallResult result = client().Call(std::move(request), client().defaults());
  if (!result.ok()) return kube::ToStatus(result.error(), path);
  return kube::ParseBody(*result.response, path);
}

absl::StatusOr<ClusterObjects> Connection::Load(absl::Time now) {
  ClusterObjects objects;
  objects.taken = now;
  objects.source = client().server();
  for (const Kind kind : DumpedKinds()) {
    if (kind == Kind::kPod && !HasTopology(objects)) continue;
    absl::StatusOr<std::vector<Json>> listed =
        kind == Kind::kPod ? ForeignPods(client()) : client().List(kind);
    const bool needed = kind == Kind::kClusterQueue || kind == Kind::kWorkload;
    if (listed.ok()) {
      objects.kinds[kind] = *std::move(listed);
    } else if (needed || (listed.status().code() != absl::StatusCode::kPermissionDenied &&
                          listed.status().code() != absl::StatusCode::kNotFound)) {
      return listed.status();
    } else {
      objects.notes.push_back(
          fmt::format("{} is left out, so answers may lack what depends on it: {}",
                      api::InfoOf(kind).name, std::string(listed.status().message())));
    }
  }
  // Each once: what is still not there after that is named by objects that wait for it.
  absl::btree_set<Kind> again;
  for (;;) {
    const std::vector<Kind> missing = MissingKinds(objects);
    const auto next = std::find_if(missing.begin(), missing.end(),
                                   [&](Kind kind) { return !again.contains(kind); });
    if (next == missing.end()) break;
    again.insert(*next);
    ASSIGN_OR_RETURN(std::vector<Json> newer, client().List(*next));
    Absorb(*next, std::move(newer), objects);
  }
  LeaveOutHomeless(objects);
  return objects;
}

std::string Connection::ControllerConfiguration() {
  const absl::StatusOr<Json> list = Ask(kConfigMaps);
  const Json* items = list.ok() ? list->Find("items") : nullptr;
  std::string found;
  if (items == nullptr) return found;
  for (const Json& item : items->AsArray()) {
    const std::string text = item.GetString("data", kConfigKey);
    if (text.empty()) continue;
    if (!found.empty()) return "";  // two controllers: it is not known which one is meant
    found = text;
  }
  return found;
}

absl::StatusOr<Scene> OpenScene(const ConnectOptions& options, absl::Time now) {
  Scene scene;
  std::string configuration;
  std::string what = options.config;
  if (!options.config.empty()) {
    ASSIGN_OR_RETURN(configuration, ReadText(options.config));
  }
  if (!options.from.empty()) {
    scene.objects.taken = now;
    bool dump = false;
    for (const std::string& file : options.from) {
      ASSIGN_OR_RETURN(const std::string text, ReadText(file));
      ASSIGN_OR_RETURN(ClusterObjects objects, ParseObjects(file, text, now));
      Merge(std::move(objects), IsDump(text), scene.objects);
      dump = dump || IsDump(text);
    }
    if (options.config.empty()) {
      configuration = scene.objects.configuration;
      what = scene.objects.source + ": the controller's configuration";
      if (dump && configuration.empty()) scene.objects.notes.emplace_back(kNoConfiguration);
    }
    scene.ns = options.ns.empty() ? "default" : options.ns;
  } else {
    ASSIGN_OR_RETURN(scene.connection, Connection::Open(options));
    ASSIGN_OR_RETURN(scene.objects, scene.connection->Load(now));
    scene.ns = options.ns.empty() ? scene.connection->default_namespace() : options.ns;
    if (options.config.empty()) {
      configuration = scene.connection->ControllerConfiguration();
      what = "the controller's configuration";
      if (configuration.empty()) {
        scene.objects.notes.push_back(
            "the controller's configuration cannot be read: its defaults are used");
      }
    }
  }
  ASSIGN_OR_RETURN(scene.settings, SettingsOf(configuration, what));
  scene.objects.configuration = std::move(configuration);
  scene.world = WorldOf(scene.objects, scene.settings);
  return scene;
}

}  // namespace sluice::cli
