// Reading kubeconfig files into the settings of one cluster and one user.
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "api/json.h"
#include "base/status.h"
#include "kube/credentials.h"

namespace sluice::kube {
namespace {

struct Source {
  std::string name;
  YAML::Node root;
};

// A named entry of clusters, users or contexts, with the file that defined it.
struct Entry {
  const Source* source = nullptr;
  std::string where;  // "/a/config: user \"dev\""
  YAML::Node value;
};

// yaml-cpp throws; every call of it in this file is inside Guard.
template <typename F>
auto Guard(const std::string& where, F body) -> decltype(body()) {
  try {
    return body();
  } catch (const YAML::Exception& error) {
    return InvalidArgument("{}: line {}: {}", where, error.mark.line + 1, error.msg);
  }
}

std::string Text(const YAML::Node& node, const char* key) {
  const YAML::Node value = node.IsMap() ? node[key] : YAML::Node();
  if (!value.IsDefined() || value.IsNull()) return "";
  if (!value.IsScalar()) {
    throw YAML::Exception(value.Mark(), fmt::format("{} is not a text", key));
  }
  return value.Scalar();
}

bool Flag(const YAML::Node& node, const char* key) {
  const std::string text = Text(node, key);
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  throw YAML::Exception(node[key].Mark(), fmt::format("{} is not true or false", key));
}

absl::StatusOr<std::string> Base64(const std::string& text) {
  std::string packed;
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != ' ') packed += c;
  }
  if (packed.size() % 4 != 0) return InvalidArgument("not base64");
  std::string decoded(packed.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                   reinterpret_cast<const unsigned char*>(packed.data()),
                                   static_cast<int>(packed.size()));
  if (size < 0) return InvalidArgument("not base64");
  size_t padding = 0;
  while (padding < 2 && padding < packed.size() && packed[packed.size() - 1 - padding] == '=') {
    ++padding;
  }
  decoded.resize(static_cast<size_t>(size) - padding);
  return decoded;
}

std::string Resolve(const Source& source, const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  const size_t slash = source.name.rfind('/');
  return slash == std::string::npos ? path : source.name.substr(0, slash + 1) + path;
}

// The first definition of a name wins, in the order of the files.
absl::StatusOr<Entry> FindEntry(const std::vector<Source>& sources, const char* list,
                                const char* what, const std::string& name,
                                const std::string& wanted_by) {
  for (const Source& source : sources) {
    const YAML::Node entries = source.root[list];
    if (!entries.IsDefined() || entries.IsNull()) continue;
    if (!entries.IsSequence()) return InvalidArgument("{}: {} is not a list", source.name, list);
    for (const YAML::Node& entry : entries) {
      if (!entry.IsMap() || Text(entry, "name") != name) continue;
      Entry found{&source, fmt::format("{}: {} \"{}\"", source.name, what, name), entry[what]};
      if (!found.value.IsDefined() || found.value.IsNull())
        found.value = YAML::Node(YAML::NodeType::Map);
      if (!found.value.IsMap()) return InvalidArgument("{} is not a map", found.where);
      return found;
    }
  }
  return InvalidArgument("{}: there is no {} \"{}\"", wanted_by, what, name);
}

// The pair of fields "x" (a path) and "x-data" (base64).
absl::Status ReadMaterial(const Entry& entry, const KubeconfigOptions& options, const char* field,
                          std::string& file, std::string& data) {
  const std::string encoded = Text(entry.value, fmt::format("{}-data", field).c_str());
  if (!encoded.empty()) {
    auto decoded = Base64(encoded);
    if (!decoded.ok()) return InvalidArgument("{}: {}-data is not base64", entry.where, field);
    data = *std::move(decoded);
    return absl::OkStatus();
  }
  file = Resolve(*entry.source, Text(entry.value, field));
  if (!file.empty() && !options.allow_files) {
    return InvalidArgument("{}: {} refers to a local file, which is not allowed here", entry.where,
                           field);
  }
  return absl::OkStatus();
}

absl::Status ReadCluster(const Entry& entry, const KubeconfigOptions& options,
                         CredentialConfig& config) {
  config.server = Text(entry.value, "server");
  if (config.server.empty()) return InvalidArgument("{}: server is missing", entry.where);
  while (config.server.back() == '/') config.server.pop_back();
  config.tls_server_name = Text(entry.value, "tls-server-name");
  config.insecure_skip_tls_verify = Flag(entry.value, "insecure-skip-tls-verify");
  if (!Text(entry.value, "proxy-url").empty()) {
    return InvalidArgument("{}: proxy-url is not supported", entry.where);
  }
  return ReadMaterial(entry, options, "certificate-authority", config.ca_file, config.ca_data);
}

// spec.cluster of the information that a plugin gets when it asks for it.
std::string ClusterInfo(const CredentialConfig& config) {
  api::Json info = api::Json::MakeObject({{"server", config.server}});
  if (!config.tls_server_name.empty()) info.Set("tls-server-name", config.tls_server_name);
  if (config.insecure_skip_tls_verify) info.Set("insecure-skip-tls-verify", true);
  std::string ca = config.ca_data;
  if (ca.empty() && !config.ca_file.empty()) {
    std::ifstream file(config.ca_file, std::ios::binary);
    ca.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (!ca.empty()) {
    std::string encoded(ca.size() / 3 * 4 + 5, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(ca.data()),
                                     static_cast<int>(ca.size()));
    encoded.resize(static_cast<size_t>(size));
    info.Set("certificate-authority-data", std::move(encoded));
  }
  return info.Text();
}

absl::Status ReadExec(const Entry& entry, const YAML::Node& node, const KubeconfigOptions& options,
                      CredentialConfig& config) {
  if (!options.allow_exec) {
    return InvalidArgument("{}: exec plugins are not allowed here", entry.where);
  }
  if (!node.IsMap()) return InvalidArgument("{}: exec is not a map", entry.where);
  ExecPlugin plugin;
  plugin.api_version = Text(node, "apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return InvalidArgument("{}: exec.apiVersion \"{}\" is not supported", entry.where,
                           plugin.api_version);
  }
  plugin.command = Text(node, "command");
  if (plugin.command.empty()) return InvalidArgument("{}: exec.command is missing", entry.where);
  // A bare name is looked up in PATH, anything with a slash is relative to the file.
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = Resolve(*entry.source, plugin.command);
  }
  const std::string mode = Text(node, "interactiveMode");
  const bool v1 = plugin.api_version == "client.authentication.k8s.io/v1";
  if (mode == "Always") {
    return InvalidArgument("{}: exec.interactiveMode Always cannot work without a terminal",
                           entry.where);
  }
  if ((mode.empty() && v1) || (!mode.empty() && mode != "Never" && mode != "IfAvailable")) {
    return InvalidArgument("{}: exec.interactiveMode must be Never, IfAvailable or Always",
                           entry.where);
  }
  if (const YAML::Node args = node["args"]; args.IsDefined() && !args.IsNull()) {
    for (const YAML::Node& arg : args) plugin.args.push_back(arg.as<std::string>());
  }
  if (const YAML::Node env = node["env"]; env.IsDefined() && !env.IsNull()) {
    for (const YAML::Node& pair : env) {
      plugin.env.emplace_back(Text(pair, "name"), Text(pair, "value"));
    }
  }
  plugin.install_hint = Text(node, "installHint");
  if (Flag(node, "provideClusterInfo")) plugin.cluster_info = ClusterInfo(config);
  config.exec = std::move(plugin);
  return absl::OkStatus();
}

void ReadImpersonation(const YAML::Node& user, CredentialConfig& config) {
  auto add = [&](const std::string& header, const std::string& value) {
    if (!value.empty()) config.impersonation.emplace_back(header, value);
  };
  add("Impersonate-User", Text(user, "as"));
  add("Impersonate-Uid", Text(user, "as-uid"));
  if (const YAML::Node groups = user["as-groups"]; groups.IsDefined() && groups.IsSequence()) {
    for (const YAML::Node& group : groups) add("Impersonate-Group", group.as<std::string>());
  }
  if (const YAML::Node extra = user["as-user-extra"]; extra.IsDefined() && extra.IsMap()) {
    for (const auto& pair : extra) {
      for (const YAML::Node& value : pair.second) {
        add("Impersonate-Extra-" + pair.first.as<std::string>(), value.as<std::string>());
      }
    }
  }
}

absl::Status ReadUser(const Entry& entry, const KubeconfigOptions& options,
                      CredentialConfig& config) {
  const YAML::Node& user = entry.value;
  RETURN_IF_ERROR(ReadMaterial(entry, options, "client-certificate", config.client_cert_file,
                               config.client_cert_data));
  RETURN_IF_ERROR(
      ReadMaterial(entry, options, "client-key", config.client_key_file, config.client_key_data));
  config.token = Text(user, "token");
  config.token_file = Resolve(*entry.source, Text(user, "tokenFile"));
  if (!config.token_file.empty() && !options.allow_files) {
    return InvalidArgument("{}: tokenFile refers to a local file, which is not allowed here",
                           entry.where);
  }
  if (!Text(user, "username").empty() || !Text(user, "password").empty()) {
    return InvalidArgument("{}: username and password are not supported by API servers any more",
                           entry.where);
  }
  if (const YAML::Node provider = user["auth-provider"];
      provider.IsDefined() && !provider.IsNull()) {
    return InvalidArgument("{}: auth-provider is not supported, use exec", entry.where);
  }
  ReadImpersonation(user, config);
  if (const YAML::Node exec = user["exec"]; exec.IsDefined() && !exec.IsNull()) {
    return ReadExec(entry, exec, options, config);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Source>> ParseSources(
    const std::vector<std::pair<std::string, std::string>>& texts) {
  std::vector<Source> sources;
  for (const auto& [name, text] : texts) {
    auto parsed = Guard(name, [&, &label = name, &content = text]() -> absl::StatusOr<Source> {
      Source source{label, YAML::Load(content)};
      if (source.root.IsNull()) source.root = YAML::Node(YAML::NodeType::Map);
      if (!source.root.IsMap()) return InvalidArgument("{}: this is not a kubeconfig", label);
      const std::string kind = Text(source.root, "kind");
      if (!kind.empty() && kind != "Config") {
        return InvalidArgument("{}: kind is \"{}\", not Config", label, kind);
      }
      return source;
    });
    if (!parsed.ok()) return parsed.status();
    sources.push_back(*std::move(parsed));
  }
  return sources;
}

std::string CurrentContext(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    const std::string name = Text(source.root, "current-context");
    if (!name.empty()) return name;
  }
  return "";
}

absl::StatusOr<CredentialConfig> ResolveContext(const std::vector<Source>& sources,
                                                const std::string& files,
                                                const KubeconfigOptions& options) {
  const std::string name = options.context.empty() ? CurrentContext(sources) : options.context;
  if (name.empty()) return InvalidArgument("{}: current-context is not set", files);
  ASSIGN_OR_RETURN(const Entry context, FindEntry(sources, "contexts", "context", name, files));
  const std::string cluster_name = Text(context.value, "cluster");
  const std::string user_name = Text(context.value, "user");
  if (cluster_name.empty()) return InvalidArgument("{}: cluster is missing", context.where);
  CredentialConfig config;
  config.source = context.where;
  if (const std::string ns = Text(context.value, "namespace"); !ns.empty()) {
    config.default_namespace = ns;
  }
  ASSIGN_OR_RETURN(const Entry cluster,
                   FindEntry(sources, "clusters", "cluster", cluster_name, context.where));
  RETURN_IF_ERROR(ReadCluster(cluster, options, config));
  if (user_name.empty()) return config;
  ASSIGN_OR_RETURN(const Entry user, FindEntry(sources, "users", "user", user_name, context.where));
  RETURN_IF_ERROR(ReadUser(user, options, config));
  return config;
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return InvalidArgument("{}: this is a directory, not a kubeconfig", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument("{}: the kubeconfig cannot be read", path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

absl::StatusOr<std::shared_ptr<Credentials>> FromFiles(const std::vector<std::string>& paths,
                                                       bool missing_is_fine,
                                                       const KubeconfigOptions& options) {
  std::vector<std::pair<std::string, std::string>> texts;
  std::string named;
  for (const std::string& path : paths) {
    named += (named.empty() ? "" : ":") + path;
    auto text = ReadConfigFile(path);
    if (text.ok()) {
      texts.emplace_back(path, *std::move(text));
    } else if (!missing_is_fine || access(path.c_str(), F_OK) == 0) {
      return text.status();
    }
  }
  if (texts.empty()) return InvalidArgument("{}: the kubeconfig does not exist", named);
  ASSIGN_OR_RETURN(CredentialConfig config, ResolveKubeconfig(texts, options));
  return Credentials::Make(std::move(config));
}

}  // namespace

absl::StatusOr<CredentialConfig> ResolveKubeconfig(
    const std::vector<std::pair<std::string, std::string>>& texts,
    const KubeconfigOptions& options) {
  std::string files;
  for (const auto& [name, text] : texts) files += (files.empty() ? "" : ":") + name;
  auto sources = ParseSources(texts);
  if (!sources.ok()) return sources.status();
  return Guard(files, [&] { return ResolveContext(*sources, files, options); });
}

absl::StatusOr<std::shared_ptr<Credentials>> LoadCredentials(const LoadOptions& options) {
  if (!options.kubeconfig.empty()) {
    return FromFiles({options.kubeconfig}, false, options.kubeconfig_options);
  }
  if (const char* list = std::getenv("KUBECONFIG"); list != nullptr && *list != '\0') {
    std::vector<std::string> paths;
    std::string text = list;
    while (!text.empty()) {
      const size_t colon = text.find(':');
      if (colon != 0) paths.push_back(text.substr(0, colon));
      text.erase(0, colon == std::string::npos ? colon : colon + 1);
    }
    return FromFiles(paths, true, options.kubeconfig_options);
  }
  if (const char* host = std::getenv("KUBERNETES_SERVICE_HOST"); host != nullptr && *host != '\0') {
    ASSIGN_OR_RETURN(CredentialConfig config, InClusterConfig({}));
    return Credentials::Make(std::move(config));
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    return InvalidArgument(
        "no kubeconfig: neither --kubeconfig, $KUBECONFIG, in-cluster credentials nor $HOME");
  }
  return FromFiles({std::string(home) + "/.kube/config"}, false, options.kubeconfig_options);
}

absl::StatusOr<std::shared_ptr<Credentials>> CredentialsFromText(const std::string& name,
                                                                 const std::string& text,
                                                                 const KubeconfigOptions& options) {
  ASSIGN_OR_RETURN(CredentialConfig config, ResolveKubeconfig({{name, text}}, options));
  return Credentials::Make(std::move(config));
}

}  // namespace sluice::kube
