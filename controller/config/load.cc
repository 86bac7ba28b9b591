#include "config/load.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/status.h"
#include "config/defaults.h"
#include "config/file_codec.h"
#include "config/settings.h"
#include "config/supported.h"
#include "config/validate.h"
#include "config/yaml.h"

namespace sluice::config {
namespace {

constexpr char kGroup[] = "config.kueue.x-k8s.io";
constexpr char kServiceAccountNamespaceFile[] =
    "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

absl::Status Together(const std::vector<std::string>& errors) {
  if (errors.empty()) return absl::OkStatus();
  return InvalidArgument("{}", fmt::join(errors, "; "));
}

absl::StatusOr<FileVersion> VersionOf(const api::Json& document) {
  const api::Json* version = document.Find("apiVersion");
  const api::Json* kind = document.Find("kind");
  // A file that names neither is one of the current version.
  if (version == nullptr && kind == nullptr) return FileVersion::kV1beta2;
  if (kind == nullptr || kind->AsString() != "Configuration") {
    return InvalidArgument("kind: must be Configuration, not \"{}\"",
                           kind == nullptr ? "" : kind->AsString());
  }
  const std::string text = version == nullptr ? "" : version->AsString();
  if (text == fmt::format("{}/v1beta2", kGroup)) return FileVersion::kV1beta2;
  if (text == fmt::format("{}/v1beta1", kGroup)) return FileVersion::kV1beta1;
  return InvalidArgument("apiVersion: must be {}/v1beta2 or {}/v1beta1 (it is \"{}\")", kGroup,
                         kGroup, text);
}

// The file before and after its defaults.
struct Document {
  ConfigurationFile raw;
  ConfigurationFile file;
};

absl::StatusOr<Document> ReadDocument(const std::string& text,
                                      const std::string& service_account_namespace) {
  ASSIGN_OR_RETURN(api::Json json, ParseYaml(text));
  if (json.IsNull()) json = api::Json::MakeObject();
  if (!json.IsObject()) return InvalidArgument("the document must be an object");
  ASSIGN_OR_RETURN(const FileVersion version, VersionOf(json));
  std::vector<std::string> errors;
  Document document;
  document.raw = ReadConfiguration(json, version, &errors);
  RETURN_IF_ERROR(Together(errors));
  document.file = document.raw;
  ApplyDefaults(version, service_account_namespace, &document.file);
  return document;
}

absl::StatusOr<state::FeatureGates> MakeGates(const ConfigurationFile& file, const Flags& flags) {
  if (file.feature_gates && !flags.feature_gates.empty()) {
    return InvalidArgument("featureGates: must not be given beside the flag --feature-gates");
  }
  const std::string path = file.feature_gates ? "featureGates" : "--feature-gates";
  const TextMap<bool>& values = file.feature_gates ? *file.feature_gates : flags.feature_gates;
  absl::StatusOr<state::FeatureGates> gates = state::FeatureGates::Make(values);
  if (!gates.ok()) return Annotate(gates.status(), path);
  const std::vector<std::string> unsupported = gates->Unsupported(values);
  if (!unsupported.empty()) return InvalidArgument("{}: {}", path, fmt::join(unsupported, "; "));
  return gates;
}

}  // namespace

absl::StatusOr<ConfigurationFile> ReadFileText(const std::string& text,
                                               const std::string& service_account_namespace) {
  ASSIGN_OR_RETURN(Document document, ReadDocument(text, service_account_namespace));
  return std::move(document.file);
}

absl::StatusOr<Config> Load(const std::string& text, const Flags& flags,
                            const std::string& service_account_namespace) {
  ASSIGN_OR_RETURN(Document document, ReadDocument(text, service_account_namespace));
  ASSIGN_OR_RETURN(const state::FeatureGates gates, MakeGates(document.file, flags));
  Violations violations;
  Validate(document.file, gates, &violations);
  RETURN_IF_ERROR(Together(violations.lines()));
  CheckSupported(document.file, gates, &violations);
  RETURN_IF_ERROR(Together(violations.lines()));

  Config config;
  config.flags = flags;
  config.notices = NoEffectNotices(document.raw, gates);
  config.file = std::move(document.file);
  config.settings = MakeSettings(config.file, gates);
  config.webhook = {config.file.webhook.host, static_cast<uint16_t>(config.file.webhook.port)};
  ASSIGN_OR_RETURN(config.metrics, ParseBindAddress(config.file.metrics.bind_address));
  ASSIGN_OR_RETURN(config.health, ParseBindAddress(config.file.health.health_probe_bind_address));
  if (gates.Enabled("VisibilityOnDemand")) {
    // A v1beta1 file cannot say where.
    const VisibilityServerFile visibility =
        config.file.visibility_server.value_or(VisibilityServerFile());
    config.visibility = {visibility.bind_address.value_or(""),
                         static_cast<uint16_t>(visibility.bind_port.value_or(8082))};
  }
  if (config.file.tls) config.tls = MakeTlsOptions(*config.file.tls);
  return config;
}

absl::StatusOr<Config> LoadFile(const Flags& flags, const std::string& service_account_namespace) {
  if (flags.config_path.empty()) return Load("", flags, service_account_namespace);
  std::ifstream stream(flags.config_path, std::ios::binary);
  if (!stream) return NotFound("{}: {}", flags.config_path, std::strerror(errno));
  std::string text;
  char buffer[4096];
  while (stream.read(buffer, sizeof buffer) || stream.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) return InvalidArgument("{}: cannot be read", flags.config_path);
  absl::StatusOr<Config> config = Load(text, flags, service_account_namespace);
  if (!config.ok()) return Annotate(config.status(), flags.config_path);
  return config;
}

std::string ReadServiceAccountNamespace() {
  std::ifstream stream(kServiceAccountNamespaceFile);
  std::string text;
  stream >> text;  // one word; white space around it does not count
  return text;
}

api::Json EffectiveFile(const Config& config) { return WriteConfiguration(config.file); }

absl::StatusOr<std::string> LeaseNamespace(const Config& config,
                                           const std::string& service_account_namespace) {
  const std::string& given = config.file.leader_election.resource_namespace;
  if (!given.empty()) return given;
  if (!service_account_namespace.empty()) return service_account_namespace;
  return InvalidArgument(
      "leaderElection.resourceNamespace: is required outside a pod (or set "
      "leaderElection.leaderElect "
      "to false)");
}

}  // namespace sluice::config
